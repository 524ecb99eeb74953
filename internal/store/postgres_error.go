package store

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ingot-metal/ingot/internal/node"
)

// postgresOutages are prefixes of SQLSTATE codes that say nothing about the statement: it may
// succeed at another time. The first prefix that matches gives the reason
// (https://www.postgresql.org/docs/15/errcodes-appendix.html).
var postgresOutages = []struct{ state, reason string }{
	{"08", unreachable},         // connection exception
	{"25006", readOnly},         // read-only transaction: the server became a standby
	{"25", unreachable},         // invalid transaction state: the server timed an idle transaction out
	{"28", unreachable},         // invalid authorization: the password was changed
	{"3D000", unreachable},      // no such database: the database is being restored
	{stateRolledBack, occupied}, // transaction rollback: deadlock, serialization failure
	{stateDiskFull, diskFull},
	{"53300", crowded},         // too many connections
	{"53", unreachable},        // insufficient resources: out of memory
	{stateNotLocked, occupied}, // lock not available in time
	{"55", occupied},           // object not in prerequisite state
	{"57P01", stopping},        // shutdown
	{"57P02", stopping},        // another session crashed
	{"57P03", stopping},        // the server is starting
	{"57", unreachable},        // operator intervention: cancelled statement
	{"58", diskFails},          // error of the system outside PostgreSQL
}

// Prefixes of SQLSTATE codes that also decide how to go on.
const (
	stateRolledBack = "40"    // transaction rollback
	stateDiskFull   = "53100" // disk full
	stateNotLocked  = "55P03" // lock not available in time
)

// fullDisk reports whether a statement failed because the disk is full. It would fail again at
// once.
func fullDisk(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == stateDiskFull
}

// outage turns an error of the connection or of the server's state into a node.ErrUnavailable. It
// returns other errors as they are: what the server says about a statement, and the end of the
// caller's context.
func outage(err error) error {
	if err == nil || errors.Is(err, node.ErrUnavailable) || errors.Is(err, context.Canceled) || errors.Is(err, sql.ErrNoRows) {
		return err
	}
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		return unavailable(unreachable, err)
	}
	for _, row := range postgresOutages {
		if strings.HasPrefix(refused.Code, row.state) {
			return unavailable(row.reason, err)
		}
	}
	return err
}
