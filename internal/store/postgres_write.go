package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ingot-metal/ingot/internal/keylimit"
	"github.com/ingot-metal/ingot/internal/node"
)

// Bounds of writing to PostgreSQL.
const (
	defaultWriteConnections = 16

	// longestWrite is more than any write takes, from its time to its commit.
	longestWrite = time.Minute
	// longestWait is how long a write may have waited for a lock when it commits. One
	// that waited longer begins again: its time would be old, and readers of changes go
	// by it.
	longestWait = 2 * time.Second

	// writesPerRow is how many writes of this process may be at one node or record at
	// once: the one that has locked it, and the next, which follows at once. The others
	// wait without a connection, so that they are in nobody else's way.
	writesPerRow = 2

	// firstLockTimeout and lockTimeout are how long a write waits for one lock, in its
	// first attempt and later: what does not get it at first shares few of the
	// connections with its like. So the others are left to those that nobody is in the
	// way of, however long a node or a bound stays locked.
	firstLockTimeout = "500ms"
	lockTimeout      = "12s"
	// connectionsPerWaiting is how many connections there are for each that may wait.
	connectionsPerWaiting = 4

	writeTimeout   = 20 * time.Second      // of one write, all its attempts included, once it has had a connection
	writeAttempts  = 6                     // how often a write is tried
	firstBackoff   = 50 * time.Millisecond // before the second attempt; doubles, with jitter
	collideBackoff = 5 * time.Millisecond  // the same for a write that another one got in the way of
	outcomeTimeout = 5 * time.Second       // how long a lost commit is asked about
	outcomePoll    = 50 * time.Millisecond
	undoTimeout    = 5 * time.Second // of taking a transaction back
)

// postgresWriter runs the writes of this process, each in a transaction of its own
// on one of a few connections. Writes run side by side, in this process and in the
// others of the database, so each locks what it reads and decides on (locks.go).
// The server joins the flushes of commits by itself.
type postgresWriter struct {
	pool    *pgxpool.Pool
	slots   chan struct{}   // one for each write that has a connection
	waiting chan struct{}   // one for each of them that may wait long for a lock
	rows    *keylimit.Limit // of writes that begin with locking a row
	clock   *serverClock
	texts   *statementTexts
	memory  processMemory
	older   chan struct{} // see Store.Older
	faults  *faultPoints

	mu      sync.Mutex
	closed  chan struct{} // closed when no more writes may begin
	running sync.WaitGroup
}

func newPostgresWriter(pool *pgxpool.Pool, connections int, clock *serverClock) *postgresWriter {
	return &postgresWriter{
		pool: pool, slots: make(chan struct{}, connections), waiting: make(chan struct{}, max(1, connections/connectionsPerWaiting)),
		rows: keylimit.New(min(writesPerRow, connections)), clock: clock, older: make(chan struct{}, 1), closed: make(chan struct{}),
		texts: &statementTexts{kept: map[string]string{}}, faults: newFaultPoints(),
	}
}

// write runs fn in a transaction, again when the server undid it.
func (w *postgresWriter) write(caller context.Context, fn func(*Tx) error) error {
	if err := w.begin(caller); err != nil {
		return err
	}
	defer w.running.Done()
	bound := &writeBound{caller: caller}
	defer bound.end()
	waits := false
	for attempt := 0; ; attempt++ {
		if err := caller.Err(); err != nil {
			return err
		}
		t := &postgresWrite{
			writer: w, bound: bound, waits: waits, last: attempt+1 == writeAttempts,
			session: postgresSession{caller: caller, texts: w.texts},
		}
		err := t.run(fn)
		wait, ok := retryAfter(err)
		t.end()
		if !ok || t.last || bound.over() {
			return err
		}
		waits = waits || notLocked(err)
		wait <<= attempt
		pause(bound.ctx, wait/2+rand.N(wait)) //nolint:gosec // it only spreads retries
	}
}

// writeBound bounds a write from its first connection on. A write that has begun is
// waited for even when its caller leaves, so that the answer is the truth.
type writeBound struct {
	caller context.Context //nolint:containedctx // what waits for a connection ends with it
	ctx    context.Context //nolint:containedctx // nil before the first connection
	cancel context.CancelFunc
}

func (b *writeBound) begin() context.Context {
	if b.ctx == nil {
		b.ctx, b.cancel = context.WithTimeout(context.WithoutCancel(b.caller), writeTimeout)
	}
	return b.ctx
}

func (b *writeBound) over() bool { return b.ctx == nil || b.ctx.Err() != nil }

func (b *writeBound) end() {
	if b.cancel != nil {
		b.cancel()
	}
}

// begin counts a write that close waits for.
func (w *postgresWriter) begin(caller context.Context) error {
	if err := caller.Err(); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.closed:
		return ErrClosed
	default:
		w.running.Add(1)
		return nil
	}
}

// close waits for the writes that run.
func (w *postgresWriter) close() {
	w.mu.Lock()
	select {
	case <-w.closed:
	default:
		close(w.closed)
	}
	w.mu.Unlock()
	w.running.Wait()
	w.pool.Close()
}

