package store_test

import (
	"bytes"
	"database/sql"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
	"github.com/ingot-metal/ingot/internal/store/storetest"
)

func TestSQLiteKeepsThePromisesOfAStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T, clock func() time.Time) *store.Store {
		t.Helper()
		return open(t, t.TempDir(), clock)
	})
}

// open opens the database of a folder until the end of the test.
func open(t *testing.T, dir string, clock func() time.Time) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{Dir: dir, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // the test may have closed it
	return s
}

// refusal returns the error of opening a folder that must not be opened.
func refusal(t *testing.T, dir string) string {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{Dir: dir})
	if err == nil {
		_ = s.Close()
		t.Fatal("the database was opened, want an error")
	}
	return err.Error()
}

func createNode(t *testing.T, s *store.Store, name string) *node.Node {
	t.Helper()
	n := &node.Node{UUID: uuid.NewString(), Name: name, Driver: "fake-hardware", ProvisionState: node.Enroll}
	if err := s.Write(t.Context(), func(tx *store.Tx) error { return tx.CreateNode(n) }); err != nil {
		t.Fatal(err)
	}
	return n
}

func nodeNames(t *testing.T, s *store.Store) []string {
	t.Helper()
	var names []string
	if err := s.Read(t.Context(), func(tx *store.Tx) error {
		nodes, err := tx.Nodes(node.Query{})
		for _, n := range nodes {
			names = append(names, n.Name)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return names
}

func closeStore(t *testing.T, s *store.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
}

func TestDataFilesAreTheirOwnersAlone(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0)) // the strictest case: the environment hides nothing
	dir := filepath.Join(t.TempDir(), "new", "data")
	createNode(t, open(t, dir, nil), "a")
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, entry.Name())
		if got := info.Mode(); got != 0o600 {
			t.Errorf("mode of %s = %v, want -rw-------", entry.Name(), got)
		}
	}
	if want := []string{"ingot.db", "ingot.db-shm", "ingot.db-wal", "ingot.lock"}; !slices.Equal(names, want) {
		t.Errorf("files = %v, want %v", names, want)
	}
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o700 {
		t.Errorf("mode of the folder = %v, want -rwx------", got)
	}
}

func TestOlderDatabaseFileIsProtectedWhenItIsOpened(t *testing.T) {
	dir := t.TempDir()
	closeStore(t, open(t, dir, nil))
	path := filepath.Join(dir, "ingot.db")
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	open(t, dir, nil)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != 0o600 {
		t.Errorf("mode = %v, want -rw-------", info.Mode())
	}
}

func TestSecondEngineOnAFolderIsRefused(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir, nil)
	if got := refusal(t, dir); !strings.Contains(got, dir) || !strings.Contains(got, "another engine uses it") {
		t.Errorf("error = %q, want a sentence that names the folder", got)
	}
	createNode(t, first, "a") // unharmed
	closeStore(t, first)
	if got := nodeNames(t, open(t, dir, nil)); !slices.Equal(got, []string{"a"}) {
		t.Errorf("nodes = %v after the first engine ended", got)
	}
}

func TestFailedOpeningReleasesTheFolder(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "ingot.db")
	if err := os.WriteFile(path, []byte("no database at all, but long enough to be one"), 0o600); err != nil {
		t.Fatal(err)
	}
	refusal(t, dir)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	open(t, dir, nil)
}

func TestCorruptDatabaseIsRefusedAndLeftAlone(t *testing.T) {
	intact := t.TempDir()
	s := open(t, intact, nil)
	createNode(t, s, "a")
	closeStore(t, s)
	good, err := os.ReadFile(filepath.Join(intact, "ingot.db"))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"short text":    []byte("milk\n"),
		"text":          []byte(strings.Repeat("this is a shopping list\n", 400)),
		"broken header": append([]byte("XQLite"), good[6:]...),
		"broken pages":  append(slices.Clone(good[:100]), bytes.Repeat([]byte{0xa5}, len(good)-100)...),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "ingot.db")
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			if got := refusal(t, dir); !strings.Contains(got, path) || strings.Contains(got, "\n") {
				t.Errorf("error = %q, want one line that names the file", got)
			}
			if left, err := os.ReadFile(path); err != nil || !bytes.Equal(left, content) {
				t.Errorf("the file was changed (%v)", err)
			}
		})
	}
}

func TestSchemaFromTheFutureIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	if err := s.Write(t.Context(), func(tx *store.Tx) error {
		return tx.Exec("INSERT INTO goose_db_version (version_id, is_applied) VALUES (4711, 1)")
	}); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	if got := refusal(t, dir); !strings.Contains(got, "version 4711") || !strings.Contains(got, "knows up to ") {
		t.Errorf("error = %q, want both versions in it", got)
	}
}

func TestReopeningKeepsEverything(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "odd ?#%41&mode=memory ü")
	s := open(t, dir, nil)
	n := createNode(t, s, "a")
	closeStore(t, s)
	s = open(t, dir, nil)
	if got := nodeNames(t, s); !slices.Equal(got, []string{"a"}) {
		t.Errorf("nodes = %v, want what was stored", got)
	}
	if next := createNode(t, s, "b"); next.ID <= n.ID {
		t.Errorf("key %d after %d, want it to grow", next.ID, n.ID)
	}
	if _, err := os.Stat(filepath.Join(dir, "ingot.db")); err != nil {
		t.Error(err)
	}
}

