package conductor

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// free stores a node that allocations of resource class x may take.
func (w *world) free() *node.Node {
	w.t.Helper()
	n := &node.Node{UUID: uuid.NewString(), Driver: "fake-hardware", ProvisionState: node.Available, ResourceClass: "x"}
	w.write(func(tx *store.Tx) error { return tx.CreateNode(n) })
	return n
}

// ask creates an allocation of resource class x through a conductor.
func (w *world) ask(c *Conductor) string {
	w.t.Helper()
	a, err := c.Allocations().Create(w.t.Context(), &node.Allocation{ResourceClass: "x"})
	if err != nil {
		w.t.Fatal(err)
	}
	return a.UUID
}

func (w *world) allocation(uuid string) *node.Allocation {
	w.t.Helper()
	var a *node.Allocation
	w.read(func(tx *store.Tx) (err error) {
		a, err = store.Allocations.Get(tx, uuid)
		return err
	})
	return a
}

func (w *world) allocated(uuid string) *node.Allocation {
	w.t.Helper()
	w.eventually("allocation to end", func() bool { return w.allocation(uuid).State != node.Allocating })
	return w.allocation(uuid)
}

func TestAllocationsOfADeadConductorAreServedByTheNext(t *testing.T) {
	w := emptyWorld(t)
	n := w.free()
	left := w.ask(w.idle("dead"))
	if a := w.allocation(left); a.State != node.Allocating {
		t.Fatalf("state: got %q, want it to wait", a.State)
	}
	w.start("alive")
	if a := w.allocated(left); a.State != node.AllocationActive || a.NodeUUID != n.UUID {
		t.Errorf("got %+v, want node %s", a, n.UUID)
	}
}

func TestAllocationsWaitForANodeUnderWorkButNotForever(t *testing.T) {
	w := newWorld(t)
	n := w.free()
	var lease node.Lease
	w.write(func(tx *store.Tx) (err error) {
		lease, err = tx.AcquireLease(n.ID, "other", time.Hour)
		return err
	})
	waits := w.ask(w.Conductor)
	if again, err := w.allocateOne(t.Context(), waits); !again || err != nil {
		t.Errorf("while the node is under work: again %v, %v; want to wait", again, err)
	}
	w.clock.Advance(longestAllocation)
	w.wakeAllocator()
	if a := w.allocated(waits); a.State != node.AllocationError || a.LastError == "" {
		t.Errorf("got %+v, want an error with a reason", a)
	}
	next := w.ask(w.Conductor)
	w.write(func(tx *store.Tx) error { return tx.EndLeaseKeepBusy(lease) })
	w.wakeAllocator()
	if a := w.allocated(next); a.NodeUUID != n.UUID {
		t.Errorf("got %+v, want node %s", a, n.UUID)
	}
}

func TestAllocationsAtOnceGetNodesOfTheirOwn(t *testing.T) {
	w := newWorld(t)
	second := w.start("conductor-2")
	const nodes, asked = 5, 8
	for range nodes {
		w.free()
	}
	uuids := make(chan string, asked)
	for i := range asked {
		go func() {
			c := []*Conductor{w.Conductor, second}[i%2]
			a, err := c.Allocations().Create(t.Context(), &node.Allocation{ResourceClass: "x"})
			if err != nil {
				t.Error(err)
				uuids <- ""
				return
			}
			uuids <- a.UUID
		}()
	}
	taken := map[string]bool{}
	failed := 0
	for range asked {
		id := <-uuids
		if id == "" {
			continue
		}
		switch a := w.allocated(id); {
		case a.State == node.AllocationError:
			failed++
		case taken[a.NodeUUID]:
			t.Errorf("node %s was given away twice", a.NodeUUID)
		default:
			taken[a.NodeUUID] = true
		}
	}
	if len(taken) != nodes || failed != asked-nodes {
		t.Errorf("%d nodes given away and %d refused, want %d and %d", len(taken), failed, nodes, asked-nodes)
	}
}

