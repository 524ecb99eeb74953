package conductor

import (
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// port creates a port of a node.
func (w *world) port(n *node.Node, changes ...func(*node.Port)) *node.Port {
	w.t.Helper()
	p := &node.Port{NodeUUID: n.UUID, Address: "02:00:00:00:00:01"}
	for _, change := range changes {
		change(p)
	}
	created, err := w.CreatePort(w.t.Context(), p)
	if err != nil {
		w.t.Fatal(err)
	}
	return created
}

// toNode moves a port.
func toNode(uuid string) func(*node.Port, *node.Node) error {
	return func(p *node.Port, _ *node.Node) error {
		p.NodeUUID = uuid
		return nil
	}
}

func TestPortMovesToAnotherNode(t *testing.T) {
	w := newWorld(t)
	from, to := w.fake(node.Manageable, nil), w.fake(node.Active, nil, func(n *node.Node) { n.Maintenance = true })
	p := w.port(from)
	moved, err := w.UpdatePort(t.Context(), p.UUID, toNode(to.UUID))
	if err != nil || moved.NodeUUID != to.UUID {
		t.Fatalf("port of node %s, error %v; want %s", moved.NodeUUID, err, to.UUID)
	}
	if left, arrived := w.portsOf(from), w.portsOf(to); len(left) != 0 || len(arrived) != 1 || arrived[0].UUID != p.UUID {
		t.Errorf("ports before %v and after %v, want it to have moved", left, arrived)
	}
}

func TestPortStaysWhereMovingItCouldHurt(t *testing.T) {
	for name, tc := range map[string]struct {
		from, to node.State
		change   func(*node.Port)
		prepare  func(w *world, from, to *node.Node, p *node.Port)
		check    func(*testing.T, error)
	}{
		"its node is in use":     {from: node.Active, to: node.Enroll, check: wantAs[*node.ConflictError]},
		"the other is in use":    {from: node.Enroll, to: node.Available, check: wantAs[*node.ConflictError]},
		"the other is work":      {from: node.Enroll, to: node.Enroll, prepare: leaseOther, check: wantAs[*node.LockedError]},
		"something uses it":      {from: node.Enroll, to: node.Enroll, change: withVIF, check: wantAs[*node.ConflictError]},
		"it is in a port group":  {from: node.Enroll, to: node.Enroll, prepare: joinGroup, check: wantAs[*node.ValidationError]},
		"there is no other node": {from: node.Enroll, prepare: deleteOther, check: wantAs[*node.ValidationError]},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			from, to := w.fake(tc.from, nil), w.fake(tc.to, nil)
			if tc.to == "" {
				to = w.fake(node.Enroll, nil)
			}
			if tc.change == nil {
				tc.change = func(*node.Port) {}
			}
			p := w.port(from, tc.change)
			if tc.prepare != nil {
				tc.prepare(w, from, to, p)
			}
			_, err := w.UpdatePort(t.Context(), p.UUID, toNode(to.UUID))
			tc.check(t, err)
			if ports := w.portsOf(from); len(ports) != 1 {
				t.Errorf("the port left its node: %v", err)
			}
		})
	}
}

func withVIF(p *node.Port) { p.InternalInfo = node.WithVIF(nil, "vif-1") }

func leaseOther(w *world, _, to *node.Node, _ *node.Port) { w.lease(to, "somebody") }

func deleteOther(w *world, _, to *node.Node, _ *node.Port) {
	w.write(func(tx *store.Tx) error { return tx.DeleteNode(to) })
}

func joinGroup(w *world, from, _ *node.Node, p *node.Port) {
	group, err := w.Portgroups().Create(w.t.Context(), &node.Portgroup{NodeUUID: from.UUID})
	if err != nil {
		w.t.Fatal(err)
	}
	_, err = w.UpdatePort(w.t.Context(), p.UUID, func(p *node.Port, _ *node.Node) error {
		p.PortgroupUUID = group.UUID
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func TestPatchThatChangesNothingOfAPortKeepsItsTime(t *testing.T) {
	w := newWorld(t)
	p := w.port(w.fake(node.Enroll, nil))
	for _, name := range []string{"", "uplink", "uplink"} {
		w.clock.Advance(time.Second)
		before, err := w.Port(t.Context(), p.UUID)
		if err != nil {
			t.Fatal(err)
		}
		after, err := w.UpdatePort(t.Context(), p.UUID, func(p *node.Port, _ *node.Node) error {
			p.Name = name
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if changed := !after.UpdatedAt.Equal(before.UpdatedAt); changed != (name != before.Name) {
			t.Errorf("name %q after %q: updated at %v after %v", name, before.Name, after.UpdatedAt, before.UpdatedAt)
		}
	}
}
