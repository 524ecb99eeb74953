package store

import (
	"context"
	"fmt"
	"time"
)

// Bounds of the wait for the name of a process that has just ended: the server
// ends its session when it notices.
const (
	nameTimeout = 5 * time.Second
	namePoll    = 50 * time.Millisecond
)

// claimName connects for writing under the process's name, or says that another
// process has it. The name is a lock of the session, so it is free as soon as its
// process ends, however that happens, and costs nothing meanwhile.
func (w *postgresWriter) claimName(ctx context.Context) error {
	if err := w.dial(ctx); err != nil {
		return fmt.Errorf("connect for writing: %w", err)
	}
	bounded, cancel := context.WithTimeout(ctx, nameTimeout)
	defer cancel()
	for bounded.Err() == nil {
		taken, err := w.takeName(ctx)
		if err != nil {
			return err
		}
		if taken {
			return nil
		}
		pause(bounded, namePoll)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return fmt.Errorf("another engine named %q runs on it, and they would end each other's work: give each a conductor.hostname of its own, or stop the other", w.name)
}

// takeName takes the process's name for the session unless another has it.
func (w *postgresWriter) takeName(ctx context.Context) (taken bool, err error) {
	if w.name == "" {
		return true, nil
	}
	if err := w.conn.QueryRow(ctx, "SELECT pg_try_advisory_lock("+nameLock+")", w.name).Scan(&taken); err != nil {
		return false, fmt.Errorf("take the name %q: %w", w.name, err)
	}
	return taken, nil
}
