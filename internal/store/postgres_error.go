package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ingot-metal/ingot/internal/node"
)

// transient lists the classes of SQLSTATE that say nothing about the statement:
// run at another time, it may succeed
// (https://www.postgresql.org/docs/15/errcodes-appendix.html).
var transient = []string{
	"08", // connection exception
	"25", // invalid transaction state: the server went read-only, or timed an idle transaction out
	"40", // transaction rollback: deadlock, serialization failure
	"53", // insufficient resources: disk full, too many connections
	"55", // object not in prerequisite state: lock not available in time
	"57", // operator intervention: shutdown, cancelled statement
	"58", // system error outside PostgreSQL: an I/O error
}

// outage makes an error of the connection or of the server's state a
// node.ErrUnavailable. What the server says about a statement, and the end of
// the caller's own context, stays as it is.
func outage(err error) error {
	var refused *pgconn.PgError
	switch {
	case err == nil, errors.Is(err, node.ErrUnavailable), errors.Is(err, context.Canceled), errors.Is(err, sql.ErrNoRows):
		return err
	case errors.As(err, &refused) && !slices.Contains(transient, refused.Code[:2]):
		return err
	}
	return fmt.Errorf("%w: %w", node.ErrUnavailable, err)
}
