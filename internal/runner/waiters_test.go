package runner

import (
	"context"
	"errors"
	"log/slog"
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
	r     *Runner
	n     *node.Node
}

func inWaitersWorld(t *testing.T, test func(*waitersWorld)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		db, err := store.Open(t.Context(), store.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		w := &waitersWorld{t: t, store: db, n: &node.Node{UUID: uuid.NewString(), Driver: "fake-hardware", ProvisionState: node.Enroll}}
		w.r = New(db, nil, nil, Config{Hostname: "here"}, slog.New(slog.DiscardHandler))
		w.write(func(tx *store.Tx) error { return tx.CreateNode(w.n) })
		test(w)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	})
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
	var lease node.Lease
	w.write(func(tx *store.Tx) (err error) {
		lease, err = tx.AcquireLease(w.n.ID, owner, time.Hour)
		return err
	})
	return func() { w.write(func(tx *store.Tx) error { return tx.ReleaseLease(lease) }) }
}

// request asks for the node until it is free and returns how long that took, how
// often it was asked for, and the last answer.
func (w *waitersWorld) request(ctx context.Context, wait time.Duration) (took time.Duration, times int, err error) {
	began := time.Now()
	err = w.r.WhenFree(ctx, wait, isLocked, func() error {
		times++
		return w.store.Read(w.t.Context(), func(tx *store.Tx) error {
			n, err := tx.NodeByID(w.n.ID)
			if err == nil && n.Lease.InForce(tx.Now()) {
				err = &node.LockedError{Node: n.UUID, Owner: n.Lease.Owner}
			}
			return err
		})
	})
	return time.Since(began), times, err
}

func TestRequestIsWokenWhenThisProcessGivesTheNodeBack(t *testing.T) {
	inWaitersWorld(t, func(w *waitersWorld) {
		const work = 3*time.Second + 7*time.Millisecond // no sum of polls
		release := w.lease("here")
		time.AfterFunc(work, func() {
			release()
			w.r.freed.free(w.n.ID)
		})
		took, times, err := w.request(w.t.Context(), time.Minute)
		if took != work || times != 2 || err != nil {
			t.Errorf("took %v and %d requests, %v; want %v and two", took, times, err, work)
		}
		if len(w.r.freed.nodes) != 0 {
			t.Errorf("%d nodes are waited for", len(w.r.freed.nodes))
		}
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
			t.Errorf("took %v, %v; want the end of the client's patience", took, err)
		}
		if len(w.r.freed.nodes) != 0 {
			t.Errorf("%d nodes are waited for", len(w.r.freed.nodes))
		}
	})
}
