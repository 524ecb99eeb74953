package store

import (
	"context"
	"database/sql"
	"errors"

	"github.com/pressly/goose/v3/database"
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

// Kept returns how many prepared statements of a SQLite database wait for their
// next use.
func (s *Store) Kept(ctx context.Context) (reads, writes int, err error) {
	db := s.db.(*sqlite)
	err = s.Write(ctx, func(*Tx) error { // the writer's statements are its own
		writes = len(db.writes.stmts)
		return nil
	})
	db.reads.mu.Lock()
	defer db.reads.mu.Unlock()
	return len(db.reads.stmts), writes, err
}

// Suits judges a server.
var Suits = suits

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
