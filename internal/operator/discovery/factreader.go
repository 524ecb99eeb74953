package discovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/hardware"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/requeue"
)

const (
	// readTimeout bounds the reading of one node.
	readTimeout = 10 * time.Second
	// slowAfter is when a reading gives up its place to the next one. Nodes that the engine hangs
	// on therefore delay a poll only a little. At most readTimeout/slowAfter times as many readings
	// as workers can be under way.
	slowAfter = time.Second
	// readWindow is the time within which a poll starts the readings of nodes. The next poll, which
	// follows at once, reads the remaining nodes.
	readWindow = 10 * time.Second

	// firstRetry is the pause before a node without a readable inventory is read again. It doubles
	// up to maxInventoryWait for a node that has no inventory yet, and up to maxErrorWait after
	// errors.
	firstRetry       = 10 * time.Second
	maxInventoryWait = 5 * time.Minute
	maxErrorWait     = 10 * time.Minute
	// refreshAfter is when the ports of a node with an inventory, but still without a host, are
	// read again: a person may have added a port.
	refreshAfter = 10 * time.Minute
)

// factReader reads each inventory once per inspection of a node, and keeps only the facts that
// discovery needs.
type factReader struct {
	nodes  nodeCache
	engine inventoryReader
	now    func() time.Time
	late   sync.WaitGroup // readings that a poll did not wait for

	mu      sync.Mutex
	known   map[string]*knownFacts
	reading map[string]bool
}

// knownFacts is what the last reading of a node found.
type knownFacts struct {
	facts       *facts // nil: there is no inventory, or it is not readable
	macs        []string
	details     *v1alpha1.HardwareDetails // until the next poll takes them
	err         error
	state       node.State
	inspectedAt time.Time
	due         time.Time // when to read again
	attempts    int       // readings in a row without an inventory
}

func newFactReader(nodes nodeCache, engine inventoryReader, now func() time.Time) *factReader {
	return &factReader{nodes: nodes, engine: engine, now: now, known: map[string]*knownFacts{}, reading: map[string]bool{}}
}

// findings are the facts about all unused nodes.
type findings struct {
	candidates []candidate
	// unread is how many nodes have not been read yet, or not since they may have got an inventory.
	unread int
	// due is when the next node is to be read again; zero means never.
	due time.Time
	// failed is true if the engine did not answer a reading of this poll.
	failed bool
}

// read reads what is not known yet about the nodes, and drops the facts about all other nodes. Its
// findings leave out nodes that no longer exist. It does not wait for nodes that the engine hangs
// on; [factReader.wait] does.
func (r *factReader) read(ctx context.Context, nodes []provisioner.Node) findings {
	r.keep(nodes)
	todo := r.todo(nodes)
	ids := make([]string, len(todo))
	for i := range todo {
		ids[i] = todo[i].ID
	}
	listing, cancel := context.WithTimeout(ctx, readWindow)
	r.nodes.LoadPorts(listing, ids)
	cancel()
	r.readAll(ctx, todo)
	found := r.peek(nodes)
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range found.candidates {
		r.known[found.candidates[i].node.ID].details = nil
	}
	for _, n := range todo {
		known := r.known[n.ID]
		found.failed = found.failed || known != nil && errors.Is(known.err, provisioner.ErrUnreachable)
	}
	return found
}

// readAll reads nodes, several at a time.
func (r *factReader) readAll(ctx context.Context, nodes []provisioner.Node) {
	window := time.NewTimer(readWindow)
	defer window.Stop()
	places := make(chan struct{}, workers)
	take := func() bool {
		select {
		case places <- struct{}{}:
			return true
		case <-window.C:
		case <-ctx.Done():
		}
		return false
	}
	for _, n := range nodes {
		if !take() {
			return
		}
		r.mu.Lock()
		r.reading[n.ID] = true
		r.mu.Unlock()
		leave := sync.OnceFunc(func() { <-places })
		slow := time.AfterFunc(slowAfter, leave)
		r.late.Go(func() {
			defer leave()
			defer slow.Stop()
			r.readOne(ctx, n)
		})
	}
	for range workers { // wait until every reading is done or slow
		if !take() {
			return
		}
	}
}

// wait waits for the readings that are still under way. None takes longer than readTimeout.
func (r *factReader) wait() { r.late.Wait() }

