package store

import (
	"fmt"
)

// sqliteSession runs statements on a connection.
type sqliteSession struct {
	conn  *sqliteConn
	ended func() error // returns why nobody waits for the result any more; nil in a write
}

func (s *sqliteSession) exec(query string, args []any) error {
	if err := s.conn.run(query, args, nil); err != nil {
		return fmt.Errorf("write to the database: %w", err)
	}
	return nil
}

// insert relies on the key of every table being its row ID.
func (s *sqliteSession) insert(_, query string, args []any) (int64, bool, error) {
	if err := s.exec(query, args); err != nil {
		return 0, false, err
	}
	id, inserted := s.conn.inserted()
	return id, inserted, nil
}

func (s *sqliteSession) query(scan func(row) error, query string, args []any) error {
	var stopped error
	err := s.conn.run(query, args, func(r row) error {
		if s.ended != nil {
			if stopped = s.ended(); stopped != nil {
				return stopped
			}
		}
		stopped = scan(r)
		return stopped
	})
	if err != nil && stopped == nil {
		return fmt.Errorf("read from the database: %w", err)
	}
	return err
}
