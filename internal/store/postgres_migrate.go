package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3/database"

	"github.com/ingot-metal/ingot/internal/node"
)

// Limits of a migration that other sessions block, such as a dump, which locks all tables until its
// end. Statements that come after one that waits for a table wait behind it, even if they only
// read. So a migration gives up soon and lets them pass before it tries again.
const (
	// migrationLockTimeout is for one lock. It is longer than deadlock_timeout, usually a second,
	// after which the server ends an autovacuum that blocks the lock.
	migrationLockTimeout = 2 * time.Second
	// migrationPause is between two attempts.
	migrationPause = 5 * time.Second
	// migrationLimit is for all attempts. Kubernetes gives an engine five minutes to start. The
	// engine must report what blocks it before Kubernetes ends it.
	migrationLimit = 4 * time.Minute
	// otherMigrationLimit is for a migration by another process.
	otherMigrationLimit = 5 * time.Minute
)

// migrationWaits are the durations of migrationLockTimeout, migrationPause and migrationLimit.
type migrationWaits struct{ lock, pause, whole time.Duration }

// prepareDatabase migrates the schema if the server is suitable. If the schema is up to date, it
// takes no lock that others could block.
func prepareDatabase(ctx context.Context, pool *pgxpool.Pool, opts Options) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Release() // releases the locks of its transaction too, if that is still open
	if err := checkServer(ctx, conn.Conn()); err != nil {
		return err
	}
	if current, err := upToDate(ctx, conn.Conn(), pool); current || err != nil {
		return err
	}
	m := &postgresMigration{
		conn:  conn.Conn(),
		waits: cmp.Or(opts.migrationWaits, migrationWaits{migrationLockTimeout, migrationPause, migrationLimit}),
		log:   cmp.Or(opts.Logger, slog.Default()),
	}
	config := pool.Config()
	config.AfterConnect = m.prepare
	if m.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return fmt.Errorf("connect to migrate: %w", err)
	}
	defer m.pool.Close()
	return m.run(ctx)
}

// upToDate reports whether no migration is pending. It looks only at the schema in which the tables
// are created, not at others in the search path.
func upToDate(ctx context.Context, conn *pgx.Conn, pool *pgxpool.Pool) (current bool, err error) {
	var created bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'goose_db_version')").
		Scan(&created); err != nil {
		return false, fmt.Errorf("look for its tables: %w", err)
	}
	if !created {
		return false, nil
	}
	db := stdlib.OpenDBFromPool(pool)
	defer func() { err = errors.Join(err, db.Close()) }()
	provider, err := migrations(db, database.DialectPostgres)
	if err != nil {
		return false, fmt.Errorf("read migrations: %w", err)
	}
	if _, _, err := versions(ctx, provider); err != nil {
		return false, err
	}
	pending, err := provider.HasPending(ctx)
	if err != nil {
		return false, fmt.Errorf("look for pending migrations: %w", err)
	}
	return !pending, nil
}

// postgresMigration migrates the schema. Processes that start at the same time wait meanwhile, and
// so do the writes of running processes, because a write and a migration would wait for each
// other's tables.
type postgresMigration struct {
	conn  *pgx.Conn     // holds the advisory locks
	pool  *pgxpool.Pool // for the migration itself
	waits migrationWaits
	log   *slog.Logger
}

// prepare is prepareSession for migrations. They wait only briefly for locks, but may work for as
// long as they need.
func (m *postgresMigration) prepare(ctx context.Context, conn *pgx.Conn) error {
	if err := prepareSession(ctx, conn); err != nil {
		return err
	}
	_, err := control(ctx, conn, m.lockTimeout("SET")+"; SET statement_timeout = 0")
	return err
}

func (m *postgresMigration) lockTimeout(set string) string {
	return fmt.Sprintf("%s lock_timeout = '%dms'", set, m.waits.lock.Milliseconds())
}

