package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

var commitBehaviours = []behaviour{
	{"concurrent writers are all answered and all stored", checkConcurrentWriters},
	{"a failing transaction changes nothing and hurts nobody", checkFailingWriters},
	{"a panic fails its own transaction alone", checkPanickingWriters},
	{"a transaction sees what it wrote itself", checkReadOwnWrite},
	{"a transaction whose caller left before it began is not run", checkCancelledWriter},
	{"a transaction that began is answered although its caller leaves", checkStartedWriter},
	{"a read that starts after a write's answer sees the write", checkReadYourWrites},
	{"a read sees one moment", checkSnapshot},
	{"a read whose caller leaves ends with that reason", checkCancelledRead},
	{"many new queries at once do not wait for each other", checkConcurrentNewQueries},
	{"writes after closing are refused", checkClosed},
	{"closing while others write loses nobody's answer", checkCloseWhileWriting},
}

var errRefused = errors.New("refused by the test")

// concurrently runs fn for 0 to count-1 at once and waits for all.
func concurrently(count int, fn func(i int)) {
	var running sync.WaitGroup
	for i := range count {
		running.Go(func() { fn(i) })
	}
	running.Wait()
}

func (e *env) countNodes() int {
	e.t.Helper()
	return len(e.nodes(node.Query{}))
}

func checkConcurrentWriters(t *testing.T, e *env) {
	const writers = 300
	concurrently(writers, func(int) {
		if err := e.store.Write(deadline(t), func(tx *store.Tx) error { return tx.CreateNode(newNode()) }); err != nil {
			t.Errorf("write: %v", err)
		}
	})
	if got := e.countNodes(); got != writers {
		t.Errorf("%d nodes, want %d", got, writers)
	}
}

// oneInThree runs 90 writers at once, every third of which misbehaves after it
// has written, and checks that the others are stored and no more.
func (e *env) oneInThree(misbehave func() error, check func(error)) {
	e.t.Helper()
	const writers = 90
	ctx := deadline(e.t)
	concurrently(writers, func(i int) {
		err := e.store.Write(ctx, func(tx *store.Tx) error {
			if err := tx.CreateNode(newNode(func(n *node.Node) { n.Name = fmt.Sprint("n", i) })); err != nil {
				return err
			}
			if i%3 == 0 {
				return misbehave()
			}
			return nil
		})
		switch {
		case i%3 == 0:
			check(err)
		case err != nil:
			e.t.Errorf("well-behaved write: %v", err)
		}
	})
	nodes := e.nodes(node.Query{})
	if len(nodes) != writers*2/3 {
		e.t.Errorf("%d nodes, want %d", len(nodes), writers*2/3)
	}
	for _, n := range nodes {
		var i int
		if _, err := fmt.Sscanf(n.Name, "n%d", &i); err != nil || i%3 == 0 {
			e.t.Errorf("node %s of a failed transaction is stored", n.Name)
		}
	}
}

func checkFailingWriters(t *testing.T, e *env) {
	e.oneInThree(func() error { return errRefused }, func(err error) {
		if !errors.Is(err, errRefused) {
			t.Errorf("error = %v, want the transaction's own", err)
		}
	})
}

func checkPanickingWriters(t *testing.T, e *env) {
	e.oneInThree(func() error { panic("off the rails") }, func(err error) {
		if err == nil || !strings.Contains(err.Error(), "off the rails") {
			t.Errorf("error = %v, want one that tells the panic", err)
		}
	})
}

func checkReadOwnWrite(t *testing.T, e *env) {
	e.write(func(tx *store.Tx) error {
		n := newNode()
		if err := tx.CreateNode(n); err != nil {
			return err
		}
		got, err := tx.Node(n.UUID)
		if err == nil && got.ID != n.ID {
			t.Errorf("node = %d, want %d", got.ID, n.ID)
		}
		return err
	})
}

// blockWriter keeps the writer busy until the returned function is called, which
// waits for its end.
func (e *env) blockWriter() (release func()) {
	e.t.Helper()
	started, gate, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- e.store.Write(context.Background(), func(tx *store.Tx) error {
			close(started)
			<-gate
			return tx.CreateNode(newNode(func(n *node.Node) { n.Name = "blocker" }))
		})
	}()
	<-started
	return func() {
		close(gate)
		if err := <-done; err != nil {
			e.t.Errorf("blocking write: %v", err)
		}
	}
}

