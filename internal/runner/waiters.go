package runner

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// waiters are the requests of this process that wait for leases to end. This process says itself
// when it gives a node back. For the leases of other processes, one goroutine polls the database,
// for all nodes that are waited for at once. It starts with the first who waits, and ends when the
// last one leaves, or after the read that it makes then. Processes do not NOTIFY each other on
// PostgreSQL, because there all commits that notify wait for each other.
type waiters struct {
	db Database

	mu     sync.Mutex
	nodes  map[string]*waiting // by UUID
	count  int                 // requests that wait, for any node
	end    context.CancelFunc  // ends the poller
	joined chan struct{}       // tells the poller that one more node is waited for
	polled time.Time           // when the poller last got an answer
}

// waiting are the requests that wait for one node.
type waiting struct {
	mayBeFree chan struct{} // closed when the node may be free
	count     int
	nextRead  time.Time     // when to read the lease next
	pause     time.Duration // from that read to the next one
}

// Pauses between reads of a lease, from the end of one to the next.
const (
	firstPoll   = 25 * time.Millisecond // doubles; also the least pause between reads of any leases
	longestPoll = 400 * time.Millisecond
)

func newWaiters(db Database) *waiters {
	return &waiters{db: db, nodes: map[string]*waiting{}}
}

// join returns a channel that is closed when the node may be free: when this process gives it back,
// or when the database shows no lease in force, or does not answer. The caller calls leave once.
func (w *waiters) join(uuid string) (mayBeFree <-chan struct{}, leave func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.count++; w.count == 1 {
		var ctx context.Context
		ctx, w.end = context.WithCancel(WithInfo(context.Background(), &Info{Task: "poll leases"}))
		w.joined = make(chan struct{}, 1)
		go w.poll(ctx, w.joined)
	}
	own, ok := w.nodes[uuid]
	if !ok {
		own = &waiting{mayBeFree: make(chan struct{}), nextRead: time.Now()}
		w.nodes[uuid] = own
	}
	own.count++
	own.pause = firstPoll
	if soon := time.Now().Add(firstPoll); soon.Before(own.nextRead) {
		own.nextRead = soon
	}
	select {
	case w.joined <- struct{}{}:
	default:
	}
	return own.mayBeFree, func() { w.leave(uuid, own) }
}

// leave undoes join.
func (w *waiters) leave(uuid string, own *waiting) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if own.count--; own.count == 0 && w.nodes[uuid] == own {
		delete(w.nodes, uuid)
	}
	if w.count--; w.count == 0 {
		w.end()
	}
}

// free wakes the requests that wait for a node.
func (w *waiters) free(uuid string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wake(uuid)
}

// wake is free for a caller that holds the lock.
func (w *waiters) wake(uuid string) {
	if own, ok := w.nodes[uuid]; ok {
		close(own.mayBeFree)
		delete(w.nodes, uuid)
	}
}

// poll reads the leases of all nodes that are waited for, until ctx ends. It wakes the requests that
// wait for a node without a lease in force, and all of them when the database does not answer,
// because their next tries report that.
func (w *waiters) poll(ctx context.Context, joined <-chan struct{}) {
	for ctx.Err() == nil {
		if pause := w.untilPoll(); pause > 0 {
			timer := time.NewTimer(pause)
			select {
			case <-ctx.Done():
			case <-joined:
			case <-timer.C:
			}
			timer.Stop()
			continue
		}
		asked := w.all()
		inForce := w.inForce(ctx, slices.Sorted(maps.Keys(asked)))
		if ctx.Err() == nil {
			w.answer(asked, inForce)
		}
	}
}

// untilPoll returns the time until the next read.
func (w *waiters) untilPoll() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	next := time.Now().Add(longestPoll)
	for _, own := range w.nodes {
		if own.nextRead.Before(next) {
			next = own.nextRead
		}
	}
	if least := w.polled.Add(firstPoll); next.Before(least) {
		next = least
	}
	return time.Until(next)
}

// all returns the nodes that are waited for.
func (w *waiters) all() map[string]*waiting {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.nodes)
}

// inForce returns the nodes whose leases are in force; none when the database does not answer.
func (w *waiters) inForce(ctx context.Context, uuids []string) map[string]bool {
	inForce := map[string]bool{}
	err := w.db.ReadSingle(ctx, func(tx *store.Tx) error {
		leases, err := tx.LeasesOf(uuids)
		for uuid, lease := range leases {
			inForce[uuid] = lease.InForce(tx.Now())
		}
		return err
	})
	if err != nil {
		return nil
	}
	return inForce
}

// answer wakes the requests for those nodes that were asked for and have no lease in force.
func (w *waiters) answer(asked map[string]*waiting, inForce map[string]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.polled = time.Now()
	for uuid, own := range asked {
		switch {
		case w.nodes[uuid] != own: // these requests do not wait any more
		case inForce[uuid]:
			own.nextRead, own.pause = w.polled.Add(own.pause), min(2*own.pause, longestPoll)
		default:
			w.wake(uuid)
		}
	}
}

// WhenFree repeats a request that was refused with a *node.LockedError until the node is free, but
// for no longer than wait. Passes reports whether an error is such a refusal. Between the tries it
// waits until this process gives the node back, or until the poller of all such requests finds that
// another process has.
func (r *Runner) WhenFree(ctx context.Context, wait time.Duration, passes func(error) bool, request func() error) error {
	err := request()
	if err == nil || !passes(err) || wait <= 0 {
		return err
	}
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for passes(err) && r.awaitFree(bounded, err) {
		err = request()
	}
	r.cfg.Observer.LeaseWaited(time.Since(began), !passes(err))
	return err
}

// awaitFree waits until the node that a refusal names may be free. It returns false when ctx ended
// first, or when the refusal names no node.
func (r *Runner) awaitFree(ctx context.Context, refusal error) bool {
	var locked *node.LockedError
	if !errors.As(refusal, &locked) {
		return false
	}
	mayBeFree, leave := r.waiters.join(locked.Node)
	defer leave()
	select {
	case <-ctx.Done():
	case <-mayBeFree:
	}
	return ctx.Err() == nil
}
