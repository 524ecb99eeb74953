package polltest

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// recorded is a test whose failure is looked at.
type recorded struct {
	testing.TB

	failure string
}

func (r *recorded) Helper() {}

func (r *recorded) Fatalf(format string, args ...any) {
	r.failure = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// failureOf runs a part of a test to its end.
func failureOf(run func(tb testing.TB)) string {
	r, ended := &recorded{}, make(chan struct{})
	go func() {
		defer close(ended)
		run(r)
	}()
	<-ended
	return r.failure
}

func TestWaitingEndsWhenTheCheckSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		failure := failureOf(func(tb testing.TB) {
			tb.Helper()
			UntilTrue(tb, time.Minute, "ten seconds", func() bool { return time.Since(began) >= 10*time.Second })
		})
		if passed := time.Since(began); failure != "" || passed > 10*time.Second+longest {
			t.Errorf("it ended after %s with %q", passed, failure)
		}
	})
}

func TestWaitingFailsWithTheLastErrorWhenItsTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, checks := time.Now(), 0
		failure := failureOf(func(tb testing.TB) {
			tb.Helper()
			Until(tb, time.Minute, "rain", func() error {
				checks++
				return fmt.Errorf("look %d: %w", checks, errors.New("sunny"))
			})
		})
		if want := fmt.Sprintf("waited 1m0s for rain: look %d: sunny", checks); failure != want {
			t.Errorf("the test failed with %q, want %q", failure, want)
		}
		if passed := time.Since(began); passed != time.Minute || checks < 100 {
			t.Errorf("%d checks in %s", checks, passed)
		}
	})
}
