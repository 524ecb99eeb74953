package httpapi

import (
	"testing"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
	"github.com/ingot-metal/ingot/internal/store/storetest"
)

// TestStoreAcceptsEveryQueryThatTheTablesAllow compares the tables of this package with
// the columns of the database: every sort_key and filter of the API must have a column.
func TestStoreAcceptsEveryQueryThatTheTablesAllow(t *testing.T) {
	db, err := store.Open(t.Context(), storetest.Options(t, t.TempDir()))
	if err != nil {
		t.Fatalf("open store: %v", err)
	}
	t.Cleanup(func() { _ = db.Close() })
	run := func(what string, read func(tx *store.Tx) error) {
		t.Helper()
		if err := db.Read(t.Context(), read); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, f := range nodeTable.fields {
		if !f.noSort {
			run("sort nodes by "+f.name, func(tx *store.Tx) error {
				_, err := tx.Nodes(node.Query{SortKey: f.name})
				return err
			})
		}
	}
	for _, f := range portTable.fields {
		if !f.noSort {
			run("sort ports by "+f.name, func(tx *store.Tx) error {
				_, err := tx.Ports(node.Query{SortKey: f.name})
				return err
			})
		}
	}
	for _, f := range nodeFilters {
		run("filter nodes by "+f.name, func(tx *store.Tx) error {
			condition, err := f.parse(exampleOf(f.name))
			if err != nil {
				return err
			}
			_, err = tx.Nodes(node.Query{Filters: []node.Filter{condition}})
			return err
		})
	}
	for _, field := range []string{"node_uuid", "address"} {
		run("filter ports by "+field, func(tx *store.Tx) error {
			_, err := tx.Ports(node.Query{Filters: []node.Filter{{Field: field, Value: "x"}}})
			return err
		})
	}
}

// exampleOf returns a value that the filter of this name accepts.
func exampleOf(filter string) string {
	switch filter {
	case "instance_uuid", "chassis_uuid", "parent_node":
		return uuid1
	case "associated", "maintenance", "retired", "sharded", "auto_discovered":
		return "true"
	case "provision_state":
		return "enroll"
	case "fault":
		return node.FaultPowerFailure
	}
	return "x"
}
