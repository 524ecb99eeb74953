package discovery

import (
	"context"
	"slices"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/source"

	discoveryv1 "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/nodecache"
	"github.com/ingot-metal/ingot/internal/operator/watch"
)

// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhosts,verbs=get;list;watch;create
// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhostdiscoveries,verbs=get;list;watch
// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhostdiscoveries/status,verbs=get;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Controller returns a controller that runs the reconciler when cache or nodes report changes. The
// caller starts and stops it.
func (r *Reconciler) Controller(cache cache.Cache, nodes *nodecache.Cache, options controller.Options) (controller.Controller, error) {
	options.Reconciler = r
	// Two workers must not decide about the same node at the same time.
	options.MaxConcurrentReconciles = 1
	return watch.Controller("discovery", options,
		source.Kind(cache, &discoveryv1.BareMetalHostDiscovery{}, r.resourceChanges(),
			watch.Updates[*discoveryv1.BareMetalHostDiscovery](watch.Generation)),
		source.Kind(cache, &v1alpha1.BareMetalHost{}, r.hostChanges()),
		r.nodeChanges(nodes),
	)
}

type requests = workqueue.TypedRateLimitingInterface[ctrl.Request]

// resourceChanges requests a pass over a discovery resource that was created, changed or deleted.
// If it was changed or deleted, all others are polled soon, too, because one of them may have to
// take the nodes over.
func (r *Reconciler) resourceChanges() handler.TypedEventHandler[*discoveryv1.BareMetalHostDiscovery, ctrl.Request] {
	own := &handler.TypedEnqueueRequestForObject[*discoveryv1.BareMetalHostDiscovery]{}
	return handler.TypedFuncs[*discoveryv1.BareMetalHostDiscovery, ctrl.Request]{
		CreateFunc: own.Create,
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*discoveryv1.BareMetalHostDiscovery], q requests) {
			own.Update(ctx, e, q)
			r.pollSoon(ctx, q)
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*discoveryv1.BareMetalHostDiscovery], q requests) {
			own.Delete(ctx, e, q)
			r.pollSoon(ctx, q)
		},
	}
}

// pollSoon lets all resources be polled soon.
func (r *Reconciler) pollSoon(ctx context.Context, queue requests) {
	var resources discoveryv1.BareMetalHostDiscoveryList
	if err := r.Client.List(ctx, &resources, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "Discovery resources could not be listed")
		return
	}
	for i := range resources.Items {
		name := client.ObjectKeyFromObject(&resources.Items[i])
		r.markChanged(name)
		queue.Add(ctrl.Request{NamespacedName: name})
	}
}

// hostChanges keeps the index of hosts up to date. The index is complete before the first
// reconciliation. hostChanges also remembers deletions for the resources that created the hosts.
func (r *Reconciler) hostChanges() handler.TypedEventHandler[*v1alpha1.BareMetalHost, ctrl.Request] {
	seen := func(h *v1alpha1.BareMetalHost, deleted bool, queue requests) {
		if !deleted {
			return
		}
		if resource, ok := r.deletionSeen(h); ok {
			queue.Add(ctrl.Request{NamespacedName: resource})
		}
	}
	return handler.TypedFuncs[*v1alpha1.BareMetalHost, ctrl.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*v1alpha1.BareMetalHost], q requests) {
			seen(e.Object, r.index.put(e.Object), q)
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*v1alpha1.BareMetalHost], q requests) {
			seen(e.ObjectNew, r.index.put(e.ObjectNew), q)
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*v1alpha1.BareMetalHost], q requests) {
			seen(e.Object, r.index.remove(e.Object.UID), q)
		},
	}
}

// nodeChanges makes all resources poll soon when an unused node without a host has changed.
func (r *Reconciler) nodeChanges(nodes *nodecache.Cache) source.Source {
	return source.Func(func(ctx context.Context, queue requests) error {
		nodes.Subscribe(func(changes []nodecache.Change) {
			if slices.ContainsFunc(changes, r.isNews) {
				r.pollSoon(ctx, queue)
			}
		})
		return nil
	})
}

func (r *Reconciler) isNews(c nodecache.Change) bool {
	return !c.Gone && c.Node.BelongsTo() == "" && !r.index.has(c.Node)
}
