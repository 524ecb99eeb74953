package store

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// turns let so many users at once to one thing, and the others wait in the order in
// which they came.
type turns struct {
	atOnce int64

	mu     sync.Mutex
	things map[any]*turnsOf
}

type turnsOf struct {
	places *semaphore.Weighted
	users  int // that have a place or wait for one
}

func newTurns(atOnce int) *turns {
	return &turns{atOnce: int64(atOnce), things: map[any]*turnsOf{}}
}

// take waits for a place at a thing; the caller calls leave once. The error is that of
// ctx.
func (t *turns) take(ctx context.Context, thing any) (leave func(), err error) {
	t.mu.Lock()
	own, ok := t.things[thing]
	if !ok {
		own = &turnsOf{places: semaphore.NewWeighted(t.atOnce)}
		t.things[thing] = own
	}
	own.users++
	t.mu.Unlock()
	gone := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if own.users--; own.users == 0 {
			delete(t.things, thing)
		}
	}
	if err := own.places.Acquire(ctx, 1); err != nil {
		gone()
		return nil, err
	}
	return func() {
		own.places.Release(1)
		gone()
	}, nil
}
