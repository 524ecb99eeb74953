package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

var nodeBehaviours = []behaviour{
	{"every field reads back as it was created", checkNodeRoundTrip},
	{"every field can be changed and cleared alone", checkNodeFieldChanges},
	{"a change that changes nothing keeps updated_at", checkNodeNoChange},
	{"changes of different fields from the same reading all stay", checkNodeChangesMerge},
	{"a name stands for its node", checkNodeByName},
	{"a UUID wins over a name", checkUUIDWins},
	{"the key of a node is found by what stands for it", checkNodeKey},
	{"unknown nodes are not found", checkNodeNotFound},
	{"UUID, name and instance belong to one node", checkNodeConflicts},
	{"keys are not used again", checkNodeKeysGrow},
	{"discovered nodes are counted", checkCountDiscovered},
	{"an allocation is offered the nodes that fit", checkAllocationCandidates},
	{"deleting a node takes everything of it along", checkDeleteNode},
}

func checkNodeRoundTrip(t *testing.T, e *env) {
	want := newNode()
	fill(want, leaves[node.Node](), 0)
	e.write(func(tx *store.Tx) error { return tx.CreateNode(want) })
	if want.ID == 0 || !want.CreatedAt.Equal(e.clock.Now()) {
		t.Errorf("key %d, created at %v; want a key and the clock's time", want.ID, want.CreatedAt)
	}
	if diff := cmp.Diff(want, e.node(want.UUID)); diff != "" {
		t.Errorf("node (-stored +read):\n%s", diff)
	}
	bare := e.createNode()
	if diff := cmp.Diff(bare, e.node(bare.UUID)); diff != "" {
		t.Errorf("node without optional fields (-stored +read):\n%s", diff)
	}
}

func checkNodeFieldChanges(t *testing.T, e *env) {
	fields := leaves[node.Node]("UpdatedAt", "UUID")
	n := newNode()
	fill(n, fields, 0)
	e.write(func(tx *store.Tx) error { return tx.CreateNode(n) })
	for _, l := range fields {
		for _, salt := range []int{1, -1} {
			e.clock.Advance(time.Second)
			before := e.node(n.UUID)
			after := *before
			l.set(&after, salt)
			unchanged := cmp.Equal(before, &after)
			e.write(func(tx *store.Tx) error { return tx.UpdateNode(before, &after) })
			if !unchanged && !after.UpdatedAt.Equal(e.clock.Now()) {
				t.Errorf("%s: updated_at = %v, want the time of the change", l.name, after.UpdatedAt)
			}
			if diff := cmp.Diff(&after, e.node(n.UUID)); diff != "" {
				t.Errorf("after a change of %s (-stored +read):\n%s", l.name, diff)
			}
		}
	}
}

func checkNodeNoChange(t *testing.T, e *env) {
	n := e.createNode()
	e.updateNode(n, func(n *node.Node) { n.Description = "rack 4" })
	changed := e.node(n.UUID)
	e.clock.Advance(time.Minute)
	if same := e.updateNode(n, func(*node.Node) {}); !same.UpdatedAt.Equal(changed.UpdatedAt) {
		t.Errorf("updated_at = %v, want it unchanged at %v", same.UpdatedAt, changed.UpdatedAt)
	}
	if diff := cmp.Diff(changed, e.node(n.UUID)); diff != "" {
		t.Errorf("node (-before +after):\n%s", diff)
	}
}

func checkNodeChangesMerge(t *testing.T, e *env) {
	before := e.node(e.createNode().UUID)
	first, second := *before, *before
	first.Description, second.ResourceClass = "rack 4", "large"
	e.write(func(tx *store.Tx) error { return tx.UpdateNode(before, &first) })
	e.write(func(tx *store.Tx) error { return tx.UpdateNode(before, &second) })
	if got := e.node(before.UUID); got.Description != "rack 4" || got.ResourceClass != "large" {
		t.Errorf("description %q, resource class %q; want both changes", got.Description, got.ResourceClass)
	}
}

func checkNodeByName(t *testing.T, e *env) {
	n := e.createNode(func(n *node.Node) { n.Name = "rack4-u7" })
	e.createNode()
	if got := e.node("rack4-u7"); got.UUID != n.UUID {
		t.Errorf("node = %s, want %s", got.UUID, n.UUID)
	}
	var byKey *node.Node
	e.read(func(tx *store.Tx) (err error) {
		byKey, err = tx.NodeByID(n.ID)
		return err
	})
	if byKey.UUID != n.UUID {
		t.Errorf("node by key = %s, want %s", byKey.UUID, n.UUID)
	}
}

func checkUUIDWins(t *testing.T, e *env) {
	n := e.createNode()
	e.createNode(func(other *node.Node) { other.Name = n.UUID })
	if got := e.node(n.UUID); got.ID != n.ID {
		t.Errorf("node = %d, want the one with the UUID, %d", got.ID, n.ID)
	}
}

