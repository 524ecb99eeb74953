package store_test

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
	"github.com/ingot-metal/ingot/internal/store/storetest"
)

// onBoth runs a test of the view on either kind of database.
func onBoth(t *testing.T, test func(t *testing.T, opts store.Options)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) { test(t, store.Options{Dir: t.TempDir()}) })
	t.Run("postgres", func(t *testing.T) { test(t, store.Options{URL: storetest.NewSchema(t)}) })
}

// viewed is a database with an engine's store and a view of it.
type viewed struct {
	t    *testing.T
	s    *store.Store
	view *store.BootView
}

func view(t *testing.T, opts store.Options) *viewed {
	t.Helper()
	s, err := store.Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // the test may have closed it
	return &viewed{t, s, openView(t, opts)}
}

func openView(t *testing.T, opts store.Options) *store.BootView {
	t.Helper()
	v, err := store.OpenBootView(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = v.Close(t.Context()) })
	return v
}

func (v *viewed) write(fn func(*store.Tx) error) {
	v.t.Helper()
	if err := v.s.Write(v.t.Context(), fn); err != nil {
		v.t.Fatal(err)
	}
}

func (v *viewed) node(macs ...string) *node.Node {
	v.t.Helper()
	n := createNode(v.t, v.s, "")
	for _, mac := range macs {
		v.port(n, mac)
	}
	return n
}

func (v *viewed) port(n *node.Node, mac string) *node.Port {
	v.t.Helper()
	p := &node.Port{UUID: uuid.NewString(), NodeID: n.ID, Address: mac}
	v.write(func(tx *store.Tx) error { return tx.CreatePort(p) })
	return p
}

func (v *viewed) move(n *node.Node, state node.State) {
	v.t.Helper()
	v.write(func(tx *store.Tx) error {
		before, err := tx.Node(n.UUID)
		if err != nil {
			return err
		}
		after := *before
		after.ProvisionState = state
		after.Interfaces[node.InspectInterface] = "agent"
		return tx.UpdateNode(before, &after)
	})
}

func (v *viewed) since(mark store.BootMark) store.BootChanges {
	v.t.Helper()
	changes, err := v.view.Since(v.t.Context(), mark)
	if err != nil {
		v.t.Fatal(err)
	}
	return changes
}

func (v *viewed) token() string {
	v.t.Helper()
	token, err := v.view.Token(v.t.Context())
	if err != nil {
		v.t.Fatal(err)
	}
	return token
}

// want compares what was read with nodes, whose IDs need not be given.
func (v *viewed) want(got store.BootChanges, nodes, ports int, want ...store.BootNode) {
	v.t.Helper()
	if diff := cmp.Diff(want, got.Nodes, cmpopts.IgnoreFields(store.BootNode{}, "ID"), cmpopts.EquateEmpty()); diff != "" {
		v.t.Errorf("nodes read (-want +got):\n%s", diff)
	}
	if got.NodeCount != nodes || got.PortCount != ports {
		v.t.Errorf("counted %d nodes and %d ports, want %d and %d", got.NodeCount, got.PortCount, nodes, ports)
	}
}

