package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/pressly/goose/v3"
	sqlite3 "modernc.org/sqlite/lib"
)

// Contents is what a database file holds.
type Contents struct {
	Nodes  int
	Size   int64 // bytes
	Schema int64 // version of the last migration

	marked         bool      // the file has the mark of a copy
	lastRegistered time.Time // when an engine last registered in it; zero for never
}

// ownTables are tables that the database of an engine has in every version.
var ownTables = []string{"goose_db_version", "nodes", "ports", "work", "leases", "conductors"}

// examine reads the whole of a database file that nobody else uses. It returns an error unless the
// file is an intact database of an engine whose schema this program knows.
func examine(ctx context.Context, path string) (contents Contents, err error) {
	if err := checkHeader(path); err != nil {
		return contents, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return contents, err
	}
	contents.Size = info.Size()
	db, err := sql.Open("sqlite", fileSource(path, "mode=ro"))
	if err != nil {
		return contents, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := checkIntegrity(ctx, db); err != nil {
		return contents, err
	}
	if err := checkApplication(ctx, db); err != nil {
		return contents, err
	}
	if contents.Schema, err = knownSchema(ctx, db); err != nil {
		return contents, err
	}
	var lastRegistered int64
	err = db.QueryRowContext(ctx, "SELECT (SELECT count(*) FROM nodes), (SELECT user_version <> 0 FROM pragma_user_version), (SELECT coalesce(max(updated_at), 0) FROM conductors)").
		Scan(&contents.Nodes, &contents.marked, &lastRegistered)
	if lastRegistered > 0 {
		contents.lastRegistered = time.UnixMicro(lastRegistered)
	}
	return contents, plain(err)
}

// checkHeader refuses a file that is not a SQLite database, before SQLite opens it.
func checkHeader(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	header := make([]byte, len(fileHeader))
	switch _, err := io.ReadFull(file, header); {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), err == nil && string(header) != fileHeader:
		return errors.New("this is no SQLite database")
	default:
		return err
	}
}

func checkIntegrity(ctx context.Context, db *sql.DB) error {
	for _, check := range []struct{ query, intact string }{
		{"PRAGMA integrity_check(1)", "ok"},
		{"SELECT 'a row of ' || \"table\" || ' belongs to none of ' || parent FROM pragma_foreign_key_check LIMIT 1", ""},
	} {
		var found string
		err := db.QueryRowContext(ctx, check.query).Scan(&found)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			continue
		case err != nil:
			return plain(err)
		case found != check.intact:
			return fmt.Errorf("the database is damaged: %s", found)
		}
	}
	return nil
}

func checkApplication(ctx context.Context, db *sql.DB) error {
	rows, err := db.QueryContext(ctx, "SELECT name FROM sqlite_master WHERE type = 'table'")
	if err != nil {
		return plain(err)
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		names = append(names, name)
	}
	for _, name := range ownTables {
		if !slices.Contains(names, name) {
			return fmt.Errorf("this is no database of Ingot: it has no table %s", name)
		}
	}
	return rows.Err()
}

// knownSchema returns the version of the schema, and an error if this program does not know it.
func knownSchema(ctx context.Context, db *sql.DB) (int64, error) {
	newest, err := newestSchema()
	if err != nil {
		return 0, err
	}
	var version int64
	err = db.QueryRowContext(ctx, "SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied").Scan(&version)
	switch {
	case err != nil:
		return 0, plain(err)
	case version < 1:
		return 0, errors.New("this is no database of Ingot: its tables have no version")
	case version > newest:
		return 0, fmt.Errorf("its schema has version %d, this program knows up to %d: use the program version that wrote it", version, newest)
	}
	return version, nil
}

// newestSchema returns the version of this program's last migration.
func newestSchema() (newest int64, err error) {
	files, err := migrationFiles.ReadDir("migrations")
	if err != nil {
		return 0, fmt.Errorf("read migrations: %w", err)
	}
	for _, file := range files {
		version, err := goose.NumericComponent(file.Name())
		if err != nil {
			return 0, fmt.Errorf("read migrations: %w", err)
		}
		newest = max(newest, version)
	}
	return newest, nil
}

// isBusy reports whether SQLite could not get a lock in time.
func isBusy(err error) bool {
	code, ok := sqliteCode(err)
	return ok && (code == sqlite3.SQLITE_BUSY || code == sqlite3.SQLITE_LOCKED)
}

// plain rewords SQLite's errors about a file for people who do not know SQLite.
func plain(err error) error {
	code, ok := sqliteCode(err)
	if !ok {
		return err
	}
	switch code {
	case sqlite3.SQLITE_FULL:
		return fmt.Errorf("the disk is full: make space and try again: %w", err)
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return fmt.Errorf("the database is damaged: %w", err)
	case sqlite3.SQLITE_INTERRUPT:
		return context.Canceled
	case sqlite3.SQLITE_IOERR:
		return fmt.Errorf("the disk refuses, it may be full or read-only: %w", err)
	}
	return err
}
