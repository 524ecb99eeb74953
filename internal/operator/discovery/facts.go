package discovery

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ingot-metal/ingot/internal/operator/hardware"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// inventoryRetry is the pause before a node without an inventory is read again.
const inventoryRetry = 10 * time.Second

// facts is what discovery needs to know about a machine.
type facts struct {
	nameFacts

	MACs           []string // of all its NICs
	Architecture   string
	AutoDiscovered bool
}

// candidate is an unused node with the facts about its machine.
type candidate struct {
	node provisioner.Node
	// facts are nil when the machine has no inventory; macs are known anyway.
	facts *facts
	macs  []string
	// inventory is set when it was read in this poll.
	inventory *provisioner.Inventory
	// err is why nothing could be read. The next poll retries.
	err error
}

// factReader reads inventories once per node and inspection, and keeps of them
// only what discovery needs.
type factReader struct {
	nodes  nodeCache
	engine inventoryReader
	now    func() time.Time

	mu    sync.Mutex
	known map[string]knownFacts
}

type knownFacts struct {
	facts       *facts // nil: there was no inventory
	inspectedAt time.Time
	readAt      time.Time
}

func newFactReader(nodes nodeCache, engine inventoryReader, now func() time.Time) *factReader {
	return &factReader{nodes: nodes, engine: engine, now: now, known: map[string]knownFacts{}}
}

// read returns a candidate for each node, in the order of their creation, and
// drops the facts of other nodes. Nodes that no longer exist are left
// out.
func (r *factReader) read(ctx context.Context, nodes []provisioner.Node) []candidate {
	nodes = slices.Clone(nodes)
	slices.SortStableFunc(nodes, func(a, b provisioner.Node) int { return a.CreatedAt.Compare(b.CreatedAt) })
	candidates := make([]candidate, len(nodes))
	var group errgroup.Group
	group.SetLimit(workers)
	for i, n := range nodes {
		group.Go(func() error {
			candidates[i] = r.candidate(ctx, n)
			return nil
		})
	}
	_ = group.Wait()
	r.keep(nodes)
	return slices.DeleteFunc(candidates, func(c candidate) bool { return errors.Is(c.err, provisioner.ErrNotFound) })
}

func (r *factReader) candidate(ctx context.Context, n provisioner.Node) candidate {
	c := candidate{node: n}
	if c.macs, c.err = r.nodes.MACs(ctx, n.ID); c.err != nil {
		return c
	}
	if known, ok := r.lookup(n); ok {
		c.facts = known
	} else {
		c.inventory, c.err = r.engine.Inventory(ctx, n.ID)
		if errors.Is(c.err, provisioner.ErrNoInventory) {
			// The node may have been deleted since it was listed.
			c.node, c.err = r.nodes.Fetch(ctx, n.ID)
		}
		if c.err != nil {
			return c
		}
		c.facts = r.store(n, c.inventory)
	}
	if c.facts != nil {
		c.macs = union(c.macs, c.facts.MACs)
	}
	return c
}

func (r *factReader) lookup(n provisioner.Node) (*facts, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.known[n.ID]
	if !ok || !known.inspectedAt.Equal(n.InspectedAt) {
		return nil, false
	}
	return known.facts, known.facts != nil || r.now().Sub(known.readAt) < inventoryRetry
}

func (r *factReader) store(n provisioner.Node, inv *provisioner.Inventory) *facts {
	var found *facts
	if inv != nil {
		found = factsOf(n, inv)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known[n.ID] = knownFacts{facts: found, inspectedAt: n.InspectedAt, readAt: r.now()}
	return found
}

func (r *factReader) keep(nodes []provisioner.Node) {
	current := make(map[string]bool, len(nodes))
	for _, n := range nodes {
		current[n.ID] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.known {
		if !current[id] {
			delete(r.known, id)
		}
	}
}

func factsOf(n provisioner.Node, inv *provisioner.Inventory) *facts {
	f := &facts{
		nameFacts: nameFacts{
			NodeID:   n.ID,
			BootMAC:  hardware.BootMAC(inv, n.Agent.URL),
			Hostname: inv.Hardware.Hostname,
			Serial:   inv.Hardware.SystemVendor.SerialNumber,
		},
		MACs:           hardware.UsableMACs(inv),
		Architecture:   inv.Hardware.CPU.Architecture,
		AutoDiscovered: inv.AutoDiscovered,
	}
	if ip := hardware.FirstAddress(inv); ip.IsValid() {
		f.IP = ip.String()
	}
	if n.AutoDiscovered != nil {
		f.AutoDiscovered = *n.AutoDiscovered
	}
	return f
}

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}
