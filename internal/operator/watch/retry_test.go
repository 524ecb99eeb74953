package watch

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

func TestFailuresOfAControllerDoNotMakeThePausesOfAnotherLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		skip := true
		options := controller.Options{SkipNameValidation: &skip}
		var pauses [2][]time.Duration
		stopped := make(chan error, len(pauses))
		for i := range pauses {
			before := time.Now()
			options.Reconciler = reconcile.Func(func(context.Context, ctrl.Request) (ctrl.Result, error) {
				pauses[i] = append(pauses[i], time.Since(before))
				before = time.Now()
				return ctrl.Result{}, errors.New("it failed")
			})
			c, err := Controller("retry", options, source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
				q.Add(ctrl.Request{})
				return nil
			}))
			if err != nil {
				t.Fatal(err)
			}
			go func() { stopped <- c.Start(ctx) }()
		}
		for range pauses {
			if err := <-stopped; err != nil {
				t.Error(err)
			}
		}
		for i, got := range pauses {
			if len(got) < 3 || got[1] != retryMin || got[len(got)-1] != retryMax {
				t.Errorf("controller %d pauses for %v after failures, want from %s to %s", i, got, retryMin, retryMax)
			}
		}
	})
}
