package nodecache

import (
	"context"
	"errors"
	"time"

	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// AgentWindow is how long after its last heartbeat a ramdisk counts as alive.
func (c *Cache) AgentWindow() time.Duration { return c.opts.AgentWindow }

// Nodes returns all nodes, in no order.
func (c *Cache) Nodes() []provisioner.Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]provisioner.Node, 0, len(c.nodes))
	for _, n := range c.nodes {
		all = append(all, n)
	}
	return all
}

// Generation changes with every [Change]: who sees the same number twice has missed
// nothing in between.
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

// Fetch reads one node from the engine into the cache. It returns
// provisioner.ErrNotFound when the engine does not have the node, which is then
// removed from the cache.
func (c *Cache) Fetch(ctx context.Context, id string) (provisioner.Node, error) {
	asked := c.ask()
	n, err := c.engine.Node(ctx, id)
	return n, c.learn(id, n, err, asked)
}

// Reread is Fetch for who acts on what it returns: subscribers are told only when the
// engine has lost the node, but for those of SubscribeToAll.
func (c *Cache) Reread(ctx context.Context, id string) (provisioner.Node, error) {
	asked := c.ask()
	n, err := c.engine.Node(ctx, id)
	if err == nil {
		c.note(n, asked)
		return n, nil
	}
	return n, c.learn(id, n, err, asked)
}

// Note stores what the engine answered to a change of a node. Who made the change knows of it,
// so that only the subscribers of SubscribeToAll are told. Whether it is newer than what was read
// meanwhile, only its time shows.
func (c *Cache) Note(n provisioner.Node) { c.note(n, 0) }

// ask is the moment of a request that is about to be sent.
func (c *Cache) ask() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.next()
}

// note stores a snapshot that was asked for at a moment and tells the subscribers of SubscribeToAll.
func (c *Cache) note(n provisioner.Node, asked uint64) {
	c.mu.Lock()
	change, ok := c.put(n, asked)
	c.mu.Unlock()
	if ok {
		c.tell(&c.readers, []Change{change})
	}
}

// Expect makes polls come after a fifth of the interval, for two intervals, because the
// engine is at work for somebody who waits for the end. All who wait share these polls.
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

// Wake polls the engine at once and tells subscribers of the nodes with these IDs, as if
// they had changed: the engine answers again, and somebody waits for what it has to say
// about them. A node that the cache does not have is told of by its ID alone, and that
// may be "", for hosts whose node is not known yet.
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

// learn updates the cache with the outcome of reading one node, which was asked for at a moment, and
// returns err.
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
