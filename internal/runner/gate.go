package runner

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/ingot-metal/ingot/internal/keylimit"
)

// Gate limits how many calls to machines, and how many to one BMC, this process makes at once.
// Calls that wait for one BMC do not delay calls to others. It is safe for concurrent use.
type Gate struct {
	calls *semaphore.Weighted
	bmcs  *keylimit.Limit
}

// NewGate returns a gate for this many calls at once, and this many to one BMC. Both are at least
// 1.
func NewGate(calls, perBMC int) *Gate {
	return &Gate{calls: semaphore.NewWeighted(int64(calls)), bmcs: keylimit.New(perBMC)}
}

// Enter waits until the BMC of this name may be called. The caller calls leave once, after the last
// answer. The error is that of ctx.
func (g *Gate) Enter(ctx context.Context, bmc string) (leave func(), err error) {
	release, err := g.bmcs.Acquire(ctx, bmc)
	if err != nil {
		return nil, fmt.Errorf("wait for earlier calls of BMC %s: %w", bmc, err)
	}
	if err := g.calls.Acquire(ctx, 1); err != nil {
		release()
		return nil, fmt.Errorf("wait for calls of other BMCs: %w", err)
	}
	return sync.OnceFunc(func() {
		g.calls.Release(1)
		release()
	}), nil
}
