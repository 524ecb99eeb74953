package conductor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// update changes a node below the API.
func (w *world) update(before, after *node.Node) {
	w.t.Helper()
	w.write(func(tx *store.Tx) error { return tx.UpdateNode(before, after) })
}

func TestCreatedNodeGetsDefaultsAndCanBeFound(t *testing.T) {
	w := newWorld(t)
	n := w.create("fake-hardware", func(n *node.Node) {
		n.Name = "rack4"
		n.Interfaces[node.PowerInterface] = "fake"
		withBMC("198.51.100.9")(n)
	})
	if n.UUID == "" || n.ProvisionState != node.Enroll || n.Interfaces[node.BootInterface] == "" || !n.CreatedAt.Equal(w.clock.Now()) {
		t.Errorf("created = %+v, want UUID, state, interfaces and time", n)
	}
	for _, ident := range []string{n.UUID, "rack4"} {
		got, err := w.Node(t.Context(), ident)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(n, got); diff != "" {
			t.Errorf("node %s (-created +read):\n%s", ident, diff)
		}
	}
	if nodes, err := w.Nodes(t.Context(), node.Query{}); err != nil || len(nodes) != 1 {
		t.Errorf("nodes = %v, %v", nodes, err)
	}
	_, err := w.CreateNode(t.Context(), &node.Node{Driver: "toaster"})
	wantAs[*node.ValidationError](t, err)
	_, err = w.CreateNode(t.Context(), &node.Node{Driver: "fake-hardware", Name: "rack4"})
	wantAs[*node.ConflictError](t, err)
	_, err = w.Node(t.Context(), "rack5")
	wantIs(t, err, node.ErrNotFound)
	_, err = w.Inspection(t.Context(), "rack4")
	wantIs(t, err, node.ErrNotFound)
}

func TestConcurrentUpdatesAllTakeEffect(t *testing.T) {
	w := newWorld(t)
	n := w.create("fake-hardware")
	const updates = 60
	for _, err := range concurrently(updates, func(i int) error {
		_, err := w.UpdateNode(t.Context(), n.UUID, func(n *node.Node) error {
			n.Extra = n.Extra.With(map[string]any{fmt.Sprint("key", i): i})
			return nil
		})
		return err
	}) {
		if err != nil {
			t.Error(err)
		}
	}
	if got := len(w.stored(n.UUID).Extra.Fields()); got != updates {
		t.Errorf("%d keys, want %d", got, updates)
	}
}

func TestRefusedUpdateChangesNothing(t *testing.T) {
	w := newWorld(t)
	taken := w.create("fake-hardware", func(n *node.Node) { n.Name = "rack4" })
	n := w.create("fake-hardware")
	refused := errors.New("refused")
	for name, tc := range map[string]struct {
		change func(*node.Node) error
		check  func(error)
	}{
		"own error":     {func(n *node.Node) error { n.Extra = nil; return refused }, func(err error) { wantIs(t, err, refused) }},
		"name conflict": {func(n *node.Node) error { n.Name = taken.Name; return nil }, func(err error) { wantAs[*node.ConflictError](t, err) }},
		"driver":        {func(n *node.Node) error { n.Driver = "toaster"; return nil }, func(err error) { wantAs[*node.ValidationError](t, err) }},
		"interface": {func(n *node.Node) error { n.Interfaces[node.PowerInterface] = "steam"; return nil }, func(err error) {
			wantAs[*node.ValidationError](t, err)
		}},
	} {
		before := w.stored(n.UUID)
		updated, err := w.UpdateNode(t.Context(), n.UUID, tc.change)
		if updated != nil {
			t.Errorf("%s: a node beside the error", name)
		}
		tc.check(err)
		if diff := cmp.Diff(before, w.stored(n.UUID)); diff != "" {
			t.Errorf("%s (-before +after):\n%s", name, diff)
		}
	}
	_, err := w.UpdateNode(t.Context(), "nobody", func(*node.Node) error { return nil })
	wantIs(t, err, node.ErrNotFound)
}

