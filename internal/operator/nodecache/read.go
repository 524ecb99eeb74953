package nodecache

import (
	"context"
	"errors"
	"time"

	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// AgentWindow is how long after its last heartbeat a ramdisk counts as alive.
func (c *Cache) AgentWindow() time.Duration { return c.opts.AgentWindow }

// Nodes returns all nodes, in no particular order.
func (c *Cache) Nodes() []provisioner.Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]provisioner.Node, 0, len(c.nodes))
	for _, n := range c.nodes {
		all = append(all, n)
	}
	return all
}

// Generation returns a number that changes whenever a node is added, deleted, or changed in a way
// that matters to hosts. If two calls return the same number, no such change happened in between.
func (c *Cache) Generation() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.generation
}

// Node returns one node from the cache, without a request to the engine.
func (c *Cache) Node(id string) (provisioner.Node, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, ok := c.nodes[id]
	return n, ok
}

// Fetch reads one node from the engine into the cache. If the engine does not have the node, Fetch
// removes it from the cache and returns provisioner.ErrNotFound.
func (c *Cache) Fetch(ctx context.Context, id string) (provisioner.Node, error) {
	asked := c.ask()
	n, err := c.engine.Node(ctx, id)
	return n, c.learn(id, n, err, asked)
}

// Reread is Fetch for callers that act on the returned node themselves. Subscribers are told only
// if the engine has lost the node; those of SubscribeToAll are told of every change.
func (c *Cache) Reread(ctx context.Context, id string) (provisioner.Node, error) {
	asked := c.ask()
	n, err := c.engine.Node(ctx, id)
	if err == nil {
		c.note(n, asked)
		return n, nil
	}
	return n, c.learn(id, n, err, asked)
}

// Note stores the engine's answer to a change of a node. The caller, who made the change, knows of
// it, so only the subscribers of SubscribeToAll are told. Note keeps whichever has the later time:
// the answer, or a snapshot that was read meanwhile.
func (c *Cache) Note(n provisioner.Node) { c.note(n, 0) }

// ask returns the moment of a request that is about to be sent.
func (c *Cache) ask() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.next()
}

// note stores a snapshot that was requested at the moment asked, and tells the subscribers of
// SubscribeToAll.
func (c *Cache) note(n provisioner.Node, asked uint64) {
	c.mu.Lock()
	change, ok := c.put(n, asked)
	c.mu.Unlock()
	if ok {
		c.tell(&c.readers, []Change{change})
	}
}

// Expect makes the cache poll after a fifth of the interval, for two intervals, because the engine
// works for somebody who waits for the end. All who wait share these polls.
func (c *Cache) Expect() {
	select {
	case c.expected <- struct{}{}:
	default: // such a poll is due already
	}
}

// Forget removes a node that the caller has deleted from the engine.
func (c *Cache) Forget(id string) {
	_ = c.learn(id, provisioner.Node{}, provisioner.ErrNotFound, c.ask())
}

// Wake polls the engine at once and tells subscribers of the nodes with these IDs, as if they had
// changed: the engine answers again, and somebody waits for news about these nodes. If the cache
// does not have a node, the change has only its ID. The ID may be "", for hosts whose node is not
// known yet.
func (c *Cache) Wake(ids []string) {
	select {
	case c.wake <- struct{}{}:
	default: // a poll is due already
	}
	changes := make([]Change, 0, len(ids))
	c.mu.Lock()
	for _, id := range ids {
		n := c.nodes[id]
		n.ID = id
		changes = append(changes, Change{Node: n})
	}
	c.mu.Unlock()
	c.publish(changes)
}

// learn updates the cache with the outcome of reading one node, and returns err. asked is the
// moment of the request.
func (c *Cache) learn(id string, n provisioner.Node, err error, asked uint64) error {
	var changes []Change
	c.mu.Lock()
	switch {
	case errors.Is(err, provisioner.ErrNotFound):
		if old, known := c.nodes[id]; known {
			changes = append(changes, c.drop(old))
		}
	case err == nil:
		if change, ok := c.put(n, asked); ok {
			changes = append(changes, change)
		}
	}
	c.mu.Unlock()
	c.publish(changes)
	return err
}
