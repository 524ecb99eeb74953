package infrastructure

import (
	"context"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/internal/operator/watch"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3clusters,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3clusters/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3machines,verbs=list;watch
// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhosts,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch

// Controller returns the controller that runs the reconciler for changes in cache. The caller
// starts and stops it.
func (r *Reconciler) Controller(cache cache.Cache, options controller.Options) (controller.Controller, error) {
	options.Reconciler = r
	gone := predicate.TypedFuncs[*v1beta2.Metal3Machine]{
		CreateFunc: func(event.TypedCreateEvent[*v1beta2.Metal3Machine]) bool { return false },
		UpdateFunc: func(event.TypedUpdateEvent[*v1beta2.Metal3Machine]) bool { return false },
	}
	return watch.Controller("metal3cluster", options,
		source.Kind(cache, &v1beta2.Metal3Cluster{}, &handler.TypedEnqueueRequestForObject[*v1beta2.Metal3Cluster]{}),
		source.Kind(cache, &clusterv1.Cluster{}, handler.TypedEnqueueRequestsFromMapFunc(ofCluster)),
		source.Kind(cache, &v1beta2.Metal3Machine{}, handler.TypedEnqueueRequestsFromMapFunc(r.ofMachine), gone),
	)
}

func ofCluster(_ context.Context, cluster *clusterv1.Cluster) []ctrl.Request {
	ref := cluster.Spec.InfrastructureRef
	if ref.APIGroup != v1beta2.GroupVersion.Group || ref.Kind != "Metal3Cluster" {
		return nil
	}
	return []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: cluster.Namespace, Name: ref.Name}}}
}

// ofMachine asks for passes over the deleted Metal3Clusters in the namespace of a machine that is
// gone.
func (r *Reconciler) ofMachine(ctx context.Context, m *v1beta2.Metal3Machine) []ctrl.Request {
	var list v1beta2.Metal3ClusterList
	if err := r.Client.List(ctx, &list, client.InNamespace(m.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "Metal3Clusters of a deleted machine could not be listed")
		return nil
	}
	var waiting []ctrl.Request
	for i := range list.Items {
		if !list.Items[i].DeletionTimestamp.IsZero() {
			waiting = append(waiting, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return waiting
}
