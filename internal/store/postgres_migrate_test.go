package store_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ingot-metal/ingot/internal/store"
	"github.com/ingot-metal/ingot/internal/store/storetest"
)

// pending is a version whose next migrations alter tables.
const pending = 10

// dump holds a table open as pg_dump does, until it is ended.
func dump(t *testing.T, database string) (pid uint32, end func()) {
	t.Helper()
	conn := connectTo(t, database)
	for _, statement := range []string{
		"SET application_name = 'pg_dump'",
		"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
		"LOCK TABLE nodes IN ACCESS SHARE MODE",
		"SELECT 'hunter2'",
	} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	return conn.PgConn().PID(), func() {
		if err := conn.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// older creates the tables of an older version with one node.
func older(t *testing.T, database string) {
	t.Helper()
	if _, err := store.MigrateTo(t.Context(), database, pending); err != nil {
		t.Fatal(err)
	}
	oldProgram(t, database).write(t, "before")
}

// awaitMigration waits until a migration waits for a table.
func awaitMigration(t *testing.T, watcher *pgx.Conn) {
	t.Helper()
	await(t, watcher, "a migration to wait for the table", `SELECT EXISTS (SELECT FROM pg_locks
		WHERE relation = 'nodes'::regclass AND mode = 'AccessExclusiveLock' AND NOT granted)`)
}

// await waits until the query finds that something holds.
func await(t *testing.T, watcher *pgx.Conn, what, query string) {
	t.Helper()
	for began, holds := time.Now(), false; !holds; {
		if time.Since(began) > 20*time.Second {
			t.Fatalf("waited in vain for %s", what)
		}
		if err := watcher.QueryRow(t.Context(), query).Scan(&holds); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOthersGoOnWhileAMigrationWaitsForADump(t *testing.T) {
	database := storetest.NewSchema(t)
	older(t, database)
	_, end := dump(t, database)
	var log bytes.Buffer
	started := make(chan error, 1)
	go func() {
		s, err := store.Open(context.Background(), store.Options{URL: database, Logger: slog.New(slog.NewTextHandler(&log, nil))}.
			WithMigrationWaits(300*time.Millisecond, 200*time.Millisecond, time.Minute))
		if err == nil {
			err = s.Close()
		}
		started <- err
	}()
	running, watcher := connectTo(t, database), connectTo(t, database)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for attempt := range 3 {
		awaitMigration(t, watcher)
		// As a running engine writes and reads.
		if _, err := running.Exec(ctx, fmt.Sprintf(`BEGIN;
			SELECT pg_advisory_xact_lock_shared(768002, hashtext(current_schema()));
			UPDATE nodes SET description = 'during attempt %d';
			SELECT count(*) FROM nodes;
			COMMIT`, attempt)); err != nil {
			t.Fatalf("write and read behind attempt %d of the migration: %v", attempt, err)
		}
	}
	end()
	if err := <-started; err != nil {
		t.Fatalf("start behind the dump: %v", err)
	}
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "pg_dump") {
		t.Errorf("log:\n%swant one line that names the dump", got)
	}
	checkRows(t, openURL(t, database, nil), []string{"before"})
}

func TestMigrationThatOthersAreInTheWayOfNamesThem(t *testing.T) {
	database := storetest.NewSchema(t)
	older(t, database)
	pid, end := dump(t, database)
	var log bytes.Buffer
	options := store.Options{URL: database, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	_, err := store.Open(t.Context(), options.WithMigrationWaits(20*time.Millisecond, time.Millisecond, 100*time.Millisecond))
	if err == nil {
		t.Fatal("the database was opened, although a dump holds its tables")
	}
	text := err.Error()
	for _, want := range []string{fmt.Sprintf("pid %d", pid), `"pg_dump"`, "idle in transaction", time.Now().UTC().Format("2006-01-02T"), "start again"} {
		if !strings.Contains(text, want) {
			t.Errorf("error = %q, want %q in it", text, want)
		}
	}
	if strings.Count(text, "pid ") != 1 || strings.Contains(text, "\n") {
		t.Errorf("error = %q, want one line that names the dump alone", text)
	}
	if strings.Contains(text+log.String(), "hunter2") {
		t.Errorf("error = %q, log = %q, want no statement in them", text, log.String())
	}
	if got := strings.Count(log.String(), "\n"); got != 1 {
		t.Errorf("%d lines were logged, want one:\n%s", got, log.String())
	}
	end()
	checkRows(t, openURL(t, database, nil), []string{"before"})
}

func TestStartThatWaitsForTheMigrationOfAnotherProcessSaysSo(t *testing.T) {
	database := storetest.NewSchema(t)
	older(t, database)
	other, watcher := connectTo(t, database), connectTo(t, database)
	if _, err := other.Exec(t.Context(), "BEGIN; SELECT pg_advisory_xact_lock(768001, hashtext(current_schema()))"); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	started := make(chan error, 1)
	go func() {
		s, err := store.Open(context.Background(), store.Options{URL: database, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err == nil {
			err = s.Close()
		}
		started <- err
	}()
	await(t, watcher, "start to wait for the other process", `SELECT EXISTS (SELECT FROM pg_locks
		WHERE locktype = 'advisory' AND classid = 768001 AND objid = hashtext(current_schema())::bigint & 4294967295 AND NOT granted)`)
	if _, err := other.Exec(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if err := <-started; err != nil {
		t.Fatalf("start after the other process: %v", err)
	}
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "waits for another process") {
		t.Errorf("log:\n%swant one line about the other process", got)
	}
	checkRows(t, openURL(t, database, nil), []string{"before"})
}

// TestStartWithoutMigrationWaitsForNobody starts on tables that are up to date, while a
// migration of others has its lock, a write is under way, and the table of versions is
// locked against everything but reading it.
func TestStartWithoutMigrationWaitsForNobody(t *testing.T) {
	database := storetest.NewSchema(t)
	closeStore(t, openURL(t, database, nil))
	other := connectTo(t, database)
	if _, err := other.Exec(t.Context(), `BEGIN;
		SELECT pg_advisory_xact_lock(768001, hashtext(current_schema())), pg_advisory_xact_lock_shared(768002, hashtext(current_schema()));
		LOCK TABLE goose_db_version IN EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := store.Open(ctx, store.Options{URL: database})
	if err != nil {
		t.Fatalf("start on tables that are up to date: %v", err)
	}
	closeStore(t, s)
}
