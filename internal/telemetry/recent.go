package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// recentFor is how long a value from the database is used before it is read again.
	recentFor = 10 * time.Second
	// recentTimeout limits one reading.
	recentTimeout = 5 * time.Second
)

// recent is a value that is read from the database when metrics are scraped, instead of being
// updated at each change, because other replicas change it too.
type recent[T any] struct {
	read func(context.Context) (T, error)
	what string // name of the value, for the log when reading fails
	log  *slog.Logger
	now  func() time.Time

	mu     sync.Mutex
	readAt time.Time // time of the last reading, successful or not
	value  T
	known  bool
}

// get returns the value. known is false while it cannot be read.
func (r *recent[T]) get() (value T, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if !r.readAt.IsZero() && now.Sub(r.readAt) < recentFor {
		return r.value, r.known
	}
	ctx, cancel := context.WithTimeout(context.Background(), recentTimeout)
	defer cancel()
	value, err := r.read(ctx)
	if err != nil {
		r.log.Warn("The database could not be read for the metrics", "what", r.what, "err", err)
	}
	r.readAt, r.value, r.known = now, value, err == nil
	return r.value, r.known
}
