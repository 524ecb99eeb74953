package store

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// postgresSession runs statements on one connection, which keeps them prepared.
// A session lives as long as one transaction.
type postgresSession struct {
	ctx    context.Context //nolint:containedctx // of statements: its end would end the connection
	caller context.Context //nolint:containedctx // nothing more runs after its end
	conn   *sql.Conn
	cause  error // the first failure, after which the server runs nothing more in this transaction
}

func (s *postgresSession) exec(query string, args []any) (sql.Result, error) {
	return s.conn.ExecContext(s.ctx, numbered(query), args...)
}

func (s *postgresSession) insert(key, query string, args []any) (id int64, err error) {
	err = s.conn.QueryRowContext(s.ctx, numbered(query)+" RETURNING "+key, args...).Scan(&id)
	return id, err
}

func (s *postgresSession) query(query string, args []any) (*sql.Rows, error) {
	if err := s.caller.Err(); err != nil {
		return nil, err
	}
	return s.conn.QueryContext(s.ctx, numbered(query), args...)
}

func (s *postgresSession) failed(err error) error {
	err = outage(err)
	if s.cause == nil {
		s.cause = err
	}
	return err
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
func control(ctx context.Context, conn *sql.Conn, statements string) ([]*pgconn.Result, error) {
	var results []*pgconn.Result
	err := conn.Raw(func(raw any) (err error) {
		c, ok := raw.(*stdlib.Conn)
		if !ok {
			return fmt.Errorf("connection is a %T", raw)
		}
		results, err = c.Conn().PgConn().Exec(ctx, statements).ReadAll()
		return err
	})
	return results, err
}
