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
	read, third := make(chan string, 1), make(chan struct{})
	go func() {
		var text string
		runs := 0 // in the first attempt, to read whether it is refused, in the second attempt
		if err := stores[0].Write(context.Background(), func(tx *store.Tx) error {
			if runs++; runs == 3 {
				close(third)
			}
			n, err := tx.Node(locked.UUID)
			if err == nil {
				text = n.Description
			}
			return err
		}); err != nil {
			t.Error(err)
		}
		read <- text
	}()
	select {
	case <-third:
	case <-time.After(4 * time.Second): // after 5 the server would end the suspended write
		t.Error("the write makes no second attempt")
	}
	first.finish(t)
	if got := <-read; got != "first" {
		t.Errorf("the write read the description %q, want that of the write before", got)
	}
}