// stateTaken is what the server says of a value that only one row may have
// (https://www.postgresql.org/docs/15/errcodes-appendix.html).
const stateTaken = "23505"

// retryAfter reports whether a write that failed may succeed at another time, and
// how long to wait before the second attempt.
func retryAfter(err error) (wait time.Duration, ok bool) {
	var refused *pgconn.PgError
	switch {
	case err == nil, errors.Is(err, errOutcomeUnknown), fullDisk(err):
		return 0, false
	case errors.Is(err, errWaited), notLocked(err),
		errors.As(err, &refused) && (refused.Code == stateTaken || strings.HasPrefix(refused.Code, stateRolledBack)):
		// What the write had checked was changed by another before its commit.
		return collideBackoff, true
	}
	return firstBackoff, errors.Is(err, node.ErrUnavailable)
}

// notLocked reports whether a write did not get a lock in time.
func notLocked(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == stateNotLocked
}

// postgresWrite is one attempt at a write.
type postgresWrite struct {
	writer  *postgresWriter
	bound   *writeBound
	session postgresSession
	conn    *pgxpool.Conn
	waits   bool      // whether it may wait long for locks
	slot    bool      // whether it has one of the writer's slots, and one of the waiting if it waits
	release func()    // of the row that it began with; nil for none
	id      string    // of the transaction, as pg_xact_status takes it; empty before the first trip
	at      time.Time // by the database's clock; zero before the first trip
	// signatures are those that the database had when the write began; see Tx.Older
	signatures int64
	changes    bool
	last       bool // whether this is the last attempt

	keys map[string]int64 // reserved keys by table
}

// beginWrite keeps migrations out, and processes of the version before, which take
// this lock for themselves alone while they write. The time is that after the wait. The signatures are those
// of the database (lineage.go), -1 when a dump has filled the tables.
// Isolation is read committed: each statement sees what was committed before it
// began, so what is read behind a lock is what the lock protects.
const (
	beginWrite = "BEGIN ISOLATION LEVEL READ COMMITTED"
	enterWrite = `WITH lock AS MATERIALIZED (SELECT pg_advisory_xact_lock_shared(` + writeLock + `))
		SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, pg_current_xact_id()::text,
			coalesce((SELECT CASE WHEN written_in = xmin::text THEN signatures ELSE -1 END FROM lineage WHERE id = 1), 0)
		FROM lock`
)

// run makes the attempt. Nothing is sent before fn asks for something, so the
// transaction begins in the trip of the first statement, and takes a connection then.
func (t *postgresWrite) run(fn func(*Tx) error) error {
	t.session.connect = t.connect
	t.session.queue(nil, beginWrite)
	if t.waits {
		t.session.queue(nil, "SET LOCAL lock_timeout = '"+lockTimeout+"'")
	}
	t.session.queue(t.began, enterWrite)
	tx := &Tx{begin: t.now, db: &t.session, settle: longestWrite, takesLists: true, shared: t, memory: &t.writer.memory, beforeChange: func() error {
		t.changes = true
		return nil
	}}
	err := runGuarded(fn, tx)
	switch {
	case err == nil && t.session.cause == nil && t.changes:
		point := t.writer.faults.before(tx.note)
		if err = t.commit(); err == nil {
			t.writer.faults.after(point)
		}
	case t.session.cause == nil:
		return err
	}
	if cause := t.session.cause; cause != nil && !errors.Is(err, cause) {
		err = cause // fn overlooked it, or says what it made of it
	}
	if err != nil {
		return fmt.Errorf("commit to the database: %w", err)
	}
	return nil
}

// await waits for a place at the row that this write locks first. One that has
// a connection already waits in the database.
func (t *postgresWrite) await(row string) (err error) {
	if t.release != nil || t.slot {
		return nil
	}
	t.release, err = t.writer.rows.Acquire(t.session.caller, row)
	return err
}

// enter waits until a write may have a connection, unless this one may already. A
// caller that leaves ends the wait.
func (t *postgresWrite) enter() error {
	if t.slot {
		return nil
	}
	if t.waits {
		if err := enter(t.session.caller, t.writer.waiting); err != nil {
			return err
		}
	}
	if err := enter(t.session.caller, t.writer.slots); err != nil {
		if t.waits {
			<-t.writer.waiting
		}
		return err
	}
	t.slot, t.session.ctx = true, t.bound.begin()
	return nil
}

