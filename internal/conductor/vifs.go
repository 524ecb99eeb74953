package conductor

import (
	"context"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// noNetwork is the network interface of nodes whose switches are not configured: it
// accepts every VIF and stores none.
const noNetwork = "noop"

// VIFs lists the virtual interfaces that are attached to a node.
func (c *Conductor) VIFs(ctx context.Context, ident string) ([]string, error) {
	var ids []string
	err := c.store.Read(ctx, func(tx *store.Tx) error {
		n, err := tx.Node(ident)
		if err != nil {
			return err
		}
		groups, ports, err := wiring(tx, n)
		ids = node.AttachedVIFs(groups, ports)
		return err
	})
	return ids, err
}

// AttachVIF attaches a virtual interface to a node that is not under work.
func (c *Conductor) AttachVIF(ctx context.Context, ident string, request node.VIFRequest) error {
	return c.withWiring(ctx, ident, func(tx *store.Tx, groups []*node.Portgroup, ports []*node.Port) error {
		slot, err := node.ChooseVIFSlot(request, groups, ports)
		if err != nil {
			return err
		}
		return storeVIF(tx, slot, request.ID)
	})
}

// DetachVIF detaches a virtual interface. It returns a *node.ValidationError if the interface is
// not attached.
func (c *Conductor) DetachVIF(ctx context.Context, ident, id string) error {
	return c.withWiring(ctx, ident, func(tx *store.Tx, groups []*node.Portgroup, ports []*node.Port) error {
		slot, ok := node.FindVIF(id, groups, ports)
		if !ok {
			return node.Invalid("VIF %s is not attached to node %s.", id, ident)
		}
		return storeVIF(tx, slot, "")
	})
}

// withWiring calls do with the port groups and ports to which VIFs of the node can be attached. It
// does nothing if the network interface of the node stores no VIFs.
func (c *Conductor) withWiring(ctx context.Context, ident string, do func(*store.Tx, []*node.Portgroup, []*node.Port) error) error {
	return c.whenFree(ctx, func() error {
		return c.store.Write(ctx, func(tx *store.Tx) error {
			n, err := unleased(tx, ident)
			if err != nil || n.Interfaces[node.NetworkInterface] == noNetwork {
				return err
			}
			groups, ports, err := wiring(tx, n)
			if err != nil {
				return err
			}
			return do(tx, groups, ports)
		})
	})
}

func wiring(tx *store.Tx, n *node.Node) ([]*node.Portgroup, []*node.Port, error) {
	groups, err := store.Portgroups.List(tx, node.Query{Filters: []node.Filter{{Field: "node_uuid", Value: n.UUID}}})
	if err != nil {
		return nil, nil, err
	}
	ports, err := tx.PortsOf(n.ID)
	return groups, ports, err
}

// storeVIF stores which VIF is attached to a port or port group; "" removes it.
func storeVIF(tx *store.Tx, slot node.VIFSlot, id string) error {
	change := func(info node.Object) node.Object {
		if id == "" {
			return node.WithoutVIF(info)
		}
		return node.WithVIF(info, id)
	}
	if g := slot.Portgroup; g != nil {
		after := *g
		after.InternalInfo = change(g.InternalInfo)
		return store.Portgroups.Update(tx, g, &after)
	}
	after := *slot.Port
	after.InternalInfo = change(slot.Port.InternalInfo)
	return tx.UpdatePort(slot.Port, &after)
}

// detachVIFs detaches every VIF of a node whose instance ends, in the same
// transaction.
func detachVIFs(tx *store.Tx, n *node.Node) error {
	groups, ports, err := wiring(tx, n)
	if err != nil {
		return err
	}
	for _, id := range node.AttachedVIFs(groups, ports) {
		slot, _ := node.FindVIF(id, groups, ports)
		if err := storeVIF(tx, slot, ""); err != nil {
			return err
		}
	}
	return nil
}
