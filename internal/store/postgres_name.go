package store

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// Limits of the wait for the name of a process that has just ended. The server frees the name when
// it notices the end of the session.
const (
	nameTimeout = 5 * time.Second
	namePoll    = 50 * time.Millisecond
	nameRetry   = time.Second // how often a process that lost its name asks for it
)

// postgresName is the name of this process, as an advisory lock of a session that does nothing
// else. So the name is free as soon as the process ends, however it ends, and holding it costs
// nothing. The nil name belongs to nobody.
type postgresName struct {
	config *pgx.ConnConfig
	name   string
	stop   context.CancelFunc
	kept   sync.WaitGroup
}

// claimName takes the name, or returns an error that says that another process has it. It does not
// claim the empty name.
func claimName(ctx context.Context, config *pgx.ConnConfig, name string) (*postgresName, error) {
	if name == "" {
		return nil, nil
	}
	n := &postgresName{config: config, name: name}
	conn, err := connect(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect to take the name %q: %w", name, err)
	}
	if err := n.claim(ctx, func(ctx context.Context) (bool, error) { return n.take(ctx, conn) }); err != nil {
		_ = conn.Close(ctx) // the session holds nothing
		return nil, err
	}
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	n.stop = stop
	n.kept.Go(func() { n.keep(keeping, conn) })
	return n, nil
}

// claim asks for the name until take reports that it was taken, for at most nameTimeout.
func (n *postgresName) claim(ctx context.Context, take func(context.Context) (bool, error)) error {
	bounded, cancel := context.WithTimeout(ctx, nameTimeout)
	defer cancel()
	held := false // the server answered that another process has it
	for bounded.Err() == nil {
		taken, err := take(bounded)
		switch {
		case err == nil && taken:
			return nil
		case err == nil:
			held = true
			pause(bounded, namePoll)
		case !held || bounded.Err() == nil:
			return err
		} // otherwise nameTimeout ended during the last question
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return fmt.Errorf("another engine named %q runs on it, and they would end each other's work: give each a conductor.hostname of its own, or stop the other", n.name)
}

// take takes the name for the session unless another session has it.
func (n *postgresName) take(ctx context.Context, conn *pgx.Conn) (taken bool, err error) {
	if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock("+nameLock+")", n.name).Scan(&taken); err != nil {
		return false, fmt.Errorf("take the name %q: %w", n.name, err)
	}
	return taken, nil
}

// keep holds the session until ctx ends, and takes the name again when the session was lost. If
// another process has taken the name meanwhile, this process still goes on: its leases and the
// database's locks keep the two apart.
func (n *postgresName) keep(ctx context.Context, conn *pgx.Conn) {
	for {
		for conn != nil && ctx.Err() == nil {
			if _, err := conn.WaitForNotification(ctx); err != nil { // only the end of the session ends it
				break
			}
		}
		if conn != nil {
			closing, cancel := context.WithTimeout(context.Background(), time.Second)
			_ = conn.Close(closing) // it is of no use any more
			cancel()
			conn = nil
		}
		pause(ctx, nameRetry)
		if ctx.Err() != nil {
			return
		}
		again, err := connect(ctx, n.config)
		if err != nil {
			continue
		}
		conn = again
		if taken, err := n.take(ctx, conn); err != nil || !taken {
			_ = conn.Close(ctx) // the loop tries again
			conn = nil
		}
	}
}

// release gives the name back.
func (n *postgresName) release() {
	if n == nil {
		return
	}
	n.stop()
	n.kept.Wait()
}
