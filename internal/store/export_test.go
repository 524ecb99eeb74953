package store

import (
	"context"
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
