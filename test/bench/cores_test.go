package main

import (
	"math"
	"testing"
	"time"
)

func TestCoresThatWaitForADiskAreIdle(t *testing.T) {
	before, err := parseCores("cpu  100 0 50 1000 10 1 2 3 77 0\ncpu0 1 2 3\n")
	if err != nil {
		t.Fatal(err)
	}
	after, err := parseCores("cpu  130 5 60 1040 20 1 7 3 99 0\n")
	if err != nil {
		t.Fatal(err)
	}
	// 30+5+10+5 of 100 ticks were in use.
	if got := after.busySince(before); math.Abs(got-0.5) > 1e-9 {
		t.Errorf("cores are in use for %v of the time, want 0.5", got)
	}
	for _, text := range []string{"", "cpu0 1 2 3 4 5 6 7 8 9", "cpu 1 2 3 4", "cpu 1 2 3 x 5 6 7 8"} {
		if _, err := parseCores(text); err == nil {
			t.Errorf("%q gives no error", text)
		}
	}
}

func TestReplicasShareTheTimeOfTheSlower(t *testing.T) {
	got := commonRate([]storm{{requests: 100, took: time.Second}, {requests: 100, took: 2 * time.Second}})
	if got != 100 {
		t.Errorf("rate is %v, want 100", got)
	}
}

func TestDistanceSufficesWhenBothRunsLeaveCoresIdle(t *testing.T) {
	for _, test := range []struct {
		busy [2]float64
		want bool
	}{{[2]float64{0.3, 0.69}, true}, {[2]float64{0.3, 0.7}, false}, {[2]float64{0.8, 0.5}, false}} {
		if got := (replicaRun{busy: test.busy}).idleEnough(); got != test.want {
			t.Errorf("%v: got %t, want %t", test.busy, got, test.want)
		}
	}
}

func TestStormsOneAfterTheOtherAreOne(t *testing.T) {
	got := total([]storm{{100, time.Second, time.Millisecond}, {300, time.Second, 3 * time.Millisecond}})
	if want := (storm{400, 2 * time.Second, 4 * time.Millisecond}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
