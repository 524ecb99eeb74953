package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

var powerBehaviours = []behaviour{
	{"what changed since a time is found, and what is new", checkPowerNodesSince},
	{"more changes than asked for are not taken for all", checkPowerNodesLimit},
	{"versions tell of changes, leases and nodes that are gone", checkPowerVersions},
	{"power is read with a part of the node", checkPowerNodes},
}

// keysOf returns the keys of nodes, each once, in their order.
func keysOf(nodes []*node.Node) []int64 {
	var keys []int64
	for _, n := range nodes {
		keys = append(keys, n.ID)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func checkPowerNodesSince(t *testing.T, e *env) {
	old, changed := e.createNode(), e.createNode()
	e.updateNode(old, func(n *node.Node) { n.Fault = node.FaultPowerFailure })
	since := e.clock.Advance(time.Second)
	e.updateNode(changed, func(n *node.Node) { n.PowerState = node.PowerOn })
	created := e.createNode()
	e.read(func(tx *store.Tx) error {
		nodes, whole, err := tx.PowerNodesSince(since, changed.ID, 10)
		if got, want := keysOf(nodes), []int64{changed.ID, created.ID}; !slices.Equal(got, want) || !whole {
			t.Errorf("nodes %v, all of them: %v; want %v", got, whole, want)
		}
		return err
	})
}

func checkPowerNodesLimit(t *testing.T, e *env) {
	since := e.clock.Now()
	for range 2 {
		e.updateNode(e.createNode(), func(n *node.Node) { n.PowerState = node.PowerOn })
	}
	for name, key := range map[string]int64{"changed": 1 << 40, "created": 0} {
		e.read(func(tx *store.Tx) error {
			from := since
			if name == "created" {
				from = since.Add(time.Hour)
			}
			for limit, want := range map[int]bool{2: false, 3: true} {
				if _, whole, err := tx.PowerNodesSince(from, key, limit); err != nil || whole != want {
					t.Errorf("%s, limit %d: all of them: %v, %v", name, limit, whole, err)
				}
			}
			return nil
		})
	}
}

func checkPowerVersions(t *testing.T, e *env) {
	idle, held, ended := e.createNode(), e.createNode(), e.createNode()
	at := e.clock.Advance(time.Second)
	e.updateNode(idle, func(n *node.Node) { n.PowerState = node.PowerOn })
	e.write(func(tx *store.Tx) error {
		_, err := tx.AcquireLease(ended.ID, "here", time.Second)
		return err
	})
	e.clock.Advance(time.Second)
	e.write(func(tx *store.Tx) error {
		_, err := tx.AcquireLease(held.ID, "here", time.Minute)
		return err
	})
	want := map[int64]store.NodeVersion{
		idle.ID: {ID: idle.ID, Updated: at}, held.ID: {ID: held.ID, Held: true}, ended.ID: {ID: ended.ID},
	}
	e.read(func(tx *store.Tx) error {
		got, err := tx.PowerVersions([]int64{idle.ID, held.ID, ended.ID, ended.ID + 100})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("versions (-want +got):\n%s", diff)
		}
		return err
	})
	e.read(func(tx *store.Tx) error {
		all, err := tx.NodeVersions()
		got := map[int64]store.NodeVersion{}
		for _, v := range all {
			v.Held = want[v.ID].Held
			got[v.ID] = v
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("versions of all (-want +got):\n%s", diff)
		}
		return err
	})
}

func checkPowerNodes(t *testing.T, e *env) {
	n := newNode(func(n *node.Node) {
		n.DriverInfo = node.ObjectOf(map[string]any{"fake_bmc": "192.0.2.1"})
		n.Interfaces[node.PowerInterface] = "fake"
		n.PowerState, n.TargetPowerState, n.ProvisionState = node.PowerOn, node.PowerOff, node.Active
		n.Maintenance, n.Fault, n.ConductorGroup, n.DisablePowerOff = true, node.FaultPowerFailure, "row1", true
	})
	e.write(func(tx *store.Tx) error { return tx.CreateNode(n) })
	want := []*node.Node{n}
	for range 40 { // more than one statement asks for
		want = append(want, e.createNode())
	}
	changed := *n
	changed.Extra = node.ObjectOf(map[string]any{"much": "text"})
	e.write(func(tx *store.Tx) error { return tx.UpdateNode(n, &changed) })
	n.UpdatedAt = changed.UpdatedAt
	e.read(func(tx *store.Tx) error {
		got, err := tx.PowerNodes(append(keysOf(want), n.ID+1000))
		slices.SortFunc(got, func(a, b *node.Node) int { return int(a.ID - b.ID) })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("nodes (-want +got):\n%s", diff)
		}
		return err
	})
}