func TestUpdateOfALockedNodeIsRefusedWithoutAWait(t *testing.T) {
	w := newWorld(t)
	n := w.register()
	w.lease(n, "conductor-2")
	for name, err := range map[string]error{
		"update":      second(w.UpdateNode(t.Context(), n.UUID, func(*node.Node) error { return nil })),
		"delete":      w.DeleteNode(t.Context(), n.UUID),
		"maintenance": w.SetMaintenance(t.Context(), n.UUID, true, ""),
	} {
		if locked := errorAs[*node.LockedError](t, err); locked.Holder != "conductor-2" {
			t.Errorf("%s: error = %v, want it to name the holder", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestUpdateWaitsForTheEndOfWork(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.LockWait = time.Minute })
	n := w.register()
	lease := w.lease(n, "conductor-2")
	tried := make(chan struct{}, 1)
	done := make(chan error, 1)
	go func() {
		done <- w.whenFree(t.Context(), func() error {
			_, err := w.storeTry(n)
			select {
			case tried <- struct{}{}:
			default:
			}
			return err
		})
	}()
	<-tried // it found the node locked
	w.write(func(tx *store.Tx) error { return tx.EndLeaseKeepBusy(lease) })
	if err := <-done; err != nil {
		t.Errorf("update: %v, want it done after the work", err)
	}

	w.lease(n, "conductor-2")
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // the client went away
	_, err := w.UpdateNode(ctx, n.UUID, func(*node.Node) error { return nil })
	if err == nil {
		t.Error("update of a locked node succeeded")
	}
}

// storeTry is one try at a change of a node that may be locked.
func (w *world) storeTry(n *node.Node) (found *node.Node, err error) {
	return found, w.store.Write(w.t.Context(), func(tx *store.Tx) error {
		found, err = unleased(tx, n.UUID)
		return err
	})
}

func TestBMCClaimsFollowDriverInfo(t *testing.T) {
	w := newWorld(t)
	n := w.create("fake-hardware", withBMC("198.51.100.8"))
	if _, err := w.UpdateNode(t.Context(), n.UUID, func(n *node.Node) error {
		withBMC("198.51.100.9")(n)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]int{"198.51.100.8": 0, "198.51.100.9": 1} {
		w.read(func(tx *store.Tx) error {
			matches, err := tx.MatchClaims([]store.Claim{{Kind: store.BMC, Address: address}})
			if len(matches) != want {
				t.Errorf("%s is claimed by %v, want %d", address, matches, want)
			}
			return err
		})
	}
}

func TestParentsExistAndDoNotGoInCircles(t *testing.T) {
	w := newWorld(t)
	parent := w.create("fake-hardware", func(n *node.Node) { n.Name = "chassis" })
	child := w.create("fake-hardware", func(n *node.Node) { n.ParentNode = parent.UUID })
	setParent := func(n *node.Node, to string) error {
		_, err := w.UpdateNode(t.Context(), n.UUID, func(n *node.Node) error { n.ParentNode = to; return nil })
		return err
	}
	_, err := w.CreateNode(t.Context(), &node.Node{Driver: "fake-hardware", ParentNode: "nobody"})
	wantAs[*node.ValidationError](t, err)
	for name, to := range map[string]string{"unknown": "nobody", "itself": parent.UUID, "itself by name": parent.Name, "its child": child.UUID} {
		err := setParent(parent, to)
		if err == nil {
			t.Errorf("parent %s: no error", name)
		}
	}
	byName := w.create("fake-hardware", func(n *node.Node) { n.ParentNode = parent.Name })
	if got := w.stored(byName.UUID).ParentNode; got != parent.UUID {
		t.Errorf("parent_node = %q, want the UUID %s, which outlives a new name", got, parent.UUID)
	}
	if err := setParent(child, ""); err != nil {
		t.Errorf("no parent: %v", err)
	}
}

func TestMaintenanceIsSetAndEnds(t *testing.T) {
	w := newWorld(t)
	n := w.register(func(n *node.Node) { n.Fault = node.FaultPowerFailure })
	if err := w.SetMaintenance(t.Context(), n.UUID, true, "fan is loud"); err != nil {
		t.Fatal(err)
	}
	if got := w.stored(n.UUID); !got.Maintenance || got.MaintenanceReason != "fan is loud" || got.Fault != "" {
		t.Errorf("maintenance %v, reason %q, fault %q", got.Maintenance, got.MaintenanceReason, got.Fault)
	}
	if err := w.SetMaintenance(t.Context(), n.UUID, false, "ignored"); err != nil {
		t.Fatal(err)
	}
	if got := w.stored(n.UUID); got.Maintenance || got.MaintenanceReason != "" {
		t.Errorf("maintenance %v, reason %q", got.Maintenance, got.MaintenanceReason)
	}
}

func TestDeletingDependsOnStateInstanceAndProtection(t *testing.T) {
	w := newWorld(t)
	free := map[node.State]bool{node.Enroll: true, node.Manageable: true, node.Available: true, node.AdoptFailed: true}
	remove := func(changes ...func(*node.Node)) error {
		return w.DeleteNode(t.Context(), w.register(changes...).UUID)
	}
	maintained := func(n *node.Node) { n.Maintenance = true }
	for _, s := range node.States() {
		if s.Class() == node.Working { // also while its work waits without a lease
			wantAs[*node.LockedError](t, remove(inState(s)))
			wantAs[*node.LockedError](t, remove(inState(s), maintained))
			known := w.register(inState(s), maintained)
			w.write(func(tx *store.Tx) error {
				return tx.AddWork(&store.Work{NodeID: known.ID, Kind: workVerify, NotBefore: w.clock.Now().Add(time.Hour)})
			})
			wantAs[*node.LockedError](t, w.DeleteNode(t.Context(), known.UUID))
			continue
		}
		err := remove(inState(s))
		var conflict *node.ConflictError
		if free[s] && err != nil || !free[s] && !errors.As(err, &conflict) {
			t.Errorf("delete in %q: %v", s, err)
		}
		if err := remove(inState(s), maintained); err != nil {
			t.Errorf("delete in %q and maintenance: %v", s, err)
		}
	}
	withInstance := func(n *node.Node) { n.InstanceUUID = "i-" + n.UUID }
	wantAs[*node.ConflictError](t, remove(withInstance))
	if err := remove(withInstance, maintained); err != nil {
		t.Errorf("delete with an instance in maintenance: %v", err)
	}
	protected := func(n *node.Node) { n.Protected = true }
	wantAs[*node.ForbiddenError](t, remove(protected))
	wantAs[*node.ForbiddenError](t, remove(protected, maintained))
	wantIs(t, w.DeleteNode(t.Context(), "nobody"), node.ErrNotFound)
}

func TestPortsAreCreatedChangedAndDeleted(t *testing.T) {
	w := newWorld(t)
	n := w.create("fake-hardware", func(n *node.Node) { n.Name = "rack4" })
	_, err := w.CreatePort(t.Context(), &node.Port{NodeUUID: "nobody", Address: "02:00:00:00:00:01"})
	wantAs[*node.ValidationError](t, err)
	p := w.addPort(n, "02:00:00:00:00:01")
	_, err = w.CreatePort(t.Context(), &node.Port{NodeUUID: n.UUID, Address: "02:00:00:00:00:01"})
	wantAs[*node.ConflictError](t, err)
	updated, err := w.UpdatePort(t.Context(), p.UUID, func(p *node.Port, owner *node.Node) error {
		if owner.UUID != n.UUID {
			t.Errorf("owner = %s, want %s", owner.UUID, n.UUID)
		}
		p.Address = "02:00:00:00:00:02"
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	stored, err := w.Port(t.Context(), p.UUID)
	if diff := cmp.Diff(updated, stored); diff != "" || err != nil {
		t.Errorf("port (-answered +stored), %v:\n%s", err, diff)
	}
	lease := w.lease(n, "conductor-2")
	wantAs[*node.LockedError](t, w.DeletePort(t.Context(), p.UUID))
	w.addPort(n, "02:00:00:00:00:03") // allowed under work
	w.write(func(tx *store.Tx) error { return tx.EndLeaseKeepBusy(lease) })

	w.write(func(tx *store.Tx) error {
		bound := *stored
		bound.InternalInfo = node.WithVIF(nil, "vif-1")
		return tx.UpdatePort(stored, &bound)
	})
	if conflict := errorAs[*node.ConflictError](t, w.DeletePort(t.Context(), p.UUID)); !strings.Contains(conflict.Reason, "vif-1") {
		t.Errorf("error = %v", conflict)
	}
	setInstance := func(uuid string, maintenance bool) {
		before := w.stored(n.UUID)
		after := *before
		after.InstanceUUID, after.Maintenance = uuid, maintenance
		w.update(before, &after)
	}
	setInstance("instance-1", false)
	if err := w.DeletePort(t.Context(), w.addPort(n, "02:00:00:00:00:04").UUID); err != nil {
		t.Errorf("delete a port without a VIF: %v", err)
	}
	setInstance("instance-1", true)
	if err := w.DeletePort(t.Context(), p.UUID); err != nil {
		t.Error(err)
	}
	_, err = w.Port(t.Context(), p.UUID)
	wantIs(t, err, node.ErrNotFound)
	if ports, err := w.Ports(t.Context(), node.Query{}); err != nil || len(ports) != 1 {
		t.Errorf("ports = %v, %v; want the other one", ports, err)
	}
}

func TestChildrenOfADeletedNodeStandByThemselves(t *testing.T) {
	w := newWorld(t)
	parent := w.create("fake-hardware")
	child := w.create("fake-hardware", func(n *node.Node) { n.ParentNode = parent.UUID })
	other := w.create("fake-hardware", func(n *node.Node) { n.ParentNode = w.create("fake-hardware").UUID })
	if err := w.DeleteNode(t.Context(), parent.UUID); err != nil {
		t.Fatal(err)
	}
	if got := w.stored(child.UUID).ParentNode; got != "" {
		t.Errorf("parent of the child = %q, want none", got)
	}
	if got := w.stored(other.UUID).ParentNode; got != other.ParentNode {
		t.Errorf("parent of another node's child = %q, want %q", got, other.ParentNode)
	}
}

func TestMachineOfANodeStaysWhileItsWorkWaits(t *testing.T) {
	w := newWorld(t)
	for state, refused := range map[node.State]bool{
		node.InspectWait: true, node.ServiceHold: true, node.CleanWait: true,
		node.Manageable: false, node.Active: false, node.ServiceFailed: false,
	} {
		n := w.create("fake-hardware", func(n *node.Node) {
			n.DriverInfo = node.ObjectOf(map[string]any{"fake_bmc": "bmc-1", "password": "old"})
		})
		before := *n
		n.ProvisionState = state
		w.update(&before, n)
		change := func(key, value string) error {
			_, err := w.UpdateNode(t.Context(), n.UUID, func(n *node.Node) error {
				n.DriverInfo = n.DriverInfo.With(map[string]any{key: value})
				return nil
			})
			return err
		}
		if err := change("password", "new"); err != nil {
			t.Errorf("%s: new credentials: %v", state, err)
		}
		err := change("fake_bmc", "bmc-2")
		if refused {
			wantAs[*node.ConflictError](t, err)
		} else if err != nil {
			t.Errorf("%s: another BMC: %v", state, err)
		}
	}
}

// TestMachineOfANodeStaysWhileItsWorkIsToBeTriedAgain has work without a lease, as it is between two attempts: another
// machine must not get what was begun on the first one.
func TestMachineOfANodeStaysWhileItsWorkIsToBeTriedAgain(t *testing.T) {
	w := newWorld(t)
	for state, kind := range map[node.State]store.WorkKind{
		node.Cleaning: workClean, node.Deploying: workDeploy, node.CleanFailed: workBootMode, node.Active: workPower,
	} {
		n := w.create("fake-hardware", func(n *node.Node) { n.DriverInfo = node.ObjectOf(map[string]any{"fake_bmc": "bmc-1"}) })
		before := *n
		n.ProvisionState = state
		w.update(&before, n)
		w.write(func(tx *store.Tx) error {
			return tx.AddWork(&store.Work{NodeID: n.ID, Kind: kind, NotBefore: tx.Now().Add(time.Hour)})
		})
		_, err := w.UpdateNode(t.Context(), n.UUID, func(n *node.Node) error {
			n.DriverInfo = n.DriverInfo.With(map[string]any{"fake_bmc": "bmc-2"})
			return nil
		})
		wantAs[*node.LockedError](t, err)
		if _, err := w.UpdateNode(t.Context(), n.UUID, func(n *node.Node) error { n.Description = "rack 7"; return nil }); err != nil {
			t.Errorf("%s: another description: %v", state, err)
		}
	}
}

func TestInterfacesOfAnInspectionStayUntilItHasEnded(t *testing.T) {
	w := newWorld(t)
	for _, kind := range []node.InterfaceKind{node.InspectInterface, node.BootInterface} {
		for state, refused := range map[node.State]bool{node.InspectWait: true, node.Inspecting: true, node.Manageable: false} {
			n := w.fake(state, nil)
			_, err := w.UpdateNode(t.Context(), n.UUID, func(n *node.Node) error {
				n.Interfaces[kind] = map[node.InterfaceKind]string{node.InspectInterface: "agent", node.BootInterface: "ipxe"}[kind]
				return nil
			})
			var conflict *node.ConflictError
			if errors.As(err, &conflict) != refused || err != nil && !refused {
				t.Errorf("%s interface in state %q: %v, want it refused: %v", kind, state, err, refused)
			}
		}
	}
}
