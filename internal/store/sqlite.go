package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// databaseFile is the SQLite database inside the data folder.
const databaseFile = "ingot.db"

// sqlite is the SQLite database of a data folder, which one process uses.
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
	lock, err := lockDir(opts.Dir)
	if err != nil {
		return nil, err
	}
	s, err := openLocked(ctx, opts, folderCounter{lock})
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	s.unlock = lock.Close
	return s, nil
}

func openLocked(ctx context.Context, opts Options, counter useCounter) (*sqlite, error) {
	clock := opts.Clock
	if clock == nil {
		clock = time.Now
	}
	path := filepath.Join(opts.Dir, databaseFile)
	if err := prepareFile(path); err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	uri := fileURI(path)
	conn, err := openSQLiteConn(uri, writeSettings)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	if err := migrateSQLite(ctx, uri); err != nil {
		return nil, errors.Join(fmt.Errorf("open database %s: %w", path, err), conn.close())
	}
	w := &sqliteWriter{conn: conn, clock: clock, counter: counter, faults: newFaultPoints()}
	return &sqlite{
		writer: newWriter(w.commit), writes: w,
		reads: newSQLiteReader(max(3, runtime.NumCPU()), clock, func() (*sqliteConn, error) { return openSQLiteConn(uri, readSettings) }),
		clock: clock, dir: opts.Dir,
	}, nil
}

func (s *sqlite) write(ctx context.Context, fn func(*Tx) error) error {
	return s.outage(s.do(ctx, fn))
}

func (s *sqlite) readSingle(ctx context.Context, fn func(*Tx) error) error { return s.read(ctx, fn) }

func (s *sqlite) read(ctx context.Context, fn func(*Tx) error) error {
	return s.outage(s.reads.read(ctx, fn))
}

func (s *sqlite) now() time.Time { return s.clock() }

func (s *sqlite) restorationFound() <-chan struct{} { return nil } // nobody can replace it: its folder is locked

func (s *sqlite) ping(ctx context.Context) error {
	return s.read(ctx, func(tx *Tx) error {
		_, err := tx.one("SELECT 1", nil, new(any))
		return err
	})
}

func (s *sqlite) close() error {
	s.writer.close()
	return errors.Join(s.reads.close(), s.writes.conn.close(), s.unlock())
}

// fileHeader is the beginning of every SQLite database file (https://sqlite.org/fileformat.html,
// section 1.3).
const fileHeader = "SQLite format 3\x00"

// prepareFile creates the database file if there is none. It sets the file's mode, which SQLite
// also gives to its other files. It refuses a file with foreign content, because SQLite takes a
// file of a few foreign bytes for an empty database and would overwrite it.
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

// Page caches of the writing connection and of each reading connection, in KiB. They take twice
// that much memory, because memory comes in powers of two and a page needs slightly more than one.
// The kernel caches the file's pages as well, so these caches only save system calls: caches of
// twice the size made nothing faster.
const (
	writeCache = 2000
	readCache  = 500
)

// checkpointPages is the length of the log at which its pages move into the database file: 16 MB,
// so that a page which many commits change is seldom copied. A log of more than 4062 pages has a
// second index, which every read would search too (https://sqlite.org/walformat.html).
const checkpointPages = 4000

// commonSettings are the settings of every connection of an engine.
var commonSettings = []string{"PRAGMA busy_timeout=5000", "PRAGMA journal_mode=WAL", "PRAGMA foreign_keys=1"}

// writeSettings let savepoints keep the pages that they may have to restore in memory, which saves
// a write to a file for each page. Switching a new database to a log does not open the log, the read
// after it does. Otherwise the migrations would open it alone, and remove it at their end.
var writeSettings = slices.Concat(commonSettings, []string{
	"PRAGMA synchronous=FULL",
	fmt.Sprintf("PRAGMA cache_size=-%d", writeCache), "PRAGMA temp_store=MEMORY",
	fmt.Sprintf("PRAGMA wal_autocheckpoint=%d", checkpointPages),
	"SELECT count(*) FROM sqlite_schema",
})

var readSettings = slices.Concat(commonSettings, []string{
	fmt.Sprintf("PRAGMA cache_size=-%d", readCache), "PRAGMA query_only=1",
})

func fileURI(path string) string {
	return (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath()}).String()
}

// lockDir makes sure that only one process uses a data folder, until the file is closed.
func lockDir(dir string) (*os.File, error) {
	path := filepath.Join(dir, "ingot.lock")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock data folder: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lock data folder %s: another engine uses it: stop that one or choose another folder", dir)
	}
	return file, nil
}
