// Package store keeps the engine's state in a database: nodes, ports, address claims, inspection
// documents, work and leases. It knows SQL and nothing of HTTP, BMCs or provision verbs.
//
// Invariants: A write is answered only after its commit is on disk. What a write has read of a
// node, of a record or under LockName still holds when it commits, whichever process it runs in
// (locks.go). A checkpoint under a lease is refused once that lease has passed on. Deleting a node
// deletes everything that belongs to it.
package store

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// ErrClosed is returned for a write that begins after Close.
var ErrClosed = errors.New("database is closed")

// Options say where the data is.
type Options struct {
	// Dir is the data folder of the embedded SQLite database. It is created
	// with mode 0700 when absent.
	Dir string
	// URL selects a PostgreSQL database, postgres://user:password@host/name.
	// Empty means SQLite in Dir.
	URL string
	// Name distinguishes this process from others that share a PostgreSQL database: Open refuses
	// the name of a running process. Empty disables this check.
	Name string
	// WriteConnections is how many writes run at once with PostgreSQL. 0 means 16.
	WriteConnections int
	// Clock replaces the database's clock. Nil means the server's clock with
	// PostgreSQL, and time.Now with SQLite, which has none of its own.
	Clock func() time.Time
	// Logger reports what Open waits for. Nil means slog.Default.
	Logger *slog.Logger

	migrationWaits migrationWaits // for tests; zero means the constants
}

// Store is an open database. It is safe for concurrent use.
type Store struct{ db engine }

// engine is one kind of database.
type engine interface {
	write(ctx context.Context, fn func(*Tx) error) error
	read(ctx context.Context, fn func(*Tx) error) error
	readSingle(ctx context.Context, fn func(*Tx) error) error
	ping(ctx context.Context) error
	now() time.Time
	restorationFound() <-chan struct{}
	close() error
}

// Open opens the database, migrates its schema, and refuses a database that a newer version has
// written. Close releases it.
func Open(ctx context.Context, opts Options) (*Store, error) {
	var db engine
	var err error
	if opts.URL == "" {
		db, err = openSQLite(ctx, opts)
	} else {
		db, err = openPostgres(ctx, opts)
	}
	if err != nil {
		return nil, err
	}
	return &Store{db: db}, nil
}

// Close waits for running writes and releases the database.
func (s *Store) Close() error { return s.db.close() }

// Now returns the time by the database's clock, which also measures leases.
func (s *Store) Now() time.Time { return s.db.now() }

// RestorationFound receives when a write has found that the database is older than it was before,
// so that the engine calls Tx.CountUse at once. It is nil for a database that nobody can replace
// while it is open.
func (s *Store) RestorationFound() <-chan struct{} { return s.db.restorationFound() }

// Write runs fn in a transaction and returns after the commit is on disk. When fn returns an error,
// Write stores nothing and returns that error. fn must not wait for anything, because other writes
// wait for what it has locked, on SQLite all of them.
//
// fn may run more than once, when its transaction could not be committed or collided with another
// write; only what its last run wrote is stored. So fn must not change its inputs or anything that
// outlives it, except to set it anew in each run. On PostgreSQL writes run side by side, so
// everything that they share must be safe for concurrent use. Before fn waits long there for a lock,
// it runs on a snapshot until its first change, which fails: an error without a change is returned.
//
// An error that is node.ErrUnavailable says that the database could not be reached. Nothing was
// written then, unless the error says that this is not known.
func (s *Store) Write(ctx context.Context, fn func(*Tx) error) error { return s.db.write(ctx, fn) }

// Read runs fn once, on a consistent snapshot.
func (s *Store) Read(ctx context.Context, fn func(*Tx) error) error { return s.db.read(ctx, fn) }

// ReadSingle is Read for an fn that usually runs one statement. On PostgreSQL that saves the trips
// of a transaction. When fn asks for a second statement, it begins again on a snapshot, so it may
// run twice, like the fn of Write.
func (s *Store) ReadSingle(ctx context.Context, fn func(*Tx) error) error {
	return s.db.readSingle(ctx, fn)
}

// Ping reports whether the database answers.
func (s *Store) Ping(ctx context.Context) error { return s.db.ping(ctx) }
