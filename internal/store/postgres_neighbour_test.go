package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
	"github.com/ingot-metal/ingot/internal/store/storetest"
)

// TestProgramKeepsItsPromisesBesideTheNextVersion runs this version on tables to
// which the next one has added.
func TestProgramKeepsItsPromisesBesideTheNextVersion(t *testing.T) {
	database := storetest.NewSchema(t)
	closeStore(t, openURL(t, database, nil))
	storetest.Widen(t, database)
	storetest.Run(t, func(t *testing.T, clock func() time.Time) *store.Store {
		t.Helper()
		storetest.Empty(t, database)
		return openURL(t, database, clock)
	})
}

// TestRunningProgramGoesOnWhenANewerOneMigrates changes the tables under the
// statements that a running program has prepared.
func TestRunningProgramGoesOnWhenANewerOneMigrates(t *testing.T) {
	database := storetest.NewSchema(t)
	s := openURL(t, database, nil)
	use := func(name string) {
		t.Helper()
		n := createNode(t, s, name)
		if err := s.Write(t.Context(), func(tx *store.Tx) error {
			before, err := tx.Node(name)
			if err != nil {
				return err
			}
			after := *before
			after.Description = "changed"
			port := &node.Port{UUID: uuid.NewString(), NodeID: n.ID, NodeUUID: n.UUID, Address: name}
			lease, leased := tx.AcquireLease(n.ID, "here", time.Minute)
			return errors.Join(tx.UpdateNode(before, &after), tx.CreatePort(port), leased, tx.CheckLease(n.ID, lease),
				tx.AddWork(&store.Work{NodeID: n.ID, Kind: "test"}))
		}); err != nil {
			t.Errorf("write: %v", err)
		}
		if err := s.Read(t.Context(), func(tx *store.Tx) error {
			_, nodes := tx.Nodes(node.Query{})
			_, ports := tx.Ports(node.Query{})
			_, chassis := store.Chassis.List(tx, node.Query{})
			return errors.Join(nodes, ports, chassis)
		}); err != nil {
			t.Errorf("read: %v", err)
		}
	}
	for _, name := range []string{"a", "b", "c"} { // statements are prepared by then
		use(name)
	}
	storetest.Widen(t, database)
	if err := s.Write(t.Context(), func(tx *store.Tx) error {
		return tx.Exec("INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, true)")
	}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"d", "e"} {
		use(name)
	}
	if got := nodeNames(t, s); !slices.Equal(got, []string{"a", "b", "c", "d", "e"}) {
		t.Errorf("nodes = %v, want those of before and after", got)
	}
	if _, err := store.Open(t.Context(), store.Options{URL: database}); err == nil || !strings.Contains(err.Error(), "version 999") {
		t.Errorf("start on newer tables: got %v, want it refused", err)
	}
}

// TestRowsOfOlderProgramsAreReadAndChanged has a program of each earlier version
// write what its tables ask for, before this version starts and beside it.
func TestRowsOfOlderProgramsAreReadAndChanged(t *testing.T) {
	for version := int64(1); ; version++ {
		database := storetest.NewSchema(t)
		older, err := store.MigrateTo(t.Context(), database, version)
		if err != nil {
			t.Fatal(err)
		}
		if !older {
			break
		}
		t.Run(fmt.Sprint("version ", version), func(t *testing.T) {
			program := oldProgram(t, database)
			program.write(t, "before")
			s := openURL(t, database, nil)
			checkRows(t, s, []string{"before"})
			program.write(t, "beside")
			checkRows(t, s, []string{"before", "beside"})
		})
	}
}

// old writes one row into each table of an older version.
type old struct {
	database string
	tables   []string            // nodes first
	required map[string][]string // columns by table that have a value in each row
}

// oldProgram learns from the tables what they ask for.
func oldProgram(t *testing.T, database string) *old {
	t.Helper()
	program := &old{database: database, tables: []string{"nodes", "documents"}, required: map[string][]string{}}
	program.run(t, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, `SELECT table_name, column_name FROM information_schema.columns
			WHERE table_schema = current_schema() AND table_name <> 'goose_db_version'
			AND is_nullable = 'NO' AND column_default IS NULL AND is_identity = 'NO' ORDER BY table_name`)
		if err != nil {
			return err
		}
		var table, column string
		_, err = pgx.ForEachRow(rows, []any{&table, &column}, func() error {
			if table == "lineage" || table == "suspension" { // one row each, which a start writes
				return nil
			}
			if !slices.Contains(program.tables, table) {
				program.tables = append(program.tables, table)
			}
			program.required[table] = append(program.required[table], column)
			return nil
		})
		return err
	})
	return program
}

