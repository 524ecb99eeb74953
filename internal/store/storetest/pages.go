package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

var pageBehaviours = []behaviour{
	{"pages of nodes by any field hold each node once and in order", checkNodePages},
	{"pages of ports by any field hold each port once and in order", checkPortPages},
	{"pages of a filtered list leave out what the filter does", checkFilteredPages},
	{"an unknown marker is not found", checkUnknownMarker},
	{"an unknown sort key is an error", checkUnknownSortKey},
	{"a page shows who holds the lease", checkPageLeases},
	{"a brief page holds what a short list shows, and no more", checkBriefPage},
	{"a brief page of ports holds what a short list shows, and no more", checkBriefPortPage},
}

// pageSize divides none of the lists that are paged, so that a page ends inside a
// run of equal values, at its border, and among nulls.
const pageSize = 3

// records is how many records the walks go over.
const records = 14

// walk reads all pages and returns the UUIDs in order.
func walk[T any](t *testing.T, q node.Query, read func(node.Query) []*T, uuidOf func(*T) string) []string {
	t.Helper()
	var all []string
	q.Limit = pageSize
	for range records {
		page := read(q)
		for _, record := range page {
			all = append(all, uuidOf(record))
		}
		if len(page) > pageSize {
			t.Fatalf("page of %d, want at most %d", len(page), pageSize)
		}
		if len(page) < pageSize {
			return all
		}
		q.Marker = all[len(all)-1]
	}
	t.Fatalf("sort by %q: pages do not end: %v", q.SortKey, all)
	return nil
}

// checkWalks compares the pages by each field, in both directions, with the order
// that follows from the records themselves.
func checkWalks[T any](t *testing.T, stored []*T, fields []leaf, read func(node.Query) []*T, uuidOf func(*T) string) {
	t.Helper()
	for _, l := range fields {
		want := slices.Clone(stored) // in order of creation
		slices.SortStableFunc(want, func(a, b *T) int { return l.compare(a, b) })
		for _, desc := range []bool{false, true} {
			got := walk(t, node.Query{SortKey: l.column, Desc: desc}, read, uuidOf)
			if diff := cmp.Diff(uuids(want, uuidOf), got); diff != "" {
				t.Errorf("sorted by %s, descending %v (-want +got):\n%s", l.column, desc, diff)
			}
			slices.Reverse(want)
		}
	}
	for _, key := range []string{"", "id", "created_at"} {
		want := slices.Clone(stored)
		for _, desc := range []bool{false, true} {
			got := walk(t, node.Query{SortKey: key, Desc: desc}, read, uuidOf)
			if diff := cmp.Diff(uuids(want, uuidOf), got); diff != "" {
				t.Errorf("sorted by %q, descending %v (-want +got):\n%s", key, desc, diff)
			}
			slices.Reverse(want)
		}
	}
	if got := uuids(read(node.Query{}), uuidOf); !slices.Equal(got, uuids(stored, uuidOf)) {
		t.Errorf("without a limit: %v, want all in order of creation", got)
	}
}

func uuids[T any](records []*T, uuidOf func(*T) string) []string {
	all := make([]string, len(records))
	for i, record := range records {
		all[i] = uuidOf(record)
	}
	return all
}

// spread gives record i values of which some are null and some equal; unique
// fields get values of their own.
func spread(pointer any, fields []leaf, i int, unique ...string) {
	for k, l := range fields {
		salt := (i*7+k)%4 - 1
		if slices.Contains(unique, l.name) && salt >= 0 {
			salt = i
		}
		l.set(pointer, salt)
	}
}

func checkNodePages(t *testing.T, e *env) {
	fields := leaves[node.Node]()
	var stored []*node.Node
	for i := range records {
		n := newNode()
		spread(n, fields, i, "Name", "InstanceUUID")
		n.UUID = fmt.Sprintf("%02d-%s", i*5%records, uuid.NewString())
		e.clock.Advance(time.Second)
		e.write(func(tx *store.Tx) error { return tx.CreateNode(n) })
		stored = append(stored, n)
	}
	checkWalks(t, stored, fields, e.nodes, func(n *node.Node) string { return n.UUID })
}

