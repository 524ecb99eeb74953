// Package polltest waits in tests, with a deadline, for things that happen by themselves.
package polltest

import (
	"errors"
	"testing"
	"time"
)

// The pause between two checks grows with the time that has passed. So quick events are noticed at
// once, and checking does not slow down longer ones.
const (
	shortest = time.Millisecond
	longest  = 100 * time.Millisecond
)

// Until calls check until it returns nil. If it does not within the given time, Until fails the
// test with the last error. what says what the test waits for.
func Until(tb testing.TB, within time.Duration, what string, check func() error) {
	tb.Helper()
	for began := time.Now(); ; {
		err := check()
		if err == nil {
			return
		}
		passed := time.Since(began)
		if passed >= within {
			tb.Fatalf("waited %s for %s: %v", within, what, err)
		}
		<-time.After(min(shortest+passed/8, longest, within-passed))
	}
}

// errNotSo is the error for a condition that does not hold.
var errNotSo = errors.New("it is not so")

// UntilTrue is Until for a condition that cannot say what is missing.
func UntilTrue(tb testing.TB, within time.Duration, what string, holds func() bool) {
	tb.Helper()
	Until(tb, within, what, func() error {
		if holds() {
			return nil
		}
		return errNotSo
	})
}
