package runner

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/internal/store"
)

// Limits of the claim loop.
const (
	retryAfter = 2 * time.Second       // first wait before work is tried again; doubles
	idlePoll   = 2 * time.Second       // longest pause of the loop, because other processes may leave work
	busyPoll   = 10 * time.Millisecond // pause while a lane of the queue is full
	claimBatch = 64                    // rows claimed in one transaction, and waiting jobs that fill a lane
	claimPause = 20 * time.Millisecond // least pause between two queries, however much work ends
	// someLanesPoll is the least pause between two queries for some lanes alone. They may read past
	// all free rows of a lane that is full, due or not.
	someLanesPoll = 100 * time.Millisecond
)

// claimLoop claims work without a lease: work of an earlier process, work that failed or waited and
// is due again, and work of processes that died.
func (r *Runner) claimLoop(ctx context.Context) {
	ctx = WithInfo(ctx, &Info{Task: "claim"})
	for !r.stopping() {
		wait := r.ClaimDue(ctx)
		if wait > claimPause {
			r.pause(ctx, claimPause)
			wait -= claimPause
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-r.ended:
		case <-r.claim:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// WakeClaim makes the claim loop read the database now.
func (r *Runner) WakeClaim() {
	select {
	case r.claim <- struct{}{}:
	default:
	}
}

// ClaimDue claims due work, as much as there is room for, and returns how long to wait before the
// next call.
func (r *Runner) ClaimDue(ctx context.Context) time.Duration {
	r.listening.tick(time.Now(), r.cfg.LeaseTTL)
	nextDue, delayed := r.queue.addDue(r.db.Now())
	toFill := r.queue.lanesToFill(time.Now())
	if len(toFill) == 0 {
		return busyPoll
	}
	wait, due := r.untilDue(ctx, toFill)
	if due {
		claimed, err := r.claimRows(ctx, toFill)
		switch {
		case err != nil && ctx.Err() == nil:
			r.listening.interrupt()
			r.log.Error("Work could not be claimed", "err", err)
			return retryAfter
		case claimed > 0:
			return time.Millisecond // there may be more
		}
		wait = busyPoll // another process was faster
	}
	if delayed {
		wait = min(wait, max(nextDue.Sub(r.db.Now()), time.Millisecond))
	}
	if len(toFill) < int(lanes) {
		wait = min(wait, busyPoll)
	}
	return wait
}

// claimRows claims due work of these lanes and returns how many pieces.
func (r *Runner) claimRows(ctx context.Context, toFill []lane) (int, error) {
	var claimed []*store.Work
	err := r.db.Write(ctx, func(tx *store.Tx) error {
		scope, err := r.scope(tx, toFill)
		if err != nil {
			return err
		}
		claimed, err = tx.ClaimWork(r.cfg.Hostname, r.cfg.LeaseTTL, claimBatch, scope)
		return err
	})
	if err != nil {
		return 0, err
	}
	for _, w := range claimed {
		j := NewJob(w, nil, nil)
		j.claimed = true
		r.Enqueue(j)
	}
	return len(claimed), nil
}

// untilDue returns the time until work of these lanes is due, and whether some is due now.
func (r *Runner) untilDue(ctx context.Context, toFill []lane) (wait time.Duration, due bool) {
	wait = idlePoll
	err := r.db.Read(ctx, func(tx *store.Tx) error {
		scope, err := r.scope(tx, toFill)
		if err != nil {
			return err
		}
		at, ok, err := tx.NextDue(scope)
		if ok {
			wait = min(wait, max(at.Sub(tx.Now()), 0))
			due = wait == 0
		}
		return err
	})
	switch {
	case err == nil:
		r.listening.resume(r.db.Now())
	case ctx.Err() == nil:
		r.listening.interrupt()
		r.log.Error("Next due work could not be read", "err", err)
	}
	return max(wait, time.Millisecond), due
}

// scope returns what this process may work on: what its conductor allows, without rows that only a
// newer version can read, and without work that this process already has. If only some lanes are
// to be filled, it has the known kinds of work in these. After a break in which no process could
// renew its leases, it gives each process the time to renew them.
func (r *Runner) scope(tx *store.Tx, toFill []lane) (store.WorkScope, error) {
	now := r.db.Now()
	scope, err := r.conductor.Scope(tx)
	scope.NotIDs, scope.InUse, scope.KeepExpired = r.ignored.list(now), r.leases.epochs(), r.listening.recovering(now, r.cfg.LeaseTTL/2)
	if len(toFill) < int(lanes) {
		scope.Kinds = slices.DeleteFunc(r.conductor.Kinds(), func(kind store.WorkKind) bool { return !slices.Contains(toFill, r.laneOf(kind)) })
	}
	return scope, err
}

// ignored are rows whose checkpoints a newer version wrote. This process leaves them to that
// version, and checks them again after a while.
type ignored struct {
	mu   sync.Mutex
	rows map[int64]time.Time // end of ignoring, by the key of the work
}

const (
	ignoreFor  = 10 * time.Minute
	maxIgnored = 500 // further rows are read again and again, which costs time but does no harm
)

func newIgnored() *ignored { return &ignored{rows: map[int64]time.Time{}} }

// add adds a row and reports whether it is new.
func (i *ignored) add(id int64, now time.Time) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	_, known := i.rows[id]
	if known || len(i.rows) < maxIgnored {
		i.rows[id] = now.Add(ignoreFor)
	}
	return !known
}

func (i *ignored) list(now time.Time) []int64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	var ids []int64
	for id, until := range i.rows {
		if now.After(until.Add(ignoreFor)) { // removed, or done by the newer version
			delete(i.rows, id)
		} else if now.Before(until) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}
