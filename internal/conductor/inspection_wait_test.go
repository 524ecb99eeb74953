package conductor

import (
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/fairqueue"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// TestPostWaitsForTheNode has a ramdisk post while another conductor has its node.
func TestPostWaitsForTheNode(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.LockWait = time.Minute })
	n, m := waiting(w), unknown(1)
	w.addPort(n, m.macs[0])
	lease, given := w.lease(n, "conductor-2"), 0
	var hold fairqueue.Hold
	hold.Add(func() {
		given++
		w.write(func(tx *store.Tx) error { return tx.EndLeaseKeepBusy(lease) })
	})
	answer, err := w.ContinueInspection(fairqueue.With(t.Context(), &hold), node.InspectionPost{Body: m.body()})
	if err != nil || answer.Node.UUID != n.UUID {
		t.Fatalf("answer = %+v, %v; want the node", answer, err)
	}
	if given != 1 {
		t.Errorf("the slot was given back %d times, want once before the wait", given)
	}
	w.awaitWorkDone()
	w.arrive(n, node.Manageable)
}

// TestPostDoesNotWaitWhereNobodyHasTheNode has the start of an inspection wait without a lease
// to be tried again.
func TestPostDoesNotWaitWhereNobodyHasTheNode(t *testing.T) {
	w := emptyWorld(t)
	w.Conductor = w.idle("conductor-1", func(c *Config) { c.LockWait = time.Hour })
	n, m := w.register(inState(node.Inspecting)), unknown(1)
	w.addPort(n, m.macs[0])
	w.write(func(tx *store.Tx) error { return tx.AddWork(&store.Work{NodeID: n.ID, Kind: workInspect}) })
	_, err := send(t, w.Conductor, m)
	wantAs[*node.LockedError](t, err)
}