func checkPortPages(t *testing.T, e *env) {
	fields := leaves[node.Port]()
	owners := []*node.Node{e.createNode(), e.createNode()}
	var stored []*node.Port
	for i := range records {
		p := &node.Port{}
		spread(p, fields, i, "Name")
		p.NodeID, p.Address = owners[i%2].ID, fmt.Sprintf("02:00:00:00:00:%02x", i*3%records)
		p.UUID = fmt.Sprintf("%02d-%s", i*5%records, uuid.NewString())
		e.clock.Advance(time.Second)
		e.write(func(tx *store.Tx) error { return tx.CreatePort(p) })
		stored = append(stored, p)
	}
	checkWalks(t, stored, fields, e.ports, func(p *node.Port) string { return p.UUID })
}

func (e *env) nodes(q node.Query) []*node.Node {
	e.t.Helper()
	var nodes []*node.Node
	e.read(func(tx *store.Tx) (err error) {
		nodes, err = tx.Nodes(q)
		return err
	})
	return nodes
}

func (e *env) ports(q node.Query) []*node.Port {
	e.t.Helper()
	var ports []*node.Port
	e.read(func(tx *store.Tx) (err error) {
		ports, err = tx.Ports(q)
		return err
	})
	return ports
}

func checkFilteredPages(t *testing.T, e *env) {
	var want []string
	for i := range records {
		n := e.createNode(func(n *node.Node) { n.Maintenance = i%3 != 0 })
		if n.Maintenance {
			want = append(want, n.UUID)
		}
	}
	q := node.Query{SortKey: "name", Filters: []node.Filter{{Field: "maintenance", Value: true}}}
	got := walk(t, q, e.nodes, func(n *node.Node) string { return n.UUID })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
}

func checkUnknownMarker(t *testing.T, e *env) {
	e.createNode()
	for _, key := range []string{"", "name"} {
		q := node.Query{Marker: uuid.NewString(), SortKey: key}
		wantIs(t, e.store.Read(t.Context(), func(tx *store.Tx) error {
			_, err := tx.Nodes(q)
			return err
		}), node.ErrNotFound)
		wantIs(t, e.store.Read(t.Context(), func(tx *store.Tx) error {
			_, err := tx.Ports(q)
			return err
		}), node.ErrNotFound)
	}
}

func checkUnknownSortKey(t *testing.T, e *env) {
	for _, key := range []string{"reservation", "id; DROP TABLE nodes", "nodes.id"} {
		err := e.store.Read(t.Context(), func(tx *store.Tx) error {
			_, err := tx.Nodes(node.Query{SortKey: key})
			return err
		})
		if err == nil {
			t.Errorf("sort by %q succeeded, want an error", key)
		}
	}
}

func checkPageLeases(t *testing.T, e *env) {
	free, held := e.createNode(), e.createNode()
	var lease node.Lease
	e.write(func(tx *store.Tx) (err error) {
		lease, err = tx.AcquireLease(held.ID, "conductor-1", time.Minute)
		return err
	})
	got := map[string]node.Lease{}
	for _, n := range e.nodes(node.Query{}) {
		got[n.UUID] = n.Lease
	}
	want := map[string]node.Lease{free.UUID: {}, held.UUID: lease}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("leases (-want +got):\n%s", diff)
	}
}

func checkBriefPage(t *testing.T, e *env) {
	n := newNode()
	spread(n, leaves[node.Node](), 1, "Name", "InstanceUUID")
	n.PowerState, n.ProvisionState, n.Maintenance = node.PowerOn, node.Active, true
	e.write(func(tx *store.Tx) error { return tx.CreateNode(n) })
	e.createNode()
	got := e.nodes(node.Query{
		Brief: true, SortKey: "driver", Limit: 1,
		Filters: []node.Filter{{Field: "driver", Value: n.Driver}, {Field: "uuid", Value: n.UUID}},
	})
	want := []*node.Node{{
		ID: n.ID, UUID: n.UUID, Name: n.Name, InstanceUUID: n.InstanceUUID,
		PowerState: n.PowerState, ProvisionState: n.ProvisionState, Maintenance: n.Maintenance,
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func checkBriefPortPage(t *testing.T, e *env) {
	n := e.createNode()
	p := e.createPort(n, "52:54:00:00:00:01", func(p *node.Port) { p.PXEEnabled, p.Name = true, "uplink" })
	e.createPort(n, "52:54:00:00:00:02")
	got := e.ports(node.Query{Brief: true, Limit: 5, Filters: []node.Filter{
		{Field: "address", Value: p.Address}, {Field: "node_uuid", Value: n.UUID},
	}})
	want := []*node.Port{{ID: p.ID, UUID: p.UUID, NodeUUID: n.UUID, Address: p.Address}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
