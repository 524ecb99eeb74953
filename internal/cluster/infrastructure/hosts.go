package infrastructure

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/related"
	"github.com/ingot-metal/ingot/internal/cluster/reuse"
)

// releasePoll is how often the controller checks whether the hosts of a paused Metal3Cluster can be
// moved. clusterctl waits for about three minutes.
const releasePoll = 5 * time.Second

// pause pauses the reserved hosts of a paused Cluster, and then lets clusterctl move the
// Metal3Cluster. The hosts of machines are paused by the controller of Metal3Machines.
func (r *Reconciler) pause(ctx context.Context, c *v1beta2.Metal3Cluster, cluster *clusterv1.Cluster) (ctrl.Result, error) {
	status := *c.Status.DeepCopy()
	setPaused(c, &status, true)
	// A Metal3Cluster that is paused alone does not move.
	if cluster == nil || !related.IsPaused(cluster, &v1beta2.Metal3Cluster{}) {
		return ctrl.Result{}, r.write(ctx, c, status)
	}
	waiting, err := r.pauseHosts(ctx, c, cluster.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	if len(waiting) > 0 {
		set(c, &status, v1beta2.PausedCondition, true, v1beta2.PausedReason, fmt.Sprintf(
			"The Cluster is paused. It cannot be moved yet because of reserved hosts that the engine works on, or whose nodes their operator has not released: %s.",
			strings.Join(waiting, ", ")))
		return ctrl.Result{RequeueAfter: releasePoll}, r.write(ctx, c, status)
	}
	if err := r.patch(ctx, c, func(c *v1beta2.Metal3Cluster) { delete(c.Annotations, related.BlockMoveAnnotation) }); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.write(ctx, c, status)
}

// reconcileHosts handles the reserved hosts where somebody else manages the Metal3Cluster: it
// pauses the hosts of a paused Cluster, and ends the pause after that. It does not write the
// Metal3Cluster, so clusterctl does not wait for the hosts.
func (r *Reconciler) reconcileHosts(ctx context.Context, c *v1beta2.Metal3Cluster) (ctrl.Result, error) {
	cluster, err := related.OwnerCluster(ctx, r.Client, c)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("read the Cluster that owns Metal3Cluster %s/%s: %w", c.Namespace, c.Name, err)
	}
	switch {
	case cluster == nil:
		return ctrl.Result{}, nil
	case !related.IsPaused(cluster, c):
		return ctrl.Result{}, r.resumeHosts(ctx, r.Live, c, cluster.Name)
	case !related.IsPaused(cluster, &v1beta2.Metal3Cluster{}):
		return ctrl.Result{}, nil // a Metal3Cluster that is paused alone does not move
	}
	waiting, err := r.pauseHosts(ctx, c, cluster.Name)
	if err != nil || len(waiting) == 0 {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: releasePoll}, nil
}

// pauseHosts pauses the reserved hosts of a Cluster, and returns the names of those that cannot be
// moved yet.
func (r *Reconciler) pauseHosts(ctx context.Context, c *v1beta2.Metal3Cluster, cluster string) (waiting []string, err error) {
	reserved, err := r.reservedHosts(ctx, r.Live, c.Namespace, cluster)
	if err != nil {
		return nil, err
	}
	for _, h := range reserved {
		if !related.CanPause(h) {
			waiting = append(waiting, h.Name)
			continue
		}
		paused, err := r.change(ctx, h, related.Pause)
		if err != nil {
			return nil, err
		}
		if !related.CanMove(paused) {
			waiting = append(waiting, h.Name)
		}
	}
	return waiting, nil
}

// resumeHosts ends the pause of the reserved hosts of a Cluster. After a pause, reader has to be
// the API server: the controller does not watch hosts, so a host whose pause is not in the cache
// yet would stay paused.
func (r *Reconciler) resumeHosts(ctx context.Context, reader client.Reader, c *v1beta2.Metal3Cluster, cluster string) error {
	reserved, err := r.reservedHosts(ctx, reader, c.Namespace, cluster)
	if err != nil {
		return err
	}
	for _, h := range reserved {
		if _, err := r.change(ctx, h, func(h *v1alpha1.BareMetalHost) error { related.Resume(h); return nil }); err != nil {
			return err
		}
	}
	return nil
}

// reservedHosts returns the hosts of a Cluster that are reserved for machines to come.
func (r *Reconciler) reservedHosts(ctx context.Context, reader client.Reader, namespace, cluster string) ([]*v1alpha1.BareMetalHost, error) {
	var list v1alpha1.BareMetalHostList
	if err := reader.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster}); err != nil {
		return nil, fmt.Errorf("list the hosts of Cluster %s/%s: %w", namespace, cluster, err)
	}
	var reserved []*v1alpha1.BareMetalHost
	for i := range list.Items {
		if reuse.IsReserved(&list.Items[i]) {
			reserved = append(reserved, &list.Items[i])
		}
	}
	return reserved, nil
}

// change changes the annotations of a host, and returns the host as it is then. It returns a
// conflict if somebody else has changed the host since it was read.
func (r *Reconciler) change(ctx context.Context, h *v1alpha1.BareMetalHost, change func(*v1alpha1.BareMetalHost) error) (*v1alpha1.BareMetalHost, error) {
	after := h.DeepCopy()
	if err := change(after); err != nil {
		return nil, err
	}
	if maps.Equal(after.Annotations, h.Annotations) {
		return h, nil
	}
	if err := r.Client.Patch(ctx, after, client.MergeFromWithOptions(h, client.MergeFromWithOptimisticLock{})); err != nil {
		return nil, fmt.Errorf("change the pause of host %s/%s: %w", h.Namespace, h.Name, err)
	}
	return after, nil
}
