package conductor

import (
	"context"
	"slices"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// Ports returns a page of ports.
func (c *Conductor) Ports(ctx context.Context, query node.Query) ([]*node.Port, error) {
	var ports []*node.Port
	err := c.store.Read(ctx, func(tx *store.Tx) (err error) {
		ports, err = tx.Ports(query)
		return err
	})
	return ports, err
}

// Port returns the port with this UUID.
func (c *Conductor) Port(ctx context.Context, ident string) (*node.Port, error) {
	var port *node.Port
	err := c.store.ReadSingle(ctx, func(tx *store.Tx) (err error) {
		port, err = tx.Port(ident)
		return err
	})
	return port, err
}

// CreatePort stores a port of the node that NodeUUID names, even while the node is under work. A
// provisional node with the address gives it up, and so do the inventories of other registered
// nodes.
func (c *Conductor) CreatePort(ctx context.Context, p *node.Port) (*node.Port, error) {
	created := *p
	if created.UUID == "" {
		created.UUID = store.NewUUID()
	}
	var t *macTransfer
	err := c.store.Write(ctx, func(tx *store.Tx) error {
		matches, err := tx.MatchClaims(macClaims([]string{p.Address}))
		if err != nil {
			return err
		}
		key, err := tx.NodeKey(p.NodeUUID)
		if isNotFound(err) {
			return node.Invalid("Node %s could not be found.", p.NodeUUID)
		}
		if err != nil {
			return err
		}
		created.NodeID, created.NodeUUID = key.ID, key.UUID
		if err := checkMembership(tx, nil, &created); err != nil {
			return err
		}
		if key.Provisional || slices.ContainsFunc(matches, isProvisional) {
			n, err := tx.NodeByID(key.ID)
			if err != nil {
				return err
			}
			if t, err = c.takeMACs(tx, n, []string{created.Address}, matches); err != nil {
				return err
			}
		}
		if err := c.takeClaims(tx, key.UUID, created.Address, matches); err != nil {
			return err
		}
		return tx.CreatePort(&created)
	})
	if err != nil {
		return nil, err
	}
	c.clearDeleted(t)
	return &created, nil
}

// UpdatePort changes a port of a node that is not under work. A change of NodeUUID moves the port
// to that node. Provisional nodes give up the addresses that the node of the port gains by the
// change. The inventories of registered nodes give up the address of the port.
func (c *Conductor) UpdatePort(ctx context.Context, ident string, change func(*node.Port, *node.Node) error) (*node.Port, error) {
	var updated node.Port
	var t *macTransfer
	err := c.withPort(ctx, ident, func(tx *store.Tx, before *node.Port, n *node.Node) error {
		updated = *before
		if err := change(&updated, n); err != nil {
			return err
		}
		owner := n
		if updated.NodeUUID != before.NodeUUID {
			var err error
			if owner, err = movePort(tx, n, &updated); err != nil {
				return err
			}
		}
		if err := checkMembership(tx, before, &updated); err != nil {
			return err
		}
		// The port moves first: if the node that it leaves is deleted, the port must not be
		// deleted with it.
		moved := *before
		moved.NodeID, moved.NodeUUID = updated.NodeID, updated.NodeUUID
		if err := tx.UpdatePort(before, &moved); err != nil {
			return err
		}
		var gained []string
		if owner.ID != n.ID {
			gained = append(gained, before.Address)
		}
		if updated.Address != before.Address {
			gained = append(gained, updated.Address)
		}
		matches, err := tx.MatchClaims(macClaims(gained))
		if err != nil {
			return err
		}
		if t, err = c.takeMACs(tx, owner, gained, matches); err != nil {
			return err
		}
		if err := c.takeClaims(tx, owner.UUID, updated.Address, matches); err != nil {
			return err
		}
		return tx.UpdatePort(&moved, &updated)
	})
	if err != nil {
		return nil, err
	}
	c.clearDeleted(t)
	return &updated, nil
}

// movePort moves a port to the node that its NodeUUID names, and returns that node. Both
// nodes must be in a state in which ports may change, and no VIF may be attached to the
// port.
func movePort(tx *store.Tx, from *node.Node, p *node.Port) (*node.Node, error) {
	to, err := unleased(tx, p.NodeUUID)
	if isNotFound(err) {
		return nil, node.Invalid("Port %s cannot move to another node: there is no node %s.", p.UUID, p.NodeUUID)
	}
	if err != nil {
		return nil, err
	}
	for _, n := range []*node.Node{from, to} {
		if !n.Maintenance && !slices.Contains(rewiredIn, n.ProvisionState) {
			return nil, node.Conflict("Port %s cannot move while node %s is in state %q; allowed are %q, or any state in maintenance.",
				p.UUID, n.UUID, n.ProvisionState, rewiredIn)
		}
	}
	if vif := node.VIFOf(p.InternalInfo); vif != "" {
		return nil, node.Conflict("Port %s cannot move while VIF %s is attached to it: detach the VIF first.", p.UUID, vif)
	}
	p.NodeID, p.NodeUUID = to.ID, to.UUID
	return to, nil
}

// DeletePort deletes a port of a node that is not under work. Outside of maintenance no
// VIF may be attached to the port, because it would be forgotten with it.
func (c *Conductor) DeletePort(ctx context.Context, ident string) error {
	return c.withPort(ctx, ident, func(tx *store.Tx, p *node.Port, n *node.Node) error {
		if vif := node.VIFOf(p.InternalInfo); vif != "" && !n.Maintenance {
			return node.Conflict("Port %s cannot be deleted while VIF %s is attached to it: detach the VIF, or set maintenance first.", p.UUID, vif)
		}
		return tx.DeletePort(p)
	})
}

func (c *Conductor) withPort(ctx context.Context, ident string, do func(*store.Tx, *node.Port, *node.Node) error) error {
	return c.whenFree(ctx, func() error {
		return c.store.Write(ctx, func(tx *store.Tx) error {
			p, err := tx.Port(ident)
			if err != nil {
				return err
			}
			n, err := unleased(tx, p.NodeUUID)
			if err != nil {
				return err
			}
			return do(tx, p, n)
		})
	})
}
