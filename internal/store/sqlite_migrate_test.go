package store

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
)

// TestMigrationsThatLostTheirTransactionCommitNothing rolls the transaction back, as SQLite does
// after an error of the disk.
func TestMigrationsThatLostTheirTransactionCommitNothing(t *testing.T) {
	db, err := sql.Open("sqlite", fileURI(filepath.Join(t.TempDir(), databaseFile)))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	commit, err := beginMigrations(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if err := migrate(t.Context(), db, database.DialectSQLite3, goose.WithIsolateDDL(true)); err == nil || !strings.Contains(err.Error(), "constraint failed") {
		t.Errorf("got %v, want that a commit is refused", err)
	}
	if err := commit(); err == nil || !strings.Contains(err.Error(), "no transaction is active") {
		t.Errorf("got %v, want that there is nothing to commit", err)
	}
	var tables int
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM sqlite_schema").Scan(&tables); err != nil || tables != 0 {
		t.Errorf("%d tables and indexes, %v; want none", tables, err)
	}
}
