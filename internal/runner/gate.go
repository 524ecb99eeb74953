package runner

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Gate bounds how many calls to machines, and how many to one BMC, this process makes
// at once. Calls that wait for one BMC do not delay calls to others. It is safe for
// concurrent use.
type Gate struct {
	perBMC int64
	calls  *semaphore.Weighted

	mu   sync.Mutex
	bmcs map[string]*bmcCalls
}

// bmcCalls are the calls to one BMC.
type bmcCalls struct {
	places *semaphore.Weighted
	users  int // calls that wait or are made
}

// NewGate returns a gate for so many calls at once, and so many to one BMC. Both
// are at least 1.
func NewGate(calls, perBMC int) *Gate {
	return &Gate{perBMC: int64(perBMC), calls: semaphore.NewWeighted(int64(calls)), bmcs: map[string]*bmcCalls{}}
}

// Enter waits until the BMC of this name may be called. The caller calls leave
// once, when it has heard the last answer. The error is that of ctx.
func (g *Gate) Enter(ctx context.Context, bmc string) (leave func(), err error) {
	own := g.use(bmc)
	if err := own.places.Acquire(ctx, 1); err != nil {
		g.unuse(bmc)
		return nil, fmt.Errorf("wait for earlier calls of BMC %s: %w", bmc, err)
	}
	if err := g.calls.Acquire(ctx, 1); err != nil {
		own.places.Release(1)
		g.unuse(bmc)
		return nil, fmt.Errorf("wait for calls of other BMCs: %w", err)
	}
	return sync.OnceFunc(func() {
		g.calls.Release(1)
		own.places.Release(1)
		g.unuse(bmc)
	}), nil
}

func (g *Gate) use(bmc string) *bmcCalls {
	g.mu.Lock()
	defer g.mu.Unlock()
	own, ok := g.bmcs[bmc]
	if !ok {
		own = &bmcCalls{places: semaphore.NewWeighted(g.perBMC)}
		g.bmcs[bmc] = own
	}
	own.users++
	return own
}

func (g *Gate) unuse(bmc string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if own := g.bmcs[bmc]; own.users > 1 {
		own.users--
	} else {
		delete(g.bmcs, bmc)
	}
}
