package discovery

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	discoveryv1 "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhosts,verbs=get;list;watch;create
// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhostdiscoveries,verbs=get;list;watch
// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhostdiscoveries/status,verbs=get;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Controller returns the controller that runs the reconciler for changes in cache
// shows. The caller starts and stops it.
func (r *Reconciler) Controller(cache cache.Cache, options controller.Options) (controller.Controller, error) {
	options.Reconciler = r
	// Nodes must not be decided about by two workers at the same time.
	options.MaxConcurrentReconciles = 1
	c, err := controller.NewUnmanaged("discovery", options)
	if err != nil {
		return nil, err
	}
	own := source.Kind(cache, &discoveryv1.BareMetalHostDiscovery{},
		&handler.TypedEnqueueRequestForObject[*discoveryv1.BareMetalHostDiscovery]{},
		predicate.TypedGenerationChangedPredicate[*discoveryv1.BareMetalHostDiscovery]{})
	if err := c.Watch(own); err != nil {
		return nil, err
	}
	// Deleted hosts are recorded for the resource that created them.
	hosts := source.Kind(cache, &v1alpha1.BareMetalHost{}, handler.TypedFuncs[*v1alpha1.BareMetalHost, reconcile.Request]{
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*v1alpha1.BareMetalHost], q workqueue.TypedRateLimitingInterface[ctrl.Request]) {
			if resource, ok := r.hostDeleted(e.Object); ok {
				q.Add(ctrl.Request{NamespacedName: resource})
			}
		},
	})
	if err := c.Watch(hosts); err != nil {
		return nil, err
	}
	return c, nil
}
