package conductor

import (
	"context"
	"errors"
	"testing"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// TestStopLeavesLeasesOfWorkThatDoesNotEnd stops a conductor whose driver pays no
// heed.
func TestStopLeavesLeasesOfWorkThatDoesNotEnd(t *testing.T) {
	w := newWorld(t)
	n, err := w.CreateNode(t.Context(), &node.Node{Driver: "fake-hardware"})
	if err != nil {
		t.Fatal(err)
	}
	err = w.Conductor.store.Write(t.Context(), func(tx *store.Tx) error {
		_, err := w.startWork(tx, n, workVerify, nil) // in the database only
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	stuck := make(chan struct{})
	w.running.Go(func() { <-stuck })

	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Stop(impatient); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the end of the patience", err)
	}
	leased := func() bool {
		got, err := w.Node(t.Context(), n.UUID)
		if err != nil {
			t.Fatal(err)
		}
		return got.Lease.Owner != ""
	}
	if !leased() {
		t.Error("the lease of work that runs was given back")
	}
	close(stuck)
	if err := w.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if leased() {
		t.Error("the lease was kept after the work ended")
	}
}

func TestStopOfAConductorThatWasNeverStartedDoesNothing(t *testing.T) {
	if err := emptyWorld(t).idle("conductor-1").Stop(t.Context()); err != nil {
		t.Error(err)
	}
}