// checkCancelledWriter asks often, because such a request may still be queued.
func checkCancelledWriter(t *testing.T, e *env) {
	release := e.blockWriter()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	const writers = 40
	answers := make(chan error, writers)
	for range writers {
		go func() {
			answers <- e.store.Write(ctx, func(tx *store.Tx) error {
				t.Error("the transaction was run")
				return tx.CreateNode(newNode())
			})
		}()
	}
	release()
	for range writers {
		if err := <-answers; !errors.Is(err, context.Canceled) {
			t.Errorf("error = %v, want %v", err, context.Canceled)
		}
	}
	if got := e.countNodes(); got != 1 {
		t.Errorf("%d nodes, want the one of another caller", got)
	}
}

func checkStartedWriter(t *testing.T, e *env) {
	ctx, cancel := context.WithCancel(t.Context())
	err := e.store.Write(ctx, func(tx *store.Tx) error {
		cancel()
		return tx.CreateNode(newNode())
	})
	if stored := e.countNodes() == 1; err != nil || !stored {
		t.Errorf("error %v, stored %v; want an answer that is true", err, stored)
	}
}

func checkReadYourWrites(t *testing.T, e *env) {
	ctx := deadline(t)
	concurrently(16, func(int) {
		for range 10 {
			n := newNode()
			if err := e.store.Write(ctx, func(tx *store.Tx) error { return tx.CreateNode(n) }); err != nil {
				t.Errorf("write: %v", err)
				return
			}
			if err := e.store.Read(ctx, func(tx *store.Tx) error {
				_, err := tx.Node(n.UUID)
				return err
			}); err != nil {
				t.Errorf("read after the write's answer: %v", err)
			}
		}
	})
}

func checkSnapshot(t *testing.T, e *env) {
	n := e.createNode()
	e.read(func(tx *store.Tx) error {
		if _, err := tx.Node(n.UUID); err != nil {
			return err
		}
		e.updateNode(n, func(n *node.Node) { n.Description = "changed meanwhile" })
		again, err := tx.Node(n.UUID)
		if err == nil && again.Description != "" {
			t.Errorf("description = %q inside the read, want what it saw first", again.Description)
		}
		return err
	})
	if got := e.node(n.UUID).Description; got == "" {
		t.Error("a later read does not see the change")
	}
}

func checkCancelledRead(t *testing.T, e *env) {
	n := e.createNode()
	for _, steps := range []string{"before", "within"} {
		ctx, cancel := context.WithCancel(t.Context())
		if steps == "before" {
			cancel()
		}
		err := e.store.Read(ctx, func(tx *store.Tx) error {
			for {
				if _, err := tx.Node(n.UUID); err != nil {
					return err
				}
				cancel()
			}
		})
		cancel()
		if !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled %s the read: error = %v, want %v", steps, err, context.Canceled)
		}
	}
	e.node(n.UUID) // and reads go on
}

// checkConcurrentNewQueries reads with more texts than a database has
// connections and than a statement cache holds, all at the same time.
func checkConcurrentNewQueries(t *testing.T, e *env) {
	e.createNode()
	fields := leaves[node.Node]()
	ctx := deadline(t)
	concurrently(120, func(i int) {
		q := node.Query{SortKey: fields[i%len(fields)].column, Desc: i%2 == 0, Limit: 1}
		if i%3 == 0 {
			q.Filters = []node.Filter{{Field: fields[i/3%len(fields)].column, Op: node.IsSet, Value: true}}
		}
		err := e.store.Read(ctx, func(tx *store.Tx) error {
			_, err := tx.Nodes(q)
			return err
		})
		if err != nil {
			t.Errorf("read %d: %v", i, err)
		}
	})
}

func checkClosed(t *testing.T, e *env) {
	if err := e.store.Ping(t.Context()); err != nil {
		t.Errorf("ping: %v", err)
	}
	if err := e.store.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	wantIs(t, e.refused(func(tx *store.Tx) error { return tx.CreateNode(newNode()) }), store.ErrClosed)
	if err := e.store.Ping(t.Context()); err == nil {
		t.Error("a closed database answers")
	}
}

func checkCloseWhileWriting(t *testing.T, e *env) {
	const writers = 50
	release := e.blockWriter()
	ctx := deadline(t)
	answers := make(chan error, writers)
	for range writers {
		go func() {
			answers <- e.store.Write(ctx, func(tx *store.Tx) error { return tx.CreateNode(newNode()) })
		}()
	}
	closed := make(chan error, 1)
	go func() { closed <- e.store.Close() }()
	release()
	for range writers {
		if err := <-answers; err != nil && !errors.Is(err, store.ErrClosed) {
			t.Errorf("write: %v, want it stored or refused as closed", err)
		}
	}
	if err := <-closed; err != nil {
		t.Errorf("close: %v", err)
	}
}
