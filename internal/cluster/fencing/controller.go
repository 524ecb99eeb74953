package fencing

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/related"
	"github.com/ingot-metal/ingot/internal/operator/watch"
)

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines,verbs=get;list;watch;patch;remediate
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3machines,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3machines/status,verbs=patch
// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhosts,verbs=get;list;watch;patch;reboot
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Controller returns the controller that runs the reconciler for changes in cache. Its requests
// name Machines. At its start, and at each resync of the cache, it checks all Machines that
// are being recovered and at all holds. The caller starts and stops it.
func (r *Reconciler) Controller(cache cache.Cache, options controller.Options) (controller.Controller, error) {
	options.Reconciler = r
	return watch.Controller("fencing", options,
		source.Kind(cache, &clusterv1.Machine{}, &handler.TypedEnqueueRequestForObject[*clusterv1.Machine]{}, machineChanges()),
		source.Kind(cache, &v1beta2.Metal3Machine{}, handler.TypedEnqueueRequestsFromMapFunc(r.machineOf)),
		source.Kind(cache, &v1alpha1.BareMetalHost{}, handler.TypedEnqueueRequestsFromMapFunc(r.machinesOfHost)),
	)
}

// machineChanges lets through changes of Machines that are to be recovered, or were before the
// change. It lets through every deletion, because a deleted Machine may leave a hold.
func machineChanges() predicate.TypedPredicate[*clusterv1.Machine] {
	return predicate.TypedFuncs[*clusterv1.Machine]{
		CreateFunc: func(e event.TypedCreateEvent[*clusterv1.Machine]) bool { return isConcerned(e.Object) },
		UpdateFunc: func(e event.TypedUpdateEvent[*clusterv1.Machine]) bool {
			return isConcerned(e.ObjectOld) || isConcerned(e.ObjectNew)
		},
		GenericFunc: func(e event.TypedGenericEvent[*clusterv1.Machine]) bool { return isConcerned(e.Object) },
	}
}

// machineOf returns a request for the Machine of a Metal3Machine if the Machine is to be recovered,
// or if the condition still shows a recovery although nothing is left to do.
func (r *Reconciler) machineOf(ctx context.Context, m *v1beta2.Metal3Machine) []reconcile.Request {
	machine, err := related.Machine(ctx, r.Client, m)
	if err != nil {
		log.FromContext(ctx).Error(err, "The Machine of a Metal3Machine could not be read", "metal3Machine", client.ObjectKeyFromObject(m))
	}
	shown := meta.FindStatusCondition(m.Status.Conditions, v1beta2.RemediatingCondition)
	if machine == nil || !isConcerned(machine) && (shown == nil || shown.Reason == v1beta2.NotRemediatingReason) {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(machine)}}
}

// machinesOfHost returns requests for the Machine that the hold of a host names, and for the
// Machine that has the host, if that is to be recovered or the host is held.
func (r *Reconciler) machinesOfHost(ctx context.Context, h *v1alpha1.BareMetalHost) []reconcile.Request {
	var names []reconcile.Request
	if held := holdOf(h); held != nil {
		names = append(names, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: h.Namespace, Name: held.Machine.Name}})
	}
	machine, err := r.consumer(ctx, h)
	if err != nil {
		log.FromContext(ctx).Error(err, "The Machine of a host could not be read", "host", client.ObjectKeyFromObject(h))
	}
	if machine != nil && (isConcerned(machine) || isHeld(h)) {
		names = append(names, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(machine)})
	}
	return names
}

// consumer returns the Machine that has the host, by the cache, or nil.
func (r *Reconciler) consumer(ctx context.Context, h *v1alpha1.BareMetalHost) (*clusterv1.Machine, error) {
	if h.Spec.ConsumerRef == nil {
		return nil, nil
	}
	var m v1beta2.Metal3Machine
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: h.Namespace, Name: h.Spec.ConsumerRef.Name}, &m)
	if err != nil || !related.Consumes(&m, h) {
		return nil, client.IgnoreNotFound(err)
	}
	return related.Machine(ctx, r.Client, &m)
}
