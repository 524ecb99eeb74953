package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ingot-metal/ingot/internal/node"
)

// Bounds of writing to PostgreSQL.
const (
	commitAttempts = 6                     // how often a group is tried
	firstBackoff   = 50 * time.Millisecond // before the second attempt; doubles, with jitter
	outcomeTimeout = 5 * time.Second       // how long a lost commit is asked about
	outcomePoll    = 50 * time.Millisecond
)

// postgresWriter runs the writes of this process on one connection. While it does
// it holds the database's write lock, so that the writes of all processes follow
// one another: each sees what all before it have committed, and nothing that it
// has read changes under it. What a group of requests gains is one wait for the
// lock and one for the disk.
//
// A group has no savepoints at first, since hardly any request fails after it has
// changed something. When one does, the group is undone and runs again with them.
type postgresWriter struct {
	config *pgx.ConnConfig
	clock  *serverClock
	name   string    // of this process; may be empty
	conn   *pgx.Conn // nil when there is none
}

// errSpoiled says that a request of the group has failed halfway.
var errSpoiled = errors.New("a request of the group failed")

// commit runs the group in one database transaction, again when the database
// undid it.
func (w *postgresWriter) commit(g *group) {
	ctx, cancel := context.WithTimeout(context.Background(), groupTimeout)
	defer cancel()
	savepoints := false
	wait := firstBackoff
	for attempt := 1; ; attempt++ {
		err := w.try(ctx, g, savepoints)
		if errors.Is(err, errSpoiled) && !savepoints {
			savepoints = true
			err = w.try(ctx, g, savepoints)
		}
		switch {
		case err == nil:
			return
		case !errors.Is(err, node.ErrUnavailable), fullDisk(err), errors.Is(err, errOutcomeUnknown), attempt == commitAttempts, ctx.Err() != nil:
			for _, request := range g.requests {
				request.err = fmt.Errorf("commit to the database: %w", err)
			}
			return
		}
		pause(ctx, time.Duration(float64(wait)*(0.5+rand.Float64()))) //nolint:gosec // it only spreads retries
		wait *= 2
	}
}

// try runs the group once. Unless it returns an error, every request has its
// answer.
func (w *postgresWriter) try(ctx context.Context, g *group, savepoints bool) error {
	began, err := w.begin(ctx)
	if err != nil {
		w.disconnect()
		return outage(err)
	}
	s := &postgresSession{ctx: ctx, caller: ctx, conn: w.conn}
	touched, err := w.runAll(s, g, began.at, savepoints)
	if err == nil && touched {
		err = w.finish(s, began.id)
		switch {
		case !errors.Is(err, errSpoiled):
		case len(g.requests) == 1:
			g.requests[0].err, err = s.cause, nil
		case savepoints:
			err = s.cause // of the commit itself
		}
	}
	if w.conn != nil && w.conn.PgConn().TxStatus() != 'I' {
		if _, undo := control(ctx, w.conn, "ROLLBACK"); undo != nil {
			w.disconnect()
		}
	}
	return err
}

// begun identifies a transaction.
type begun struct {
	id string    // as pg_xact_status takes it
	at time.Time // by the database's clock
}

// beginWrite waits for the write lock and tells the time after it was given.
// Isolation is read committed: a snapshot from before the wait would not show
// what the lock's last holder wrote.
const beginWrite = `BEGIN ISOLATION LEVEL READ COMMITTED;
	WITH lock AS MATERIALIZED (SELECT pg_advisory_xact_lock(` + writeLock + `))
	SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, pg_current_xact_id() FROM lock`

func (w *postgresWriter) begin(ctx context.Context) (begun, error) {
	if w.conn == nil {
		if err := w.dial(ctx); err != nil {
			return begun{}, fmt.Errorf("connect for writing: %w", err)
		}
	}
	results, err := control(ctx, w.conn, beginWrite)
	if err != nil {
		return begun{}, fmt.Errorf("begin write: %w", err)
	}
	row := results[len(results)-1].Rows[0]
	micros, err := strconv.ParseInt(string(row[0]), 10, 64)
	if err != nil {
		return begun{}, fmt.Errorf("read the time of the database: %w", err)
	}
	return begun{id: string(row[1]), at: w.clock.heard(time.UnixMicro(micros).UTC())}, nil
}

