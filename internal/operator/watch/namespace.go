package watch

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// Namespace requests a pass over the namespace of an object that was created, changed or deleted.
// The request has no name. It comes after a wait, in which it is joined by requests for other
// objects.
func Namespace[T client.Object](wait time.Duration) handler.TypedEventHandler[T, ctrl.Request] {
	type requests = workqueue.TypedRateLimitingInterface[ctrl.Request]
	add := func(obj T, queue requests) {
		queue.AddAfter(ctrl.Request{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace()}}, wait)
	}
	return handler.TypedFuncs[T, ctrl.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[T], queue requests) { add(e.Object, queue) },
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[T], queue requests) { add(e.ObjectNew, queue) },
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[T], queue requests) { add(e.Object, queue) },
	}
}
