// Package polltest waits in tests for what happens by itself, with a deadline.
package polltest

import (
	"errors"
	"testing"
	"time"
)

// Pauses between two looks grow with the time that has passed, so that what happens at once is seen at once, and what
// takes long is not slowed down by looking.
const (
	shortest = time.Millisecond
	longest  = 100 * time.Millisecond
)

// Until calls check until it returns nil, and fails the test with its last error if it does not within a time. what
// says what is waited for.
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

// errNotSo is what a condition says that does not hold.
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
