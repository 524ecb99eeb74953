package subscription

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/watch"
)

// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhosts,verbs=get;list;watch
// +kubebuilder:rbac:groups=metal3.io,resources=bmceventsubscriptions,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=metal3.io,resources=bmceventsubscriptions/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// hostField is the index of subscriptions by the name of their host.
const hostField = "spec.hostName"

// IndexFields registers the index that the controller needs.
func IndexFields(ctx context.Context, indexer client.FieldIndexer) error {
	err := indexer.IndexField(ctx, &v1alpha1.BMCEventSubscription{}, hostField, func(obj client.Object) []string {
		if s, ok := obj.(*v1alpha1.BMCEventSubscription); ok {
			return []string{s.Spec.HostName}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("index subscriptions by %s: %w", hostField, err)
	}
	return nil
}

// Controller returns a controller that runs the reconciler when cache reports changes. The caller
// starts and stops it.
func (r *Reconciler) Controller(cache cache.Cache, options controller.Options) (controller.Controller, error) {
	options.Reconciler = r
	return watch.Controller("subscription", options,
		source.Kind(cache, &v1alpha1.BMCEventSubscription{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.BMCEventSubscription]{}, asked),
		source.Kind(cache, &v1alpha1.BareMetalHost{}, handler.TypedEnqueueRequestsFromMapFunc(r.ofHost), relevant),
	)
}

// ofHost returns the requests for the subscriptions of a host.
func (r *Reconciler) ofHost(ctx context.Context, h *v1alpha1.BareMetalHost) []ctrl.Request {
	var all v1alpha1.BMCEventSubscriptionList
	err := r.Client.List(ctx, &all, client.InNamespace(h.Namespace), client.MatchingFields{hostField: h.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		log.FromContext(ctx).Error(err, "Subscriptions of a changed host could not be listed")
		return nil
	}
	requests := make([]ctrl.Request, len(all.Items))
	for i := range all.Items {
		requests[i].NamespacedName = client.ObjectKeyFromObject(&all.Items[i])
	}
	return requests
}

// asked keeps the updates that are not by this controller itself: a deletion. The spec never
// changes.
var asked = watch.Updates[*v1alpha1.BMCEventSubscription](watch.Deletion)

// relevant keeps the changes of a host that decide depends on.
var relevant = watch.Updates(watch.Facts(factsOf))

// facts are what decide needs to know of a host.
type facts struct {
	can     obstacle
	why     string
	node    string
	deleted bool
}

func factsOf(h *v1alpha1.BareMetalHost) facts {
	can, why := reach(h.Name, h)
	return facts{can, why, h.Status.Provisioning.ID, !h.DeletionTimestamp.IsZero()}
}
