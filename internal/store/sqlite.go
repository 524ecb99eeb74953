package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/pressly/goose/v3/database"
	_ "modernc.org/sqlite" // the database driver
)

// databaseFile is the SQLite database inside the data folder.
const databaseFile = "ingot.db"

// sqlite is the database of one process in its data folder.
type sqlite struct {
	*writer
	writes *sqliteWriter
	reads  *sqliteReader
	clock  func() time.Time
	dir    string
	unlock func() error
}

// openSQLite opens the database of a data folder for this process alone.
func openSQLite(ctx context.Context, opts Options) (*sqlite, error) {
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

func openLocked(ctx context.Context, opts Options) (*sqlite, error) {
	clock := opts.Clock
	if clock == nil {
		clock = time.Now
	}
	path := filepath.Join(opts.Dir, databaseFile)
	if err := prepareFile(path); err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	// Savepoints keep the pages they may have to restore in the temporary store;
	// in memory it costs no write to a file for each page.
	writes, err := sql.Open("sqlite", dataSource(path, fmt.Sprintf("_pragma=cache_size(-%d)", writeCache), "_pragma=temp_store(MEMORY)",
		fmt.Sprintf("_pragma=wal_autocheckpoint(%d)", checkpointPages), "_txlock=immediate"))
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	writes.SetMaxOpenConns(1)
	if err := migrate(ctx, writes, database.DialectSQLite3); err != nil {
		return nil, errors.Join(fmt.Errorf("open database %s: %w", path, err), writes.Close())
	}
	reads, err := sql.Open("sqlite", dataSource(path, fmt.Sprintf("_pragma=cache_size(-%d)", readCache), "_pragma=query_only(1)"))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open database %s: %w", path, err), writes.Close())
	}
	reads.SetMaxOpenConns(max(4, runtime.NumCPU()))
	reads.SetMaxIdleConns(max(4, runtime.NumCPU()))
	conn, err := writes.Conn(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("connect for writing: %w", err), writes.Close(), reads.Close())
	}
	w := &sqliteWriter{db: writes, conn: conn, clock: clock, stmts: map[string]*sql.Stmt{}}
	return &sqlite{
		writer: newWriter(w.commit), writes: w,
		reads: &sqliteReader{db: reads, clock: clock, stmts: map[string]*sql.Stmt{}},
		clock: clock, dir: opts.Dir,
	}, nil
}

func (s *sqlite) write(ctx context.Context, fn func(*Tx) error) error {
	return s.outage(s.do(ctx, fn))
}

func (s *sqlite) read(ctx context.Context, fn func(*Tx) error) error {
	return s.outage(s.reads.read(ctx, fn))
}

func (s *sqlite) now() time.Time { return s.clock() }

func (s *sqlite) ping(ctx context.Context) error {
	if err := s.reads.db.PingContext(ctx); err != nil {
		return fmt.Errorf("ask the database: %w", err)
	}
	return nil
}

func (s *sqlite) close() error {
	s.writer.close()
	return errors.Join(s.writes.close(), s.reads.close(), s.unlock())
}

// fileHeader begins every SQLite database file
// (https://sqlite.org/fileformat.html, section 1.3).
const fileHeader = "SQLite format 3\x00"

// prepareFile creates the database file if there is none. SQLite gives its other
// files the mode of this one, and takes a file of a few foreign bytes for an
// empty database, which would then be overwritten.
func prepareFile(path string) (err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	header := make([]byte, len(fileHeader))
	n, err := io.ReadFull(file, header)
	switch {
	case errors.Is(err, io.EOF): // new and empty
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return err
	case string(header[:n]) != fileHeader:
		return errors.New("this is no SQLite database, or a damaged one: restore a backup, or move the file away to start with an empty database")
	}
	return file.Chmod(0o600)
}

// Page caches of the one writing and of each reading connection, in KiB. The
// kernel keeps the file's pages as well, so these only save system calls: twice
// as much made nothing faster.
const (
	writeCache = 4000
	readCache  = 1000
)

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
