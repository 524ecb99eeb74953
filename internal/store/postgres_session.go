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
	late   pgx.Batch    // statements that were put off
	cause  error        // the first failure, after which the server runs nothing more in this transaction
	dial   func() error // takes another connection, while nothing was heard from this one; may be nil
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
	_, err = s.run(func(r row) error {
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
	own, err := s.run(scan, numbered(query), args)
	if own != nil {
		return own
	}
	if err != nil {
		return fmt.Errorf("read from the database: %w", err)
	}
	return nil
}

// run sends what was put off and the query, and calls scan for each row of its
// result. It tells errors of scan from those of the database.
func (s *postgresSession) run(scan func(row) error, query string, args []any) (own, err error) {
	s.late.Queue(query, args...)
	err = s.send(func(results pgx.BatchResults) error {
		rows, err := results.Query()
		if err != nil {
			return err
		}
		for own == nil && rows.Next() {
			own = scan(rows)
		}
		rows.Close()
		return rows.Err()
	})
	return own, err
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
// of the last statement. An error is remembered as the cause.
func (s *postgresSession) send(last func(pgx.BatchResults) error) error {
	if s.cause != nil {
		return s.cause
	}
	batch := s.late
	s.late = pgx.Batch{}
	heard, err := s.sendBatch(&batch, last)
	// A connection may have died while it waited in the pool.
	for tries := 0; err != nil && !heard && s.dial != nil && s.conn.IsClosed() && s.ctx.Err() == nil && tries < maxDials; tries++ {
		if err = s.dial(); err != nil {
			break
		}
		heard, err = s.sendBatch(again(&batch), last)
	}
	if heard {
		s.dial = nil
	}
	var refused *pgconn.PgError
	if errors.As(err, &refused) || s.conn.IsClosed() {
		err = outage(err) // else an argument or a result does not fit its column
	}
	s.cause = err
	return err
}

// maxDials bounds the dead connections that a read gets over.
const maxDials = 20

// sendBatch reports besides whether the server has answered anything.
func (s *postgresSession) sendBatch(batch *pgx.Batch, last func(pgx.BatchResults) error) (heard bool, err error) {
	results := s.conn.SendBatch(s.ctx, batch)
	for range batch.Len() - 1 {
		if _, err = results.Exec(); err != nil {
			break
		}
		heard = true
	}
	if err == nil {
		heard = true
		err = last(results)
	}
	closed := results.Close() // also waits for the results that were not read
	if err == nil {
		err = closed
	}
	return heard, err
}

// again returns a batch of the same statements.
func again(batch *pgx.Batch) *pgx.Batch {
	copied := &pgx.Batch{}
	for _, q := range batch.QueuedQueries {
		copied.Queue(q.SQL, q.Arguments...)
	}
	return copied
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
