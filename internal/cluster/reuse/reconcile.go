package reuse

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/related"
	"github.com/ingot-metal/ingot/internal/operator/requeue"
)

// Events.
const (
	// eventReleased is the reason of the event, on the host and on its owner.
	eventReleased = "HostReservationReleased"
	actionRelease = "ReleaseReservation"
)

// Config is what a Reconciler works with. All but Metrics, Wait and Filter are required.
type Config struct {
	// Client reads from the cache and writes; Live reads from the API server.
	Client client.Client
	Live   client.Reader
	// Recorder gets the events.
	Recorder events.EventRecorder
	// Metrics gets the numbers; nil means none.
	Metrics *Metrics
	// Now is the clock.
	Now func() time.Time
	// Wait is how long a host stays reserved while no machine of its owner takes it; 0 means for ever.
	Wait time.Duration
	// Filter selects the Metal3Clusters whose reserved hosts the controller works on.
	Filter related.Filter
}

// Reconciler frees the hosts that no machine of their owner will take. Its requests name hosts.
type Reconciler struct{ Config }

// New returns a reconciler.
func New(config Config) *Reconciler { return &Reconciler{config} }

// Reconcile keeps, renews or ends the reservation of a host.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	if err := r.observe(ctx, request.Namespace); err != nil {
		return ctrl.Result{}, err
	}
	mapper := r.Client.RESTMapper()
	v, h, err := r.judge(ctx, view{r.Client, mapper}, request)
	if err == nil && v.release != "" {
		// A verdict that frees a host has to be made from what the API server has.
		v, h, err = r.judge(ctx, view{r.Live, mapper}, request)
	}
	switch {
	case err != nil || h == nil:
		return ctrl.Result{}, err
	case v.foreign:
		return ctrl.Result{RequeueAfter: recheck}, nil
	case v.release != "":
		err = r.release(ctx, h, v)
	case v.stamp:
		err = r.stamp(ctx, h, v)
	default:
		return ctrl.Result{RequeueAfter: v.again}, nil
	}
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: requeue.Soon}, nil
	}
	return ctrl.Result{RequeueAfter: v.again}, client.IgnoreNotFound(err)
}

// observe counts the reserved hosts of a namespace.
func (r *Reconciler) observe(ctx context.Context, namespace string) error {
	if r.Metrics == nil {
		return nil
	}
	var hosts v1alpha1.BareMetalHostList
	if err := r.Client.List(ctx, &hosts, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list hosts: %w", err)
	}
	r.Metrics.observe(namespace, hosts.Items)
	return nil
}

// judged is a verdict, and the owner that the host is reserved for.
type judged struct {
	verdict
	// owner is the owner. If it does not exist, it is what the host says about it, or nil if the
	// host has only a label.
	owner *Owner
	// foreign says that the filter excludes the Cluster that the host is reserved in.
	foreign bool
}

// judge decides about the reservation of a host. It returns no host if the host does not exist or
// is not reserved.
func (r *Reconciler) judge(ctx context.Context, v view, request ctrl.Request) (judged, *v1alpha1.BareMetalHost, error) {
	h := &v1alpha1.BareMetalHost{}
	found, err := v.get(ctx, request.Namespace, request.Name, h)
	if !found {
		return judged{}, nil, err
	}
	m, reserved := markOf(h)
	if !reserved {
		return judged{}, nil, nil
	}
	f, err := v.read(ctx, m, r.Now(), r.Wait)
	if err != nil {
		return judged{}, nil, err
	}
	if allowed, err := r.Filter.AllowsCluster(ctx, v, f.cluster); err != nil || !allowed {
		return judged{foreign: true}, h, err
	}
	if f.unreadable != nil {
		log.FromContext(ctx).Error(f.unreadable, "Nothing can be read about the owner of a reserved host", "host", client.ObjectKeyFromObject(h))
	}
	j := judged{verdict: f.verdict()}
	switch {
	case f.owner != nil:
		j.owner = &f.owner.Owner
	case m.ref != nil:
		j.owner = &Owner{APIVersion: m.ref.APIVersion, Kind: m.ref.Kind, Namespace: m.namespace(), Name: m.ref.Name, UID: m.ref.UID}
	}
	return j, h, nil
}

// read reads what a verdict about a reserved host needs.
func (v view) read(ctx context.Context, m mark, now time.Time, wait time.Duration) (*facts, error) {
	h := m.host
	f := &facts{now: now, wait: wait, host: h, appearing: m.carried() && h.CreationTimestamp.Add(appearance).After(now)}
	var err error
	if f.owner, f.unreadable, err = v.reservedBy(ctx, m); err != nil {
		return nil, err
	}
	if f.cluster, err = v.cluster(ctx, h.Namespace, clusterNameOf(h, f.owner)); err != nil || f.owner == nil {
		return f, err
	}
	if f.template, err = v.template(ctx, h.Namespace, f.owner.infrastructure); err != nil {
		return nil, err
	}
	return f, v.count(ctx, f)
}

// release frees a host, and reports that in the log, the metrics and events.
func (r *Reconciler) release(ctx context.Context, h *v1alpha1.BareMetalHost, v judged) error {
	free := h.DeepCopy()
	release(free)
	if err := r.Client.Patch(ctx, free, client.MergeFromWithOptions(h, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("free reserved host %s/%s: %w", h.Namespace, h.Name, err)
	}
	whom := "an owner that only its label named"
	if v.owner != nil {
		whom = v.owner.String()
	}
	log.FromContext(ctx).Info("Host is not reserved any more", "host", client.ObjectKeyFromObject(h), "owner", whom, "reason", string(v.release))
	if r.Metrics != nil {
		r.Metrics.released.WithLabelValues(string(v.release)).Inc()
	}
	note := fmt.Sprintf("Host %s/%s is no longer reserved for %s: %s", h.Namespace, h.Name, whom, v.text)
	if v.owner == nil {
		r.Recorder.Eventf(free, nil, corev1.EventTypeNormal, eventReleased, actionRelease, "%s", note)
		return nil
	}
	owner := v.owner.reference()
	r.Recorder.Eventf(free, owner, corev1.EventTypeNormal, eventReleased, actionRelease, "%s", note)
	r.Recorder.Eventf(owner, free, corev1.EventTypeNormal, eventReleased, actionRelease, "%s", note)
	return nil
}

// stamp writes a reservation again in its present form. The label of the Cluster is what counts the
// host for this Cluster, and what pauses the host before a move.
func (r *Reconciler) stamp(ctx context.Context, h *v1alpha1.BareMetalHost, v judged) error {
	stamped := h.DeepCopy()
	reserve(stamped, *v.owner, v.at)
	metav1.SetMetaDataLabel(&stamped.ObjectMeta, clusterv1.ClusterNameLabel, v.cluster)
	if err := r.Client.Patch(ctx, stamped, client.MergeFromWithOptions(h, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("renew the reservation of host %s/%s: %w", h.Namespace, h.Name, err)
	}
	return nil
}
