package requeue

import (
	"testing"
	"time"
)

func TestBackoffDoublesWithinItsLimitAndLosesAtMostHalf(t *testing.T) {
	const limit = 30 * time.Minute
	for n := range 20 {
		full := min(time.Minute<<min(n, maxDoublings), limit)
		for _, key := range []string{"a", "b", "c", "d"} {
			got := Backoff(n, limit, key)
			if got > full || got < full/2 {
				t.Errorf("attempt %d of %s: %s, want between %s and %s", n, key, got, full/2, full)
			}
			if again := Backoff(n, limit, key); again != got {
				t.Errorf("attempt %d of %s: %s and then %s, want the same", n, key, got, again)
			}
		}
	}
	if Backoff(3, limit, "a") == Backoff(3, limit, "b") {
		t.Error("two hosts come back at the same moment")
	}
}

func TestPauseEndsWithItsTimeAndWhenTheClockWasSetBack(t *testing.T) {
	const pause = 10 * time.Minute
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tt := range []struct{ passed, want time.Duration }{
		{0, pause},
		{time.Minute, 9 * time.Minute},
		{pause, 0},
		{time.Hour, 0},
		{-time.Minute, pause},
		{-pause, 0},
		{-240 * time.Hour, 0},
	} {
		if got := Left(pause, now.Add(-tt.passed), now); got != tt.want {
			t.Errorf("%s after the pause began %s of it are left, want %s", tt.passed, got, tt.want)
		}
	}
}

func TestSoonestLeavesOutWhatDoesNotWait(t *testing.T) {
	for _, tt := range []struct {
		waits []time.Duration
		want  time.Duration
	}{
		{nil, 0},
		{[]time.Duration{0, 0}, 0},
		{[]time.Duration{0, 3, 2}, 2},
		{[]time.Duration{2, 0, 3}, 2},
	} {
		if got := Soonest(tt.waits...); got != tt.want {
			t.Errorf("Soonest(%v) = %v, want %v", tt.waits, got, tt.want)
		}
	}
}

func TestWaitForABusyEngineGrowsFromThreeToTenSeconds(t *testing.T) {
	for n, full := range []time.Duration{4 * time.Second, 4 * time.Second, 8 * time.Second, 10 * time.Second, 10 * time.Second} {
		seen := map[time.Duration]bool{}
		for _, key := range []string{"a", "b", "c", "d"} {
			got := WhileBusy(n, key)
			if seen[got] = true; got > full || got < full*3/4 {
				t.Errorf("refusal %d of %s: %s, want between %s and %s", n, key, got, full*3/4, full)
			}
		}
		if len(seen) < 2 {
			t.Errorf("refusal %d: all hosts wait equally long", n)
		}
	}
}
