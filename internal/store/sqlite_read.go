package store

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"time"
)

// sqliteReader reads from a SQLite database on many connections and keeps the
// prepared statements of frequent reads.
type sqliteReader struct {
	db    *sql.DB
	clock func() time.Time

	mu     sync.Mutex
	stmts  map[string]*sql.Stmt // prepared reads by SQL text
	closed bool                 // no more are kept
}

func (r *sqliteReader) read(ctx context.Context, fn func(*Tx) error) error {
	tx, err := r.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return fmt.Errorf("begin read: %w", err)
	}
	var unkept []string
	defer func() {
		_ = tx.Rollback() // a read leaves nothing behind
		r.keep(unkept)
	}()
	return fn(&Tx{now: r.clock(), db: sqliteSession{func(query string) (*sql.Stmt, error) {
		if stmt := r.kept(query); stmt != nil {
			return tx.StmtContext(ctx, stmt), nil
		}
		unkept = append(unkept, query)
		stmt, err := tx.PrepareContext(ctx, query) // the transaction's end closes it
		if err != nil {
			return nil, fmt.Errorf("prepare %q: %w", query, err)
		}
		return stmt, nil
	}}})
}

func (r *sqliteReader) close() error {
	r.mu.Lock()
	r.closed = true
	for _, stmt := range r.stmts {
		_ = stmt.Close()
	}
	r.mu.Unlock()
	return r.db.Close()
}

// maxPrepared bounds the statements kept for reuse: clients choose filters, and
// with them the text of statements.
const maxPrepared = 256

// kept returns the kept statement of a text, nil when there is none.
func (r *sqliteReader) kept(query string) *sql.Stmt {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stmts[query]
}

// keep prepares statements for the reads to come. It runs when a read has given
// its connection back, and waits for one without holding the lock: readers that
// keep a connection while they wait for another would wait for each other.
func (r *sqliteReader) keep(queries []string) {
	for _, query := range queries {
		if !r.wants(query) {
			continue
		}
		stmt, err := r.db.PrepareContext(context.Background(), query)
		if err != nil {
			return // closed, or the next read tells
		}
		r.mu.Lock()
		_, twice := r.stmts[query]
		if !twice && !r.closed {
			r.stmts[query] = stmt
		}
		unwanted := twice || r.closed
		r.mu.Unlock()
		if unwanted {
			_ = stmt.Close()
		}
	}
}

// wants reports whether the statement of a text is to be kept and is not yet.
func (r *sqliteReader) wants(query string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, known := r.stmts[query]
	return !known && !r.closed && len(r.stmts) < maxPrepared
}
