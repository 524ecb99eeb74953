package nodecache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// portReaders is how many nodes' ports or inventories are read at the same time.
const portReaders = 8

// One list of all ports is read if the ports of many nodes are needed: of at least listedPorts
// nodes, and of at least one node in listedShare. The list costs the engine one page per some
// hundred nodes.
const (
	listedPorts = 8
	listedShare = 20
)

// searchTimeout bounds the search for a MAC address or a BMC, which may have to wait for a list of
// nodes and for many ports or inventories. What was read until then is kept for the next search.
const searchTimeout = 15 * time.Second

// listTimeout bounds the list of all ports in a search. After it, the search goes on without the
// list.
const listTimeout = searchTimeout / 3

// portList holds the MAC addresses of a node, in lower case.
type portList struct {
	macs []string
	// inspectedAt is the end of the last inspection before the reading.
	inspectedAt time.Time
	readAt      time.Time
}

// AmbiguousError says that a MAC address does not lead to exactly one free node.
type AmbiguousError struct {
	MAC string
	// Nodes are the nodes with the address.
	Nodes []string
	// Claimed is true if all of the nodes belong to other hosts.
	Claimed bool
}

// Error names the address and the nodes.
func (e *AmbiguousError) Error() string {
	if e.Claimed {
		return fmt.Sprintf("MAC address %s is that of %s, which belongs to another host; correct the address, or delete one of the hosts",
			e.MAC, nodeList(e.Nodes))
	}
	return fmt.Sprintf("MAC address %s belongs to several nodes (%s); delete all but one from the engine",
		e.MAC, strings.Join(e.Nodes, ", "))
}

func nodeList(ids []string) string {
	if len(ids) == 1 {
		return "node " + ids[0]
	}
	return "nodes " + strings.Join(ids, ", ")
}

// Find looks up a node by ID, by name, and by MAC address. The search by MAC address passes over
// nodes for which claimed returns true, because they belong to other hosts. Find returns
// provisioner.ErrNotFound, an AmbiguousError, or the engine's error.
//
// A search by MAC address first reads ports that were never read, or not since the last inspection,
// and ports of unused nodes that were read too long ago. Apart from that, it costs one lookup in an
// index.
func (c *Cache) Find(ctx context.Context, identity provisioner.Identity, claimed func(id string) bool) (provisioner.Node, error) {
	asked := c.ask()
	n, err := c.engine.Find(ctx, identity)
	if err == nil {
		return n, c.learn(n.ID, n, nil, asked)
	}
	if !errors.Is(err, provisioner.ErrNotFound) || identity.MAC == "" {
		return provisioner.Node{}, err
	}
	search, cancel := context.WithTimeout(ctx, searchTimeout)
	defer cancel()
	free, others, err := c.owners(search, strings.ToLower(identity.MAC), claimed)
	switch {
	case len(free) == 1:
		return c.Fetch(ctx, free[0])
	case len(free) > 1:
		return provisioner.Node{}, &AmbiguousError{MAC: identity.MAC, Nodes: free}
	case len(others) > 0:
		return provisioner.Node{}, &AmbiguousError{MAC: identity.MAC, Nodes: others, Claimed: true}
	case err != nil && search.Err() != nil && ctx.Err() == nil:
		return provisioner.Node{}, fmt.Errorf("%w: the search for MAC address %s did not end within %s", provisioner.ErrUnreachable, identity.MAC, searchTimeout)
	case err != nil:
		return provisioner.Node{}, err
	default:
		return provisioner.Node{}, fmt.Errorf("find node with MAC address %s: %w", identity.MAC, provisioner.ErrNotFound)
	}
}

// owners returns the free nodes with a MAC address, and those that are claimed. It reads the ports
// of claimed nodes only if it finds no node without them. If err says that some ports could not be
// read, the nodes that were found count nevertheless.
func (c *Cache) owners(ctx context.Context, mac string, claimed func(string) bool) (free, others []string, err error) {
	if err := c.Refresh(ctx, c.opts.Interval); err != nil {
		return nil, nil, err
	}
	for _, wanted := range []func(id string) bool{
		func(id string) bool { return !claimed(id) },
		func(string) bool { return true },
	} {
		loadErr := c.loadUnread(ctx, wanted)
		for _, id := range c.withMAC(mac) {
			if claimed(id) {
				others = append(others, id)
			} else {
				free = append(free, id)
			}
		}
		if len(free)+len(others) > 0 || loadErr != nil {
			return free, others, loadErr
		}
	}
	return nil, nil, nil
}

// withMAC returns the IDs of the nodes with a MAC address, in ascending order.
func (c *Cache) withMAC(mac string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(slices.Values(c.byMAC[mac]))
}