// runAll runs the group's requests one after the other and reports whether there
// is anything to commit. Requests that came while it waited for the server join
// the group: the commit is what takes longest.
func (w *postgresWriter) runAll(s *postgresSession, g *group, now time.Time, savepoints bool) (touched bool, err error) {
	for i := 0; i < len(g.requests) || g.gather(); i++ {
		request := g.requests[i]
		if request.err = request.ctx.Err(); request.err != nil {
			continue
		}
		changed, err := runOne(s, request, now, savepoints)
		switch {
		case err == nil:
			touched = touched || changed
		case errors.Is(err, errSpoiled) && len(g.requests) == 1:
			return false, nil // it has its answer, and nobody else waits for one
		default:
			return false, err
		}
	}
	return touched, nil
}

// runOne runs one request. An error means that the transaction is of no use to
// the others any more.
func runOne(s *postgresSession, request *writeRequest, now time.Time, savepoints bool) (touched bool, err error) {
	if savepoints {
		s.late.Queue("SAVEPOINT request")
	}
	request.err = request.run(&Tx{now: now, db: s, touch: func() error {
		touched = true
		return nil
	}})
	if savepoints && request.err == nil {
		request.err = s.flush() // now, so that a failure is this request's own
	}
	if s.cause != nil && request.err == nil {
		request.err = s.cause // the function overlooked it, the server does not
	}
	switch {
	case errors.Is(s.cause, node.ErrUnavailable) && !fullDisk(s.cause):
		return false, s.cause
	case savepoints && request.err == nil:
		s.late.Queue("RELEASE request")
		return touched, nil
	case savepoints:
		return false, s.undo()
	case s.cause != nil, request.err != nil && touched:
		return false, errSpoiled
	}
	return touched, nil
}

// undo takes back what the current request has done.
func (s *postgresSession) undo() error {
	s.late, s.cause = pgx.Batch{}, nil
	_, err := control(s.ctx, s.conn, "ROLLBACK TO request; RELEASE request")
	return outage(err)
}

// finish commits. When the connection breaks before the answer it asks the
// server what became of the transaction, so that nothing happens twice.
func (w *postgresWriter) finish(s *postgresSession, id string) error {
	tag, err := s.commit()
	switch {
	case err == nil && tag == "COMMIT":
		return nil
	case err == nil:
		return fmt.Errorf("the server answered %s", tag)
	case w.conn.IsClosed():
		w.disconnect()
		return w.outcome(id, err)
	case errors.Is(err, node.ErrUnavailable) && !fullDisk(err):
		return err
	}
	return errSpoiled // a statement that was put off
}

// errOutcomeUnknown says that a commit may have happened or not.
var errOutcomeUnknown error = &node.UnavailableError{Reason: unknowable}

// outcome tells what became of a commit whose answer was lost: nil when it
// happened, a node.ErrUnavailable when it did not.
func (w *postgresWriter) outcome(id string, lost error) error {
	ctx, cancel := context.WithTimeout(context.Background(), outcomeTimeout)
	defer cancel()
	for ; ctx.Err() == nil; pause(ctx, outcomePoll) {
		status, err := w.status(ctx, id)
		if err != nil {
			continue // the server may be starting again
		}
		switch status {
		case "committed":
			return nil
		case "aborted":
			return unavailable(unreachable, lost)
		case "in progress":
			continue
		}
		break // forgotten, or another server
	}
	return fmt.Errorf("%w: %w", errOutcomeUnknown, lost)
}

// status is what the server knows of a transaction, "" when it knows nothing.
func (w *postgresWriter) status(ctx context.Context, id string) (status string, err error) {
	if w.conn == nil {
		if err := w.dial(ctx); err != nil {
			return "", err
		}
	}
	if err = w.conn.QueryRow(ctx, "SELECT coalesce(pg_xact_status($1::text::xid8), '')", id).Scan(&status); err != nil {
		w.disconnect()
	}
	return status, err
}

// dial opens the connection. A process that runs already goes on when its name is
// taken.
func (w *postgresWriter) dial(ctx context.Context) (err error) {
	if w.conn, err = connect(ctx, w.config); err != nil {
		return err
	}
	if _, err := w.takeName(ctx); err != nil {
		w.disconnect()
		return err
	}
	return nil
}

// disconnect gives the connection up; the next group opens another.
func (w *postgresWriter) disconnect() {
	if w.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = w.conn.Close(ctx) // it is of no use any more
	w.conn = nil
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
