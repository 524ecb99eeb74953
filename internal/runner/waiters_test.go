package runner

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// waitersWorld is a node in an embedded database and a runner that does nothing. The clock of the
// database is that of the test's bubble.
type waitersWorld struct {
	t     *testing.T
	store *store.Store
	polls *polledStore
	r     *Runner
	n     *node.Node
}

// polledStore counts the reads of leases.
type polledStore struct {
	*store.Store
	reads atomic.Int32
	err   error // of the reads; nil for none
}

func (p *polledStore) ReadSingle(ctx context.Context, fn func(*store.Tx) error) error {
	p.reads.Add(1)
	if p.err != nil {
		return p.err
	}
	return p.Store.ReadSingle(ctx, fn)
}

func inWaitersWorld(t *testing.T, test func(*waitersWorld)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		db, err := store.Open(t.Context(), store.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		w := &waitersWorld{t: t, store: db, polls: &polledStore{Store: db}}
		w.r = New(w.polls, nil, nil, Config{Hostname: "here"}, slog.New(slog.DiscardHandler))
		w.n = w.create()
		test(w)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func (w *waitersWorld) create() *node.Node {
	w.t.Helper()
	n := &node.Node{UUID: uuid.NewString(), Driver: "fake-hardware", ProvisionState: node.Enroll}
	w.write(func(tx *store.Tx) error { return tx.CreateNode(n) })
	return n
}

func (w *waitersWorld) write(fn func(*store.Tx) error) {
	w.t.Helper()
	if err := w.store.Write(w.t.Context(), fn); err != nil {
		w.t.Fatal(err)
	}
}

// lease leases the node to somebody and returns a function that ends the lease.
func (w *waitersWorld) lease(owner string) (release func()) {
	w.t.Helper()
	return w.leaseOf(w.n, owner)
}

func (w *waitersWorld) leaseOf(n *node.Node, owner string) (release func()) {
	w.t.Helper()
	var lease node.Lease
	w.write(func(tx *store.Tx) (err error) {
		lease, err = tx.AcquireLease(n.ID, owner, time.Hour)
		return err
	})
	return func() { w.write(func(tx *store.Tx) error { return tx.EndLeaseKeepBusy(lease) }) }
}

// request asks for the node until it is free and returns how long that took, how
// often it was asked for, and the last answer.
func (w *waitersWorld) request(ctx context.Context, wait time.Duration) (took time.Duration, times int, err error) {
	return w.requestFor(ctx, w.n, wait)
}

func (w *waitersWorld) requestFor(ctx context.Context, n *node.Node, wait time.Duration) (took time.Duration, times int, err error) {
	began := time.Now()
	err = w.r.WhenFree(ctx, wait, isLocked, func() error {
		times++
		return w.store.Read(w.t.Context(), func(tx *store.Tx) error {
			n, err := tx.NodeByID(n.ID)
			if err == nil && n.Lease.InForce(tx.Now()) {
				err = &node.LockedError{Node: n.UUID, Holder: n.Lease.Holder}
			}
			return err
		})
	})
	return time.Since(began), times, err
}

// wantNobodyWaits checks that nobody waits for a node, and that nothing polls for nobody.
func (w *waitersWorld) wantNobodyWaits() {
	w.t.Helper()
	if f := w.r.waiters; len(f.nodes) != 0 || f.count != 0 {
		w.t.Errorf("%d nodes are waited for, by %d requests", len(f.nodes), f.count)
	}
	before := w.polls.reads.Load()
	time.Sleep(time.Hour) //nolint:forbidigo // time of a bubble, which passes by itself
	if polls := w.polls.reads.Load() - before; polls != 0 {
		w.t.Errorf("leases were read %d times though nobody waits", polls)
	}
}

func TestRequestIsWokenWhenThisProcessGivesTheNodeBack(t *testing.T) {
	inWaitersWorld(t, func(w *waitersWorld) {
		const work = 3*time.Second + 7*time.Millisecond // no sum of polls
		release := w.lease("here")
		time.AfterFunc(work, func() {
			release()
			w.r.waiters.free(w.n.UUID)
		})
		took, times, err := w.request(w.t.Context(), time.Minute)
		if took != work || times != 2 || err != nil {
			t.Errorf("took %v and %d requests, %v; want %v and two", took, times, err, work)
		}
		w.wantNobodyWaits()
	})
}

func TestRequestPollsForANodeThatAnotherProcessHas(t *testing.T) {
	inWaitersWorld(t, func(w *waitersWorld) {
		const work = 3 * time.Second
		time.AfterFunc(work, w.lease("there"))
		took, times, err := w.request(w.t.Context(), time.Minute)
		if took < work || took > work+longestPoll || times != 2 || err != nil {
			t.Errorf("took %v and %d requests, %v; want at most %v more than %v, and two", took, times, err, longestPoll, work)
		}
	})
}

func TestRequestWaitsNoLongerThanItIsToldTo(t *testing.T) {
	inWaitersWorld(t, func(w *waitersWorld) {
		w.lease("there")
		took, times, err := w.request(w.t.Context(), time.Second)
		if took != time.Second || times != 1 || !errors.Is(err, node.ErrLocked) {
			t.Errorf("took %v and %d requests, %v; want a second, one, and the refusal", took, times, err)
		}
		if took, times, err := w.request(w.t.Context(), 0); took != 0 || times != 1 || !errors.Is(err, node.ErrLocked) {
			t.Errorf("took %v and %d requests, %v; want no wait at all", took, times, err)
		}
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Millisecond) // the client goes away
		defer cancel()
		if took, _, err := w.request(ctx, time.Minute); took != time.Millisecond || !errors.Is(err, node.ErrLocked) {
			t.Errorf("took %v, %v; want a millisecond, until the client goes away", took, err)
		}
		w.wantNobodyWaits()
	})
}

func TestAHundredRequestsPollLikeOne(t *testing.T) {
	inWaitersWorld(t, func(w *waitersWorld) {
		const work = 3 * time.Second
		var requests sync.WaitGroup
		for range 10 {
			n := w.create()
			time.AfterFunc(work, w.leaseOf(n, "there"))
			for range 10 {
				requests.Go(func() {
					took, times, err := w.requestFor(w.t.Context(), n, time.Minute)
					if took < work || took > work+longestPoll || times != 2 || err != nil {
						t.Errorf("took %v and %d requests, %v; want at most %v more than %v, and two", took, times, err, longestPoll, work)
					}
				})
			}
		}
		requests.Wait()
		// The first node at once, all of them after 25 ms, another 25, 50, 100 and 200 ms, and then
		// every 400 ms.
		if polls := w.polls.reads.Load(); polls > 13 {
			t.Errorf("leases were read %d times, want at most 13", polls)
		}
		w.wantNobodyWaits()
	})
}

func TestRequestForOneMoreNodeIsWokenSoon(t *testing.T) {
	inWaitersWorld(t, func(w *waitersWorld) {
		w.lease("there")
		other := w.create()
		release := w.leaseOf(other, "there")
		ctx, cancel := context.WithCancel(w.t.Context())
		var earlier sync.WaitGroup
		earlier.Go(func() { _, _, _ = w.request(ctx, time.Hour) })
		time.Sleep(time.Minute + time.Millisecond) //nolint:forbidigo // time of a bubble, which passes by itself
		time.AfterFunc(firstPoll/2, release)
		if took, times, err := w.requestFor(w.t.Context(), other, time.Minute); took > 2*firstPoll || times != 2 || err != nil {
			t.Errorf("took %v and %d requests, %v; want at most %v, and two", took, times, err, 2*firstPoll)
		}
		cancel()
		earlier.Wait()
		w.wantNobodyWaits()
	})
}

func TestOneMoreRequestForANodeIsWokenSoon(t *testing.T) {
	inWaitersWorld(t, func(w *waitersWorld) {
		release := w.lease("there")
		var earlier sync.WaitGroup
		earlier.Go(func() { _, _, _ = w.request(w.t.Context(), time.Hour) })
		time.Sleep(time.Minute + time.Millisecond) //nolint:forbidigo // time of a bubble, which passes by itself
		time.AfterFunc(firstPoll/2, release)
		if took, times, err := w.request(w.t.Context(), time.Minute); took > 2*firstPoll || times != 2 || err != nil {
			t.Errorf("took %v and %d requests, %v; want at most %v, and two", took, times, err, 2*firstPoll)
		}
		earlier.Wait()
		w.wantNobodyWaits()
	})
}

func TestManyNodesInARowArePolledTogether(t *testing.T) {
	inWaitersWorld(t, func(w *waitersWorld) {
		var requests sync.WaitGroup
		const many = 100
		for range many {
			n := w.create()
			w.leaseOf(n, "there")
			requests.Go(func() { _, _, _ = w.requestFor(w.t.Context(), n, time.Second) })
			time.Sleep(time.Millisecond) //nolint:forbidigo // time of a bubble, which passes by itself
		}
		requests.Wait()
		if polls, most := w.polls.reads.Load(), int32((time.Second+many*time.Millisecond)/firstPoll); polls > most {
			t.Errorf("leases were read %d times, want at most %d", polls, most)
		}
		w.wantNobodyWaits()
	})
}

func TestRequestReportsThatTheDatabaseIsAway(t *testing.T) {
	inWaitersWorld(t, func(w *waitersWorld) {
		w.lease("there")
		w.polls.err = node.ErrUnavailable
		times := 0
		began := time.Now()
		err := w.r.WhenFree(w.t.Context(), time.Minute, isLocked, func() error {
			if times++; times == 1 {
				return &node.LockedError{Node: w.n.UUID, Holder: "there"}
			}
			return w.polls.err
		})
		if !errors.Is(err, node.ErrUnavailable) || times != 2 || time.Since(began) > firstPoll {
			t.Errorf("%v after %v and %d requests, want that the database is away, at once", err, time.Since(began), times)
		}
		w.wantNobodyWaits()
	})
}
