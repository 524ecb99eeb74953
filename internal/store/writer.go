package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"
)

// maxGroup bounds how many transactions share a commit, and with it how long the
// first of them waits for the others.
const maxGroup = 128

// ErrClosed is returned for a write that came after Close.
var ErrClosed = errors.New("database is closed")

// writer runs all writes of a SQLite database on one connection. Transactions
// that are waiting when it becomes free share one commit: each runs in a
// savepoint of its own, and each caller is answered after the commit.
type writer struct {
	db    *sql.DB
	conn  *sql.Conn
	clock func() time.Time
	stmts map[string]*sql.Stmt
	queue chan *writeRequest
	stop  chan struct{}
	once  sync.Once
	done  chan struct{}
}

type writeRequest struct {
	ctx    context.Context //nolint:containedctx // it travels with the request through the queue
	fn     func(*Tx) error
	err    error
	answer chan error
}

func newWriter(ctx context.Context, db *sql.DB, clock func() time.Time) (*writer, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect for writing: %w", err)
	}
	w := &writer{
		db: db, conn: conn, clock: clock,
		stmts: map[string]*sql.Stmt{},
		queue: make(chan *writeRequest, maxGroup),
		stop:  make(chan struct{}),
		done:  make(chan struct{}),
	}
	go w.run()
	return w, nil
}

// do queues a transaction and waits for its commit. A request that was already
// started is waited for even when ctx ends, so that the answer is the truth.
func (w *writer) do(ctx context.Context, fn func(*Tx) error) error {
	request := &writeRequest{ctx: ctx, fn: fn, answer: make(chan error, 1)}
	select {
	case w.queue <- request:
	case <-ctx.Done():
		return ctx.Err()
	case <-w.stop:
		return ErrClosed
	}
	select {
	case err := <-request.answer:
		return err
	case <-w.done:
		// The writer may have answered on its way out.
		select {
		case err := <-request.answer:
			return err
		default:
			return ErrClosed
		}
	}
}

func (w *writer) close() {
	w.once.Do(func() { close(w.stop) })
	<-w.done
}

func (w *writer) run() {
	defer close(w.done)
	defer func() { _ = w.conn.Close() }() // the database is closed right after
	group := make([]*writeRequest, 0, maxGroup)
	for {
		select {
		case <-w.stop:
			return
		case first := <-w.queue:
			group = w.gather(append(group[:0], first))
			w.commit(group)
		}
	}
}

// gather adds what is waiting already, without waiting for more.
func (w *writer) gather(group []*writeRequest) []*writeRequest {
	for len(group) < maxGroup {
		select {
		case request := <-w.queue:
			group = append(group, request)
		default:
			return group
		}
	}
	return group
}

// commit runs the group in one database transaction and answers each caller.
func (w *writer) commit(group []*writeRequest) {
	w.forget()
	err := w.raw("BEGIN IMMEDIATE")
	if err == nil {
		if err = w.runAll(group); err == nil {
			err = w.raw("COMMIT")
		}
		if err != nil {
			_ = w.raw("ROLLBACK") // SQLite may have done it already
		}
	}
	for _, request := range group {
		if err != nil && request.err == nil {
			request.err = fmt.Errorf("commit to the database: %w", err)
		}
		request.answer <- request.err
	}
}

// errGroupLost says that SQLite gave up the whole transaction, as it does when
// the disk is full: nothing more may run in it.
var errGroupLost = errors.New("transaction was rolled back")

// runAll runs the group's transactions one after the other. An error means that
// none of them may be committed.
func (w *writer) runAll(group []*writeRequest) error {
	for _, request := range group {
		request.err = w.runOne(request)
		if errors.Is(request.err, errGroupLost) {
			return request.err
		}
	}
	return nil
}

// runOne runs one transaction of the group. Its savepoint is opened at the first
// change, so that a request that only reads or is refused costs nothing more.
func (w *writer) runOne(request *writeRequest) (err error) {
	if err := request.ctx.Err(); err != nil {
		return err
	}
	touched := false
	tx := &Tx{now: w.clock(), stmt: w.prepared, touch: func() error {
		if touched {
			return nil
		}
		touched = true
		return w.raw("SAVEPOINT request")
	}}
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("transaction panicked: %v", panicked)
		}
		if !touched {
			return
		}
		if err != nil {
			if undo := w.raw("ROLLBACK TO request"); undo != nil {
				err = fmt.Errorf("%w: %w", errGroupLost, err)
				return
			}
		}
		if release := w.raw("RELEASE request"); release != nil {
			err = errors.Join(err, fmt.Errorf("%w: %w", errGroupLost, release))
		}
	}()
	return request.fn(tx)
}

func (w *writer) prepared(query string) (*sql.Stmt, error) {
	if stmt, ok := w.stmts[query]; ok {
		return stmt, nil
	}
	stmt, err := w.conn.PrepareContext(context.Background(), query)
	if err != nil {
		return nil, fmt.Errorf("prepare %q: %w", query, err)
	}
	w.stmts[query] = stmt
	return stmt, nil
}

// forget closes the kept statements when there are too many. Between groups none
// of them is in use.
func (w *writer) forget() {
	if len(w.stmts) < maxPrepared {
		return
	}
	for _, stmt := range w.stmts {
		_ = stmt.Close()
	}
	clear(w.stmts)
}

// raw runs a statement that steers the transaction.
func (w *writer) raw(statement string) error {
	stmt, err := w.prepared(statement)
	if err != nil {
		return err
	}
	if _, err := stmt.ExecContext(context.Background()); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}
