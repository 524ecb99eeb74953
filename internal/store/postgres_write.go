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

// Limits of writing to PostgreSQL.
const (
	defaultWriteConnections = 16

	// longestWrite is longer than any write takes from its time to its commit.
	longestWrite = time.Minute
	// longestWait is how long a write may have waited for a lock when it commits. A write that
	// waited longer begins again, because its time would be old, and readers of changes rely on
	// that time.
	longestWait = 2 * time.Second

	// writesPerRow is how many writes of this process may work on one node or record at once: one
	// that has locked it, and the next, which follows at once. The others wait without a
	// connection, so that they block nobody else.
	writesPerRow = 2

	// firstLockTimeout and lockTimeout are how long a write waits for one lock, in its first
	// attempt and in later ones. Writes that do not get the lock at first share a small part of the
	// connections in later attempts. The other connections remain for writes that nothing blocks,
	// however long a node or a limit stays locked.
	firstLockTimeout = 500 * time.Millisecond
	lockTimeout      = 12 * time.Second
	// connectionsPerWaiting is the number of connections for each write that may wait long for a
	// lock.
	connectionsPerWaiting = 4

	writeTimeout   = 20 * time.Second      // for all attempts at a write, from its first connection on
	writeAttempts  = 6                     // attempts at one write
	firstBackoff   = 50 * time.Millisecond // before the second attempt; doubles each time, with jitter
	collideBackoff = 5 * time.Millisecond  // the same for a write that collided with another one
	outcomeTimeout = 5 * time.Second       // how long the outcome of a lost commit is asked for
	outcomePoll    = 50 * time.Millisecond
	undoTimeout    = 5 * time.Second // for the rollback of a transaction
	refusalTimeout = time.Second     // until a read of a refusal has a connection
)

// postgresWriter runs the writes of this process, each in its own transaction on one of a few
// connections. Writes run side by side, in this process and in the others of the database, so each
// locks what it reads and bases decisions on (locks.go). The server combines the flushes of
// simultaneous commits by itself.
type postgresWriter struct {
	pool     *pgxpool.Pool
	slots    chan struct{}   // one for each write that has a connection
	waiting  chan struct{}   // one for each of them that may wait long for a lock
	rows     *keylimit.Limit // limits writes that begin with a lock on the same row
	clock    *serverClock
	texts    *statementTexts
	counter  processCounter
	restored chan struct{} // see Store.RestorationFound
	faults   *faultPoints
	// readRefusal is postgres.refusal.
	readRefusal func(ctx context.Context, fn func(*Tx) error) error

	mu      sync.Mutex
	closed  chan struct{} // closed when no more writes may begin
	running sync.WaitGroup
}

func newPostgresWriter(pool *pgxpool.Pool, connections int, clock *serverClock) *postgresWriter {
	return &postgresWriter{
		pool: pool, slots: make(chan struct{}, connections), waiting: make(chan struct{}, max(1, connections/connectionsPerWaiting)),
		rows: keylimit.New(min(writesPerRow, connections)), clock: clock, restored: make(chan struct{}, 1), closed: make(chan struct{}),
		texts: &statementTexts{kept: map[string]string{}}, faults: newFaultPoints(),
	}
}

// write runs fn in a transaction, and again when the server has rolled it back. Before it waits
// long it reads whether fn refuses what was asked, which needs no lock.
func (w *postgresWriter) write(caller context.Context, fn func(*Tx) error) error {
	if err := w.begin(caller); err != nil {
		return err
	}
	defer w.running.Done()
	bound := &writeBound{ctx: caller, cancel: func() {}}
	defer bound.end()
	read, waits := false, false
	for attempt := 0; ; attempt++ {
		if err := caller.Err(); err != nil {
			return err
		}
		t := &postgresWrite{
			writer: w, bound: bound, mayQueue: read, waits: waits, last: attempt+1 == writeAttempts,
			session: postgresSession{caller: caller, texts: w.texts},
		}
		err := t.run(fn)
		wait, ok := retryAfter(err)
		t.end()
		if !ok || t.last || bound.over() {
			return err
		}
		waits = waits || notLocked(err)
		if !read && (waits || errors.Is(err, errNoPlace)) {
			read = true
			if refusal := w.readRefusal(caller, fn); refusal != nil {
				return refusal
			}
		}
		wait <<= attempt
		pause(bound.ctx, wait/2+rand.N(wait)) //nolint:gosec // it only spreads retries
	}
}