func TestViewReadsWhatChanged(t *testing.T) {
	onBoth(t, func(t *testing.T, opts store.Options) {
		t.Helper()
		v := view(t, opts)
		v.want(v.since(store.BootMark{}), 0, 0)

		one, two := v.node("52:54:00:00:00:01", "52:54:00:00:00:02"), v.node()
		first := v.since(store.BootMark{})
		v.want(first, 2, 2,
			store.BootNode{UUID: one.UUID, State: node.Enroll, MACs: []string{"52:54:00:00:00:01", "52:54:00:00:00:02"}},
			store.BootNode{UUID: two.UUID, State: node.Enroll})
		v.want(v.since(first.Mark), 2, 2)

		v.move(two, node.InspectWait)
		second := v.since(first.Mark)
		v.want(second, 2, 2, store.BootNode{UUID: two.UUID, State: node.InspectWait, InspectInterface: "agent"})

		p := v.port(one, "52:54:00:00:00:03")
		changed := store.BootNode{UUID: one.UUID, State: node.Enroll, MACs: []string{"52:54:00:00:00:01", "52:54:00:00:00:02", "52:54:00:00:00:03"}}
		third := v.since(second.Mark)
		if !slices.ContainsFunc(third.Nodes, func(n store.BootNode) bool { return cmp.Equal(n.MACs, changed.MACs) }) {
			t.Errorf("read %+v, want the node with its new port", third.Nodes)
		}

		v.write(func(tx *store.Tx) error { return tx.DeletePort(p) })
		v.write(func(tx *store.Tx) error { return tx.DeleteNode(two) })
		if got := v.since(third.Mark); got.NodeCount != 1 || got.PortCount != 2 {
			t.Errorf("counted %d nodes and %d ports after deleting, want 1 and 2", got.NodeCount, got.PortCount)
		}
		three := v.node()
		v.want(v.since(third.Mark), 2, 2, store.BootNode{UUID: three.UUID, State: node.Enroll})

		v.write(func(tx *store.Tx) error {
			before, err := tx.Node(one.UUID)
			if err != nil {
				return err
			}
			after := *before
			after.Provisional = true
			return tx.UpdateNode(before, &after)
		})
		last := v.since(third.Mark)
		if !slices.ContainsFunc(last.Nodes, func(n store.BootNode) bool { return n.UUID == one.UUID && n.Provisional && len(n.MACs) == 2 }) {
			t.Errorf("read %+v, want the node as provisional", last.Nodes)
		}
	})
}

func TestTokenTellsOfCommitsOnly(t *testing.T) {
	onBoth(t, func(t *testing.T, opts store.Options) {
		t.Helper()
		v := view(t, opts)
		n := v.node()
		before := v.token()
		if opts.URL == "" { // a server works for other databases meanwhile
			v.since(store.BootMark{})
			if got := v.token(); got != before {
				t.Errorf("token went from %q to %q without a commit", before, got)
			}
		}
		v.move(n, node.InspectWait)
		if got := v.token(); got == before {
			t.Errorf("token is still %q after a commit", got)
		}
	})
}