// peek returns what is known about the nodes, in the order of their creation. It does not ask the
// engine.
func (r *factReader) peek(nodes []provisioner.Node) findings {
	nodes = slices.Clone(nodes)
	slices.SortFunc(nodes, func(a, b provisioner.Node) int {
		if d := a.CreatedAt.Compare(b.CreatedAt); d != 0 {
			return d
		}
		return strings.Compare(a.ID, b.ID)
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	var found findings
	for _, n := range nodes {
		known, ok := r.known[n.ID]
		if !ok || known.facts == nil && known.outdated(n) {
			found.unread++
			continue
		}
		if found.due.IsZero() || known.due.Before(found.due) {
			found.due = known.due
		}
		if errors.Is(known.err, provisioner.ErrNotFound) {
			continue
		}
		c := candidate{node: n, facts: known.facts, macs: known.macs, details: known.details, err: known.err}
		if c.facts != nil {
			c.macs = union(c.macs, c.facts.MACs)
		}
		found.candidates = append(found.candidates, c)
	}
	return found
}

// todo returns the nodes that are to be read. Nodes that were never read come first, by their time
// of creation, then the others, by the time when they became due.
func (r *factReader) todo(nodes []provisioner.Node) []provisioner.Node {
	r.mu.Lock()
	defer r.mu.Unlock()
	due := func(n provisioner.Node) time.Time {
		if known, ok := r.known[n.ID]; ok && !known.outdated(n) {
			return known.due
		}
		return time.Time{}
	}
	todo := slices.DeleteFunc(slices.Clone(nodes), func(n provisioner.Node) bool {
		return r.reading[n.ID] || due(n).After(r.now())
	})
	slices.SortFunc(todo, func(a, b provisioner.Node) int {
		if d := due(a).Compare(due(b)); d != 0 {
			return d
		}
		return a.CreatedAt.Compare(b.CreatedAt)
	})
	return todo
}

// outdated reports whether the node has changed since the reading in a way that may mean another
// inventory.
func (k *knownFacts) outdated(n provisioner.Node) bool {
	return !k.inspectedAt.Equal(n.InspectedAt) || k.facts == nil && k.state != n.State
}

// readOne reads the ports of a node, and its inventory unless it is already known.
func (r *factReader) readOne(ctx context.Context, n provisioner.Node) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	r.mu.Lock()
	old := r.known[n.ID]
	r.mu.Unlock()
	now := knownFacts{state: n.State, inspectedAt: n.InspectedAt}
	if old != nil && !old.outdated(n) {
		now.facts, now.attempts = old.facts, old.attempts
	}
	now.macs, now.err = r.nodes.MACs(ctx, n.ID)
	if now.err == nil && now.facts == nil {
		now.facts, now.details, now.err = r.inventory(ctx, n)
	}
	if now.err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		now.err = fmt.Errorf("the engine does not answer within %s", readTimeout)
	}
	wait := refreshAfter
	if now.facts == nil {
		limit := maxInventoryWait
		if now.err != nil {
			limit = maxErrorWait
		}
		wait = retryWait(now.attempts, limit)
		now.attempts++
	}
	now.due = r.now().Add(requeue.Spread(wait, wait/4, n.ID, now.attempts))
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.reading, n.ID)
	r.known[n.ID] = &now
}

// inventory reads the inventory of a node. It returns nil without an error for a node without an
// inventory, and an error for a node that no longer exists.
func (r *factReader) inventory(ctx context.Context, n provisioner.Node) (*facts, *v1alpha1.HardwareDetails, error) {
	inv, err := r.engine.Inventory(ctx, n.ID)
	if errors.Is(err, provisioner.ErrNoInventory) {
		// The node may have been deleted since it was listed.
		_, err = r.nodes.Fetch(ctx, n.ID)
		return nil, nil, err
	}
	if err != nil {
		return nil, nil, err
	}
	return factsOf(n, inv), hardware.Details(inv), nil
}

// retryWait returns the pause after a number of readings in a row without an inventory.
func retryWait(attempts int, limit time.Duration) time.Duration {
	const maxDoublings = 10
	return min(firstRetry<<min(attempts, maxDoublings), limit)
}

// keep drops the facts about all nodes but the given ones.
func (r *factReader) keep(nodes []provisioner.Node) {
	current := make(map[string]bool, len(nodes))
	for i := range nodes {
		current[nodes[i].ID] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.known {
		if !current[id] {
			delete(r.known, id)
		}
	}
}