// writeBound limits the time of a write, from its first connection on. The caller waits for a write
// that has begun even if its context ends, so that the answer is true.
type writeBound struct {
	ctx    context.Context //nolint:containedctx // the caller's before the first connection
	cancel context.CancelFunc
	begun  bool
}

func (b *writeBound) begin() context.Context {
	if !b.begun {
		b.ctx, b.cancel = context.WithTimeout(context.WithoutCancel(b.ctx), writeTimeout)
		b.begun = true
	}
	return b.ctx
}

func (b *writeBound) over() bool { return b.ctx.Err() != nil }

func (b *writeBound) end() { b.cancel() }

// begin counts a write, so that close waits for it.
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

// close waits for the running writes, and then closes the connections.
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

// stateTaken is the SQLSTATE of a value that only one row may have
// (https://www.postgresql.org/docs/15/errcodes-appendix.html).
const stateTaken = "23505"

// retryAfter reports whether a failed write may succeed at another time, and how long to wait
// before the second attempt.
func retryAfter(err error) (wait time.Duration, ok bool) {
	var refused *pgconn.PgError
	switch {
	case err == nil, errors.Is(err, errOutcomeUnknown), fullDisk(err):
		return 0, false
	case errors.Is(err, errWaited), errors.Is(err, errNoPlace), notLocked(err),
		errors.As(err, &refused) && (refused.Code == stateTaken || strings.HasPrefix(refused.Code, stateRolledBack)):
		// Another write has committed a change to what this write had checked.
		return collideBackoff, true
	}
	return firstBackoff, errors.Is(err, node.ErrUnavailable)
}

// notLocked reports whether a write did not get a lock in time.
func notLocked(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == stateNotLocked
}

// errNoPlace says that other writes of this process kept the places at a row.
var errNoPlace = unavailable(occupied, errors.New("other writes to it are waiting"))

// postgresWrite is one attempt at a write.
type postgresWrite struct {
	writer  *postgresWriter
	bound   *writeBound
	session postgresSession
	conn    *pgxpool.Conn
	// mayQueue is true when it may wait long for a place at its row, waits when it may wait long
	// for locks.
	mayQueue bool
	waits    bool
	slot     bool      // true when it has one of the writer's slots, and a place in waiting if waits is set
	release  func()    // frees the row that it began with; nil without one
	id       string    // ID of the transaction for pg_xact_status; empty before the first trip
	at       time.Time // by the database's clock; zero before the first trip
	// useCount is the count of the database when the write began, see Tx.WasRestored.
	useCount int64
	changes  bool
	last     bool // true for the last attempt

	keys map[string]int64 // reserved keys by table; nil before any are reserved
}

// beginWrite and enterWrite begin a write. The lock keeps out migrations, and processes of the
// previous version, which take this lock exclusively while they write. The time is read after the
// wait for the lock. The count is that of the database (lineage.go), -1 when the tables were
// filled from a dump. The isolation level is read committed: each statement sees what was committed
// before it began, so a read after a lock sees the state that the lock protects.
const (
	beginWrite = "BEGIN ISOLATION LEVEL READ COMMITTED"
	enterWrite = `WITH lock AS MATERIALIZED (SELECT pg_advisory_xact_lock_shared(` + writeLock + `))
		SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, pg_current_xact_id()::text,
			coalesce((SELECT CASE WHEN written_in = xmin::text THEN signatures ELSE -1 END FROM lineage WHERE id = 1), 0)
		FROM lock`
)

