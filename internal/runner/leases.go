package runner

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// leases are the leases that this process renews: those of jobs that are queued, running or
// delayed, and of requests that call a machine.
type leases struct {
	mu      sync.Mutex
	renewed map[int64]*renewedLease // by epoch
}

type renewedLease struct {
	holders int
	cancel  context.CancelCauseFunc // ends what runs under the lease; nil while nothing does
}

func newLeases() *leases { return &leases{renewed: map[int64]*renewedLease{}} }

// keepRenewed has a lease renewed until release has been called as often.
func (l *leases) keepRenewed(lease node.Lease) {
	if lease.Epoch == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.renewed[lease.Epoch]
	if h == nil {
		h = &renewedLease{}
		l.renewed[lease.Epoch] = h
	}
	h.holders++
}

func (l *leases) release(lease node.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.renewed[lease.Epoch]
	if h == nil {
		return
	}
	if h.holders--; h.holders <= 0 {
		delete(l.renewed, lease.Epoch)
	}
}

// watch sets the function to call when a lease is lost; it calls it at once if the lease is
// already lost. Nil removes the function.
func (l *leases) watch(lease node.Lease, cancel context.CancelCauseFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch h := l.renewed[lease.Epoch]; {
	case h != nil:
		h.cancel = cancel
	case cancel != nil && lease.Epoch != 0:
		cancel(node.ErrLeaseLost)
	}
}

// lost ends what runs under leases that this process has lost.
func (l *leases) lost(epochs []int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, epoch := range epochs {
		if h := l.renewed[epoch]; h != nil {
			if h.cancel != nil {
				h.cancel(node.ErrLeaseLost)
			}
			delete(l.renewed, epoch)
		}
	}
}

// epochs returns the leases to renew.
func (l *leases) epochs() []int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.renewed))
}

// holds reports whether the node is still under this lease. A database that lost its last commits may
// grant an epoch twice, so the holder is compared, too.
func holds(n *node.Node, lease node.Lease) bool {
	return n.Lease.Epoch == lease.Epoch && n.Lease.Holder == lease.Holder
}

// renewLoop renews the leases of this process. If this process does not know of a lease, because
// the answer to its commit was lost, the lease runs out, and a process claims the work again.
//
// While the database does not answer, no call has to be ended: the deadline of a call is never
// later than the end of the lease that was granted for it. A lease that expires meanwhile stays
// with this process unless another process takes the node before the renewal.
func (r *Runner) renewLoop(ctx context.Context) {
	ctx = WithInfo(ctx, &Info{Task: "renew"})
	for waitFor(ctx, r.cfg.LeaseTTL/3) {
		r.RenewLeases(ctx)
	}
}

// RenewLeases renews the leases of this process, and ends what runs under leases that it has lost.
func (r *Runner) RenewLeases(ctx context.Context) {
	epochs := r.leases.epochs()
	if len(epochs) == 0 {
		return
	}
	var lost []int64
	err := r.db.Write(ctx, func(tx *store.Tx) (err error) {
		lost, err = tx.RenewLeases(r.cfg.Hostname, epochs, r.cfg.LeaseTTL)
		return err
	})
	switch {
	case err == nil:
		r.leases.lost(lost)
	case ctx.Err() == nil:
		r.listening.interrupt()
		r.log.Error("Leases could not be renewed", "err", err)
	}
}

// waitFor waits and reports whether the time passed before ctx ended.
func waitFor(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