// loadUnread reads the unknown ports of the wanted nodes. Concurrent callers wait for each other,
// so that each list of ports is read once. A node that cannot be read does not keep the others from
// being read.
func (c *Cache) loadUnread(ctx context.Context, wanted func(id string) bool) error {
	c.expirePorts()
	if len(c.unreadIDs(wanted)) == 0 {
		return nil
	}
	select {
	case c.loading <- struct{}{}:
		defer func() { <-c.loading }()
	case <-ctx.Done():
		return ctx.Err()
	}
	listing, cancel := context.WithTimeout(ctx, listTimeout)
	c.LoadPorts(listing, c.unreadIDs(wanted))
	cancel()
	var (
		group errgroup.Group
		mu    sync.Mutex
		first error
	)
	group.SetLimit(portReaders)
	for _, id := range c.unreadIDs(wanted) {
		group.Go(func() error {
			if _, err := c.MACs(ctx, id); err != nil {
				mu.Lock()
				defer mu.Unlock()
				if first == nil {
					first = fmt.Errorf("read ports of node %s: %w", id, err)
				}
			}
			return nil
		})
	}
	_ = group.Wait()
	return first
}

// LoadPorts reads the ports of these nodes with one list if the nodes are many, to prepare calls of
// MACs. Ports that it cannot read are left to those calls.
func (c *Cache) LoadPorts(ctx context.Context, ids []string) {
	c.mu.Lock()
	before := make(map[string]provisioner.Node, len(ids))
	for _, id := range ids {
		if n, known := c.nodes[id]; known && !c.knowsPorts(n) {
			before[id] = n
		}
	}
	worth := len(before) >= listedPorts && len(before) >= len(c.nodes)/listedShare
	c.mu.Unlock()
	if !worth {
		return
	}
	all, err := c.engine.AllMACs(ctx)
	if err != nil {
		return // the readings of single nodes will say why
	}
	for id, n := range before {
		if macs := all[id]; len(macs) > 0 {
			c.setPorts(id, portList{macs: sorted(macs), inspectedAt: n.InspectedAt, readAt: c.opts.Now()})
		}
	}
}

// knowsPorts reports whether the ports of a node need not be read. The caller holds mu.
func (c *Cache) knowsPorts(n provisioner.Node) bool {
	ports, read := c.ports[n.ID]
	return read && len(ports.macs) > 0 && ports.inspectedAt.Equal(n.InspectedAt) && !c.isOld(n, ports)
}

func sorted(macs []string) []string {
	slices.Sort(macs)
	return slices.Compact(macs)
}

func (c *Cache) unreadIDs(wanted func(id string) bool) []string {
	c.mu.Lock()
	ids := make([]string, 0, len(c.unread))
	for id := range c.unread {
		ids = append(ids, id)
	}
	c.mu.Unlock()
	return slices.DeleteFunc(ids, func(id string) bool { return !wanted(id) })
}

// expirePorts marks the ports of unused nodes as unread if they were read too long ago, because
// nothing in a node shows that somebody gave it another port. It looks through the nodes a few
// times per [Options.PortAge].
func (c *Cache) expirePorts() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.opts.Now()
	if now.Sub(c.expiredAt) < c.opts.PortAge/10 {
		return
	}
	c.expiredAt = now
	for id, ports := range c.ports {
		if n := c.nodes[id]; c.isOld(n, ports) {
			c.unread[id] = struct{}{}
		}
	}
}

// isOld reports whether the ports of an unused node were read too long ago. Ports age sooner if
// there were none, because such a node is about to get some.
func (c *Cache) isOld(n provisioner.Node, ports portList) bool {
	limit := c.opts.PortAge
	if len(ports.macs) == 0 {
		limit /= 10
	}
	return c.opts.Now().Sub(ports.readAt) >= limit && n.BelongsTo() == ""
}

// MACs returns the MAC addresses of the node's ports in lower case. It reads them if they are not
// in the cache. An unknown node has none.
func (c *Cache) MACs(ctx context.Context, id string) ([]string, error) {
	c.mu.Lock()
	n, known := c.nodes[id]
	ports, fresh := c.ports[id], known && c.knowsPorts(n)
	c.mu.Unlock()
	if fresh {
		return ports.macs, nil
	}
	macs, err := c.engine.MACs(ctx, id)
	if errors.Is(err, provisioner.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	macs = sorted(macs)
	if known {
		c.setPorts(id, portList{macs: macs, inspectedAt: n.InspectedAt, readAt: c.opts.Now()})
	}
	return macs, nil
}

// setPorts stores the ports of a node that is still known.
func (c *Cache) setPorts(id string, ports portList) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, known := c.nodes[id]
	if !known {
		return
	}
	c.dropPorts(id)
	c.ports[id] = ports
	for _, mac := range ports.macs {
		c.byMAC[mac] = append(c.byMAC[mac], id)
	}
	if ports.inspectedAt.Equal(n.InspectedAt) {
		delete(c.unread, id)
	}
}

// dropPorts removes the ports of a node from the index. The caller holds mu.
func (c *Cache) dropPorts(id string) {
	for _, mac := range c.ports[id].macs {
		left := slices.DeleteFunc(c.byMAC[mac], func(other string) bool { return other == id })
		if len(left) == 0 {
			delete(c.byMAC, mac)
		} else {
			c.byMAC[mac] = left
		}
	}
	delete(c.ports, id)
}