// run makes the attempt. It sends nothing before fn asks for something, so the transaction begins,
// and takes a connection, with the trip of the first statement.
func (t *postgresWrite) run(fn func(*Tx) error) error {
	t.session.connect = t.connect
	t.session.queue(nil, beginWrite)
	if t.waits {
		t.session.queue(nil, "SET LOCAL lock_timeout = '"+lockTimeout.String()+"'")
	}
	t.session.queue(t.began, enterWrite)
	tx := &Tx{begin: t.now, db: &t.session, lateCommit: longestWrite, takesLists: true, shared: t, counter: &t.writer.counter, beforeChange: func() error {
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
		err = cause // fn ignored the cause, or wrapped it beyond recognition
	}
	if err != nil {
		return fmt.Errorf("commit to the database: %w", err)
	}
	return nil
}

// await waits for a place at the row that this write locks first, in the first attempt only as long
// as for a lock. A write that already has a connection waits in the database instead.
func (t *postgresWrite) await(row string) (err error) {
	if t.release != nil || t.slot {
		return nil
	}
	ctx := t.session.caller
	if !t.mayQueue {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, firstLockTimeout)
		defer cancel()
	}
	if t.release, err = t.writer.rows.Acquire(ctx, row); err != nil && t.session.caller.Err() == nil {
		err = errNoPlace
		t.session.cause = err
	}
	return err
}

// enter waits until the write may have a connection, unless it already may. The end of the caller's
// context ends the wait.
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

// enter takes one of the places. If one is free, it takes that even if ctx has ended.
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

// connect takes a connection, and releases a dead one before.
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

// began reads the answer to enterWrite.
func (t *postgresWrite) began(r row) error {
	var micros int64
	if err := r.Scan(&micros, &t.id, &t.useCount); err != nil {
		return fmt.Errorf("read the time and the signatures of the database: %w", err)
	}
	t.at = t.writer.clock.measured(time.UnixMicro(micros).UTC())
	return nil
}

// now returns the time of the transaction. It costs a trip to the server when there was none yet.
func (t *postgresWrite) now() time.Time {
	if t.at.IsZero() && t.session.flush() != nil {
		return t.writer.clock.now() // the transaction has failed and commits nothing
	}
	return t.at
}

// nextKeys takes the next keys of the tables to which most writes add one row after another. A row
// with a reserved key needs no trip of its own. Because a write reserves keys under the lock of a
// node, the keys of that node's rows grow.
const nextKeys = "nextval('documents_id_seq'), nextval('leases_epoch_seq'), nextval('work_id_seq')"

// reserve reserves keys with the next trip, except for a table that gets a row in that same trip.
func (t *postgresWrite) reserve(except string) {
	t.keys = map[string]int64{}
	t.session.queue(func(r row) error {
		var keys reservedKeys
		if err := r.Scan(keys.targets()...); err != nil {
			return fmt.Errorf("read keys: %w", err)
		}
		t.keys = keys.byTable()
		delete(t.keys, except)
		return nil
	}, "SELECT "+nextKeys)
}

// reservedKeys are the values of nextKeys.
type reservedKeys struct{ document, lease, work int64 }

func (k *reservedKeys) targets() []any { return []any{&k.document, &k.lease, &k.work} }

func (k *reservedKeys) byTable() map[string]int64 {
	return map[string]int64{"documents": k.document, "leases": k.lease, "work": k.work}
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

// commit commits the transaction. If the connection breaks before the answer, commit asks the
// server for the outcome of the transaction, so that nothing happens twice.
func (t *postgresWrite) commit() error {
	if t.id == "" { // needed to ask for the outcome when the answer is lost
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
		t.conn.Release() // the question needs another connection
		t.conn = nil
		return t.writer.outcome(t.id, run, err)
	}
	return err
}

// end rolls back what was not committed and gives everything back. The answer to the caller does
// not wait for that.
func (t *postgresWrite) end() {
	if t.conn == nil || t.conn.Conn().PgConn().TxStatus() == 'I' || t.conn.Conn().IsClosed() {
		t.giveBack()
		return
	}
	t.writer.running.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), undoTimeout)
		defer cancel()
		_, _ = control(ctx, t.conn.Conn(), "ROLLBACK") // on failure the pool drops the connection
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

// errWaited says that a write has to begin again, see longestWait.
var errWaited = errors.New("it waited long for another write")

// errOutcomeUnknown says that it is unknown whether a commit happened.
var errOutcomeUnknown error = &node.UnavailableError{Reason: unknowable}

// outcome finds out what became of a commit whose answer was lost, in the given run of the server.
// It returns nil when the commit happened, and a node.ErrUnavailable when it did not or the outcome
// stays unknown.
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
		break // forgotten, or another transaction of a later run with the same number
	}
	return fmt.Errorf("%w: %w", errOutcomeUnknown, lost)
}

// status returns the status of a transaction, and the run of the server that gave it. The status is
// "" when the server does not know the transaction.
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
