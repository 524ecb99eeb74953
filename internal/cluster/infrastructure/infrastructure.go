// Package infrastructure is the controller of Metal3Clusters: it tells Cluster API that machines
// of a Cluster can be made, and keeps a deleted Metal3Cluster while it has machines. The
// endpoint of the control plane is chosen by people, so there is nothing to make.
package infrastructure

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/internal/cluster/related"
	"github.com/ingot-metal/ingot/internal/operator/requeue"
)

// poll is how often a deleted Metal3Cluster looks for machines that are left.
const poll = 30 * time.Second

// Config is what the controller needs. All fields but Filter are required.
type Config struct {
	// Client writes, and reads from the cache.
	Client client.Client
	// Live reads from the API server.
	Live     client.Reader
	Recorder events.EventRecorder
	Now      func() time.Time
	// Filter says on which Metal3Clusters the controller works.
	Filter related.Filter
}

// Reconciler is the controller of Metal3Clusters.
type Reconciler struct{ Config }

// New returns the controller of Metal3Clusters.
func New(config Config) *Reconciler { return &Reconciler{config} }

// Reconcile makes one pass over a Metal3Cluster.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var c v1beta2.Metal3Cluster
	if err := r.Client.Get(ctx, req.NamespacedName, &c); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !r.Filter.Allows(&c) {
		return ctrl.Result{}, nil
	}
	reconcile := r.reconcile
	if _, external := c.Annotations[clusterv1.ManagedByAnnotation]; external {
		reconcile = r.reconcileHosts
	}
	result, err := reconcile(ctx, &c)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: requeue.Soon}, nil
	}
	return result, err
}

func (r *Reconciler) reconcile(ctx context.Context, c *v1beta2.Metal3Cluster) (ctrl.Result, error) {
	cluster, err := related.OwnerCluster(ctx, r.Client, c)
	if err != nil {
		err = fmt.Errorf("read the Cluster that owns Metal3Cluster %s/%s: %w", c.Namespace, c.Name, err)
		return ctrl.Result{}, r.interrupted(ctx, c, v1beta2.FailedToGetOwnerClusterReason, err)
	}
	result, err := r.work(ctx, c, cluster)
	return result, r.interrupted(ctx, c, v1beta2.InternalFailureReason, err)
}

// interrupted writes to the status why a pass failed, and returns the error. A Metal3Cluster that
// was ready stays ready, because the pass has seen nothing that contradicts it. A conflict is not
// written.
func (r *Reconciler) interrupted(ctx context.Context, c *v1beta2.Metal3Cluster, reason string, err error) error {
	if err == nil || apierrors.IsConflict(err) || meta.IsStatusConditionTrue(c.Status.Conditions, v1beta2.ReadyCondition) {
		return err
	}
	status := *c.Status.DeepCopy()
	fail(c, &status, reason, err.Error())
	return errors.Join(err, r.write(ctx, c, status))
}

// work makes a pass over a Metal3Cluster. cluster is its Cluster, or nil when no Cluster owns it.
func (r *Reconciler) work(ctx context.Context, c *v1beta2.Metal3Cluster, cluster *clusterv1.Cluster) (ctrl.Result, error) {
	paused := related.IsPaused(cluster, c)
	switch {
	case paused:
		return r.pause(ctx, c, cluster)
	case !c.DeletionTimestamp.IsZero():
		return r.delete(ctx, c, cluster)
	case cluster == nil:
		status := *c.Status.DeepCopy()
		setPaused(c, &status, false)
		fail(c, &status, v1beta2.FailedToGetOwnerClusterReason, "No Cluster owns this Metal3Cluster yet.")
		return ctrl.Result{}, r.write(ctx, c, status)
	}
	err := r.patch(ctx, c, func(c *v1beta2.Metal3Cluster) {
		controllerutil.AddFinalizer(c, v1beta2.ClusterFinalizer)
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, related.BlockMoveAnnotation, "")
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	hosts := r.Live
	if meta.IsStatusConditionFalse(c.Status.Conditions, v1beta2.PausedCondition) {
		hosts = r.Client // a pass since the pause has read them from the API server
	}
	if err := r.resumeHosts(ctx, hosts, c, cluster.Name); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.write(ctx, c, observe(c))
}

// delete ends the pause of reserved hosts, which nobody else would do, and lets a deleted
// Metal3Cluster go when none of its Metal3Machines is left.
func (r *Reconciler) delete(ctx context.Context, c *v1beta2.Metal3Cluster, cluster *clusterv1.Cluster) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(c, v1beta2.ClusterFinalizer) {
		return ctrl.Result{}, nil
	}
	if name := clusterName(c, cluster); name != "" {
		if err := r.resumeHosts(ctx, r.Live, c, name); err != nil {
			return ctrl.Result{}, err
		}
		var left v1beta2.Metal3MachineList
		if err := r.Live.List(ctx, &left, client.InNamespace(c.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: name}); err != nil {
			return ctrl.Result{}, fmt.Errorf("list the Metal3Machines of Cluster %s/%s: %w", c.Namespace, name, err)
		}
		if n := len(left.Items); n > 0 {
			status := *c.Status.DeepCopy()
			set(c, &status, v1beta2.ReadyCondition, false, v1beta2.DeletingReason,
				fmt.Sprintf("Waiting for %d Metal3Machines to be deleted, among them %s.", n, left.Items[0].Name))
			return ctrl.Result{RequeueAfter: poll}, r.write(ctx, c, status)
		}
	}
	return ctrl.Result{}, r.patch(ctx, c, func(c *v1beta2.Metal3Cluster) { controllerutil.RemoveFinalizer(c, v1beta2.ClusterFinalizer) })
}

