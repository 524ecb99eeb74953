package driver

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestDeadlineIsOverByEitherClock(t *testing.T) {
	deadline := time.Now().Add(time.Hour)
	for name, test := range map[string]struct {
		deadline, now time.Time
		want          bool
	}{
		"before it":            {deadline, deadline.Add(-time.Second), false},
		"at it":                {deadline, deadline, true},
		"after it":             {deadline, deadline.Add(time.Second), true},
		"after a suspension":   {deadline, deadline.Round(0).Add(time.Second), true},
		"without a deadline":   {time.Time{}, deadline, false},
		"wall clock before it": {deadline, deadline.Round(0).Add(-time.Second), false},
	} {
		if got := Passed(test.deadline, test.now); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
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
