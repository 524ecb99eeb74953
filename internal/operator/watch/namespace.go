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

// Namespace asks for a pass over the namespace of an object that comes, goes or changes, after a wait in which
// the changes of others join it. The request has no name.
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