// run tries until the schema is up to date or migrationLimit is over.
func (m *postgresMigration) run(ctx context.Context) (err error) {
	var until time.Time
	if err := m.begin(ctx); err != nil {
		return fmt.Errorf("wait for the migration of another process: %w", err)
	}
	defer func() {
		if _, ended := control(ctx, m.conn, "ROLLBACK"); err == nil { // the transaction has only the lock
			err = ended
		}
	}()
	for {
		err := m.attempt(ctx)
		if !lockedOut(err) {
			return err
		}
		first := until.IsZero()
		if first {
			until = time.Now().Add(m.waits.whole)
		}
		if over := time.Now().After(until); over || first {
			holders, err := m.holders(ctx)
			switch {
			case err != nil:
				return err
			case over:
				return fmt.Errorf("its tables have to be migrated, but for %v other sessions have held locks on them, now these: %s: end what they do, such as a dump, or wait until it has ended, then start again", m.waits.whole, holders)
			}
			m.log.Warn("Migration waits for locks of other database sessions", "sessions", holders, "at_most", m.waits.whole)
		}
		pause(ctx, m.waits.pause)
	}
}

// begin begins a transaction and takes the lock of migrations, which ends with that transaction and
// not with the session.
func (m *postgresMigration) begin(ctx context.Context) error {
	const lock = "advisory_xact_lock(" + migrationLock + ")"
	begun, err := control(ctx, m.conn, fmt.Sprintf("BEGIN; SET LOCAL lock_timeout = '%dms'; SET LOCAL statement_timeout = 0;"+
		" SET LOCAL idle_in_transaction_session_timeout = 0; SELECT pg_try_"+lock, otherMigrationLimit.Milliseconds()))
	if err != nil || string(begun[len(begun)-1].Rows[0][0]) == "t" {
		return err
	}
	m.log.Info("Start waits for another process, which migrates the database", "at_most", otherMigrationLimit)
	_, err = control(ctx, m.conn, "SELECT pg_"+lock)
	return err
}

// attempt migrates while it keeps writes out, and lets them in again at its end.
func (m *postgresMigration) attempt(ctx context.Context) (err error) {
	defer func() {
		if _, ended := control(ctx, m.conn, "ROLLBACK TO attempt"); err == nil {
			err = ended
		}
	}()
	if _, err := control(ctx, m.conn, "SAVEPOINT attempt; "+m.lockTimeout("SET LOCAL")+"; SELECT pg_advisory_xact_lock("+writeLock+")"); err != nil {
		return fmt.Errorf("wait for the writes of other processes: %w", err)
	}
	db := stdlib.OpenDBFromPool(m.pool)
	err = migrate(ctx, db, database.DialectPostgres)
	return errors.Join(err, db.Close())
}

// lockedOut reports whether a migration was rolled back because other sessions blocked it.
func lockedOut(err error) bool {
	var refused *pgconn.PgError
	return notLocked(err) || errors.As(err, &refused) && strings.HasPrefix(refused.Code, stateRolledBack)
}

// selectHolders finds sessions that hold locks on tables, or on what belongs to them, in
// transactions that were open when the last attempt began to wait. The server may hide the state
// and the times of another user's sessions.
const selectHolders = `SELECT pid, application_name, coalesce(state, 'in a state that is not shown'), xact_start FROM pg_stat_activity
	WHERE pid IN (SELECT pid FROM pg_locks JOIN pg_class ON pg_class.oid = relation
		WHERE granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
		AND relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema()))
	AND pid <> pg_backend_pid() AND coalesce(xact_start < clock_timestamp() - $1::interval, true)
	ORDER BY xact_start LIMIT 10`

// holders describes the sessions that block the migration. It leaves out their statements, which
// may contain secrets.
func (m *postgresMigration) holders(ctx context.Context) (string, error) {
	rows, err := m.pool.Query(ctx, selectHolders, m.waits.lock)
	if err != nil {
		return "", fmt.Errorf("ask who holds locks: %w", err)
	}
	var holders []string
	var pid int
	var application, state string
	var since *time.Time
	if _, err := pgx.ForEachRow(rows, []any{&pid, &application, &state, &since}, func() error {
		holder := fmt.Sprintf("pid %d (%q, %s", pid, node.CutText(application), state)
		if since != nil {
			holder += ", its transaction began at " + since.UTC().Format(time.RFC3339)
		}
		holders = append(holders, holder+")")
		return nil
	}); err != nil {
		return "", fmt.Errorf("ask who holds locks: %w", err)
	}
	return cmp.Or(strings.Join(holders, ", "), "none"), nil
}
