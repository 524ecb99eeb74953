package watch

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// TestTenThousandObjectsGetTheirTurns has one worker pass over the objects that exist when a
// process starts. One object requests another pass at once each time, one fails each time, and a
// person changes one while most still wait.
func TestTenThousandObjectsGetTheirTurns(t *testing.T) {
	const (
		objects               = 10_000
		eager, failing, asked = "object-0", "object-1", "object-9999"
		askedAfter            = 100 // passes
		soon                  = 10  // passes
	)
	object := func(name, version string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: name, ResourceVersion: version}}
	}
	queued := &handler.TypedEnqueueRequestForObject[*corev1.ConfigMap]{}
	var queue workqueue.TypedRateLimitingInterface[ctrl.Request]
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()

	total, seen, askedAt := 0, map[string]int{}, 0
	passes := reconcile.Func(func(_ context.Context, request ctrl.Request) (ctrl.Result, error) {
		if len(seen) == objects { // the worker may go on for a moment
			return ctrl.Result{}, nil
		}
		total++
		seen[request.Name]++
		switch {
		case len(seen) == objects:
			cancel()
		case request.Name == asked && askedAt == 0:
			askedAt = total
		}
		if total == askedAfter {
			queued.Update(ctx, event.TypedUpdateEvent[*corev1.ConfigMap]{ObjectOld: object(asked, "1"), ObjectNew: object(asked, "2")}, queue)
		}
		switch request.Name {
		case eager:
			return ctrl.Result{RequeueAfter: time.Nanosecond}, nil
		case failing:
			return ctrl.Result{}, fmt.Errorf("pass %d failed", total)
		}
		return ctrl.Result{}, nil
	})
	skip := true
	c, err := Controller("fairness", controller.Options{
		Reconciler: passes, MaxConcurrentReconciles: 1, SkipNameValidation: &skip,
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](time.Nanosecond, time.Nanosecond),
	}, source.Func(func(ctx context.Context, q workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
		queue = q
		for i := range objects {
			queued.Create(ctx, event.TypedCreateEvent[*corev1.ConfigMap]{Object: object(fmt.Sprintf("object-%d", i), "1"), IsInInitialList: true}, q)
		}
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if len(seen) != objects {
		t.Fatalf("%d of %d objects got a pass in %d passes", len(seen), objects, total)
	}
	if askedAt == 0 || askedAt > askedAfter+soon {
		t.Errorf("what a person changed at pass %d got pass %d", askedAfter, askedAt)
	}
	if most := objects + soon; total > most {
		t.Errorf("%d passes until each of %d objects had one, want at most %d: %d over the eager one, %d over the failing one", total, objects, most, seen[eager], seen[failing])
	}
}
