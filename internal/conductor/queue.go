package conductor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/internal/inventory"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// Bounds of the loops.
const (
	aliveFor     = time.Minute           // a conductor that is silent longer counts as dead
	registerTick = 20 * time.Second      // how often a conductor shows that it lives
	retryAfter   = 2 * time.Second       // first wait before work is tried again; doubles
	idlePoll     = 2 * time.Second       // longest the claim loop sleeps: others may leave it work
	busyPoll     = 10 * time.Millisecond // how soon it looks whether the workers have room again
)

// job is work in memory: the stored row and what its creator knew already.
type job struct {
	*store.Work
	document *inventory.Document // parsed document of inspection work; nil when it must be read
	node     *node.Node          // node of inspection work as it was committed with it; nil when it must be read
	found    []func(*node.Node)  // what the running attempt learnt of the machine, for its last commit
	child    node.Lease          // of the child node that the step under way runs on; zero when it runs on none
	ended    *WorkOutcome        // how the running attempt ends; nil while the job waits
}

// queue hands leased work to the workers in order of arrival. It has no bound of
// its own: a node has at most one lease, so there are never more jobs than nodes.
type queue struct {
	mu      sync.Mutex
	jobs    []job
	waiting *sync.Cond
	closed  bool
	held    map[int64]int // how many hold a lease, by its epoch: jobs queued, running or asleep, and requests
	asleep  []job         // due at their NotBefore
}

func newQueue() *queue {
	q := &queue{held: map[int64]int{}}
	q.waiting = sync.NewCond(&q.mu)
	return q
}

func (q *queue) push(j job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.jobs = append(q.jobs, j)
	q.count(j.Lease, 1)
	q.count(j.child, 1)
	q.waiting.Signal()
}

// pop waits for a job; ok is false once the queue is closed.
func (q *queue) pop() (j job, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.jobs) == 0 && !q.closed {
		q.waiting.Wait()
	}
	if q.closed {
		return job{}, false
	}
	j, q.jobs[0] = q.jobs[0], job{}
	q.jobs = q.jobs[1:]
	return j, true
}

// sleep keeps a running job until it is due.
func (q *queue) sleep(j job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	j.document, j.node, j.found, j.ended = nil, nil, nil, nil
	q.asleep = append(q.asleep, j)
	q.count(j.Lease, 1)
	q.count(j.child, 1)
}

// wake queues the sleeping jobs that are due at now, and returns when the next
// one is; ok is false when none sleeps.
func (q *queue) wake(now time.Time) (next time.Time, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	still := q.asleep[:0]
	for _, j := range q.asleep {
		switch {
		case !j.NotBefore.After(now):
			q.jobs = append(q.jobs, j)
			q.waiting.Signal()
		case !ok || j.NotBefore.Before(next):
			next, ok = j.NotBefore, true
			fallthrough
		default:
			still = append(still, j)
		}
	}
	clear(q.asleep[len(still):])
	q.asleep = still
	return next, ok
}

// done ends what push or sleep began.
func (q *queue) done(j job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.count(j.Lease, -1)
	q.count(j.child, -1)
}

// hold has a lease renewed that is held beside the jobs, until drop.
func (q *queue) hold(lease node.Lease) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.count(lease, 1)
}

func (q *queue) drop(lease node.Lease) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.count(lease, -1)
}

// count changes how many hold a lease; nobody holds the zero one. The caller holds
// the lock.
func (q *queue) count(lease node.Lease, change int) {
	if lease.Epoch == 0 {
		return
	}
	if q.held[lease.Epoch] += change; q.held[lease.Epoch] <= 0 {
		delete(q.held, lease.Epoch)
	}
}

// leases returns the epochs of the leases to renew.
func (q *queue) leases() []int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Sorted(maps.Keys(q.held))
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.waiting.Broadcast()
}

// load returns how many jobs wait and how many leases are held.
func (q *queue) load() (waiting, held int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.jobs), len(q.held)
}

