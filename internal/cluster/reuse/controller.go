package reuse

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/watch"
)

// Control planes of groups that are not named here need a role of their own.
//
// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhosts,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3clusters;metal3machines;metal3machinetemplates,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines;machinesets;machinedeployments,verbs=get;list;watch
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=*,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

type requests = workqueue.TypedRateLimitingInterface[ctrl.Request]

// Controller returns the controller that runs the reconciler for changes in cache. The caller
// starts and stops it. Control planes are not watched, because they can be of any kind. Instead,
// reserved hosts are checked again after recheck.
func (r *Reconciler) Controller(cache cache.Cache, options controller.Options) (controller.Controller, error) {
	options.Reconciler = r
	return watch.Controller("reuse", options,
		source.Kind(cache, &v1alpha1.BareMetalHost{}, r.hostChanges()),
		source.Kind(cache, &clusterv1.Cluster{}, forReservedHosts[*clusterv1.Cluster](r)),
		source.Kind(cache, &clusterv1.MachineDeployment{}, forReservedHosts[*clusterv1.MachineDeployment](r)),
		source.Kind(cache, &clusterv1.Machine{}, forReservedHosts[*clusterv1.Machine](r)),
		source.Kind(cache, &v1beta2.Metal3MachineTemplate{}, forReservedHosts[*v1beta2.Metal3MachineTemplate](r)),
	)
}

// hostChanges asks for a pass over a host that is or was reserved. When a host changes its consumer
// or is deleted, it also asks for passes over the reserved hosts of the namespace: their owner may
// need fewer.
func (r *Reconciler) hostChanges() handler.TypedEventHandler[*v1alpha1.BareMetalHost, ctrl.Request] {
	itself := func(h *v1alpha1.BareMetalHost, queue requests) {
		queue.Add(ctrl.Request{NamespacedName: client.ObjectKeyFromObject(h)})
	}
	return handler.TypedFuncs[*v1alpha1.BareMetalHost, ctrl.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*v1alpha1.BareMetalHost], queue requests) {
			if IsReserved(e.Object) {
				itself(e.Object, queue)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*v1alpha1.BareMetalHost], queue requests) {
			if IsReserved(e.ObjectNew) || IsReserved(e.ObjectOld) {
				itself(e.ObjectNew, queue)
			}
			if !equality.Semantic.DeepEqual(e.ObjectOld.Spec.ConsumerRef, e.ObjectNew.Spec.ConsumerRef) {
				r.enqueue(ctx, e.ObjectNew.Namespace, queue)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*v1alpha1.BareMetalHost], queue requests) {
			if IsReserved(e.Object) {
				itself(e.Object, queue)
			}
			r.enqueue(ctx, e.Object.Namespace, queue)
		},
	}
}

// forReservedHosts asks for passes over the reserved hosts in the namespace of an object when the
// object is created or deleted, and when a change of its spec, deletion, owners or pause can change
// what becomes of the hosts.
func forReservedHosts[T client.Object](r *Reconciler) handler.TypedEventHandler[T, ctrl.Request] {
	return handler.TypedFuncs[T, ctrl.Request]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[T], queue requests) {
			r.enqueue(ctx, e.Object.GetNamespace(), queue)
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[T], queue requests) {
			if specChanged(e.ObjectOld, e.ObjectNew) {
				r.enqueue(ctx, e.ObjectNew.GetNamespace(), queue)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[T], queue requests) {
			r.enqueue(ctx, e.Object.GetNamespace(), queue)
		},
	}
}

func specChanged[T client.Object](a, b T) bool {
	return watch.Generation(a, b) || watch.Deletion(a, b) || watch.Owners(a, b) || watch.Annotated[T](clusterv1.PausedAnnotation)(a, b)
}

// enqueue asks for a pass over the reserved hosts of a namespace.
func (r *Reconciler) enqueue(ctx context.Context, namespace string, queue requests) {
	var hosts v1alpha1.BareMetalHostList
	if err := r.Client.List(ctx, &hosts, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "Reserved hosts could not be listed", "namespace", namespace)
		return
	}
	for i := range hosts.Items {
		if IsReserved(&hosts.Items[i]) {
			queue.Add(ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&hosts.Items[i])})
		}
	}
}