func TestAllocationsFailWhenTheirUUIDIsAnInstanceElsewhere(t *testing.T) {
	w := newWorld(t)
	taken, n := uuid.NewString(), w.free()
	w.write(func(tx *store.Tx) error {
		return tx.CreateNode(&node.Node{UUID: uuid.NewString(), Driver: "fake-hardware", ProvisionState: node.Active, InstanceUUID: taken})
	})
	if _, err := w.Allocations().Create(t.Context(), &node.Allocation{UUID: taken, ResourceClass: "x"}); err != nil {
		t.Fatal(err)
	}
	if a := w.allocated(taken); a.State != node.AllocationError || a.LastError == "" || a.NodeID != 0 {
		t.Errorf("got %+v, want an error with a reason", a)
	}
	if a := w.allocated(w.ask(w.Conductor)); a.NodeUUID != n.UUID {
		t.Errorf("next one: got %+v, want node %s", a, n.UUID)
	}
}

func TestAllocationOfADeployedNodeStaysUnlessItIsInMaintenance(t *testing.T) {
	for name, tc := range map[string]struct {
		change  func(*node.Node)
		refused bool
	}{
		"active":      {func(n *node.Node) { n.ProvisionState = node.Active }, true},
		"deploying":   {func(n *node.Node) { n.ProvisionState, n.TargetProvisionState = node.DeployWait, node.Active }, true},
		"maintenance": {func(n *node.Node) { n.ProvisionState, n.Maintenance = node.Active, true }, false},
		"available":   {func(*node.Node) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			n := w.free()
			a := w.allocated(w.ask(w.Conductor))
			before := w.stored(n.UUID)
			after := *before
			tc.change(&after)
			w.update(before, &after)
			var refused *node.ConflictError
			if err := w.Allocations().Delete(t.Context(), a.UUID); errors.As(err, &refused) != tc.refused || (err != nil) != tc.refused {
				t.Errorf("delete the allocation: got %v, want it refused: %t", err, tc.refused)
			}
		})
	}
}

// TestWhatBelongsToANodeUnderWorkStays tries every change that needs the node to
// be free.
func TestWhatBelongsToANodeUnderWorkStays(t *testing.T) {
	w := newWorld(t)
	n := w.free()
	a := w.allocated(w.ask(w.Conductor))
	g, err := w.Portgroups().Create(t.Context(), &node.Portgroup{NodeUUID: n.UUID})
	if err != nil {
		t.Fatal(err)
	}
	v, err := w.VolumeTargets().Create(t.Context(), &node.VolumeTarget{NodeUUID: n.UUID, VolumeType: "iscsi", VolumeID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	w.write(func(tx *store.Tx) error {
		_, err := tx.AcquireLease(n.ID, "other", time.Hour)
		return err
	})
	ctx := t.Context()
	_, groupErr := w.Portgroups().Update(ctx, g.UUID, func(g *node.Portgroup) error { g.Mode = "x"; return nil })
	_, volumeErr := w.VolumeTargets().Update(ctx, v.UUID, func(v *node.VolumeTarget) error { v.VolumeID = "x"; return nil })
	_, backfillErr := w.Allocations().Create(ctx, &node.Allocation{NodeUUID: n.UUID})
	for what, err := range map[string]error{
		"change port group": groupErr, "delete port group": w.Portgroups().Delete(ctx, g.UUID),
		"change volume": volumeErr, "delete volume": w.VolumeTargets().Delete(ctx, v.UUID),
		"set traits": w.SetTraits(ctx, n.UUID, "CUSTOM_A"), "attach VIF": w.AttachVIF(ctx, n.UUID, node.VIFRequest{ID: "a"}),
		"delete allocation": w.Allocations().Delete(ctx, a.UUID), "backfill": backfillErr,
	} {
		if !errors.Is(err, node.ErrLocked) {
			t.Errorf("%s: got %v, want a locked node", what, err)
		}
	}
}

func TestVIFsLeaveTogether(t *testing.T) {
	w := newWorld(t)
	n := w.free()
	g, err := w.Portgroups().Create(t.Context(), &node.Portgroup{NodeUUID: n.UUID, StandalonePortsSupported: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []*node.Port{{Address: "02:00:00:00:00:01"}, {Address: "02:00:00:00:00:02", PortgroupUUID: g.UUID}} {
		p.NodeUUID, p.PXEEnabled = n.UUID, true
		if _, err := w.CreatePort(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"a", "b"} {
		if err := w.AttachVIF(t.Context(), n.UUID, node.VIFRequest{ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	w.write(func(tx *store.Tx) error { return detachVIFs(tx, n) })
	if ids, err := w.VIFs(t.Context(), n.UUID); len(ids) != 0 || err != nil {
		t.Errorf("got %q, %v, want none", ids, err)
	}
}
