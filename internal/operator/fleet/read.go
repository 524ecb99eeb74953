package fleet

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
func (f *Fleet) AgentWindow() time.Duration { return f.opts.AgentWindow }

// Nodes returns all nodes in the order of their IDs.
func (f *Fleet) Nodes() []provisioner.Node {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]provisioner.Node, 0, len(f.nodes))
	for _, n := range f.nodes {
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b provisioner.Node) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// Node returns what the picture holds of one node, without asking the engine.
func (f *Fleet) Node(id string) (provisioner.Node, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, ok := f.nodes[id]
	return n, ok
}

// Fetch reads one node from the engine and puts it into the picture. It returns
// provisioner.ErrNotFound when the engine does not know the node, which then
// leaves the picture.
func (f *Fleet) Fetch(ctx context.Context, id string) (provisioner.Node, error) {
	n, err := f.engine.Node(ctx, id)
	return n, f.learn(id, n, err)
}

// Find looks a node up by ID, by name, and by MAC address. A node for which
// claimed returns true belongs to another host and is not looked at for its
// MAC address. It returns provisioner.ErrNotFound, an AmbiguousError, or the
// engine's error.
func (f *Fleet) Find(ctx context.Context, identity provisioner.Identity, claimed func(id string) bool) (provisioner.Node, error) {
	n, err := f.engine.Find(ctx, identity)
	if err == nil {
		return n, f.learn(n.ID, n, nil)
	}
	if !errors.Is(err, provisioner.ErrNotFound) || identity.MAC == "" {
		return provisioner.Node{}, err
	}
	owners, err := f.owners(ctx, strings.ToLower(identity.MAC), claimed)
	switch {
	case err != nil:
		return provisioner.Node{}, err
	case len(owners) == 0:
		return provisioner.Node{}, fmt.Errorf("find node with MAC address %s: %w", identity.MAC, provisioner.ErrNotFound)
	case len(owners) > 1:
		return provisioner.Node{}, &AmbiguousError{MAC: identity.MAC, Nodes: owners}
	default:
		return f.Fetch(ctx, owners[0])
	}
}

func (f *Fleet) owners(ctx context.Context, mac string, claimed func(string) bool) ([]string, error) {
	if err := f.Refresh(ctx, f.opts.Interval); err != nil {
		return nil, err
	}
	var ids []string
	for _, n := range f.Nodes() {
		if !claimed(n.ID) {
			ids = append(ids, n.ID)
		}
	}
	if err := f.LoadMACs(ctx, ids); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(ids, func(id string) bool { return !slices.Contains(f.macs[id].macs, mac) }), nil
}

// LoadMACs reads the ports of those nodes whose ports are not known yet.
func (f *Fleet) LoadMACs(ctx context.Context, ids []string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(portReaders)
	for _, id := range ids {
		group.Go(func() error {
			_, err := f.MACs(ctx, id)
			return err
		})
	}
	return group.Wait()
}

// MACs returns the MAC addresses of the node's ports in lower case, reading
// them if they are not known yet. An unknown node has none.
func (f *Fleet) MACs(ctx context.Context, id string) ([]string, error) {
	f.mu.Lock()
	n, known := f.nodes[id]
	ports, read := f.macs[id]
	f.mu.Unlock()
	if read && ports.inspectedAt.Equal(n.InspectedAt) {
		return ports.macs, nil
	}
	macs, err := f.engine.MACs(ctx, id)
	if errors.Is(err, provisioner.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	// A node gets its ports during inspection: before it, and for nodes that
	// have none, ask again next time.
	if known && len(macs) > 0 {
		f.mu.Lock()
		f.macs[id] = portList{macs: macs, inspectedAt: n.InspectedAt}
		f.mu.Unlock()
	}
	return macs, nil
}

// learn puts the outcome of reading one node into the picture and returns err.
func (f *Fleet) learn(id string, n provisioner.Node, err error) error {
	var changes []Change
	f.mu.Lock()
	switch {
	case errors.Is(err, provisioner.ErrNotFound):
		if old, known := f.nodes[id]; known {
			changes = append(changes, f.drop(old))
		}
	case err == nil:
		if c, ok := f.put(n); ok {
			changes = append(changes, c)
		}
	}
	f.mu.Unlock()
	f.publish(changes)
	return err
}
