package nodecache

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// unreadableTime is how long searches fail because an inventory cannot be read: it may be the
// inventory of the machine that is searched for. Afterwards searches go on without it, and one of
// them tries to read it again every unreadableTime. A damaged inventory must not keep all hosts
// from being registered.
const unreadableTime = 30 * time.Second

// bmcIndex finds unused nodes by the BMC addresses that their ramdisks reported. No list of the API
// shows these addresses, only the inventories do. Callers of its methods hold the cache's lock.
type bmcIndex struct {
	told   map[string]toldBMC      // by the ID of the node
	byAddr map[netip.Addr][]string // IDs of the nodes
	unread map[string]struct{}     // IDs of nodes whose inventories have to be read
}

// toldBMC is what the last reading of a node's inventory showed.
type toldBMC struct {
	addrs []netip.Addr
	// inspectedAt is the end of the last inspection before the reading.
	inspectedAt time.Time
	// again is when to read again an inventory that could not be read.
	again time.Time
	// failing is since when the engine cannot say whether there is an inventory.
	failing time.Time
}

func newBMCIndex() bmcIndex {
	return bmcIndex{told: map[string]toldBMC{}, byAddr: map[netip.Addr][]string{}, unread: map[string]struct{}{}}
}

// note updates the index for a node's newest snapshot. Nodes that belong to somebody are not in the
// index.
func (x *bmcIndex) note(n provisioner.Node) {
	if n.BelongsTo() != "" {
		x.drop(n.ID)
		return
	}
	if told, read := x.told[n.ID]; !read || !told.inspectedAt.Equal(n.InspectedAt) {
		x.drop(n.ID)
		x.unread[n.ID] = struct{}{}
	}
}

func (x *bmcIndex) set(id string, told toldBMC) {
	x.drop(id)
	x.told[id] = told
	for _, addr := range told.addrs {
		x.byAddr[addr] = append(x.byAddr[addr], id)
	}
	if !told.again.IsZero() {
		x.unread[id] = struct{}{}
	}
}

func (x *bmcIndex) drop(id string) {
	for _, addr := range x.told[id].addrs {
		left := slices.DeleteFunc(x.byAddr[addr], func(other string) bool { return other == id })
		if len(left) == 0 {
			delete(x.byAddr, addr)
		} else {
			x.byAddr[addr] = left
		}
	}
	delete(x.told, id)
	delete(x.unread, id)
}

// due returns the IDs of the nodes whose inventories have to be read now.
func (x *bmcIndex) due(now time.Time) []string {
	ids := make([]string, 0, len(x.unread))
	for id := range x.unread {
		if !x.told[id].again.After(now) {
			ids = append(ids, id)
		}
	}
	return ids
}

// WithBMC returns the IDs of the unused nodes whose ramdisks reported this BMC address, in
// ascending order. It first reads the inventories that were not read since the last inspection of
// their nodes. Apart from that, it costs one lookup in an index.
func (c *Cache) WithBMC(ctx context.Context, addr netip.Addr) ([]string, error) {
	search, cancel := context.WithTimeout(ctx, searchTimeout)
	defer cancel()
	err := c.Refresh(search, c.opts.Interval)
	if err == nil {
		err = c.loadBMCs(search)
	}
	if err != nil {
		if search.Err() != nil && ctx.Err() == nil {
			return nil, fmt.Errorf("%w: the search for BMC address %s did not end within %s", provisioner.ErrUnreachable, addr, searchTimeout)
		}
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(slices.Values(c.bmcs.byAddr[addr])), nil
}

// loadBMCs reads the inventories that are due. Concurrent callers wait for each other, so that each
// inventory is read once.
func (c *Cache) loadBMCs(ctx context.Context) error {
	if len(c.dueBMCs()) == 0 {
		return nil
	}
	select {
	case c.loading <- struct{}{}:
		defer func() { <-c.loading }()
	case <-ctx.Done():
		return ctx.Err()
	}
	var group errgroup.Group
	group.SetLimit(portReaders)
	for _, id := range c.dueBMCs() {
		group.Go(func() error {
			_, err := c.Inventory(ctx, id)
			if !isPassing(ctx, err) || c.goesWithout(ctx, id, err) {
				return nil
			}
			return fmt.Errorf("read inventory of node %s: %w", id, err)
		})
	}
	return group.Wait()
}

// goesWithout notes that the inventory of a node could not be read. It reports whether searches go
// on without that inventory.
func (c *Cache) goesWithout(ctx context.Context, id string, err error) bool {
	if ctx.Err() != nil || errors.Is(err, provisioner.ErrDenied) {
		return false // the error says nothing about this inventory
	}
	now := c.opts.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	n, there := c.nodes[id]
	if !there || n.BelongsTo() != "" {
		return true
	}
	told := toldBMC{inspectedAt: n.InspectedAt, failing: c.bmcs.told[id].failing, again: now}
	if told.failing.IsZero() {
		told.failing = now
	}
	over := now.Sub(told.failing) >= unreadableTime
	if over {
		told.again = now.Add(unreadableTime)
	}
	c.bmcs.set(id, told)
	return over
}

func (c *Cache) dueBMCs() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bmcs.due(c.opts.Now())
}

// Inventory reads the inventory of a node from the engine, and keeps what WithBMC needs of it.
func (c *Cache) Inventory(ctx context.Context, id string) (*provisioner.Inventory, error) {
	before, known := c.Node(id)
	inv, err := c.engine.Inventory(ctx, id)
	if !known || isPassing(ctx, err) {
		return inv, err
	}
	told := toldBMC{inspectedAt: before.InspectedAt}
	if err == nil {
		told.addrs = inv.Hardware.BMCAddresses()
	} else {
		told.again = c.opts.Now().Add(c.opts.PortAge)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n, there := c.nodes[id]; there && n.BelongsTo() == "" && n.InspectedAt.Equal(told.inspectedAt) {
		c.bmcs.set(id, told)
	}
	return inv, err
}

// isPassing reports whether an error says nothing about the inventory that was asked for.
func isPassing(ctx context.Context, err error) bool {
	for _, kind := range []error{provisioner.ErrUnreachable, provisioner.ErrBusy, provisioner.ErrDenied} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return err != nil && ctx.Err() != nil
}
