package objectstore

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestStoreIsTestedByOneCallerAfterAnotherWentAway has a store that stays silent.
func TestStoreIsTestedByOneCallerAfterAnotherWentAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &Bucket{endpoint: "http://s3.test", name: "bucket", timeout: time.Minute}
		requests := 0
		silent := func(ctx context.Context) error {
			requests++
			<-ctx.Done()
			return ctx.Err()
		}
		refused := func(when string) {
			t.Helper()
			before := requests
			if err := b.call(t.Context(), "put", "a", silent); !errors.Is(err, ErrUnavailable) || requests != before {
				t.Errorf("%s: error = %v after %d requests, want it unavailable without one", when, err, requests-before)
			}
		}
		if err := b.call(t.Context(), "put", "a", silent); !errors.Is(err, ErrUnavailable) {
			t.Fatalf("error = %v, want it unavailable", err)
		}
		refused("after an outage")
		<-time.After(pause) // of this bubble's clock
		ctx, cancel := context.WithCancel(t.Context())
		err := b.call(ctx, "put", "a", func(ctx context.Context) error {
			refused("while the store is tested")
			cancel()
			return silent(ctx)
		})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("error = %v, want that the caller went away", err)
		}
		err = b.call(t.Context(), "put", "a", func(ctx context.Context) error {
			refused("while the next caller tests it")
			return silent(ctx)
		})
		if !errors.Is(err, ErrUnavailable) || requests != 3 {
			t.Errorf("error = %v, %d requests, want a third one that has no answer", err, requests)
		}
		refused("after the second test")
		<-time.After(pause)
		if err := b.call(t.Context(), "put", "a", func(context.Context) error { return nil }); err != nil {
			t.Errorf("when the store is back: %v", err)
		}
	})
}
