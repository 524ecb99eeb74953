// Package storetest is the one suite that every database of package store must
// pass. A database that passes keeps the store's promises: an answered write is
// stored and visible, a record reads back as it was written, and a lease that
// passed on stops its old holder.
package storetest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// Open returns an empty store that tells time by clock. It closes the store at
// the end of the test; closing twice must do no harm.
type Open func(t *testing.T, clock func() time.Time) *store.Store

// behaviour is one promise of the store and the test that holds it to that.
type behaviour struct {
	name  string
	check func(t *testing.T, e *env)
}

// Run checks every promise, each on a store of its own.
func Run(t *testing.T, open Open) {
	t.Helper()
	for _, group := range []struct {
		name       string
		behaviours []behaviour
	}{
		{"nodes", nodeBehaviours},
		{"ports", portBehaviours},
		{"collections", collectionBehaviours},
		{"pages", pageBehaviours},
		{"filters", filterBehaviours},
		{"claims", claimBehaviours},
		{"inspections", inspectionBehaviours},
		{"objects", objectBehaviours},
		{"leases", leaseBehaviours},
		{"busy", busyBehaviours},
		{"work", workBehaviours},
		{"power", powerBehaviours},
		{"suspension", suspensionBehaviours},
		{"history", historyBehaviours},
		{"commits", commitBehaviours},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, b := range group.behaviours {
				t.Run(b.name, func(t *testing.T) {
					clock := NewClock()
					b.check(t, &env{t: t, clock: clock, store: open(t, clock.Now)})
				})
			}
		})
	}
}

// Clock is a clock that moves only when it is told to.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that stands at a moment with microseconds, which is
// as fine as the store keeps time.
func NewClock() *Clock {
	return &Clock{now: time.Date(2031, time.March, 4, 10, 11, 12, 131415000, time.UTC)}
}

// Now is the clock's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock forward and returns its new time.
func (c *Clock) Advance(by time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(by)
	return c.now
}

// env is what a check works with.
type env struct {
	t     *testing.T
	store *store.Store
	clock *Clock
}

// write commits fn and ends the test when that fails.
func (e *env) write(fn func(*store.Tx) error) {
	e.t.Helper()
	if err := e.store.Write(e.t.Context(), fn); err != nil {
		e.t.Fatalf("write: %v", err)
	}
}

// refused commits fn and returns the error that it must have.
func (e *env) refused(fn func(*store.Tx) error) error {
	e.t.Helper()
	err := e.store.Write(e.t.Context(), fn)
	if err == nil {
		e.t.Fatal("write succeeded, want an error")
	}
	return err
}

// read runs fn on a snapshot and ends the test when that fails.
func (e *env) read(fn func(*store.Tx) error) {
	e.t.Helper()
	if err := e.store.Read(e.t.Context(), fn); err != nil {
		e.t.Fatalf("read: %v", err)
	}
}

// newNode returns a node that is not stored yet.
func newNode(changes ...func(*node.Node)) *node.Node {
	n := &node.Node{UUID: uuid.NewString(), Driver: "fake-hardware", ProvisionState: node.Enroll}
	for _, change := range changes {
		change(n)
	}
	return n
}

// createNode stores a new node.
func (e *env) createNode(changes ...func(*node.Node)) *node.Node {
	e.t.Helper()
	n := newNode(changes...)
	e.write(func(tx *store.Tx) error { return tx.CreateNode(n) })
	return n
}

// node reads a node back.
func (e *env) node(ident string) *node.Node {
	e.t.Helper()
	var n *node.Node
	e.read(func(tx *store.Tx) (err error) {
		n, err = tx.Node(ident)
		return err
	})
	return n
}

// updateNode changes a stored node and returns it as it is then.
func (e *env) updateNode(n *node.Node, change func(*node.Node)) *node.Node {
	e.t.Helper()
	before := e.node(n.UUID)
	after := *before
	change(&after)
	e.write(func(tx *store.Tx) error { return tx.UpdateNode(before, &after) })
	return &after
}

// createPort stores a port of a node.
func (e *env) createPort(n *node.Node, mac string, changes ...func(*node.Port)) *node.Port {
	e.t.Helper()
	p := &node.Port{UUID: uuid.NewString(), NodeID: n.ID, NodeUUID: n.UUID, Address: mac}
	for _, change := range changes {
		change(p)
	}
	e.write(func(tx *store.Tx) error { return tx.CreatePort(p) })
	return p
}

// wantConflict ends the test unless err is a *node.ConflictError.
func wantConflict(t *testing.T, err error) {
	t.Helper()
	var conflict *node.ConflictError
	if !errors.As(err, &conflict) {
		t.Fatalf("error = %v (%T), want a conflict", err, err)
	}
}

// wantIs ends the test unless errors.Is(err, target).
func wantIs(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("error = %v, want %v", err, target)
	}
}

// deadline bounds waits for what must not take long.
func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}
