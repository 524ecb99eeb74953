package host

import (
	"context"
	"fmt"
	"maps"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/nodecache"
)

// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhosts,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhosts/status,verbs=get;patch
// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhosts/finalizers,verbs=update
// +kubebuilder:rbac:groups=metal3.io,resources=hardwaredata,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups="",resources=namespaces,resourceNames=kube-system,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// IndexFields registers the indexes that the reconciler's client needs.
func IndexFields(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &v1alpha1.BareMetalHost{}, nodeIDField, nodeIDOf); err != nil {
		return fmt.Errorf("index hosts by node: %w", err)
	}
	return nil
}

// Controller returns the controller that runs the reconciler for changes in cache
// and in nodes. The caller starts and stops it.
func (r *Reconciler) Controller(cache cache.Cache, nodes *nodecache.Cache, options controller.Options) (controller.Controller, error) {
	options.Reconciler = r
	c, err := controller.NewUnmanaged("host", options)
	if err != nil {
		return nil, err
	}
	own := source.Kind(cache, &v1alpha1.BareMetalHost{},
		&handler.TypedEnqueueRequestForObject[*v1alpha1.BareMetalHost]{}, relevant)
	if err := c.Watch(own); err != nil {
		return nil, err
	}
	if err := c.Watch(r.nodeChanges(nodes)); err != nil {
		return nil, err
	}
	return c, nil
}

// relevant lets a host be reconciled when a person or another controller changed
// it, and not when this one wrote its status.
var relevant = predicate.TypedFuncs[*v1alpha1.BareMetalHost]{
	UpdateFunc: func(e event.TypedUpdateEvent[*v1alpha1.BareMetalHost]) bool {
		a, b := e.ObjectOld, e.ObjectNew
		return a.Generation != b.Generation ||
			a.DeletionTimestamp.IsZero() != b.DeletionTimestamp.IsZero() ||
			!maps.Equal(a.Annotations, b.Annotations) ||
			len(a.Finalizers) != len(b.Finalizers)
	},
}

// nodeChanges reconciles the hosts of nodes that changed. A node without a host
// may be the one that hosts without a node wait for.
func (r *Reconciler) nodeChanges(nodes *nodecache.Cache) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
		nodes.Subscribe(func(changes []nodecache.Change) {
			for _, request := range r.affected(ctx, changes) {
				queue.Add(request)
			}
		})
		return nil
	})
}

func (r *Reconciler) affected(ctx context.Context, changes []nodecache.Change) []ctrl.Request {
	var hosts v1alpha1.BareMetalHostList
	if err := r.Client.List(ctx, &hosts, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "Hosts of changed nodes could not be listed")
		return nil
	}
	changed := make(map[string]bool, len(changes))
	for _, c := range changes {
		changed[c.Node.ID] = true
	}
	var waiting, requests []ctrl.Request
	linked := 0
	for i := range hosts.Items {
		h := &hosts.Items[i]
		request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(h)}
		switch {
		case changed[h.Status.Provisioning.ID]:
			linked++
			requests = append(requests, request)
		case h.Status.Provisioning.State == v1alpha1.StateUnmanaged:
			waiting = append(waiting, request)
		}
	}
	if linked < len(changes) {
		requests = append(requests, waiting...)
	}
	return requests
}
