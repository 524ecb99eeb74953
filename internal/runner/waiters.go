package runner

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// waiters are requests that wait for the lease of a node to end.
type waiters struct {
	mu    sync.Mutex
	nodes map[int64]*waiting
}

type waiting struct {
	freed chan struct{} // closed when this process gives the node's lease back
	count int
}

func newWaiters() *waiters { return &waiters{nodes: map[int64]*waiting{}} }

// join returns a channel that is closed when this process gives the node's lease back. The caller
// calls leave once.
func (w *waiters) join(nodeID int64) (freed <-chan struct{}, leave func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	own, ok := w.nodes[nodeID]
	if !ok {
		own = &waiting{freed: make(chan struct{})}
		w.nodes[nodeID] = own
	}
	own.count++
	return own.freed, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if own.count--; own.count == 0 && w.nodes[nodeID] == own {
			delete(w.nodes, nodeID)
		}
	}
}

// free wakes the requests that wait for a node.
func (w *waiters) free(nodeID int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if own, ok := w.nodes[nodeID]; ok {
		close(own.freed)
		delete(w.nodes, nodeID)
	}
}

// Pauses between queries whether another process has given a node back.
const (
	firstPoll   = 25 * time.Millisecond // doubles
	longestPoll = 400 * time.Millisecond
)

// WhenFree repeats a request that was refused with a *node.LockedError until the node is free, but
// for no longer than wait. Passes reports whether an error is such a refusal. Between the tries it
// only reads. It wakes up when this process gives the node back, and polls with growing pauses when
// another process has the node.
func (r *Runner) WhenFree(ctx context.Context, wait time.Duration, passes func(error) bool, request func() error) error {
	err := request()
	if err == nil || !passes(err) || wait <= 0 {
		return err
	}
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for passes(err) && r.awaitFree(bounded, err) {
		err = request()
	}
	r.cfg.Observer.LeaseWaited(time.Since(began), !passes(err))
	return err
}

// awaitFree waits until nobody works on the node that a refusal names. It returns false when ctx
// ended first, or when the refusal names no node.
func (r *Runner) awaitFree(ctx context.Context, refusal error) bool {
	var locked *node.LockedError
	if !errors.As(refusal, &locked) {
		return false
	}
	var key store.NodeKey
	err := r.db.Read(ctx, func(tx *store.Tx) (err error) {
		key, err = tx.NodeKey(locked.Node)
		return err
	})
	if err != nil {
		return ctx.Err() == nil // the next request reports the error
	}
	for poll := firstPoll; ; poll = min(2*poll, longestPoll) {
		freed, leave := r.freed.join(key.ID)
		inForce := r.leaseInForce(ctx, locked.Node)
		if inForce {
			timer := time.NewTimer(poll)
			select {
			case <-ctx.Done():
			case <-freed:
			case <-timer.C:
			}
			timer.Stop()
		}
		leave()
		switch {
		case ctx.Err() != nil:
			return false
		case !inForce:
			return true
		}
	}
}

// leaseInForce reports whether the database has a lease in force on a node.
func (r *Runner) leaseInForce(ctx context.Context, ident string) bool {
	inForce := false
	err := r.db.ReadSingle(ctx, func(tx *store.Tx) error {
		lease, err := tx.LeaseOf(ident)
		inForce = err == nil && lease.InForce(tx.Now())
		return err
	})
	return err == nil && inForce
}