// keepDocuments is how many waiting jobs may keep their parsed document and their
// node in memory. Later ones are read again, so that a storm of posts stays small.
const keepDocuments = 128

// enqueue starts work whose row and lease this process has just committed.
func (c *Conductor) enqueue(j job) {
	if waiting, _ := c.queue.load(); waiting >= keepDocuments {
		j.document, j.node = nil, nil
	}
	c.queue.push(j)
}

// work runs jobs until the queue closes.
func (c *Conductor) work(ctx context.Context) {
	for {
		j, ok := c.queue.pop()
		if !ok {
			return
		}
		c.runJob(ctx, j)
		c.queue.done(j)
	}
}

// runJob runs one job and settles what its runner did not: a runner that
// succeeds, or fails for good, has committed that itself.
func (c *Conductor) runJob(ctx context.Context, j job) {
	bounded, cancel := context.WithTimeout(ctx, c.cfg.WorkTimeout)
	defer cancel()
	j.ended = new(WorkDone)
	began := c.store.Now()
	defer func() { c.observer.WorkEnded(string(j.Kind), *j.ended, c.store.Now().Sub(began)) }()
	err := c.runGuarded(bounded, j)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		j.end(WorkStopped) // the row stays and the next conductor resumes it
	case errors.Is(err, errAsleep):
		j.end(WorkWaiting)
	case errors.Is(err, errParked):
		j.end(WorkWaiting)
		c.wakeClaim()
	case errors.Is(err, node.ErrLeaseLost):
		j.end(WorkLost)
		c.log.Warn("Lease lost, leaving work to its new owner", "work", j.Kind, "node", j.NodeUUID)
		c.wakeClaim()
	case errors.Is(err, node.ErrNotFound) && c.gone(ctx, j.NodeID):
		j.end(WorkDropped)
		c.log.Debug("Node is gone, dropping its work", "work", j.Kind, "node", j.NodeUUID)
	default:
		c.settleFailure(ctx, j, err)
	}
}

// gone reports whether a node was deleted.
func (c *Conductor) gone(ctx context.Context, id int64) bool {
	_, err := c.nodeByID(ctx, id)
	return errors.Is(err, node.ErrNotFound)
}

// runGuarded turns a panic into an error, so that one bad document cannot end the
// process that serves every other node.
func (c *Conductor) runGuarded(ctx context.Context, j job) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			c.log.Error("Work panicked", "work", j.Kind, "node", j.NodeUUID, "panic", panicked, "stack", string(debug.Stack()))
			err = fmt.Errorf("internal error in %s: %v", j.Kind, panicked)
		}
	}()
	switch j.Kind {
	case workVerify:
		return c.runVerify(ctx, j)
	case workInspect:
		return c.endInspection(ctx, j)
	}
	if work, ok := c.scripts[j.Kind]; ok {
		return c.runScript(ctx, j, work)
	}
	return c.fail(ctx, j, fmt.Sprintf("This version does not know work of kind %q; a newer one asked for it.", j.Kind))
}

// settleFailure tries work again later, or fails it when it has been tried often
// enough; times when the database was away do not count. While that cannot be stored, for instance because the disk is full,
// the job stays in this process together with its lease.
func (c *Conductor) settleFailure(ctx context.Context, j job, cause error) {
	c.log.Warn("Work failed", "work", j.Kind, "node", j.NodeUUID, "attempt", j.Attempts+1, "err", cause)
	j.end(WorkPostponed)
	if errors.Is(cause, node.ErrUnavailable) {
		c.pushLater(ctx, j) // no fault of the node
		return
	}
	var err error
	if j.Attempts+1 >= c.cfg.MaxAttempts {
		err = c.giveUp(ctx, j, fmt.Sprintf("Gave up after %d attempts: %v", j.Attempts+1, cause))
	} else {
		err = c.postpone(ctx, j)
	}
	switch {
	case err == nil, errors.Is(err, node.ErrLeaseLost):
		c.wakeClaim()
	case ctx.Err() == nil:
		c.log.Error("Failure of work could not be recorded", "work", j.Kind, "node", j.NodeUUID, "err", err)
		c.pushLater(ctx, j)
	}
}