// TestMigrationThatFailsTakesBackThoseBeforeIt lets a database take itself for one of version 11.
// Migration 12 can run again, and 13 fails, since its index exists.
func TestMigrationThatFailsTakesBackThoseBeforeIt(t *testing.T) {
	dir := t.TempDir()
	closeStore(t, open(t, dir, nil))
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "ingot.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), "DELETE FROM goose_db_version WHERE version_id >= 12"); err != nil {
		t.Fatal(err)
	}
	if got := refusal(t, dir); !strings.Contains(got, "bring schema from version 11 to ") || !strings.Contains(got, "inventories_document") {
		t.Errorf("error = %q, want the versions and what failed", got)
	}
	var version int
	if err := db.QueryRowContext(t.Context(), "SELECT max(version_id) FROM goose_db_version").Scan(&version); err != nil {
		t.Fatal(err)
	}
	if version != 11 {
		t.Errorf("schema has version %d, want 11, as before", version)
	}
}

func TestMigrationsOfANewDatabaseLeaveTheirLog(t *testing.T) {
	dir := t.TempDir()
	open(t, dir, nil)
	info, err := os.Stat(filepath.Join(dir, "ingot.db-wal"))
	if err != nil || info.Size() == 0 {
		t.Errorf("log = %v, %v: it was removed after the migrations, which costs a start 3 ms", info, err)
	}
}

// TestAnsweredWritesAreInTheFiles opens a copy of the files as they are after an
// answer, as if the process had died then.
func TestAnsweredWritesAreInTheFiles(t *testing.T) {
	dir, copied := t.TempDir(), t.TempDir()
	s := open(t, dir, nil)
	createNode(t, s, "a")
	for _, name := range []string{"ingot.db", "ingot.db-wal"} {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(copied, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := nodeNames(t, open(t, copied, nil)); !slices.Equal(got, []string{"a"}) {
		t.Errorf("nodes = %v, want the answered write", got)
	}
}

// TestDeletedNodeLeavesNoRow looks at every table but those whose rows belong to no
// node, and inventory_objects, whose rows outlive the node until their objects are
// removed.
func TestDeletedNodeLeavesNoRow(t *testing.T) {
	s := open(t, t.TempDir(), nil)
	n := storetest.Populate(t, s)
	count := func() map[string]string {
		rows := map[string]string{}
		if err := s.Read(t.Context(), func(tx *store.Tx) error {
			tables, err := tx.Texts("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT IN ('goose_db_version', 'conductors', 'chassis', 'deploy_templates', 'runbooks', 'inventory_objects', 'lineage', 'suspension')")
			for _, table := range tables {
				counted, err := tx.Texts("SELECT count(*) FROM " + table)
				if err != nil {
					return err
				}
				rows[table] = counted[0]
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return rows
	}
	for table, rows := range count() {
		if rows == "0" {
			t.Errorf("%s is empty before: teach storetest.Populate to fill it", table)
		}
	}
	if err := s.Write(t.Context(), func(tx *store.Tx) error { return tx.DeleteNode(n) }); err != nil {
		t.Fatal(err)
	}
	for table, rows := range count() {
		if rows != "0" {
			t.Errorf("%s has %s rows left", table, rows)
		}
	}
}

func TestOtherDatabasesAreRefusedWithoutTheirPassword(t *testing.T) {
	_, err := store.Open(t.Context(), store.Options{URL: "postgres://ingot:hunter2@db.example/ingot"})
	if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "db.example") {
		t.Errorf("error = %v, want one that names the host and no password", err)
	}
}

// TestKeptStatementsAreBounded changes and lists by more combinations of fields than statements may
// be kept for.
func TestKeptStatementsAreBounded(t *testing.T) {
	s := open(t, t.TempDir(), nil)
	n := createNode(t, s, "a")
	texts := []func(*node.Node, string){
		func(n *node.Node, v string) { n.Description = v }, func(n *node.Node, v string) { n.Owner = v },
		func(n *node.Node, v string) { n.Lessee = v }, func(n *node.Node, v string) { n.Shard = v },
		func(n *node.Node, v string) { n.ResourceClass = v }, func(n *node.Node, v string) { n.BootMode = v },
		func(n *node.Node, v string) { n.Health = v }, func(n *node.Node, v string) { n.ConductorGroup = v },
		func(n *node.Node, v string) { n.RetiredReason = v },
	}
	fields := []string{"description", "owner", "lessee", "shard", "resource_class", "boot_mode", "health", "conductor_group", "retired_reason"}
	const together = 16 // changes that share a commit: each commit waits for the disk
	for first := 0; first < 1<<len(texts); first += together {
		if err := s.Write(t.Context(), func(tx *store.Tx) error {
			for combination := first; combination < first+together; combination++ {
				after := *n
				q := node.Query{Limit: 1}
				for i, set := range texts {
					if combination>>i&1 == 1 {
						set(&after, uuid.NewString())
						q.Filters = append(q.Filters, node.Filter{Field: fields[i], Value: "x"})
					}
				}
				if err := tx.UpdateNode(n, &after); err != nil {
					return err
				}
				n = &after
				if err := s.Read(t.Context(), func(tx *store.Tx) error {
					_, err := tx.Nodes(q)
					return err
				}); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	reads, writes, err := s.Kept(t.Context())
	if err != nil || reads > 300 || writes > 300 {
		t.Errorf("%d reads and %d writes are kept (%v), want at most 300 of each", reads, writes, err)
	}
}
