package store_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
	"github.com/ingot-metal/ingot/internal/store/storetest"
)

// loadedRows is a node with all rows that refer to it, directly or indirectly.
const loadedRows = `{
	"history": [{"id": 9, "uuid": "h", "node_id": 7, "severity": "INFO", "event_type": "t", "event": "it's \"so\"", "user": "me", "created_at": 1930385472131415}],
	"inventories": [{"node_id": 7, "document_id": 3, "plugin_data": "{}"}],
	"leases": [{"epoch": 41, "node_id": 7, "owner": "conductor-1", "expires_at": 1930385502131415}],
	"documents": [{"id": 3, "node_id": 7, "inventory": "{ }", "plugin_data": "{}", "created_at": 1930385472131415}],
	"work": [{"id": 5, "node_id": 7, "kind": "clean", "step": "{\"at\":1}", "intent": null, "attempts": 2, "not_before": 1930385472131415, "created_at": 1930385472131415}],
	"nodes": [{"id": 7, "uuid": "0b0a7c1e-0000-4000-8000-000000000001", "driver": "fake-hardware", "provision_state": "cleaning", "created_at": 1930385472131415}]
}`

func TestLoadedRowsAreReadAsIfTheStoreHadWrittenThem(t *testing.T) {
	for name, options := range map[string]func(*testing.T) store.Options{
		"SQLite":     func(t *testing.T) store.Options { t.Helper(); return store.Options{Dir: t.TempDir()} },
		"PostgreSQL": func(t *testing.T) store.Options { t.Helper(); return store.Options{URL: storetest.Postgres(t)} },
	} {
		t.Run(name, func(t *testing.T) {
			clock := storetest.NewClock()
			options := options(t)
			options.Clock = clock.Now
			s, err := store.Open(t.Context(), options)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			var tables map[string][]map[string]any
			if err := json.Unmarshal([]byte(loadedRows), &tables); err != nil {
				t.Fatal(err)
			}
			storetest.Load(t, options, tables)
			checkLoaded(t, s)
			clock.Advance(time.Minute)
			checkKeysGoOn(t, s)
		})
	}
}

func checkLoaded(t *testing.T, s *store.Store) {
	t.Helper()
	err := s.Read(t.Context(), func(tx *store.Tx) error {
		n, err := tx.NodeByID(7)
		if err != nil {
			return err
		}
		if n.ProvisionState != node.Cleaning || n.Maintenance || n.Name != "" || !n.CreatedAt.Equal(storetest.NewClock().Now()) {
			t.Errorf("node = %+v, want what was loaded and the defaults of the rest", n)
		}
		if n.Lease.Epoch != 41 || n.Lease.Holder != "conductor-1" || !n.Lease.ExpiresAt.Equal(tx.Now().Add(30*time.Second)) {
			t.Errorf("lease = %+v", n.Lease)
		}
		works, err := tx.WorkOf(7)
		if err != nil || len(works) != 1 || works[0].ID != 5 || works[0].Checkpoint != `{"at":1}` || works[0].Attempts != 2 || !works[0].Intent.IsEmpty() {
			t.Errorf("work = %+v, %v", works, err)
		}
		events, err := tx.Events(7)
		if err != nil || len(events) != 1 || events[0].Message != `it's "so"` || events[0].User != "me" {
			t.Errorf("history = %+v, %v", events, err)
		}
		data, err := tx.Inspection(n)
		if err != nil || string(data.Inventory) != "{ }" {
			t.Errorf("inspection = %v, %v", data, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// checkKeysGoOn stores rows beside the loaded ones.
func checkKeysGoOn(t *testing.T, s *store.Store) {
	t.Helper()
	err := s.Write(t.Context(), func(tx *store.Tx) error {
		n := &node.Node{UUID: "0b0a7c1e-0000-4000-8000-000000000002", Driver: "fake-hardware", ProvisionState: node.Enroll}
		if err := tx.CreateNode(n); err != nil {
			return err
		}
		w := &store.Work{NodeID: n.ID, Kind: "clean"}
		if err := tx.AddWork(w); err != nil {
			return err
		}
		lease, err := tx.AcquireLease(7, "conductor-2", time.Minute)
		if n.ID <= 7 || w.ID <= 5 || lease.Epoch <= 41 {
			t.Errorf("node %d, work %d, epoch %d; want keys that no loaded row had", n.ID, w.ID, lease.Epoch)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestLoadRefusesRowsThatDoNotFit(t *testing.T) {
	for name, row := range map[string]map[string]any{
		"unknown column": {"node_id": 1, "owner": "o", "expires_at": 1, "colour": "red"},
		"no such node":   {"node_id": 99, "owner": "o", "expires_at": 1},
		"a fraction":     {"node_id": 1, "owner": "o", "expires_at": 1.5},
	} {
		t.Run(name, func(t *testing.T) {
			options := store.Options{Dir: t.TempDir()}
			s, err := store.Open(t.Context(), options)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			heard := &listener{TB: t}
			done := make(chan struct{})
			go func() {
				defer close(done)
				storetest.Load(heard, options, map[string][]map[string]any{"leases": {row}})
			}()
			<-done
			if heard.text == "" {
				t.Error("the row was accepted")
			}
		})
	}
}

// listener records the failures of a test instead of failing it.
type listener struct {
	testing.TB
	text string
}

func (l *listener) Helper() {}

func (l *listener) Fatalf(format string, args ...any) {
	l.text = fmt.Sprintf(format, args...)
	runtime.Goexit()
}
