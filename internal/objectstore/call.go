package objectstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// call runs one request with its deadline. The error names what was tried.
func (b *Bucket) call(ctx context.Context, what, key string, request func(context.Context) error) error {
	tests, err := b.breaker.enter(time.Now(), b.timeout)
	if err == nil {
		bounded, cancel := context.WithTimeout(ctx, b.timeout)
		err = b.explain(request(bounded))
		if err != nil && errors.Is(bounded.Err(), context.DeadlineExceeded) && ctx.Err() == nil {
			err = &unavailableError{reason: fmt.Sprintf("it did not answer within %s (inventory.s3_timeout)", b.timeout)}
		}
		cancel()
		if err != nil && ctx.Err() != nil {
			if tests {
				b.breaker.leaveUntested(time.Now())
			}
			return ctx.Err() // the caller went away, which says nothing about the store
		}
		b.breaker.leave(err, time.Now())
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s object %s in %s: %w", what, key, b, err)
}

func isMissing(err error) bool { return errors.Is(err, node.ErrNotFound) }

// pause is how long a store that did not answer gets no requests.
const pause = time.Second

// breaker is a circuit breaker for a store that does not answer. While it is open, one
// caller per pause tests whether the store is back.
type breaker struct {
	mu    sync.Mutex
	cause error     // why it is open; nil while it is closed
	until time.Time // from then on an open breaker lets one caller pass
}

// enter returns an error with the reason if the breaker is open. If it lets a caller pass while it
// is open, that caller tests the store and has to report within timeout.
func (b *breaker) enter(now time.Time, timeout time.Duration) (tests bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cause == nil {
		return false, nil
	}
	if now.Before(b.until) {
		return false, b.cause
	}
	b.until = now.Add(timeout)
	return true, nil
}

// leaveUntested reports that a caller that tested the store has no outcome. The next caller then
// tests it.
func (b *breaker) leaveUntested(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.until = now
}

// leave reports the outcome of a call. ErrUnavailable opens the breaker, anything else closes it.
func (b *breaker) leave(err error, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cause = nil
	if errors.Is(err, ErrUnavailable) {
		b.cause, b.until = err, now.Add(pause)
	}
}
