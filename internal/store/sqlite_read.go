package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// sqliteReader reads from a SQLite database on several connections.
type sqliteReader struct {
	open   func() (*sqliteConn, error)
	clock  func() time.Time
	places chan struct{} // each read takes one

	mu     sync.Mutex
	idle   []*sqliteConn // used from the end, so that a quiet engine opens few
	closed bool
}

func newSQLiteReader(conns int, clock func() time.Time, open func() (*sqliteConn, error)) *sqliteReader {
	return &sqliteReader{open: open, clock: clock, places: make(chan struct{}, conns)}
}

func (r *sqliteReader) read(ctx context.Context, fn func(*Tx) error) error {
	select {
	case r.places <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-r.places }()
	conn, err := r.take()
	if err != nil {
		return fmt.Errorf("connect for reading: %w", err)
	}
	defer r.give(conn)
	return conn.read(ctx, r.clock(), fn)
}

// read runs fn on one state of the database. It ends early when ctx ends.
func (c *sqliteConn) read(ctx context.Context, now time.Time, fn func(*Tx) error) error {
	if err := c.run("BEGIN", nil, nil); err != nil {
		return fmt.Errorf("begin read: %w", err)
	}
	defer func() { _ = c.run("ROLLBACK", nil, nil) }() // a read leaves nothing behind
	return fn(&Tx{now: now, db: &sqliteSession{conn: c, ended: ctx.Err}})
}

// take returns a connection that nobody uses.
func (r *sqliteReader) take() (*sqliteConn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, ErrClosed
	}
	last := len(r.idle) - 1
	if last < 0 {
		return r.open()
	}
	conn := r.idle[last]
	r.idle = r.idle[:last]
	return conn, nil
}

func (r *sqliteReader) give(conn *sqliteConn) {
	conn.trim()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.idle = append(r.idle, conn)
}

// close waits for the reads that have begun.
func (r *sqliteReader) close() error {
	for range cap(r.places) {
		r.places <- struct{}{}
	}
	r.mu.Lock()
	r.closed = true
	var err error
	for _, conn := range r.idle {
		err = errors.Join(err, conn.close())
	}
	r.idle = nil
	r.mu.Unlock()
	for range cap(r.places) { // for reads that begin too late
		<-r.places
	}
	return err
}
