package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ingot-metal/ingot/internal/node"
)

// Requirements and bounds of PostgreSQL.
const (
	oldestPostgres = 15 // major version of the server

	connectTimeout = 5 * time.Second  // of one attempt to connect
	readTimeout    = 15 * time.Second // of one read, waiting included
)

// sessionSettings make each connection keep the promises of the store, whatever the defaults of the
// server are. The server ends a write that a paused or vanished process leaves open, so others wait
// for it no longer than that. Nobody waits for a lock for ever.
//
// The store finds rows by indexes, and pages come from the indexes in the order of the list. While
// the server has no statistics of new tables, it takes them for small and prefers to read them
// whole, and it keeps such plans while a first storm fills the tables. It prefers bitmap scans
// likewise, which read every row that fits and sort all of them for the first ten. So both are off.
// A statement that has to read a whole table still does so. But it looks expensive to the server,
// which would then compile it, so compiling is off as well.
//
// Inspection documents are compressed. For them the default method of the server takes several
// times as long as lz4, which nearly every server has.
//
// The server notices within half a minute that the machine of a process is gone.
const sessionSettings = `
	SET enable_seqscan = off;
	SET enable_bitmapscan = off;
	SET jit = off;
	SET lock_timeout = '12s';
	SET idle_in_transaction_session_timeout = '5s';
	SET statement_timeout = '60s';
	SET tcp_keepalives_idle = 10;
	SET tcp_keepalives_interval = 5;
	SET tcp_keepalives_count = 3;
	SELECT set_config('default_toast_compression', 'lz4', false) FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals);
	SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'`

// postgres is a database that several processes may share.
type postgres struct {
	*postgresWriter
	reads *pgxpool.Pool
	clock *serverClock
	name  *postgresName
}

func openPostgres(ctx context.Context, opts Options) (*postgres, error) {
	const want = "give one like postgres://user:password@host:5432/name, with special characters of the password as %XX, or none for the embedded database" //nolint:gosec // no password
	// Only what a URL has before "://" is no secret.
	kind, _, found := strings.Cut(opts.URL, "://")
	if found && kind != "postgres" && kind != "postgresql" && strings.Trim(kind, "abcdefghijklmnopqrstuvwxyz") == "" {
		return nil, fmt.Errorf("open database: %q is no kind of database that Ingot knows: %s", kind, want)
	}
	config, err := pgxpool.ParseConfig(opts.URL)
	if err != nil { // its text may hold a part of the password
		return nil, errors.New("open database: its URL is not understood: " + want)
	}
	server := config.ConnConfig
	name := fmt.Sprintf("postgres://%s:%d/%s", server.Host, server.Port, server.Database)
	p, err := connectPostgres(ctx, config, opts)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", name, err)
	}
	return p, nil
}

func connectPostgres(ctx context.Context, config *pgxpool.Config, opts Options) (*postgres, error) {
	server := config.ConnConfig
	if server.ConnectTimeout == 0 || server.ConnectTimeout > connectTimeout {
		server.ConnectTimeout = connectTimeout
	}
	if server.RuntimeParams["application_name"] == "" {
		server.RuntimeParams["application_name"] = "ingot"
	}
	config.AfterConnect = prepareSession
	config.MaxConns = int32(max(8, 2*runtime.NumCPU()))
	// The first statement of a transaction tells whether its connection lives.
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	reads, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	if err := prepareDatabase(ctx, reads, opts); err != nil {
		reads.Close()
		return nil, err
	}
	p := &postgres{reads: reads, clock: &serverClock{injected: opts.Clock}}
	if p.name, err = claimName(ctx, server, opts.Name); err != nil {
		reads.Close()
		return nil, err
	}
	connections := cmp.Or(opts.WriteConnections, defaultWriteConnections)
	config = config.Copy()
	config.MaxConns = int32(connections)
	config.AfterConnect = prepareWrites
	writes, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		p.name.release()
		reads.Close()
		return nil, fmt.Errorf("connect for writing: %w", err)
	}
	p.postgresWriter = newPostgresWriter(writes, connections, p.clock)
	p.readRefusal = p.refusal
	// The first write tells the server's time.
	if err := p.write(ctx, func(tx *Tx) error { tx.Now(); return nil }); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// connect opens a connection beside the pool.
func connect(ctx context.Context, config *pgx.ConnConfig) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	if err := prepareSession(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	return conn, nil
}

func prepareSession(ctx context.Context, conn *pgx.Conn) error {
	results, err := control(ctx, conn, sessionSettings+"; "+askRun)
	if err != nil {
		return err
	}
	conn.PgConn().CustomData()[runKey] = string(results[len(results)-1].Rows[0][0])
	return nil
}

// prepareWrites is prepareSession for writes. The first attempt at a write waits for a lock only
// briefly. All statements of writes go by keys, so a plan that fits any values is as good as one
// for these values. Left to itself, the server plans the search for addresses anew each time: a
// machine has fewer addresses than the server guesses, and fewer addresses look like less work.
func prepareWrites(ctx context.Context, conn *pgx.Conn) error {
	if err := prepareSession(ctx, conn); err != nil {
		return err
	}
	_, err := control(ctx, conn, "SET lock_timeout = '"+firstLockTimeout.String()+"'; SET plan_cache_mode = force_generic_plan")
	return err
}

// askRun returns a text that stays the same as long as a server runs without a crash. After a crash
// the server starts again, or it ends all sessions and begins to count anew. It may then give the
// numbers of transactions again of which nothing was on disk.
const askRun = "SELECT pg_postmaster_start_time() || ', ' || coalesce((SELECT stats_reset::text FROM pg_stat_bgwriter), '')"

