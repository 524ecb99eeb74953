package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

var collectionBehaviours = []behaviour{
	{"chassis", func(t *testing.T, e *env) { checkCollection(t, e, store.Chassis) }},
	{"port groups", func(t *testing.T, e *env) { checkCollection(t, e, store.Portgroups, "Name", "Address") }},
	{"allocations", func(t *testing.T, e *env) { checkCollection(t, e, store.Allocations, "Name") }},
	{"a node has one allocation", checkOneAllocation},
	{"deploy templates", func(t *testing.T, e *env) { checkCollection(t, e, store.DeployTemplates, "Name") }},
	{"runbooks", func(t *testing.T, e *env) { checkCollection(t, e, store.Runbooks, "Name") }},
	{"volume connectors", func(t *testing.T, e *env) { checkCollection(t, e, store.VolumeConnectors, "Type") }},
	{"volume targets", func(t *testing.T, e *env) { checkCollection(t, e, store.VolumeTargets, "BootIndex") }},
	{"a node takes what belongs to it along", checkOwnedRecords},
	{"records of a node are filtered by it and by its shard", checkOwnedFilters},
	{"either of two conditions keeps a node", checkOrFilter},
	{"shards are counted, nodes without one too", checkShards},
}

// checkCollection holds every promise about the records of one collection. Values of the
// fields in unique belong to one record.
func checkCollection[T any](t *testing.T, e *env, all *store.Collection[T], unique ...string) {
	fields := leaves[T]("UUID", "UpdatedAt")
	n := e.createNode()
	create := func(salt int) *T {
		record := newRecord[T](n)
		fill(record, fields, salt)
		e.write(func(tx *store.Tx) error { return all.Create(tx, record) })
		return record
	}
	get := func(record *T) *T {
		var found *T
		e.read(func(tx *store.Tx) (err error) {
			found, err = all.Get(tx, identOf(record))
			return err
		})
		return found
	}
	first := create(0)
	if diff := cmp.Diff(first, get(first)); diff != "" {
		t.Errorf("record (-stored +read):\n%s", diff)
	}
	for _, l := range fields {
		before := get(first)
		after := *before
		l.set(&after, 1)
		if l.compare(before, &after) == 0 {
			l.set(&after, -1)
		}
		e.clock.Advance(time.Second)
		e.write(func(tx *store.Tx) error { return all.Update(tx, before, &after) })
		if diff := cmp.Diff(&after, get(first)); diff != "" || cmp.Equal(before, &after) {
			t.Errorf("after a change of %s (-stored +read):\n%s", l.name, diff)
		}
	}
	if len(unique) > 0 {
		other := newRecord[T](n)
		fill(other, fields, 1)
		err := e.refused(func(tx *store.Tx) error { return all.Create(tx, other) })
		wantConflict(t, err)
		if text := err.Error(); strings.Contains(text, "%!") {
			t.Errorf("conflict: got %q", text)
		}
	}
	e.write(func(tx *store.Tx) error { return all.Delete(tx, first) })
	wantIs(t, e.store.Read(t.Context(), func(tx *store.Tx) error {
		_, err := all.Get(tx, identOf(first))
		return err
	}), node.ErrNotFound)
	checkCollectionPages(t, e, all, fields, unique)
}

func checkCollectionPages[T any](t *testing.T, e *env, all *store.Collection[T], fields []leaf, unique []string) {
	var stored []*T
	for i := range records {
		record := newRecord[T](e.createNode())
		fill(record, fields, 1)
		spread(record, fields, i)
		for _, l := range fields {
			if slices.Contains(unique, l.name) {
				l.set(record, i) // also where it may be null: some are required
			}
		}
		setText(record, "UUID", fmt.Sprintf("%02d-%s", i*5%records, uuid.NewString()))
		e.clock.Advance(time.Second)
		e.write(func(tx *store.Tx) error { return all.Create(tx, record) })
		stored = append(stored, record)
	}
	checkWalks(t, stored, fields, func(q node.Query) []*T { return list(e, all, q) }, identOf[T])
}

func list[T any](e *env, all *store.Collection[T], q node.Query) []*T {
	e.t.Helper()
	var page []*T
	e.read(func(tx *store.Tx) (err error) {
		page, err = all.List(tx, q)
		return err
	})
	return page
}