// enter takes one of the places, also for a caller that has left when one is free.
func enter(ctx context.Context, places chan<- struct{}) error {
	select {
	case places <- struct{}{}:
		return nil
	default:
	}
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// connect takes a connection, in place of one that is dead.
func (t *postgresWrite) connect() error {
	if t.conn != nil {
		t.conn.Release()
		t.conn = nil
	}
	if err := t.enter(); err != nil {
		return err
	}
	conn, err := t.writer.pool.Acquire(t.session.ctx)
	if err != nil {
		return fmt.Errorf("connect for writing: %w", outage(err))
	}
	t.conn, t.session.conn = conn, conn.Conn()
	return nil
}

// began takes the answer to enterWrite.
func (t *postgresWrite) began(r row) error {
	var micros int64
	if err := r.Scan(&micros, &t.id, &t.signatures); err != nil {
		return fmt.Errorf("read the time and the signatures of the database: %w", err)
	}
	t.at = t.writer.clock.measured(time.UnixMicro(micros).UTC())
	return nil
}

// now is the time of the transaction, which costs a trip when there was none.
func (t *postgresWrite) now() time.Time {
	if t.at.IsZero() && t.session.flush() != nil {
		return t.writer.clock.now() // whatever is decided by it is not committed
	}
	return t.at
}

// reserveKeys takes the next keys of the tables to which most writes add one row
// after another. A row with a reserved key needs no trip of its own. Taken behind the
// lock of a node, keys grow for that node.
const reserveKeys = "SELECT nextval('documents_id_seq'), nextval('leases_epoch_seq'), nextval('work_id_seq')"

// reserve takes keys with the next trip, but none for a table that is about to get a
// row in that trip.
func (t *postgresWrite) reserve(except string) {
	t.keys = map[string]int64{}
	t.session.queue(func(r row) error {
		var document, lease, work int64
		if err := r.Scan(&document, &lease, &work); err != nil {
			return fmt.Errorf("read keys: %w", err)
		}
		t.keys["documents"], t.keys["leases"], t.keys["work"] = document, lease, work
		delete(t.keys, except)
		return nil
	}, reserveKeys)
}

// reserved returns the reserved key of a table; false when there is none.
func (t *postgresWrite) reserved(table string) (key int64, ok bool) {
	key, ok = t.keys[table]
	if t.keys == nil {
		t.reserve(table)
	}
	delete(t.keys, table)
	return key, ok
}

// commit commits. When the connection breaks before the answer it asks the server
// what became of the transaction, so that nothing happens twice.
func (t *postgresWrite) commit() error {
	if t.id == "" { // a lost answer must find it
		if err := t.session.flush(); err != nil {
			return err
		}
	}
	if t.session.longest > longestWait && !t.last {
		return errWaited
	}
	tag, err := t.session.commit()
	switch {
	case err == nil && tag == "COMMIT":
		return nil
	case err == nil:
		return fmt.Errorf("the server answered %s", tag)
	case t.session.conn.IsClosed():
		t.session.cause = nil
		run := runOf(t.session.conn)
		t.conn.Release() // to ask on another one
		t.conn = nil
		return t.writer.outcome(t.id, run, err)
	}
	return err
}

// end gives everything back, after it has taken back what was not committed. The
// answer to the caller does not wait for that.
func (t *postgresWrite) end() {
	if t.conn == nil || t.conn.Conn().PgConn().TxStatus() == 'I' || t.conn.Conn().IsClosed() {
		t.giveBack()
		return
	}
	t.writer.running.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), undoTimeout)
		defer cancel()
		_, _ = control(ctx, t.conn.Conn(), "ROLLBACK") // the pool drops a connection that is not idle
		t.giveBack()
	})
}

func (t *postgresWrite) giveBack() {
	if t.conn != nil {
		t.conn.Release()
	}
	if t.slot {
		<-t.writer.slots
		if t.waits {
			<-t.writer.waiting
		}
	}
	if t.release != nil {
		t.release()
	}
}

// errWaited says that a write must begin again, see longestWait.
var errWaited = errors.New("it waited long for another write")

// errOutcomeUnknown says that a commit may have happened or not.
var errOutcomeUnknown error = &node.UnavailableError{Reason: unknowable}

// outcome tells what became of a commit whose answer was lost, in a run of the
// server: nil when it happened, a node.ErrUnavailable when it did not.
func (w *postgresWriter) outcome(id string, run any, lost error) error {
	ctx, cancel := context.WithTimeout(context.Background(), outcomeTimeout)
	defer cancel()
	for ; ctx.Err() == nil; pause(ctx, outcomePoll) {
		status, now, err := w.status(ctx, id)
		switch {
		case err != nil: // the server may be starting again
			continue
		case status == "committed" && now == run:
			return nil
		case status == "aborted":
			return unavailable(unreachable, lost)
		case status == "in progress":
			continue
		}
		break // forgotten, or it may be another transaction with the same number
	}
	return fmt.Errorf("%w: %w", errOutcomeUnknown, lost)
}

// status asks what became of a transaction, and in which run the server knows it. The
// status is "" when it knows nothing.
func (w *postgresWriter) status(ctx context.Context, id string) (status string, run any, err error) {
	conn, err := w.pool.Acquire(ctx)
	if err != nil {
		return "", nil, err
	}
	defer conn.Release()
	err = conn.QueryRow(ctx, "SELECT coalesce(pg_xact_status($1::text::xid8), '')", id).Scan(&status)
	return status, runOf(conn.Conn()), err
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
