// Package store keeps the engine's state in a database: nodes, ports, address
// claims, inspection documents, work and leases. It knows SQL and nothing of
// HTTP, BMCs or provision verbs.
//
// Invariants: a write is answered only after its commit is on disk; a checkpoint
// under a lease is refused once that lease has passed on; deleting a node takes
// everything that belongs to it along.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"
)

// Options say where the data is.
type Options struct {
	// Dir is the data folder of the embedded SQLite database. It is created
	// with mode 0700 when absent.
	Dir string
	// URL selects another database. Empty means SQLite in Dir.
	URL string
	// Clock is the database's clock for SQLite, which has none of its own;
	// nil means time.Now.
	Clock func() time.Time
}

// Store is an open database. It is safe for concurrent use.
type Store struct {
	reads  *sql.DB
	writes *writer
	clock  func() time.Time
	unlock func() error

	mu     sync.Mutex
	stmts  map[string]*sql.Stmt // prepared reads by SQL text
	closed bool                 // no more are kept
}

// Open opens the database, brings its schema up to date and refuses one that a
// newer version has written. Close releases it.
func Open(ctx context.Context, opts Options) (*Store, error) {
	if opts.Clock == nil {
		opts.Clock = time.Now
	}
	if opts.URL != "" {
		return nil, fmt.Errorf("open database %s: only the embedded SQLite database is available in this version: leave the URL empty", hostOf(opts.URL))
	}
	return openSQLite(ctx, opts)
}

// Close waits for running writes and releases the database.
func (s *Store) Close() error {
	s.writes.close()
	s.mu.Lock()
	s.closed = true
	for _, stmt := range s.stmts {
		_ = stmt.Close()
	}
	s.mu.Unlock()
	return errors.Join(s.writes.db.Close(), s.reads.Close(), s.unlock())
}

// Now is the time by the database's clock, which leases are measured with.
func (s *Store) Now() time.Time { return s.clock() }

// Write runs fn in a transaction that shares its commit with concurrent ones,
// and returns after the commit is on disk. When fn returns an error, nothing of
// it is written and that error is returned. fn must not wait for anything: all
// writers wait for it.
func (s *Store) Write(ctx context.Context, fn func(*Tx) error) error {
	return s.writes.do(ctx, fn)
}

// Read runs fn on a consistent snapshot.
func (s *Store) Read(ctx context.Context, fn func(*Tx) error) error {
	tx, err := s.reads.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return fmt.Errorf("begin read: %w", err)
	}
	var unkept []string
	defer func() {
		_ = tx.Rollback() // a read leaves nothing behind
		s.keep(unkept)
	}()
	return fn(&Tx{now: s.clock(), stmt: func(query string) (*sql.Stmt, error) {
		if stmt := s.kept(query); stmt != nil {
			return tx.StmtContext(ctx, stmt), nil
		}
		unkept = append(unkept, query)
		stmt, err := tx.PrepareContext(ctx, query) // the transaction's end closes it
		if err != nil {
			return nil, fmt.Errorf("prepare %q: %w", query, err)
		}
		return stmt, nil
	}})
}

// Ping reports whether the database answers.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.reads.PingContext(ctx); err != nil {
		return fmt.Errorf("ask the database: %w", err)
	}
	return nil
}

// maxPrepared bounds the statements kept for reuse: clients choose filters, and
// with them the text of statements.
const maxPrepared = 256

// kept returns the kept statement of a text, nil when there is none.
func (s *Store) kept(query string) *sql.Stmt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stmts[query]
}

// keep prepares statements for the reads to come. It runs when a read has given
// its connection back, and waits for one without holding the lock: readers that
// keep a connection while they wait for another would wait for each other.
func (s *Store) keep(queries []string) {
	for _, query := range queries {
		if !s.wants(query) {
			continue
		}
		stmt, err := s.reads.PrepareContext(context.Background(), query)
		if err != nil {
			return // closed, or the next read tells
		}
		s.mu.Lock()
		_, twice := s.stmts[query]
		if !twice && !s.closed {
			s.stmts[query] = stmt
		}
		unwanted := twice || s.closed
		s.mu.Unlock()
		if unwanted {
			_ = stmt.Close()
		}
	}
}

// wants reports whether the statement of a text is to be kept and is not yet.
func (s *Store) wants(query string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.stmts[query]
	return !known && !s.closed && len(s.stmts) < maxPrepared
}

// hostOf names a database without its credentials.
func hostOf(raw string) string {
	parsed, err := url.Parse(raw)
	if err != nil {
		return "(unreadable URL)"
	}
	return parsed.Scheme + "://" + parsed.Host
}
