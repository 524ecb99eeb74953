package store

import (
	"context"
	"fmt"
	"sync"
)

// maxGroup is how many requests may share a commit. It limits how long the first of them waits for
// the others.
const maxGroup = 128

// writer hands all writes of a process to commit, one group after the other. Requests that arrive
// while one group is committed form the next group. Each caller gets its answer after the commit of
// its group.
type writer struct {
	commit func(*group) // sets err of each request
	queue  chan *writeRequest
	stop   chan struct{}
	once   sync.Once
	done   chan struct{}
}

// group is the requests that share a commit.
type group struct {
	requests []*writeRequest
	queue    <-chan *writeRequest
}

// gather adds the requests that are already waiting, and reports whether there were any.
func (g *group) gather() bool {
	before := len(g.requests)
	for len(g.requests) < maxGroup {
		select {
		case request := <-g.queue:
			g.requests = append(g.requests, request)
			continue
		default:
		}
		break
	}
	return len(g.requests) > before
}

// writeRequest is a function to run in a transaction, on its way to its commit.
type writeRequest struct {
	ctx    context.Context //nolint:containedctx // it travels with the request through the queue
	fn     func(*Tx) error
	err    error
	answer chan error
}

func newWriter(commit func(*group)) *writer {
	w := &writer{
		commit: commit,
		queue:  make(chan *writeRequest, maxGroup),
		stop:   make(chan struct{}),
		done:   make(chan struct{}),
	}
	go w.run()
	return w
}

// do queues a function to run in a transaction and waits for the commit. It waits for a request
// that has started even if ctx ends, so that the answer is true.
func (w *writer) do(ctx context.Context, fn func(*Tx) error) error {
	request := &writeRequest{ctx: ctx, fn: fn, answer: make(chan error, 1)}
	select {
	case w.queue <- request:
	case <-ctx.Done():
		return ctx.Err()
	case <-w.stop:
		return ErrClosed
	}
	select {
	case err := <-request.answer:
		return err
	case <-w.done:
		// The writer may have answered on its way out.
		select {
		case err := <-request.answer:
			return err
		default:
			return ErrClosed
		}
	}
}

// close waits for the group that is being committed.
func (w *writer) close() {
	w.once.Do(func() { close(w.stop) })
	<-w.done
}

func (w *writer) run() {
	defer close(w.done)
	g := &group{requests: make([]*writeRequest, 0, maxGroup), queue: w.queue}
	for {
		select {
		case <-w.stop:
			return
		case first := <-w.queue:
			g.requests = append(g.requests[:0], first)
			w.commit(g)
			for _, request := range g.requests {
				request.answer <- request.err
			}
		}
	}
}

// run runs the request's function on tx.
func (r *writeRequest) run(tx *Tx) error { return runGuarded(r.fn, tx) }

// runGuarded runs fn on tx. It turns a panic into an error, so that the writer survives.
func runGuarded(fn func(*Tx) error, tx *Tx) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("transaction panicked: %v", panicked)
		}
	}()
	return fn(tx)
}