func checkNodeKey(t *testing.T, e *env) {
	n := e.createNode(func(n *node.Node) { n.Name, n.Provisional = "rack4-u7", true })
	e.createNode(func(other *node.Node) { other.Name = n.UUID })
	for _, ident := range []string{n.UUID, n.Name} {
		var key store.NodeKey
		e.read(func(tx *store.Tx) (err error) {
			key, err = tx.NodeKey(ident)
			return err
		})
		if want := (store.NodeKey{ID: n.ID, UUID: n.UUID, Provisional: true}); key != want {
			t.Errorf("key of %s = %+v, want %+v", ident, key, want)
		}
	}
}

func checkNodeNotFound(t *testing.T, e *env) {
	e.createNode()
	for _, ident := range []string{"", uuid.NewString(), "rack4-u7"} {
		wantIs(t, e.store.Read(t.Context(), func(tx *store.Tx) error {
			_, err := tx.Node(ident)
			return err
		}), node.ErrNotFound)
		wantIs(t, e.store.Read(t.Context(), func(tx *store.Tx) error {
			_, err := tx.NodeKey(ident)
			return err
		}), node.ErrNotFound)
	}
	wantIs(t, e.store.Read(t.Context(), func(tx *store.Tx) error {
		_, err := tx.NodeByID(4711)
		return err
	}), node.ErrNotFound)
}

func checkNodeConflicts(t *testing.T, e *env) {
	taken := e.createNode(func(n *node.Node) { n.Name, n.InstanceUUID = "rack4-u7", "instance-1" })
	other := e.createNode(func(n *node.Node) { n.Name = "rack4-u8" })
	for name, change := range map[string]func(*node.Node){
		"uuid":     func(n *node.Node) { n.UUID = taken.UUID },
		"name":     func(n *node.Node) { n.Name = taken.Name },
		"instance": func(n *node.Node) { n.InstanceUUID = taken.InstanceUUID },
	} {
		wantConflict(t, e.refused(func(tx *store.Tx) error { return tx.CreateNode(newNode(change)) }))
		if name == "uuid" {
			continue // it never changes
		}
		after := *other
		change(&after)
		wantConflict(t, e.refused(func(tx *store.Tx) error { return tx.UpdateNode(other, &after) }))
	}
	e.updateNode(taken, func(n *node.Node) { n.Name = "rack4-u9" })
	e.updateNode(other, func(n *node.Node) { n.Name = "rack4-u7" }) // free again
}

func checkNodeKeysGrow(t *testing.T, e *env) {
	first := e.createNode()
	e.write(func(tx *store.Tx) error { return tx.DeleteNode(first) })
	if second := e.createNode(); second.ID <= first.ID {
		t.Errorf("key %d after a deleted %d: a marker or a log of the old node would name the new one", second.ID, first.ID)
	}
}

func checkCountDiscovered(t *testing.T, e *env) {
	e.createNode()
	var nodes [3]*node.Node
	for i := range nodes {
		nodes[i] = e.createNode(func(n *node.Node) { n.AutoDiscovered = true })
	}
	e.createNode()
	e.clock.Advance(time.Hour) // nobody is still about to commit one
	e.read(func(tx *store.Tx) error {
		for after, want := range map[int64]int{0: 3, nodes[0].ID: 2, nodes[2].ID: 0, nodes[2].ID + 99: 0} {
			got, err := tx.DiscoveredAfter(after)
			if want := (store.Discovered{Count: want, Last: max(after, nodes[2].ID)}); got != want || err != nil {
				t.Errorf("discovered after %d: %+v, %v; want %+v", after, got, err, want)
			}
		}
		return nil
	})
}

// populate gives a node one of everything that can belong to it.
func (e *env) populate(n *node.Node, mac string) (documentID int64) {
	e.t.Helper()
	e.createPort(n, mac)
	e.write(func(tx *store.Tx) error {
		if err := tx.ClaimInventory(n.ID, []store.Claim{{Kind: store.MAC, Address: mac}, {Kind: store.BMC, Address: "192.0.2.1"}}); err != nil {
			return err
		}
		if err := tx.ClaimBMC(n.ID, []store.Claim{{Kind: store.BMC, Address: "192.0.2.2"}}); err != nil {
			return err
		}
		var err error
		if documentID, err = tx.AddDocument(n.ID, node.InspectionData{Inventory: []byte("{}"), PluginData: []byte("{}")}); err != nil {
			return err
		}
		if err := tx.FinishInspection(n.ID, documentID, []byte(`{"a":1}`)); err != nil {
			return err
		}
		if err := tx.AddWork(&store.Work{NodeID: n.ID, Kind: "verify"}); err != nil {
			return err
		}
		if _, err := tx.AcquireLease(n.ID, "conductor-1", time.Minute); err != nil {
			return err
		}
		return tx.AddEvent(&node.Event{UUID: uuid.NewString(), NodeID: n.ID, Severity: node.SeverityInfo, Type: "agent", Message: "hello"})
	})
	return documentID
}

