// Package keylimit limits how many users each of many keys has at once.
package keylimit

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Limit admits a number of users of one key at once. Others wait in the order in which they came.
// It remembers a key only while somebody uses it or waits for it. It is safe for concurrent use.
type Limit struct {
	perKey int64

	mu   sync.Mutex
	keys map[string]*key
}

type key struct {
	places *semaphore.Weighted
	users  int // users that have a place or wait for one
}

// New returns a limit of perKey users, at least 1, for each key.
func New(perKey int) *Limit {
	return &Limit{perKey: int64(perKey), keys: map[string]*key{}}
}

// Acquire waits for a place at a key. The caller has to call release. The error is that of ctx.
func (l *Limit) Acquire(ctx context.Context, name string) (release func(), err error) {
	k := l.enter(name)
	if err := k.places.Acquire(ctx, 1); err != nil {
		l.leave(name, k)
		return nil, err
	}
	return func() {
		k.places.Release(1)
		l.leave(name, k)
	}, nil
}

func (l *Limit) enter(name string) *key {
	l.mu.Lock()
	defer l.mu.Unlock()
	k, ok := l.keys[name]
	if !ok {
		k = &key{places: semaphore.NewWeighted(l.perKey)}
		l.keys[name] = k
	}
	k.users++
	return k
}

func (l *Limit) leave(name string, k *key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k.users--; k.users == 0 {
		delete(l.keys, name)
	}
}