// runKey is the key under which a connection keeps the answer to askRun. No connection outlasts
// that run.
const runKey = "run"

func runOf(conn *pgx.Conn) any { return conn.PgConn().CustomData()[runKey] }

// checkServer refuses a server that cannot keep what the store promises.
func checkServer(ctx context.Context, conn *pgx.Conn) error {
	var version int
	var shown, encoding string
	if err := conn.QueryRow(ctx, "SELECT current_setting('server_version_num')::int, current_setting('server_version'), current_setting('server_encoding')").
		Scan(&version, &shown, &encoding); err != nil {
		return fmt.Errorf("ask for its version: %w", err)
	}
	return checkVersion(version, shown, encoding)
}

// checkVersion refuses a server by its version, given as a number and as people read it, or by the
// encoding of the database.
func checkVersion(version int, shown, encoding string) error {
	switch {
	case version < oldestPostgres*10000:
		return fmt.Errorf("it is PostgreSQL %s, Ingot needs version %d or newer", shown, oldestPostgres)
	case encoding != "UTF8":
		return fmt.Errorf("its encoding is %s, Ingot needs UTF8: create it with ENCODING 'UTF8' TEMPLATE template0", encoding)
	}
	return nil
}

// beginRead begins a transaction on one snapshot.
const beginRead = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

// read runs fn on one snapshot.
func (p *postgres) read(ctx context.Context, fn func(*Tx) error) error {
	_, err := p.readIn(ctx, beginRead, fn)
	return err
}

// readSingle runs fn without a transaction. If fn asks for more than one statement, readSingle runs
// it again, in a transaction.
func (p *postgres) readSingle(ctx context.Context, fn func(*Tx) error) error {
	again, err := p.readIn(ctx, "", fn)
	if again {
		return p.read(ctx, fn)
	}
	return err
}

// readIn runs fn in a transaction that the statement begin starts. With an empty begin it runs at
// most one query, without a transaction, and more reports whether fn asked for another.
func (p *postgres) readIn(ctx context.Context, begin string, fn func(*Tx) error) (more bool, err error) {
	deadline := time.Now().Add(readTimeout)
	bounded, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancel()
	waiting, cancelWait := context.WithDeadline(ctx, deadline)
	defer cancelWait()
	s := &postgresSession{ctx: bounded, caller: ctx, texts: p.texts, single: begin == ""}
	var conn *pgxpool.Conn
	release := func() {
		if conn == nil {
			return
		}
		if s.single {
			conn.Release()
			conn = nil
			return
		}
		go func(conn *pgxpool.Conn) { // the caller need not wait; closing the pool does
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
			defer cancel()
			_, _ = control(ctx, conn.Conn(), "ROLLBACK") // the pool drops a connection that is not idle
			conn.Release()
		}(conn)
		conn = nil
	}
	defer func() { release() }()
	s.connect = func() (err error) {
		release()
		if conn, err = p.reads.Acquire(waiting); err == nil {
			s.conn = conn.Conn()
		}
		return err
	}
	if err := s.connect(); err != nil {
		return false, fmt.Errorf("begin read: %w", outage(err))
	}
	if !s.single {
		s.queue(nil, begin)
	}
	err = fn(&Tx{now: p.now(), db: s, lateCommit: longestWrite, takesLists: true})
	return s.more, err
}

// refusal runs the function of a write as a read, up to its first change, and returns the error with
// which it refuses what was asked. It returns nil when the write would change something, or when
// the database does not answer.
func (p *postgres) refusal(ctx context.Context, fn func(*Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, refusalTimeout)
	defer cancel()
	changes := false
	err := p.read(ctx, func(tx *Tx) error {
		tx.counter = &p.counter
		tx.beforeChange = func() error {
			changes = true
			return errFirstChange
		}
		return runGuarded(fn, tx)
	})
	var failed *pgconn.PgError
	if changes || ctx.Err() != nil || errors.Is(err, node.ErrUnavailable) || errors.As(err, &failed) {
		return nil
	}
	return err
}

// errFirstChange ends a read of what a write would do.
var errFirstChange = errors.New("the write would change something")

func (p *postgres) now() time.Time { return p.clock.now() }

func (p *postgres) restorationFound() <-chan struct{} { return p.restored }

func (p *postgres) ping(ctx context.Context) error {
	if err := p.reads.Ping(ctx); err != nil {
		return fmt.Errorf("ask the database: %w", outage(err))
	}
	return nil
}

func (p *postgres) close() error {
	p.postgresWriter.close()
	p.name.release()
	p.reads.Close()
	return nil
}

// serverClock derives the server's time from the time of this machine and the difference between
// them, which each write measures anew. What changes a lease judges it in a write, by the time that
// the server itself tells there.
type serverClock struct {
	injected func() time.Time // used instead when not nil
	ahead    atomic.Int64     // nanoseconds by which the server is ahead
}

func (c *serverClock) now() time.Time {
	if c.injected != nil {
		return c.injected()
	}
	return time.Now().Add(time.Duration(c.ahead.Load()))
}

// measured stores the difference to the time that the server's clock showed a moment ago. It
// returns the time of the transaction.
func (c *serverClock) measured(server time.Time) time.Time {
	if c.injected != nil {
		return c.injected()
	}
	c.ahead.Store(int64(time.Until(server)))
	return server
}