// newRecord returns a record that is not stored yet, of the node when those of
// its collection belong to one.
func newRecord[T any](n *node.Node) *T {
	record := new(T)
	setText(record, "UUID", uuid.NewString())
	if owner, ok := fieldOf(record, "NodeID"); ok {
		owner.SetInt(n.ID)
		setText(record, "NodeUUID", n.UUID)
	}
	return record
}

// populateCollections stores a record of each collection that belongs to nodes, and what was
// read of a machine's settings.
func (e *env) populateCollections(n *node.Node) {
	e.t.Helper()
	e.write(func(tx *store.Tx) error {
		return errors.Join(
			store.Portgroups.Create(tx, newRecord[node.Portgroup](n)),
			store.Allocations.Create(tx, newRecord[node.Allocation](n)),
			store.VolumeConnectors.Create(tx, newRecord[node.VolumeConnector](n)),
			store.VolumeTargets.Create(tx, newRecord[node.VolumeTarget](n)),
			tx.SetHardware(n.ID, node.Hardware{BIOS: []node.BIOSSetting{{Name: "ProcVirtualization"}}}),
		)
	})
}

func checkOneAllocation(t *testing.T, e *env) {
	n := e.createNode()
	create := func(tx *store.Tx) error { return store.Allocations.Create(tx, newRecord[node.Allocation](n)) }
	e.write(create)
	err := e.refused(create)
	wantConflict(t, err)
	if strings.Contains(err.Error(), "%") {
		t.Errorf("conflict: got %q", err)
	}
}

func checkOwnedRecords(t *testing.T, e *env) {
	n := e.createNode()
	e.populateCollections(n)
	e.write(func(tx *store.Tx) error { return tx.DeleteNode(n) })
	left := len(list(e, store.Portgroups, node.Query{})) + len(list(e, store.Allocations, node.Query{})) +
		len(list(e, store.VolumeConnectors, node.Query{})) + len(list(e, store.VolumeTargets, node.Query{}))
	if left > 0 {
		t.Errorf("%d records are left behind", left)
	}
}

func checkOwnedFilters(t *testing.T, e *env) {
	mine := e.createNode(func(n *node.Node) { n.Shard = "left" })
	other := e.createNode()
	g := &node.Portgroup{UUID: uuid.NewString(), NodeID: mine.ID}
	e.write(func(tx *store.Tx) error { return store.Portgroups.Create(tx, g) })
	p := e.createPort(mine, "02:00:00:00:00:01")
	e.createPort(other, "02:00:00:00:00:02")
	for _, f := range []node.Filter{
		{Field: "node_uuid", Value: mine.UUID},
		{Field: "shard", Op: node.OneOf, Value: []string{"left", "right"}},
	} {
		q := node.Query{Filters: []node.Filter{f}}
		if got := list(e, store.Portgroups, q); len(got) != 1 || got[0].NodeUUID != mine.UUID {
			t.Errorf("port groups by %s: %v", f.Field, got)
		}
		if got := e.ports(q); len(got) != 1 || got[0].UUID != p.UUID {
			t.Errorf("ports by %s: %v", f.Field, got)
		}
	}
	if got := list(e, store.Portgroups, node.Query{Filters: []node.Filter{{Field: "node_uuid", Value: other.UUID}}}); len(got) != 0 {
		t.Errorf("port groups of another node: %v", got)
	}
}

func checkOrFilter(t *testing.T, e *env) {
	e.createNode(func(n *node.Node) { n.Name, n.Owner = "owned", "p1" })
	e.createNode(func(n *node.Node) { n.Name, n.Lessee = "leased", "p1" })
	e.createNode(func(n *node.Node) { n.Name, n.Owner = "other", "p2" })
	either := node.Filter{Field: "owner", Value: "p1", Or: &node.Filter{Field: "lessee", Value: "p1"}}
	if diff := cmp.Diff([]string{"owned", "leased"}, e.named(either)); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	if got := e.named(either, node.Filter{Field: "name", Value: "leased"}); len(got) != 1 {
		t.Errorf("with another filter: %v", got)
	}
}

func checkShards(t *testing.T, e *env) {
	for _, shard := range []string{"b", "", "a", "b"} {
		e.createNode(func(n *node.Node) { n.Shard = shard })
	}
	var shards []node.Shard
	e.read(func(tx *store.Tx) (err error) {
		shards, err = tx.Shards()
		return err
	})
	if diff := cmp.Diff([]node.Shard{{Name: "", Count: 1}, {Name: "a", Count: 1}, {Name: "b", Count: 2}}, shards); diff != "" {
		t.Errorf("shards (-want +got):\n%s", diff)
	}
}
