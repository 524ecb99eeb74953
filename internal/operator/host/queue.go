package host

import (
	"context"
	"slices"
	"time"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// passQueue is the queue of a controller.
type passQueue = workqueue.TypedRateLimitingInterface[ctrl.Request]

// nextInTurn triggers passes over the hosts that are next in the queue when another host gives up
// its slot or its place. It triggers as many as there are free slots.
func (c capacity) nextInTurn() handler.TypedEventHandler[*v1alpha1.BareMetalHost, ctrl.Request] {
	wake := func(ctx context.Context, queue passQueue) {
		next, err := c.next(ctx)
		if err != nil {
			log.FromContext(ctx).Error(err, "Hosts that wait for a slot could not be listed")
		}
		for _, request := range next {
			queue.Add(request)
		}
	}
	return handler.TypedFuncs[*v1alpha1.BareMetalHost, ctrl.Request]{
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*v1alpha1.BareMetalHost], queue passQueue) {
			if isBusy(e.ObjectOld) || isBusy(e.ObjectNew) {
				c.granted.shown(e.ObjectNew.UID)
			}
			if isBusy(e.ObjectOld) && !isBusy(e.ObjectNew) || isQueued(e.ObjectOld) && !isQueued(e.ObjectNew) {
				wake(ctx, queue)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*v1alpha1.BareMetalHost], queue passQueue) {
			c.granted.shown(e.Object.UID)
			if isBusy(e.Object) || isQueued(e.Object) {
				wake(ctx, queue)
			}
		},
	}
}

// next returns the requests for the hosts that can take the free slots.
func (c capacity) next(ctx context.Context) ([]ctrl.Request, error) {
	busy, err := c.busy(ctx)
	if err != nil || len(busy) >= c.limit {
		return nil, err
	}
	queued, err := c.hosts(ctx, queuedField)
	if err != nil {
		return nil, err
	}
	return decideNext(c.limit-len(busy), queued, c.now(), c.maxBackoff), nil
}

// decideNext returns the requests for the first hosts of the queue, at most free, that do not pause
// after a failure.
func decideNext(free int, queued []v1alpha1.BareMetalHost, now time.Time, maxBackoff time.Duration) []ctrl.Request {
	waiting := make([]*v1alpha1.BareMetalHost, 0, len(queued))
	for i := range queued {
		if pauseOf(queued[i].Status.Operation, now, maxBackoff, queued[i].UID) == 0 {
			waiting = append(waiting, &queued[i])
		}
	}
	slices.SortFunc(waiting, func(a, b *v1alpha1.BareMetalHost) int {
		if before(a, b) {
			return -1
		}
		return 1
	})
	next := make([]ctrl.Request, min(free, len(waiting)))
	for i := range next {
		next[i].NamespacedName = client.ObjectKeyFromObject(waiting[i])
	}
	return next
}
