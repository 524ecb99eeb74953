package pxefilter

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/ingot-metal/ingot/internal/store"
)

const (
	lockInterval = time.Second      // between two attempts to lock the folder
	longestWait  = 15 * time.Second // between two attempts after errors
)

// synchronize updates the folder once. It returns the pause before the next time. An error ends the
// filter.
func (f *Filter) synchronize(ctx context.Context) (time.Duration, error) {
	err := f.pass(ctx)
	switch {
	case err == nil:
		f.attempts = 0
		f.status.set(active, nil)
		return f.opts.PollInterval, nil
	case errors.Is(err, errTaken):
		if f.status.set(standby, nil) {
			f.log.Info("Another filter keeps this folder, standing by", "folder", f.opts.HostsDir)
		}
		return lockInterval, nil
	case permanent(err):
		return 0, err
	}
	f.attempts++
	f.status.set(failing, err)
	return backoff(f.attempts), nil
}

// permanent reports whether a retry cannot succeed.
func permanent(err error) bool {
	return errors.Is(err, store.ErrUnknownSchema) || errors.Is(err, store.ErrWrongURL)
}

// backoff returns the pause after a number of failures in a row: 1 s at first, doubled each time up
// to longestWait, minus a random part of up to a quarter.
func backoff(attempts int) time.Duration {
	wait := longestWait
	if attempts < 5 {
		wait = time.Second << (attempts - 1)
	}
	return wait - rand.N(wait/4) //nolint:gosec // spreads load, protects nothing
}

func (f *Filter) pass(ctx context.Context) error {
	if err := f.becomeActive(); errors.Is(err, errTaken) {
		return err
	} else if err != nil {
		return f.fail(&f.folderTrouble, "folder", "Folder of hosts cannot be used", err)
	}
	due := !f.initialized || time.Since(f.synced) >= f.opts.SyncPeriod
	changed, err := f.refresh(ctx, due)
	if err != nil {
		f.closeView(ctx)
		if ctx.Err() != nil || permanent(err) {
			return err
		}
		return f.fail(&f.databaseTrouble, "database", "Database cannot be read, hosts stay as they are", err)
	}
	f.databaseTrouble.over(f.log, "Database can be read again")
	if !changed && !due && !f.unfinished {
		return nil
	}
	if err := f.apply(due || f.unfinished); err != nil {
		return f.fail(&f.folderTrouble, "folder", "Folder of hosts cannot be brought in step", err)
	}
	f.folderTrouble.over(f.log, "Folder of hosts is in step again")
	return nil
}

// fail counts, logs and returns an error.
func (f *Filter) fail(t *trouble, about, message string, err error) error {
	f.metrics.errors.WithLabelValues(about).Inc()
	t.report(f.log, message, err)
	return err
}

// becomeActive returns nil if this process has the lock of the folder, and errTaken if another
// process has it.
func (f *Filter) becomeActive() error {
	if f.lock != nil && f.folder.holds(f.lock) {
		return nil
	}
	if f.lock != nil {
		f.log.Warn("Lock of the folder was removed, taking it again", "folder", f.opts.HostsDir)
		f.lock.release()
		f.lock = nil
	}
	f.metrics.active.Set(0)
	lock, err := f.folder.take()
	if err != nil {
		return err
	}
	f.lock, f.folder, f.initialized = lock, newFolder(f.opts.HostsDir), false
	f.metrics.active.Set(1)
	return nil
}

// refresh updates the nodes in memory, from the changes or from everything, and reports whether
// rulings may have changed. With thorough it also finds changes that were missed.
func (f *Filter) refresh(ctx context.Context, thorough bool) (changed bool, err error) {
	if f.view == nil {
		if f.view, err = f.open(ctx); err != nil {
			f.view = nil // an interface that holds a nil pointer is not nil
			return false, err
		}
		f.sum, thorough = "", true
	}
	// Read the token before the nodes. Then commits in between are read next time.
	token, err := f.view.Token(ctx)
	if err != nil || token == f.token && !thorough {
		return false, err
	}
	sum := f.sum
	if thorough {
		if sum, err = f.view.Sum(ctx); err != nil {
			return false, err
		}
	}
	if sum == f.sum {
		m, err := f.read(ctx, f.nodes)
		if err != nil {
			return false, err
		}
		if m.complete {
			f.token = token
			return m.changed, nil
		}
	}
	fresh := newBootNodes()
	fresh.bad = f.nodes.bad
	if _, err := f.read(ctx, fresh); err != nil {
		return false, err
	}
	f.nodes, f.token, f.sum = fresh, token, sum
	return true, nil
}

// read merges the changes since the last read into the nodes.
func (f *Filter) read(ctx context.Context, into *bootNodes) (merged, error) {
	changes, err := f.view.Since(ctx, into.mark)
	if err != nil {
		return merged{}, err
	}
	m := into.merge(changes)
	for _, address := range m.useless {
		f.log.Warn("Port has no Ethernet address, its machine counts as unknown", "address", address)
	}
	return m, nil
}

func (f *Filter) closeView(ctx context.Context) {
	if f.view == nil {
		return
	}
	if err := f.view.Close(ctx); err != nil {
		f.log.Debug("Database was not closed well", "err", err)
	}
	f.view, f.token = nil, ""
}

// trouble is a persistent fault. It is logged once when it begins, when its cause changes and when
// it ends.
type trouble struct{ last string }

func (t *trouble) report(log *slog.Logger, message string, err error) {
	if text := err.Error(); text != t.last {
		t.last = text
		log.Warn(message, "err", err) //nolint:sloglint // constant at every caller
	}
}

func (t *trouble) over(log *slog.Logger, message string) {
	if t.last != "" {
		t.last = ""
		log.Info(message) //nolint:sloglint // constant at every caller
	}
}
