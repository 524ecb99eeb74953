package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// postgresSession runs the statements of one transaction on one connection, which
// keeps them prepared. Each waits for the network, so those without a result are
// put off and sent together with the next one that has a result.
type postgresSession struct {
	ctx    context.Context //nolint:containedctx // of statements: its end would end the connection
	caller context.Context //nolint:containedctx // nothing more runs after its end
	conn   *pgx.Conn
	late   pgx.Batch // statements that were put off
	cause  error     // the first failure, after which the server runs nothing more in this transaction
}

// maxLate bounds the statements that are put off.
const maxLate = 64

func (s *postgresSession) exec(query string, args []any) error {
	s.late.Queue(numbered(query), args...)
	if s.late.Len() < maxLate {
		return nil
	}
	if err := s.flush(); err != nil {
		return fmt.Errorf("write to the database: %w", err)
	}
	return nil
}

func (s *postgresSession) insert(key, query string, args []any) (id int64, inserted bool, err error) {
	err = s.run(func(r row) error {
		inserted = true
		return r.Scan(&id)
	}, numbered(query)+" RETURNING "+key, args)
	if err != nil {
		return 0, false, fmt.Errorf("write to the database: %w", err)
	}
	return id, inserted, nil
}

func (s *postgresSession) query(scan func(row) error, query string, args []any) error {
	if err := s.caller.Err(); err != nil {
		return err
	}
	var own error // of scan
	err := s.run(func(r row) error {
		own = scan(r)
		return own
	}, numbered(query), args)
	if own != nil {
		return own
	}
	if err != nil {
		return fmt.Errorf("read from the database: %w", err)
	}
	return nil
}

// run sends what was put off and the query, and calls scan for each row of its
// result.
func (s *postgresSession) run(scan func(row) error, query string, args []any) error {
	s.late.Queue(query, args...)
	return s.send(func(results pgx.BatchResults) error {
		rows, err := results.Query()
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if err := scan(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	})
}

// flush sends what was put off.
func (s *postgresSession) flush() error {
	if s.late.Len() == 0 {
		return nil
	}
	return s.send(func(results pgx.BatchResults) error {
		_, err := results.Exec()
		return err
	})
}

// commit sends what was put off and commits. It returns the server's answer.
func (s *postgresSession) commit() (tag string, err error) {
	s.late.Queue("COMMIT")
	err = s.send(func(results pgx.BatchResults) error {
		answer, err := results.Exec()
		tag = answer.String()
		return err
	})
	return tag, err
}

// send sends everything that was put off in one round trip; last takes the result
// of the last statement. An error of the database is remembered as the cause.
func (s *postgresSession) send(last func(pgx.BatchResults) error) error {
	if s.cause != nil {
		return s.cause
	}
	batch := s.late
	s.late = pgx.Batch{}
	results := s.conn.SendBatch(s.ctx, &batch)
	var err error
	for range batch.Len() - 1 {
		if _, err = results.Exec(); err != nil {
			break
		}
	}
	if err == nil {
		err = last(results)
	}
	closed := results.Close() // also waits for the results that were not read
	if err == nil {
		err = closed
	}
	if err != nil && (closed != nil || s.conn.IsClosed() || isDatabase(err)) {
		s.cause = outage(err)
		return s.cause
	}
	return err
}

// isDatabase reports whether the server sent the error.
func isDatabase(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused)
}

// numbered replaces the first "?" by $1, the second by $2, and so on. No
// statement of the store has one inside a text.
func numbered(query string) string {
	var b strings.Builder
	b.Grow(len(query) + 32)
	for n := 1; ; n++ {
		before, after, found := strings.Cut(query, "?")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		b.WriteByte('$')
		b.WriteString(strconv.Itoa(n))
		query = after
	}
}

// control runs statements without arguments in one round trip and returns the
// results of each.
func control(ctx context.Context, conn *pgx.Conn, statements string) ([]*pgconn.Result, error) {
	return conn.PgConn().Exec(ctx, statements).ReadAll()
}
