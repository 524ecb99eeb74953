package store

import (
	"errors"
	"fmt"
	"time"
)

// sqliteWriter runs all writes of a SQLite database on one connection. The requests of a group
// share one database transaction. Only the goroutine of its writer uses it.
type sqliteWriter struct {
	conn    *sqliteConn
	clock   func() time.Time
	counter useCounter
	faults  *faultPoints
	note    commitNote // note of the running transaction
	epochs  grantedEpochs

	callers int           // callers in the last group, and those who came meanwhile
	took    time.Duration // duration of the last commit
}

// commit runs the group in one database transaction. A savepoint copies each page before a request
// changes it, so the first attempt uses none: few requests fail after a change. When one does, the
// group runs again with a savepoint for each request.
func (w *sqliteWriter) commit(g *group) {
	w.conn.trim()
	err := w.transact(g, false)
	if errors.Is(err, errUndo) {
		err = w.transact(g, true)
	}
	w.callers = len(g.requests) + len(g.queue)
	if err == nil {
		return
	}
	for _, request := range g.requests {
		if request.err == nil {
			request.err = fmt.Errorf("commit to the database: %w", err)
		}
	}
}

func (w *sqliteWriter) transact(g *group, savepoints bool) error {
	w.note = commitNote{}
	err := w.conn.control("BEGIN IMMEDIATE")
	if err != nil {
		return err
	}
	if err = w.runAll(g, savepoints); err == nil {
		point, began := w.faults.before(w.note), time.Now()
		err = w.conn.control("COMMIT")
		w.took = time.Since(began)
		if err == nil {
			w.faults.after(point)
		}
	}
	if err != nil {
		_ = w.conn.control("ROLLBACK") // SQLite may have done it already
		w.epochs.rolledBack = true
	}
	return err
}

// maxJoinWait is how long the writer waits at most for callers to come back. Half the time of the
// last commit may be longer, because a commit that moves the log into the database file takes much
// longer than others.
const maxJoinWait = 2 * time.Millisecond

// joinUntil returns until when a group that begins now waits for more callers.
func (w *sqliteWriter) joinUntil(now time.Time) time.Time {
	return now.Add(min(w.took/2, maxJoinWait))
}

// join adds requests that arrived while the group ran. Until the given time, it also waits for the
// callers of the last group: a caller that has its answer often has another request, and a request
// that misses a group makes everybody wait for a second commit. Waiting for half the time of a
// commit costs less than that. A single caller never waits.
func (w *sqliteWriter) join(g *group, until time.Time) {
	if g.gather() || len(g.requests) >= min(w.callers, maxGroup) {
		return
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case request := <-g.queue:
		g.requests = append(g.requests, request)
	case <-timer.C:
	}
}

// errGroupLost says that SQLite has rolled back the whole transaction, as it does when the disk is
// full. Nothing more may run in it.
var errGroupLost = errors.New("transaction was rolled back")

// errUndo says that a request failed after a change that only a rollback of the whole transaction
// can undo.
var errUndo = errors.New("a request failed after a change")

// runAll runs the group's requests one after the other, with those that join meanwhile. After an
// error, none of them may be committed.
func (w *sqliteWriter) runAll(g *group, savepoints bool) error {
	until := w.joinUntil(time.Now())
	for done := 0; done < len(g.requests); {
		request := g.requests[done]
		request.err = w.runOne(request, savepoints)
		if errors.Is(request.err, errGroupLost) || errors.Is(request.err, errUndo) {
			return request.err
		}
		if done++; done == len(g.requests) {
			w.join(g, until)
		}
	}
	return nil
}

// runOne runs one request of the group. It opens the savepoint at the first change, so that a
// request that only reads or is refused costs nothing more.
func (w *sqliteWriter) runOne(request *writeRequest, savepoint bool) error {
	if err := request.ctx.Err(); err != nil {
		return err
	}
	touched := false
	tx := &Tx{now: w.clock(), db: &sqliteSession{conn: w.conn}, counter: w.counter, epochs: &w.epochs, beforeChange: func() error {
		if touched {
			return nil
		}
		touched = true
		if !savepoint {
			return nil
		}
		return w.conn.control("SAVEPOINT request")
	}}
	err := request.run(tx)
	if err == nil {
		w.note.add(tx.note)
	}
	switch {
	case !touched, !savepoint && err == nil:
		return err
	case !savepoint:
		return fmt.Errorf("%w: %w", errUndo, err)
	}
	if err != nil {
		if undo := w.conn.control("ROLLBACK TO request"); undo != nil {
			return fmt.Errorf("%w: %w", errGroupLost, err)
		}
		w.epochs.rolledBack = true
	}
	if release := w.conn.control("RELEASE request"); release != nil {
		return errors.Join(err, fmt.Errorf("%w: %w", errGroupLost, release))
	}
	return err
}
