package store

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// Bounds of the wait for the name of a process that has just ended: the server
// ends its session when it notices.
const (
	nameTimeout = 5 * time.Second
	namePoll    = 50 * time.Millisecond
	nameRetry   = time.Second // how often a process that lost its name asks for it
)

// postgresName is the name of this process, as a lock of a session that does
// nothing else. So it is free as soon as its process ends, however that happens,
// and costs nothing meanwhile. The nil name is nobody's.
type postgresName struct {
	config *pgx.ConnConfig
	name   string
	stop   context.CancelFunc
	kept   sync.WaitGroup
}

// claimName takes the name, or says that another process has it. The empty name is
// not claimed.
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
		_ = conn.Close(ctx) // it holds nothing
		return nil, err
	}
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	n.stop = stop
	n.kept.Go(func() { n.keep(keeping, conn) })
	return n, nil
}

// claim asks for the name until take says that it was taken, for nameTimeout at most.
func (n *postgresName) claim(ctx context.Context, take func(context.Context) (bool, error)) error {
	bounded, cancel := context.WithTimeout(ctx, nameTimeout)
	defer cancel()
	held := false // by another, as the server answered
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
		} // otherwise the time ended during the last question
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return fmt.Errorf("another engine named %q runs on it, and they would end each other's work: give each a conductor.hostname of its own, or stop the other", n.name)
}

// take takes the name for the session unless another has it.
func (n *postgresName) take(ctx context.Context, conn *pgx.Conn) (taken bool, err error) {
	if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock("+nameLock+")", n.name).Scan(&taken); err != nil {
		return false, fmt.Errorf("take the name %q: %w", n.name, err)
	}
	return taken, nil
}

// keep holds the session until ctx ends, and takes the name again when the session
// was lost. A process that runs already goes on when its name is taken: its leases
// and the database's locks keep the two apart.
func (n *postgresName) keep(ctx context.Context, conn *pgx.Conn) {
	for {
		for conn != nil && ctx.Err() == nil {
			if _, err := conn.WaitForNotification(ctx); err != nil { // nobody notifies: it ends with the session
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
			_ = conn.Close(ctx) // the next turn asks again
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