// write adds a node of this name and what belongs to it.
func (p *old) write(t *testing.T, name string) {
	t.Helper()
	p.run(t, func(ctx context.Context, conn *pgx.Conn) error {
		for _, table := range p.tables {
			values := make([]string, len(p.required[table]))
			for i, column := range p.required[table] {
				values[i] = p.value(table, column, name)
			}
			if _, err := conn.Exec(ctx, fmt.Sprintf(`INSERT INTO %s ("%s") VALUES (%s)`,
				table, strings.Join(p.required[table], `", "`), strings.Join(values, ", "))); err != nil {
				return fmt.Errorf("%s: %w", table, err)
			}
		}
		return nil
	})
}

// value is an expression for a column.
func (p *old) value(table, column, name string) string {
	switch {
	case column == "node_id":
		return "(SELECT id FROM nodes WHERE uuid = 'nodes-uuid-" + name + "')"
	case column == "document_id":
		return "(SELECT max(id) FROM documents)"
	case strings.HasSuffix(column, "_at"), column == "not_before", column == "boot_index":
		return "1900000000000000"
	case column == "provision_state":
		return "'enroll'"
	case column == "drivers":
		return "'[]'"
	}
	return "'" + table + "-" + column + "-" + name + "'"
}

func (p *old) run(t *testing.T, do func(context.Context, *pgx.Conn) error) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), p.database)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(do(t.Context(), conn), conn.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
}

// checkRows reads and changes what an older program wrote about these nodes.
func checkRows(t *testing.T, s *store.Store, names []string) {
	t.Helper()
	if err := s.Write(t.Context(), func(tx *store.Tx) error {
		nodes, err := tx.Nodes(node.Query{})
		if err != nil || len(nodes) != len(names) {
			return fmt.Errorf("%d nodes, want %d: %w", len(nodes), len(names), err)
		}
		ports, err := tx.Ports(node.Query{})
		if err != nil || len(ports) != len(names) {
			return fmt.Errorf("%d ports, want %d: %w", len(ports), len(names), err)
		}
		conductors, err := tx.Conductors(time.Minute)
		if err != nil || len(conductors) != len(names) {
			return fmt.Errorf("%d conductors, want %d: %w", len(conductors), len(names), err)
		}
		for _, n := range nodes {
			after := *n
			after.Description += "changed"
			_, events := tx.Events(n.ID)
			work, works := tx.WorkOf(n.ID)
			_, hardware := tx.Hardware(n.ID)
			_, inspection := tx.Inspection(n)
			if err := errors.Join(tx.UpdateNode(n, &after), events, works, hardware, inspection); err != nil || len(work) != 1 {
				return fmt.Errorf("node %s with %d pieces of work: %w", n.UUID, len(work), err)
			}
		}
		return errors.Join(
			lists(tx, store.Chassis), lists(tx, store.Portgroups), lists(tx, store.Allocations), lists(tx, store.DeployTemplates),
			lists(tx, store.Runbooks), lists(tx, store.VolumeConnectors), lists(tx, store.VolumeTargets),
		)
	}); err != nil {
		t.Error(err)
	}
}

func lists[T any](tx *store.Tx, kind *store.Collection[T]) error {
	_, err := kind.List(tx, node.Query{})
	return err
}

// TestWritesWaitForAProgramThatLocksTheDatabase has a program of the version that had
// one lock for all writes in the middle of a write.
func TestWritesWaitForAProgramThatLocksTheDatabase(t *testing.T) {
	database := storetest.Postgres(t)
	s := openURL(t, database, nil)
	createNode(t, s, "a")
	conn, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	old, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := old.Exec(t.Context(), "SELECT pg_advisory_xact_lock(768002, hashtext(current_schema()))"); err != nil {
		t.Fatal(err)
	}
	done := make(chan string, 1)
	go func() {
		var seen string
		if err := s.Write(context.Background(), func(tx *store.Tx) error {
			n, err := tx.Node("a")
			if err == nil {
				seen = n.Description
			}
			return err
		}); err != nil {
			t.Error(err)
		}
		done <- seen
	}()
	for began, waits := time.Now(), 0; waits == 0; {
		if err := old.QueryRow(t.Context(), "SELECT count(*) FROM pg_locks WHERE classid = 768002 AND objid = hashtext(current_schema())::oid AND NOT granted").Scan(&waits); err != nil {
			t.Fatal(err)
		}
		if time.Since(began) > 10*time.Second {
			t.Fatal("the write does not wait")
		}
	}
	if _, err := old.Exec(t.Context(), "UPDATE nodes SET description = 'old'"); err != nil {
		t.Fatal(err)
	}
	if err := old.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := <-done; got != "old" {
		t.Errorf("the write saw %q, want what the other has committed", got)
	}
}