// postpone stores when the work is due again and gives its lease back.
func (c *Conductor) postpone(ctx context.Context, j job) error {
	return c.store.Write(ctx, func(tx *store.Tx) error {
		if err := tx.CheckLease(j.NodeID, j.Lease); err != nil {
			return err
		}
		later := *j.Work // a commit that fails must not count
		if err := tx.PostponeWork(&later, tx.Now().Add(retryAfter<<j.Attempts)); err != nil {
			return err
		}
		return tx.ReleaseLease(j.Lease)
	})
}

// pushLater queues a job again after a pause, in which its worker rests: a
// database that refuses one write refuses the next.
func (c *Conductor) pushLater(ctx context.Context, j job) {
	select {
	case <-ctx.Done():
	case <-time.After(retryAfter):
		c.queue.push(j)
	}
}

// claimLoop takes up work that no process of this run has leased: what an
// earlier run left behind, what failed and is due again, and what a dead
// conductor held.
func (c *Conductor) claimLoop(ctx context.Context) {
	for {
		wait := c.claimDue(ctx)
		select {
		case <-ctx.Done():
			return
		case <-c.claim:
		case <-time.After(wait):
		}
	}
}

// claimDue leases due work, as much as the workers can take soon, and returns
// how long nothing more will be due.
func (c *Conductor) claimDue(ctx context.Context) time.Duration {
	limit := 2 * c.cfg.Workers
	wakeAt, sleeping := c.queue.wake(c.store.Now())
	if waiting, _ := c.queue.load(); waiting >= limit {
		return busyPoll
	}
	var claimed []*store.Work
	err := c.store.Write(ctx, func(tx *store.Tx) (err error) {
		scope, err := c.scope(tx)
		if err != nil {
			return err
		}
		claimed, err = tx.ClaimWork(c.cfg.Hostname, c.cfg.LeaseTTL, limit, scope)
		return err
	})
	if err != nil {
		if ctx.Err() == nil {
			c.log.Error("Work could not be claimed", "err", err)
		}
		return retryAfter
	}
	for _, w := range claimed {
		c.queue.push(job{Work: w})
	}
	if len(claimed) > 0 {
		return time.Millisecond // there may be more
	}
	wait := c.untilDue(ctx)
	if sleeping {
		wait = min(wait, max(wakeAt.Sub(c.store.Now()), time.Millisecond))
	}
	return wait
}

func (c *Conductor) untilDue(ctx context.Context) time.Duration {
	wait := idlePoll
	err := c.store.Read(ctx, func(tx *store.Tx) error {
		scope, err := c.scope(tx)
		if err != nil {
			return err
		}
		due, ok, err := tx.NextDue(scope)
		if ok {
			wait = min(wait, max(due.Sub(tx.Now()), time.Millisecond))
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		c.log.Error("Next due work could not be read", "err", err)
	}
	return wait
}

func (c *Conductor) wakeClaim() {
	select {
	case c.claim <- struct{}{}:
	default:
	}
}

// renewLoop keeps the leases of queued, running and sleeping jobs, and shows that
// this conductor lives. A lease that this process lost sight of, because it did
// not learn that its commit succeeded, runs out, and the work is claimed anew.
func (c *Conductor) renewLoop(ctx context.Context) {
	renew := time.NewTicker(c.cfg.LeaseTTL / 3)
	defer renew.Stop()
	register := time.NewTicker(registerTick)
	defer register.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-renew.C:
			epochs := c.queue.leases()
			if len(epochs) == 0 {
				continue
			}
			err = c.store.Write(ctx, func(tx *store.Tx) error { return tx.RenewLeases(c.cfg.Hostname, epochs, c.cfg.LeaseTTL) })
		case <-register.C:
			err = c.store.Write(ctx, c.register)
		}
		if err != nil && ctx.Err() == nil {
			c.log.Error("Leases could not be renewed", "err", err)
		}
	}
}
