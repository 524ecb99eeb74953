package objectstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// call runs one request under its deadline and says what was tried when it fails.
func (b *Bucket) call(ctx context.Context, what, key string, request func(context.Context) error) error {
	err := b.gate.enter(time.Now(), b.timeout)
	if err == nil {
		bounded, cancel := context.WithTimeout(ctx, b.timeout)
		err = b.explain(request(bounded))
		if err != nil && errors.Is(bounded.Err(), context.DeadlineExceeded) && ctx.Err() == nil {
			err = &unavailableError{reason: fmt.Sprintf("it did not answer within %s (inventory.s3_timeout)", b.timeout)}
		}
		cancel()
		if err != nil && ctx.Err() != nil {
			b.gate.leave(nil, time.Now()) // the caller went away, which says nothing about the store
			return ctx.Err()
		}
		b.gate.leave(err, time.Now())
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s object %s in %s: %w", what, key, b, err)
}

func isMissing(err error) bool { return errors.Is(err, node.ErrNotFound) }

// pause is how long a store that did not answer is left alone.
const pause = time.Second

// gate keeps callers from a store that does not answer. While it is shut, one
// caller per pause finds out whether the store is back.
type gate struct {
	mu    sync.Mutex
	cause error     // why it is shut; nil while it is open
	until time.Time // from when on a shut gate lets one caller pass
}

// enter returns why the gate is shut. A caller that it lets pass while it is shut
// has until timeout to report.
func (g *gate) enter(now time.Time, timeout time.Duration) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cause == nil {
		return nil
	}
	if now.Before(g.until) {
		return g.cause
	}
	g.until = now.Add(timeout)
	return nil
}

// leave reports how a call went: ErrUnavailable shuts the gate, anything else
// opens it.
func (g *gate) leave(err error, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cause = nil
	if errors.Is(err, ErrUnavailable) {
		g.cause, g.until = err, now.Add(pause)
	}
}
