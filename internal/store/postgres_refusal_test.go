package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// TestRequestForALockedNodeIsRefusedByARead has another process stop in a write to a node. Requests
// that change the node take all places at it and wait, and one that is refused is answered meanwhile.
func TestRequestForALockedNodeIsRefusedByARead(t *testing.T) {
	stores := replicas(t, 2)
	locked := createNode(t, stores[0], "locked")
	first := suspend(t, stores[1], func(tx *store.Tx) error { return describe(tx, locked.UUID, "first") })
	var writes sync.WaitGroup
	for i := range 4 {
		writes.Go(func() {
			if err := stores[0].Write(t.Context(), func(tx *store.Tx) error { return describe(tx, locked.UUID, fmt.Sprint(i)) }); err != nil {
				t.Errorf("write that waits: %v", err)
			}
		})
	}
	awaitLock(t, stores[0])
	// After 5 seconds the server would end the suspended write.
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	refusal := node.Conflict("it is in the wrong state")
	if err := stores[0].Write(ctx, func(tx *store.Tx) error {
		n, err := tx.Node(locked.UUID)
		if err == nil && n.ProvisionState != node.Manageable {
			err = refusal
		}
		return err
	}); !errors.Is(err, refusal) {
		t.Errorf("answer while another process holds the node: %v, want the refusal", err)
	}
	first.finish(t)
	writes.Wait()
}

// TestWriteThatOnlyReadsWaitsForALock reads a node for longer than the first attempt at a write
// lasts while another process changes that node.
func TestWriteThatOnlyReadsWaitsForALock(t *testing.T) {
	stores := replicas(t, 2)
	locked := createNode(t, stores[0], "locked")
	first := suspend(t, stores[1], func(tx *store.Tx) error { return describe(tx, locked.UUID, "first") })
	text, read := "", make(chan error, 1)
	secondAttempt := runsOf(3, func(tx *store.Tx) error {
		n, err := tx.Node(locked.UUID)
		if err == nil {
			text = n.Description
		}
		return err
	})
	go func() { read <- stores[0].Write(context.Background(), secondAttempt.fn) }()
	secondAttempt.await(t)
	first.finish(t)
	if err := <-read; err != nil || text != "first" {
		t.Errorf("the write read the description %q, %v; want that of the write before", text, err)
	}
}

// TestUseIsCountedAfterAnotherProcessHasCounted has one process count its use for longer than the
// first attempt of another process lasts.
func TestUseIsCountedAfterAnotherProcessHasCounted(t *testing.T) {
	stores := replicas(t, 2)
	first := suspend(t, stores[1], func(tx *store.Tx) error {
		if _, err := tx.CountUse(); err != nil {
			return err
		}
		_, err := tx.Nodes(node.Query{}) // sends it
		return err
	})
	counted := make(chan error, 1)
	secondAttempt := runsOf(3, func(tx *store.Tx) error {
		_, err := tx.CountUse()
		return err
	})
	go func() { counted <- stores[0].Write(context.Background(), secondAttempt.fn) }()
	secondAttempt.await(t)
	first.finish(t)
	if err := <-counted; err != nil {
		t.Errorf("count use: %v", err)
	}
}

// countedRuns is the function of a write that tells when it runs for a certain time. With a lock
// that another write keeps, the first run is the first attempt, the second is read for its refusal,
// and the third is the second attempt.
type countedRuns struct {
	fn      func(*store.Tx) error
	reached chan struct{}
}

func runsOf(wanted int, fn func(*store.Tx) error) countedRuns {
	runs, reached := 0, make(chan struct{})
	return countedRuns{reached: reached, fn: func(tx *store.Tx) error {
		if runs++; runs == wanted {
			close(reached)
		}
		return fn(tx)
	}}
}

func (c countedRuns) await(t *testing.T) {
	t.Helper()
	select {
	case <-c.reached:
	case <-time.After(4 * time.Second): // after 5 the server would end the suspended write
		t.Error("the write makes no second attempt")
	}
}