// Populate stores a node with one of everything that can belong to it, for tests
// of what a database leaves behind.
func Populate(t *testing.T, s *store.Store) *node.Node {
	t.Helper()
	e := &env{t: t, store: s}
	n := e.createNode(func(n *node.Node) { n.Name = "populated" })
	e.populate(n, "02:00:00:00:00:01")
	e.populateCollections(n)
	e.write(func(tx *store.Tx) error {
		_, err := tx.NotePowerDifference(n.ID, node.PowerOn)
		return err
	})
	return n
}

func checkDeleteNode(t *testing.T, e *env) {
	gone, stays := e.createNode(), e.createNode()
	document := e.populate(gone, "02:00:00:00:00:01")
	e.populate(stays, "02:00:00:00:00:02")
	before := e.node(stays.UUID)
	e.write(func(tx *store.Tx) error { return tx.DeleteNode(gone) })
	e.read(func(tx *store.Tx) error {
		_, err := tx.Node(gone.UUID)
		wantIs(t, err, node.ErrNotFound)
		_, err = tx.Document(document)
		wantIs(t, err, node.ErrNotFound)
		_, err = tx.Inspection(gone)
		wantIs(t, err, node.ErrNotFound)
		ports, err := tx.PortsOf(gone.ID)
		if err != nil || len(ports) != 0 {
			t.Errorf("ports = %v, %v; want none", ports, err)
		}
		events, err := tx.Events(gone.ID)
		if err != nil || len(events) != 0 {
			t.Errorf("history = %v, %v; want none", events, err)
		}
		matches, err := tx.MatchClaims([]store.Claim{
			{Kind: store.MAC, Address: "02:00:00:00:00:01"}, {Kind: store.BMC, Address: "192.0.2.1"}, {Kind: store.BMC, Address: "192.0.2.2"},
		})
		if err != nil || len(matches) != 1 || matches[0].UUID != stays.UUID {
			t.Errorf("claims = %v, %v; want those of the other node alone", matches, err)
		}
		work, err := tx.CountWork()
		if err != nil || work != 1 {
			t.Errorf("work = %d, %v; want that of the other node alone", work, err)
		}
		_, err = tx.Inspection(stays)
		return err
	})
	if diff := cmp.Diff(before, e.node(stays.UUID)); diff != "" {
		t.Errorf("other node (-before +after):\n%s", diff)
	}
	again := e.createNode(func(n *node.Node) { n.UUID = gone.UUID })
	e.populate(again, "02:00:00:00:00:01") // nothing of the first is in the way
}

func checkAllocationCandidates(t *testing.T, e *env) {
	free := func(change func(*node.Node)) *node.Node {
		return e.createNode(func(n *node.Node) {
			n.ProvisionState, n.ResourceClass, n.Traits, n.Owner = node.Available, "x", "CUSTOM_A,CUSTOM_B", "ann"
			change(n)
		})
	}
	one := free(func(n *node.Node) { n.Name = "one" })
	other := free(func(n *node.Node) { n.Lessee, n.Owner = "ann", "bob" })
	for _, change := range []func(*node.Node){
		func(n *node.Node) { n.ResourceClass = "y" },
		func(n *node.Node) { n.ProvisionState = node.Active },
		func(n *node.Node) { n.Maintenance = true },
		func(n *node.Node) { n.Retired = true },
		func(n *node.Node) { n.InstanceUUID = uuid.NewString() },
		func(n *node.Node) { n.Traits = "CUSTOM_AB" },
		func(n *node.Node) { n.Owner = "bob" },
	} {
		free(change)
	}
	ask := node.Allocation{ResourceClass: "x", Traits: "CUSTOM_B", Owner: "ann"}
	named, listed := ask, ask
	named.Name, listed.CandidateNodes = "one", node.WordsOf(other.UUID)
	offered := func(a node.Allocation, limit int) (uuids map[string]bool) {
		t.Helper()
		uuids = map[string]bool{}
		e.read(func(tx *store.Tx) error {
			nodes, err := tx.AllocationCandidates(&a, limit)
			for _, n := range nodes {
				uuids[n.UUID] = true
			}
			return err
		})
		return uuids
	}
	both := map[string]bool{one.UUID: true, other.UUID: true}
	for name, test := range map[string]struct {
		ask   node.Allocation
		limit int
		want  map[string]bool
	}{
		"all":        {ask, 10, both},
		"its name":   {named, 1, map[string]bool{one.UUID: true}},
		"listed":     {listed, 10, map[string]bool{other.UUID: true}},
		"none":       {node.Allocation{ResourceClass: "z"}, 10, map[string]bool{}},
		"wrong name": {node.Allocation{ResourceClass: "x", Traits: "CUSTOM_B", Owner: "ann", Name: "two"}, 10, both},
	} {
		if diff := cmp.Diff(test.want, offered(test.ask, test.limit)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	e.acquire(one, here)
	if diff := cmp.Diff(map[string]bool{other.UUID: true}, offered(ask, 10)); diff != "" {
		t.Errorf("beside one under work (-want +got):\n%s", diff)
	}
	e.acquire(other, here)
	if got := offered(ask, 10); len(got) != 1 {
		t.Errorf("all under work: got %v, want one of them", got)
	}
}
