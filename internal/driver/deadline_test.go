package driver

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestDeadlineIsOverByEitherClock(t *testing.T) {
	for name, test := range map[string]struct {
		monotonic, wall time.Duration
		want            bool
	}{
		"before it":                         {time.Second, time.Second, false},
		"at it":                             {0, 0, true},
		"after the machine was suspended":   {time.Second, -time.Hour, true},
		"after the wall clock was put back": {-time.Second, time.Hour, true},
	} {
		if got := over(test.monotonic, test.wall); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
	now := time.Now()
	if Passed(time.Time{}, now) || Passed(now.Add(time.Second), now) || !Passed(now, now) {
		t.Error("want a deadline to be over from its moment on, and none never")
	}
}

func TestEndedContextIsPastItsDeadline(t *testing.T) {
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(time.Hour))
	if err := CheckDeadline(ctx); err != nil {
		t.Errorf("before its end: %v", err)
	}
	cancel()
	if err := CheckDeadline(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("after its end: %v", err)
	}
}
