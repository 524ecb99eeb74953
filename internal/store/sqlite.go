package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	_ "modernc.org/sqlite" // the database driver
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// databaseFile is the SQLite database inside the data folder.
const databaseFile = "ingot.db"

// openSQLite opens the database of a data folder for this process alone.
func openSQLite(ctx context.Context, opts Options) (*Store, error) {
	if err := os.MkdirAll(opts.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("create data folder: %w", err)
	}
	unlock, err := lockDir(opts.Dir)
	if err != nil {
		return nil, err
	}
	s, err := openLocked(ctx, opts)
	if err != nil {
		return nil, errors.Join(err, unlock())
	}
	s.unlock = unlock
	return s, nil
}

func openLocked(ctx context.Context, opts Options) (*Store, error) {
	path := filepath.Join(opts.Dir, databaseFile)
	// SQLite gives its WAL and shared memory files the mode of the database.
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	if err := file.Close(); err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, fmt.Errorf("protect database: %w", err)
	}
	// Savepoints keep the pages they may have to restore in the temporary store;
	// in memory it costs no write to a file for each page.
	writes, err := sql.Open("sqlite", dataSource(path, "_pragma=cache_size(-8000)", "_pragma=temp_store(MEMORY)",
		fmt.Sprintf("_pragma=wal_autocheckpoint(%d)", checkpointPages), "_txlock=immediate"))
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	writes.SetMaxOpenConns(1)
	if err := migrate(ctx, writes); err != nil {
		return nil, errors.Join(fmt.Errorf("open database %s: %w", path, err), writes.Close())
	}
	reads, err := sql.Open("sqlite", dataSource(path, "_pragma=cache_size(-2000)", "_pragma=query_only(1)"))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open database %s: %w", path, err), writes.Close())
	}
	reads.SetMaxOpenConns(max(4, runtime.NumCPU()))
	reads.SetMaxIdleConns(max(4, runtime.NumCPU()))
	w, err := newWriter(ctx, writes, opts.Clock)
	if err != nil {
		return nil, errors.Join(err, writes.Close(), reads.Close())
	}
	return &Store{reads: reads, writes: w, clock: opts.Clock, stmts: map[string]*sql.Stmt{}}, nil
}

// checkpointPages is how long the log grows before its pages go into the database
// file: 16 MB, so that a page which many commits change is copied seldom. A log
// of more than 4062 pages has a second index, which every read would search too
// (https://sqlite.org/walformat.html).
const checkpointPages = 4000

func dataSource(path string, extra ...string) string {
	query := "_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=foreign_keys(1)&_pragma=busy_timeout(5000)"
	for _, e := range extra {
		query += "&" + e
	}
	return (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: query}).String()
}

// migrate brings the schema forward and refuses one from the future.
func migrate(ctx context.Context, db *sql.DB) error {
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	provider, err := goose.NewProvider(database.DialectSQLite3, db, files)
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	sources := provider.ListSources()
	newest := sources[len(sources)-1].Version
	current, err := provider.GetDBVersion(ctx)
	if err != nil {
		return fmt.Errorf("read schema version (is this a database of Ingot, and intact?): %w", err)
	}
	if current > newest {
		return fmt.Errorf("its schema has version %d, this program knows up to %d: use the program version that wrote it, or restore a backup", current, newest)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("bring schema from version %d to %d: %w", current, newest, err)
	}
	return nil
}

// lockDir makes sure that one process alone uses a data folder.
func lockDir(dir string) (func() error, error) {
	path := filepath.Join(dir, "ingot.lock")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock data folder: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lock data folder %s: another engine uses it: stop that one or choose another folder", dir)
	}
	return file.Close, nil
}
