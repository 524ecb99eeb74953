package runner

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// enterAll calls each of these BMCs once, for a second each, and returns when each call began.
func enterAll(t *testing.T, g *Gate, bmcs ...string) []time.Duration {
	t.Helper()
	began, done := make([]time.Duration, len(bmcs)), make(chan struct{})
	start := time.Now()
	for i, bmc := range bmcs {
		go func() {
			defer func() { done <- struct{}{} }()
			leave, err := g.Enter(t.Context(), bmc)
			if err != nil {
				t.Errorf("%s: %v", bmc, err)
				return
			}
			began[i] = time.Since(start)
			time.Sleep(time.Second) //nolint:forbidigo // time of a bubble, which passes by itself
			leave()
		}()
		synctest.Wait() // one after the other
	}
	for range bmcs {
		<-done
	}
	return began
}

func TestGateBoundsCallsToOneBMC(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := enterAll(t, NewGate(100, 2), "a", "a", "a", "a", "b")
		if want := "[0s 0s 1s 1s 0s]"; fmt.Sprint(got) != want {
			t.Errorf("calls began at %v, want %v", got, want)
		}
	})
}

func TestGateBoundsAllCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := enterAll(t, NewGate(2, 2), "a", "b", "c", "d")
		if want := "[0s 0s 1s 1s]"; fmt.Sprint(got) != want {
			t.Errorf("calls began at %v, want %v", got, want)
		}
	})
}

func TestCallsThatWaitForOneBMCAreInNobodysWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(2, 1)
		hangs, err := g.Enter(t.Context(), "hangs")
		if err != nil {
			t.Fatal(err)
		}
		bounded, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		failed := make(chan error)
		for range 10 {
			go func() {
				_, err := g.Enter(bounded, "hangs")
				failed <- err
			}()
		}
		synctest.Wait()
		if got := enterAll(t, g, "a"); got[0] != 0 {
			t.Errorf("the call of another BMC waited %v", got[0])
		}
		for range 10 {
			if err := <-failed; !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error = %v", err)
			}
		}
		hangs()
	})
}

func TestPlaceIsGivenBackOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(1, 1)
		leave, err := g.Enter(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		leave()
		leave()
		if got := enterAll(t, g, "a", "a"); fmt.Sprint(got) != "[0s 1s]" {
			t.Errorf("calls began at %v, want one after the other", got)
		}
	})
}
