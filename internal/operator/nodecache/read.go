package nodecache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// portReaders is how many nodes' ports are read at the same time.
const portReaders = 8

// portList holds the MAC addresses of a node, read after the inspection that
// ended at inspectedAt.
type portList struct {
	macs        []string
	inspectedAt time.Time
}

// AmbiguousError says that a MAC address belongs to several nodes.
type AmbiguousError struct {
	MAC   string
	Nodes []string
}

// Error names the address and the nodes.
func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("MAC address %s belongs to several nodes (%s); delete all but one from the engine",
		e.MAC, strings.Join(e.Nodes, ", "))
}

// AgentWindow is how long after its last heartbeat a ramdisk counts as alive.
func (c *Cache) AgentWindow() time.Duration { return c.opts.AgentWindow }

// Nodes returns all nodes in the order of their IDs.
func (c *Cache) Nodes() []provisioner.Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]provisioner.Node, 0, len(c.nodes))
	for _, n := range c.nodes {
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b provisioner.Node) int { return strings.Compare(a.ID, b.ID) })
	return all
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
	n, err := c.engine.Node(ctx, id)
	return n, c.learn(id, n, err)
}

// Forget removes a node that the caller has deleted from the engine.
func (c *Cache) Forget(id string) {
	_ = c.learn(id, provisioner.Node{}, provisioner.ErrNotFound)
}

// Find looks a node up by ID, by name, and by MAC address. The search by MAC address
// skips nodes for which claimed returns true: they belong to other hosts. It returns provisioner.ErrNotFound, an AmbiguousError, or the
// engine's error.
func (c *Cache) Find(ctx context.Context, identity provisioner.Identity, claimed func(id string) bool) (provisioner.Node, error) {
	n, err := c.engine.Find(ctx, identity)
	if err == nil {
		return n, c.learn(n.ID, n, nil)
	}
	if !errors.Is(err, provisioner.ErrNotFound) || identity.MAC == "" {
		return provisioner.Node{}, err
	}
	owners, err := c.owners(ctx, strings.ToLower(identity.MAC), claimed)
	switch {
	case err != nil:
		return provisioner.Node{}, err
	case len(owners) == 0:
		return provisioner.Node{}, fmt.Errorf("find node with MAC address %s: %w", identity.MAC, provisioner.ErrNotFound)
	case len(owners) > 1:
		return provisioner.Node{}, &AmbiguousError{MAC: identity.MAC, Nodes: owners}
	default:
		return c.Fetch(ctx, owners[0])
	}
}

func (c *Cache) owners(ctx context.Context, mac string, claimed func(string) bool) ([]string, error) {
	if err := c.Refresh(ctx, c.opts.Interval); err != nil {
		return nil, err
	}
	var ids []string
	for _, n := range c.Nodes() {
		if !claimed(n.ID) {
			ids = append(ids, n.ID)
		}
	}
	if err := c.LoadMACs(ctx, ids); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(ids, func(id string) bool { return !slices.Contains(c.macs[id].macs, mac) }), nil
}

// LoadMACs reads the ports of those nodes whose ports are not in the cache.
func (c *Cache) LoadMACs(ctx context.Context, ids []string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(portReaders)
	for _, id := range ids {
		group.Go(func() error {
			_, err := c.MACs(ctx, id)
			return err
		})
	}
	return group.Wait()
}

// MACs returns the MAC addresses of the node's ports in lower case, and reads them
// if they are not in the cache. An unknown node has none.
func (c *Cache) MACs(ctx context.Context, id string) ([]string, error) {
	c.mu.Lock()
	n, known := c.nodes[id]
	ports, read := c.macs[id]
	c.mu.Unlock()
	if read && ports.inspectedAt.Equal(n.InspectedAt) {
		return ports.macs, nil
	}
	macs, err := c.engine.MACs(ctx, id)
	if errors.Is(err, provisioner.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	// A node gets its ports during inspection. An empty list is not cached, so that
	// the next call reads it again.
	if known && len(macs) > 0 {
		c.mu.Lock()
		c.macs[id] = portList{macs: macs, inspectedAt: n.InspectedAt}
		c.mu.Unlock()
	}
	return macs, nil
}

// learn updates the cache with the outcome of reading one node and returns err.
func (c *Cache) learn(id string, n provisioner.Node, err error) error {
	var changes []Change
	c.mu.Lock()
	switch {
	case errors.Is(err, provisioner.ErrNotFound):
		if old, known := c.nodes[id]; known {
			changes = append(changes, c.drop(old))
		}
	case err == nil:
		if change, ok := c.put(n); ok {
			changes = append(changes, change)
		}
	}
	c.mu.Unlock()
	c.publish(changes)
	return err
}
