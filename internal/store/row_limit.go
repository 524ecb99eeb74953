package store

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// rowLimit bounds how many writes are at one row at once. The others wait in the order
// in which they came.
type rowLimit struct {
	perRow int64

	mu   sync.Mutex
	rows map[string]*rowUse
}

type rowUse struct {
	places *semaphore.Weighted
	users  int // that have a place or wait for one
}

func newRowLimit(perRow int) *rowLimit {
	return &rowLimit{perRow: int64(perRow), rows: map[string]*rowUse{}}
}

// acquire waits for a place at a row; the caller calls release once. The error is that
// of ctx.
func (l *rowLimit) acquire(ctx context.Context, row string) (release func(), err error) {
	use := l.enter(row)
	if err := use.places.Acquire(ctx, 1); err != nil {
		l.leave(row, use)
		return nil, err
	}
	return func() {
		use.places.Release(1)
		l.leave(row, use)
	}, nil
}

func (l *rowLimit) enter(row string) *rowUse {
	l.mu.Lock()
	defer l.mu.Unlock()
	use, ok := l.rows[row]
	if !ok {
		use = &rowUse{places: semaphore.NewWeighted(l.perRow)}
		l.rows[row] = use
	}
	use.users++
	return use
}

func (l *rowLimit) leave(row string, use *rowUse) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if use.users--; use.users == 0 {
		delete(l.rows, row)
	}
}