// clusterName returns the name of the Cluster: that of the Cluster that was read, or of the owner
// reference, or of the label.
func clusterName(c *v1beta2.Metal3Cluster, cluster *clusterv1.Cluster) string {
	if cluster != nil {
		return cluster.Name
	}
	for _, ref := range c.OwnerReferences {
		if ref.Kind == "Cluster" && strings.HasPrefix(ref.APIVersion, clusterv1.GroupVersion.Group+"/") {
			return ref.Name
		}
	}
	return c.Labels[clusterv1.ClusterNameLabel]
}

// patch changes the metadata of a Metal3Cluster, if there is something to change.
func (r *Reconciler) patch(ctx context.Context, c *v1beta2.Metal3Cluster, change func(*v1beta2.Metal3Cluster)) error {
	after := c.DeepCopy()
	change(after)
	if equality.Semantic.DeepEqual(c.ObjectMeta, after.ObjectMeta) {
		return nil
	}
	if err := r.Client.Patch(ctx, after, client.MergeFromWithOptions(c, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("change the metadata of Metal3Cluster %s/%s: %w", c.Namespace, c.Name, err)
	}
	c.ObjectMeta = after.ObjectMeta
	return nil
}

// observe returns the status of a Metal3Cluster that is not paused or deleted and whose Cluster
// exists.
func observe(c *v1beta2.Metal3Cluster) v1beta2.Metal3ClusterStatus {
	status := *c.Status.DeepCopy()
	setPaused(c, &status, false)
	status.FailureDomains = c.Spec.FailureDomains
	if wrong := checkEndpoint(c.Spec.ControlPlaneEndpoint); wrong != "" {
		set(c, &status, v1beta2.BaremetalInfrastructureReadyCondition, false, v1beta2.ControlPlaneEndpointFailedReason, wrong)
		set(c, &status, v1beta2.ReadyCondition, false, v1beta2.NotReadyReason, wrong)
		return status
	}
	status.Initialization.Provisioned = new(true)
	set(c, &status, v1beta2.BaremetalInfrastructureReadyCondition, true, v1beta2.ReadyReason, "")
	set(c, &status, v1beta2.ReadyCondition, true, v1beta2.ReadyReason, "")
	return status
}

// fail sets the conditions in a status that say why nothing can be done for a Metal3Cluster.
func fail(c *v1beta2.Metal3Cluster, status *v1beta2.Metal3ClusterStatus, reason, message string) {
	set(c, status, v1beta2.BaremetalInfrastructureReadyCondition, false, reason, message)
	notReady := v1beta2.NotReadyReason
	if !c.DeletionTimestamp.IsZero() {
		notReady = v1beta2.DeletionFailedReason
	}
	set(c, status, v1beta2.ReadyCondition, false, notReady, message)
}

// checkEndpoint returns what is wrong with the endpoint of a control plane, or nothing. The port
// has a default in the schema.
func checkEndpoint(e v1beta2.APIEndpoint) string {
	if e.Host == "" {
		return "spec.controlPlaneEndpoint.host is missing: name an address of your own, for instance of a load balancer."
	}
	if _, err := netip.ParseAddr(e.Host); err != nil && len(validation.IsDNS1123Subdomain(strings.ToLower(e.Host))) > 0 {
		return fmt.Sprintf("spec.controlPlaneEndpoint.host %q is neither an IP address nor a DNS name.", e.Host)
	}
	if e.Port < 1 || e.Port > 65535 {
		return fmt.Sprintf("spec.controlPlaneEndpoint.port %d is no TCP port.", e.Port)
	}
	return ""
}

func setPaused(c *v1beta2.Metal3Cluster, status *v1beta2.Metal3ClusterStatus, paused bool) {
	if paused {
		set(c, status, v1beta2.PausedCondition, true, v1beta2.PausedReason, "The Cluster or the Metal3Cluster is paused.")
		return
	}
	set(c, status, v1beta2.PausedCondition, false, v1beta2.NotPausedReason, "")
}

func set(c *v1beta2.Metal3Cluster, status *v1beta2.Metal3ClusterStatus, kind string, ok bool, reason, message string) {
	is := metav1.ConditionFalse
	if ok {
		is = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{Type: kind, Status: is, Reason: reason, Message: message, ObservedGeneration: c.Generation})
}

// write writes a status if it has changed.
func (r *Reconciler) write(ctx context.Context, c *v1beta2.Metal3Cluster, status v1beta2.Metal3ClusterStatus) error {
	if equality.Semantic.DeepEqual(c.Status, status) {
		return nil
	}
	now := metav1.NewTime(r.Now())
	status.LastUpdated = &now
	after := c.DeepCopy()
	after.Status = status
	err := r.Client.Status().Patch(ctx, after, client.MergeFromWithOptions(c, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status of Metal3Cluster %s/%s: %w", c.Namespace, c.Name, err)
	}
	return nil
}
