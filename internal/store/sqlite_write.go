package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// sqliteWriter runs all writes of a SQLite database on one connection. Each
// transaction of a group runs in a savepoint of its own. Only the goroutine of
// its writer uses it.
type sqliteWriter struct {
	db    *sql.DB
	conn  *sql.Conn
	clock func() time.Time
	stmts map[string]*sql.Stmt
}

// close finalizes the statements before it closes the connection: as long as
// there are some, SQLite keeps the file open and what is in the log there.
func (w *sqliteWriter) close() error {
	for _, stmt := range w.stmts {
		_ = stmt.Close() // it goes with the connection at the latest
	}
	_ = w.conn.Close() // the database is closed right after
	return w.db.Close()
}

// commit runs the group in one database transaction.
func (w *sqliteWriter) commit(g *group) {
	g.gather()
	w.forget()
	err := w.raw("BEGIN IMMEDIATE")
	if err == nil {
		if err = w.runAll(g.requests); err == nil {
			err = w.raw("COMMIT")
		}
		if err != nil {
			_ = w.raw("ROLLBACK") // SQLite may have done it already
		}
	}
	if err == nil {
		return
	}
	for _, request := range g.requests {
		if request.err == nil {
			request.err = fmt.Errorf("commit to the database: %w", err)
		}
	}
}

// errGroupLost says that SQLite gave up the whole transaction, as it does when
// the disk is full: nothing more may run in it.
var errGroupLost = errors.New("transaction was rolled back")

// runAll runs the group's transactions one after the other. An error means that
// none of them may be committed.
func (w *sqliteWriter) runAll(group []*writeRequest) error {
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
func (w *sqliteWriter) runOne(request *writeRequest) error {
	if err := request.ctx.Err(); err != nil {
		return err
	}
	touched := false
	err := request.run(&Tx{now: w.clock(), db: sqliteSession{w.prepared}, touch: func() error {
		if touched {
			return nil
		}
		touched = true
		return w.raw("SAVEPOINT request")
	}})
	if !touched {
		return err
	}
	if err != nil {
		if undo := w.raw("ROLLBACK TO request"); undo != nil {
			return fmt.Errorf("%w: %w", errGroupLost, err)
		}
	}
	if release := w.raw("RELEASE request"); release != nil {
		return errors.Join(err, fmt.Errorf("%w: %w", errGroupLost, release))
	}
	return err
}

func (w *sqliteWriter) prepared(query string) (*sql.Stmt, error) {
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
func (w *sqliteWriter) forget() {
	if len(w.stmts) < maxPrepared {
		return
	}
	for _, stmt := range w.stmts {
		_ = stmt.Close()
	}
	clear(w.stmts)
}

// raw runs a statement that steers the transaction.
func (w *sqliteWriter) raw(statement string) error {
	stmt, err := w.prepared(statement)
	if err != nil {
		return err
	}
	if _, err := stmt.ExecContext(context.Background()); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}

// sqliteSession runs prepared statements.
type sqliteSession struct {
	stmt func(query string) (*sql.Stmt, error)
}

func (s sqliteSession) exec(query string, args []any) error {
	_, err := s.run(query, args)
	return err
}

// insert relies on every key being the table's row ID.
func (s sqliteSession) insert(_, query string, args []any) (int64, bool, error) {
	result, err := s.run(query, args)
	if err != nil {
		return 0, false, err
	}
	if count, err := result.RowsAffected(); err != nil || count == 0 {
		return 0, false, err
	}
	id, err := result.LastInsertId()
	return id, true, err
}

func (s sqliteSession) run(query string, args []any) (sql.Result, error) {
	stmt, err := s.stmt(query)
	if err != nil {
		return nil, err
	}
	result, err := stmt.ExecContext(context.Background(), args...)
	if err != nil {
		return nil, fmt.Errorf("write to the database: %w", err)
	}
	return result, nil
}

func (s sqliteSession) query(scan func(row) error, query string, args []any) error {
	stmt, err := s.stmt(query)
	if err != nil {
		return err
	}
	rows, err := stmt.QueryContext(context.Background(), args...)
	if err != nil {
		return fmt.Errorf("read from the database: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read from the database: %w", err)
	}
	return nil
}
