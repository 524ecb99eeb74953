package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/pressly/goose/v3/database"
	sqlite3 "modernc.org/sqlite/lib"
)

// Exec runs a statement as part of the transaction, for tests that have to look
// or act below the store.
func (tx *Tx) Exec(query string, args ...any) error {
	err := tx.exec(query, args...)
	return err
}

// Texts returns the first column of a query's rows.
func (tx *Tx) Texts(query string, args ...any) ([]string, error) {
	var texts []string
	err := tx.query(func(rows row) error {
		var text string
		if err := rows.Scan(&text); err != nil {
			return err
		}
		texts = append(texts, text)
		return nil
	}, query, args...)
	return texts, err
}

// Kept returns how many prepared statements the connection of a SQLite database keeps that keeps
// the most.
func (s *Store) Kept(ctx context.Context) (reads, writes int, err error) {
	db := s.db.(*sqlite)
	err = s.Write(ctx, func(*Tx) error { // the writer's statements are its own
		writes = len(db.writes.conn.stmts)
		return nil
	})
	db.reads.mu.Lock()
	defer db.reads.mu.Unlock()
	for _, conn := range db.reads.idle {
		reads = max(reads, len(conn.stmts))
	}
	return reads, writes, err
}

// Reprepared returns how often the reading connections have prepared a kept statement again.
func (s *Store) Reprepared() int {
	reads := s.db.(*sqlite).reads
	reads.mu.Lock()
	defer reads.mu.Unlock()
	count := 0
	for _, conn := range reads.idle {
		for _, stmt := range conn.stmts {
			count += int(sqlite3.Xsqlite3_stmt_status(conn.tls, stmt.handle, sqlite3.SQLITE_STMTSTATUS_REPREPARE, 0))
		}
	}
	return count
}

// Gather returns how many requests share a commit. One request is there at once; the others come
// after the given times. Callers and took are those of the previous commit.
func Gather(callers int, took time.Duration, others ...time.Duration) int {
	queue := make(chan *writeRequest, maxGroup)
	for _, after := range others {
		time.AfterFunc(after, func() { queue <- &writeRequest{} })
	}
	g := &group{requests: []*writeRequest{{}}, queue: queue}
	w := &sqliteWriter{callers: callers, took: took}
	until := w.joinUntil(time.Now())
	for before := 0; before < len(g.requests); {
		before = len(g.requests)
		w.join(g, until)
	}
	return len(g.requests)
}

// CheckVersion judges a server.
var CheckVersion = checkVersion

// MigrateTo brings an empty PostgreSQL schema to a version, as the program of that
// version did, and reports whether a newer version is known.
func MigrateTo(ctx context.Context, url string, version int64) (older bool, err error) {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	provider, err := migrations(db, database.DialectPostgres)
	if err != nil {
		return false, err
	}
	_, err = provider.UpTo(ctx, version)
	sources := provider.ListSources()
	return version < sources[len(sources)-1].Version, err
}

// Plans returns how the database runs each statement of a write, which it does not
// commit.
func (s *Store) Plans(ctx context.Context, fn func(*Tx) error) (plans []string, err error) {
	undo := errors.New("undo")
	err = s.Write(ctx, func(tx *Tx) error {
		said := &recorder{session: tx.db}
		tx.db = said
		if err := fn(tx); err != nil {
			return err
		}
		tx.db = said.session
		plans = nil
		for _, statement := range said.statements {
			plan, err := tx.explain(statement)
			if err != nil {
				return err
			}
			plans = append(plans, statement.query+"\n"+plan)
		}
		return undo
	})
	if errors.Is(err, undo) {
		err = nil
	}
	return plans, err
}

func (tx *Tx) explain(s statement) (plan string, err error) {
	prefix := "EXPLAIN "
	var id, parent, unused int
	var line string
	into := []any{&line}
	if tx.shared == nil {
		prefix, into = "EXPLAIN QUERY PLAN ", []any{&id, &parent, &unused, &line}
	}
	err = tx.query(func(r row) error {
		err := r.Scan(into...)
		plan += line + "\n"
		return err
	}, prefix+s.query, s.args...)
	return plan, err
}

// recorder notes the statements of a session.
type recorder struct {
	session
	statements []statement
}

type statement struct {
	query string
	args  []any
}

func (r *recorder) exec(query string, args []any) error {
	r.statements = append(r.statements, statement{query, args})
	return r.session.exec(query, args)
}

func (r *recorder) insert(key, query string, args []any) (int64, bool, error) {
	r.statements = append(r.statements, statement{query, args})
	return r.session.insert(key, query, args)
}

func (r *recorder) query(scan func(row) error, query string, args []any) error {
	r.statements = append(r.statements, statement{query, args})
	return r.session.query(scan, query, args)
}

// Trips counts how often a write waits for the server, its commit included.
func (s *Store) Trips(ctx context.Context, fn func(*Tx) error) (trips int, err error) {
	err = s.Write(ctx, func(tx *Tx) error {
		err := fn(tx)
		trips = tx.shared.session.trips + 1
		return err
	})
	return trips, err
}

// WithMigrationWaits replaces how long a migration on PostgreSQL waits for one lock, between
// two attempts, and in all.
func (o Options) WithMigrationWaits(lock, pause, whole time.Duration) Options {
	o.migrationWaits = migrationWaits{lock, pause, whole}
	return o
}
