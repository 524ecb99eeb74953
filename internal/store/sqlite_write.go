package store

import (
	"errors"
	"fmt"
	"time"
)

// sqliteWriter runs all writes of a SQLite database on one connection. The transactions
// of a group share one of the database. Only the goroutine of its writer uses it.
type sqliteWriter struct {
	conn   *sqliteConn
	clock  func() time.Time
	memory memory

	callers int           // of the last group, and those who came meanwhile
	took    time.Duration // the last commit
}

// commit runs the group in one database transaction. Savepoints would copy each page
// before a request changes it, so there are none at first: few requests fail after a
// change. When one does, the group runs again, with a savepoint for each.
func (w *sqliteWriter) commit(g *group) {
	w.gather(g)
	w.conn.trim()
	err := w.transact(g.requests, false)
	if errors.Is(err, errUndo) {
		err = w.transact(g.requests, true)
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

func (w *sqliteWriter) transact(group []*writeRequest, savepoints bool) error {
	err := w.conn.control("BEGIN IMMEDIATE")
	if err != nil {
		return err
	}
	if err = w.runAll(group, savepoints); err == nil {
		began := time.Now()
		err = w.conn.control("COMMIT")
		w.took = time.Since(began)
	}
	if err != nil {
		_ = w.conn.control("ROLLBACK") // SQLite may have done it already
	}
	return err
}

// maxPatience bounds how long the writer waits for callers to come back: a commit
// that moves the log into the database file takes much longer than others.
const maxPatience = 2 * time.Millisecond

// gather waits for callers that were busy with the writer a moment ago: those who
// have their answer often have another request, and one that misses a group
// makes everybody wait for a second commit. Half the time of a commit is less
// than that. Somebody who writes alone never waits.
func (w *sqliteWriter) gather(g *group) {
	g.gather()
	if len(g.requests) >= min(w.callers, maxGroup) {
		return
	}
	patience := time.NewTimer(min(w.took/2, maxPatience))
	defer patience.Stop()
	for len(g.requests) < min(w.callers, maxGroup) {
		select {
		case request := <-g.queue:
			g.requests = append(g.requests, request)
		case <-patience.C:
			return
		}
	}
}

// errGroupLost says that SQLite gave up the whole transaction, as it does when
// the disk is full: nothing more may run in it.
var errGroupLost = errors.New("transaction was rolled back")

// errUndo says that a request failed after a change which only a rollback of the whole
// transaction undoes.
var errUndo = errors.New("a request failed after a change")

// runAll runs the group's transactions one after the other. An error means that
// none of them may be committed.
func (w *sqliteWriter) runAll(group []*writeRequest, savepoints bool) error {
	for _, request := range group {
		request.err = w.runOne(request, savepoints)
		if errors.Is(request.err, errGroupLost) || errors.Is(request.err, errUndo) {
			return request.err
		}
	}
	return nil
}

// runOne runs one transaction of the group. Its savepoint is opened at the first
// change, so that a request that only reads or is refused costs nothing more.
func (w *sqliteWriter) runOne(request *writeRequest, savepoint bool) error {
	if err := request.ctx.Err(); err != nil {
		return err
	}
	touched := false
	err := request.run(&Tx{now: w.clock(), db: &sqliteSession{conn: w.conn}, memory: w.memory, beforeChange: func() error {
		if touched {
			return nil
		}
		touched = true
		if !savepoint {
			return nil
		}
		return w.conn.control("SAVEPOINT request")
	}})
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
	}
	if release := w.conn.control("RELEASE request"); release != nil {
		return errors.Join(err, fmt.Errorf("%w: %w", errGroupLost, release))
	}
	return err
}