func TestSumTellsOfWhatChangesHide(t *testing.T) {
	onBoth(t, func(t *testing.T, opts store.Options) {
		t.Helper()
		v := view(t, opts)
		sum := func() string {
			t.Helper()
			text, err := v.view.Sum(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return text
		}
		n := v.node()
		p := v.port(n, "52:54:00:00:00:01")
		v.move(n, node.Manageable)
		first := sum()
		v.write(func(tx *store.Tx) error { return tx.Exec("UPDATE conductors SET updated_at = 7") })
		if got := sum(); got != first {
			t.Errorf("sum went from %q to %q although no node changed", first, got)
		}
		v.write(func(tx *store.Tx) error {
			after := *p
			after.Address = "52:54:00:00:00:02"
			return tx.UpdatePort(p, &after)
		})
		second := sum()
		if second == first {
			t.Errorf("sum is still %q after a port got another address", second)
		}
		v.write(func(tx *store.Tx) error { // as with a clock that was set back
			return tx.Exec("UPDATE nodes SET provision_state = 'inspect wait', updated_at = 7 WHERE id = ?", n.ID)
		})
		if got := sum(); got == second {
			t.Errorf("sum is still %q after a change in the past", got)
		}
	})
}

func TestViewSeesTheNextEngine(t *testing.T) {
	onBoth(t, func(t *testing.T, opts store.Options) {
		t.Helper()
		v := view(t, opts)
		n := v.node()
		before := v.token()
		closeStore(t, v.s)
		next, err := store.Open(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		defer next.Close()
		v.s = next
		v.move(n, node.InspectWait)
		if got := v.token(); got == before {
			t.Errorf("token is still %q after a commit of the next engine", got)
		}
		v.want(v.since(store.BootMark{}), 1, 0, store.BootNode{UUID: n.UUID, State: node.InspectWait, InspectInterface: "agent"})
	})
}

func TestViewRefusesUnknownSchema(t *testing.T) {
	onBoth(t, func(t *testing.T, opts store.Options) {
		t.Helper()
		v := view(t, opts)
		v.write(func(tx *store.Tx) error {
			return tx.Exec("INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, true)")
		})
		_, err := v.view.Since(t.Context(), store.BootMark{})
		if !errors.Is(err, store.ErrUnknownSchema) || !strings.Contains(err.Error(), "999") || strings.Contains(err.Error(), "\n") {
			t.Errorf("newer schema: error = %v, want ErrUnknownSchema in one line with the version", err)
		}
		v.write(func(tx *store.Tx) error { return tx.Exec("DELETE FROM goose_db_version WHERE version_id > 0") })
		_, err = v.view.Since(t.Context(), store.BootMark{})
		if err == nil || errors.Is(err, store.ErrUnknownSchema) || !strings.Contains(err.Error(), "start the engine") {
			t.Errorf("schema without tables: error = %v, want one that an engine's start mends", err)
		}
		v.write(func(tx *store.Tx) error { return tx.Exec("DROP TABLE goose_db_version") })
		if _, err = v.view.Since(t.Context(), store.BootMark{}); err == nil || !strings.Contains(err.Error(), "has an engine created it?") {
			t.Errorf("no schema: error = %v, want one that asks for the engine", err)
		}
		if _, err := v.view.Token(t.Context()); err != nil {
			t.Errorf("the view is of no use after an error: %v", err)
		}
	})
}

func TestViewOfAStoppedEngineWritesNothing(t *testing.T) {
	dir := t.TempDir()
	v := view(t, store.Options{Dir: dir})
	n := v.node()
	if err := v.view.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	closeStore(t, v.s)
	before := content(t, dir, "ingot.db")
	v.view = openView(t, store.Options{Dir: dir})
	v.want(v.since(store.BootMark{}), 1, 0, store.BootNode{UUID: n.UUID, State: node.Enroll})
	if err := v.view.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := content(t, dir, "ingot.db"); after != before {
		t.Error("the database file has changed")
	}
}

func TestViewReadsWhatAKilledEngineCommitted(t *testing.T) {
	dir, killed := t.TempDir(), t.TempDir()
	v := view(t, store.Options{Dir: dir})
	n := v.node()
	for _, file := range []string{"ingot.db", "ingot.db-wal"} {
		if err := os.WriteFile(filepath.Join(killed, file), []byte(content(t, dir, file)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	log := content(t, killed, "ingot.db-wal")
	v.view = openView(t, store.Options{Dir: killed})
	v.want(v.since(store.BootMark{}), 1, 0, store.BootNode{UUID: n.UUID, State: node.Enroll})
	if err := v.view.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if content(t, killed, "ingot.db-wal") != log {
		t.Error("the log has changed, want it left to the engine")
	}
}

func content(t *testing.T, dir, file string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestViewNoticesThatItsFileIsNoLongerTheDatabase(t *testing.T) {
	dir := t.TempDir()
	v := view(t, store.Options{Dir: dir})
	path := filepath.Join(dir, "ingot.db")
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	if _, err := v.view.Token(t.Context()); err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("file moved away: error = %v", err)
	}
	if err := os.WriteFile(path, []byte(content(t, dir, "ingot.db.old")), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := v.view.Token(t.Context()); err == nil || !strings.Contains(err.Error(), "another file") {
		t.Errorf("file replaced: error = %v", err)
	}
}

func TestViewOfWhatIsNoDatabase(t *testing.T) {
	folder := func(create func(path string) error) store.Options {
		dir := t.TempDir()
		if err := create(filepath.Join(dir, "ingot.db")); err != nil {
			t.Fatal(err)
		}
		return store.Options{Dir: dir}
	}
	for name, test := range map[string]struct {
		opts store.Options
		want string
	}{
		"no file":        {folder(func(string) error { return nil }), "start the engine"},
		"no folder":      {store.Options{Dir: "/nonexistent"}, "start the engine"},
		"empty file":     {folder(func(path string) error { return os.WriteFile(path, nil, 0o600) }), "no SQLite database"},
		"other file":     {folder(func(path string) error { return os.WriteFile(path, []byte("once upon a time there was"), 0o600) }), "no SQLite database"},
		"foreign":        {folder(createForeign), "has an engine created it?"},
		"wrong URL":      {store.Options{URL: "postgres://ingot:hunter2@%zz/ingot"}, "not understood"},
		"nobody listens": {store.Options{URL: "postgres://ingot:hunter2@127.0.0.1:1/ingot"}, "127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := store.OpenBootView(t.Context(), test.opts)
			if err == nil {
				_, err = v.Since(t.Context(), store.BootMark{})
				_ = v.Close(t.Context())
			}
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("error = %v, want %q and no password", err, test.want)
			}
		})
	}
}

// createForeign makes a database that is not of an engine.
func createForeign(path string) error {
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		return err
	}
	_, err = db.Exec("CREATE TABLE recipes (name TEXT)")
	return errors.Join(err, db.Close())
}

func TestNodesOfARestoredDatabaseAreDoubtful(t *testing.T) {
	onBoth(t, func(t *testing.T, opts store.Options) {
		t.Helper()
		v := view(t, opts)
		old, moved := v.node("02:00:00:00:00:01"), v.node("02:00:00:00:00:02")
		var mark store.BootMark
		doubtful := func() (uuids []string) {
			changes, err := v.view.Since(t.Context(), mark)
			if err != nil {
				t.Fatal(err)
			}
			mark = changes.Mark
			for _, n := range changes.Nodes {
				if n.Doubtful {
					uuids = append(uuids, n.UUID)
				}
			}
			return uuids
		}
		if got := doubtful(); len(got) != 0 {
			t.Fatalf("doubtful before: %v", got)
		}
		v.write(func(tx *store.Tx) error {
			_, _, err := tx.Suspend(node.Restored, "of a test")
			return err
		})
		if got := doubtful(); !slices.Equal(got, []string{old.UUID, moved.UUID}) {
			t.Errorf("doubtful after a restore: %v", got)
		}
		fresh := v.node("02:00:00:00:00:03")
		v.write(func(tx *store.Tx) error {
			before, err := tx.NodeByID(moved.ID)
			if err != nil {
				return err
			}
			after := *before
			after.ProvisionState, after.ProvisionUpdatedAt = node.Active, tx.Now()
			return tx.UpdateNode(before, &after)
		})
		mark = store.BootMark{}
		if got := doubtful(); !slices.Equal(got, []string{old.UUID}) {
			t.Errorf("doubtful when one was moved and %s came: %v", fresh.UUID, got)
		}
		v.write(func(tx *store.Tx) error { return tx.EndSuspension() })
		if got := doubtful(); len(got) != 0 || mark.Doubt != 0 {
			t.Errorf("doubtful after the end: %v", got)
		}
	})
}

func TestNodesOfABackupAreDoubtfulBeforeAnEngineStarts(t *testing.T) {
	dir := t.TempDir()
	if _, err := store.Restore(t.Context(), backupOf(t, "a"), dir, restoredAt); err != nil {
		t.Fatal(err)
	}
	changes, err := openView(t, store.Options{Dir: dir}).Since(t.Context(), store.BootMark{})
	if err != nil || len(changes.Nodes) != 1 || !changes.Nodes[0].Doubtful {
		t.Errorf("nodes %+v, %v", changes.Nodes, err)
	}
}
