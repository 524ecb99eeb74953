package remediation

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/watch"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3remediations,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3remediations/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3machines,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines,verbs=get;list;watch;patch;remediate
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines/status,verbs=patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhosts,verbs=get;list;watch;patch;reboot
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Controller returns the controller that runs the reconciler for changes in cache and for requests
// from other sources. The caller starts and stops it.
func (r *Reconciler) Controller(cache cache.Cache, options controller.Options, others ...source.Source) (controller.Controller, error) {
	options.Reconciler = r
	return watch.Controller("remediation", options, append([]source.Source{
		source.Kind(cache, &v1beta2.Metal3Remediation{}, &handler.TypedEnqueueRequestForObject[*v1beta2.Metal3Remediation]{}),
		source.Kind(cache, &clusterv1.Machine{}, handler.TypedEnqueueRequestsFromMapFunc(r.ofMachine), watch.Updates[*clusterv1.Machine](watch.Labels, watch.Annotations, watch.Deletion)),
		source.Kind(cache, &v1alpha1.BareMetalHost{}, handler.TypedEnqueueRequestsFromMapFunc(r.ofHost), watch.Updates(watch.Generation, watch.Deletion, watch.Annotations, powerChanged)),
		source.Kind(cache, &clusterv1.Cluster{}, handler.TypedEnqueueRequestsFromMapFunc(r.ofCluster), watch.Updates[*clusterv1.Cluster](watch.Generation, watch.Deletion)),
	}, others...)...)
}

// powerChanged reports whether the power state of a host differs, or what the host says about
// holds.
func powerChanged(a, b *v1alpha1.BareMetalHost) bool {
	return a.Status.PoweredOn != b.Status.PoweredOn || !equality.Semantic.DeepEqual(a.Status.PowerOffHolds, b.Status.PowerOffHolds)
}

// ofHost asks for a pass over the remediations of the machine that has a host.
func (r *Reconciler) ofHost(ctx context.Context, h *v1alpha1.BareMetalHost) []ctrl.Request {
	if h.Spec.ConsumerRef == nil {
		return nil
	}
	var m v1beta2.Metal3Machine
	if r.Client.Get(ctx, client.ObjectKey{Namespace: h.Namespace, Name: h.Spec.ConsumerRef.Name}, &m) != nil {
		return nil // a consumer of another kind
	}
	owned := map[string]bool{}
	for _, ref := range m.OwnerReferences {
		owned[ref.Name] = true
	}
	return r.requests(ctx, h.Namespace, func(m *v1beta2.Metal3Remediation) bool { return hasOwner(m, owned) })
}

// ofMachine asks for a pass over the remediations of a Machine.
func (r *Reconciler) ofMachine(ctx context.Context, m *clusterv1.Machine) []ctrl.Request {
	owner := map[string]bool{m.Name: true}
	return r.requests(ctx, m.Namespace, func(m *v1beta2.Metal3Remediation) bool { return hasOwner(m, owner) })
}

// ofCluster asks for a pass over the remediations of a Cluster.
func (r *Reconciler) ofCluster(ctx context.Context, c *clusterv1.Cluster) []ctrl.Request {
	return r.requests(ctx, c.Namespace, func(m *v1beta2.Metal3Remediation) bool { return m.Labels[clusterv1.ClusterNameLabel] == c.Name })
}

func hasOwner(m *v1beta2.Metal3Remediation, names map[string]bool) bool {
	for _, ref := range m.OwnerReferences {
		if names[ref.Name] {
			return true
		}
	}
	return false
}

// requests returns requests for the wanted remediations of a namespace.
func (r *Reconciler) requests(ctx context.Context, namespace string, wanted func(*v1beta2.Metal3Remediation) bool) []ctrl.Request {
	var all v1beta2.Metal3RemediationList
	if err := r.Client.List(ctx, &all, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "Remediations could not be listed")
		return nil
	}
	var found []ctrl.Request
	for i := range all.Items {
		if wanted(&all.Items[i]) {
			found = append(found, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&all.Items[i])})
		}
	}
	return found
}
