package conductor

import (
	"fmt"
	"slices"

	"github.com/ingot-metal/ingot/internal/inspect"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// macTransfer takes MAC addresses from provisional nodes for a node that a person has registered or
// accepted. It belongs to one transaction. The caller calls clearDeleted after the commit.
type macTransfer struct {
	to   *node.Node
	macs []string // addresses that the registered node has now
	// whole says that a provisional node with one of the addresses is the same machine, because a
	// person said so. Then the provisional node gives up all its addresses, and its inventory moves
	// to the other node.
	whole   bool
	deleted []int64 // keys of provisional nodes that are left with nothing
}

func isProvisional(m store.ClaimMatch) bool { return m.Provisional }

// claimant returns the part of a match that decisions need.
func claimant(m store.ClaimMatch) inspect.Claimant {
	return inspect.Claimant{UUID: m.UUID, State: m.State, Provisional: m.Provisional, Port: m.Port}
}

func claimants(matches []store.ClaimMatch) []inspect.Claimant {
	found := make([]inspect.Claimant, len(matches))
	for i, m := range matches {
		found[i] = claimant(m)
	}
	return found
}

// takeFrom takes the addresses from one provisional node. A node that keeps no address was the same
// machine. It is deleted, unless it is under work or must not be deleted.
func (c *Conductor) takeFrom(tx *store.Tx, t *macTransfer, uuid string) error {
	before, err := tx.Node(uuid)
	if isNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if !before.Provisional { // a person has accepted it since its claims were read: decide anew
		return &node.LockedError{Node: before.UUID, Holder: c.cfg.Hostname}
	}
	macs, err := tx.MACsOf(before.ID)
	if err != nil {
		return err
	}
	lost := slices.DeleteFunc(slices.Clone(macs), func(mac string) bool { return !slices.Contains(t.macs, mac) })
	if len(lost) == 0 {
		return nil
	}
	if t.whole || len(lost) == len(macs) {
		problem := c.checkProvisionalDeletable(tx, before)
		if problem == nil {
			return c.deleteProvisional(tx, t, before, len(macs))
		}
		c.log.Info("Discovered node stays without its addresses", "node", before.UUID, "taken_by", t.to.UUID, "reason", problem)
	}
	if err := tx.ReleaseMACs(before.ID, lost); err != nil {
		return err
	}
	after := *before
	after.LastError = node.AddressesTaken(t.to.UUID, lost, len(macs)-len(lost))
	if err := c.recordHistory(tx, &after, node.SeverityError, "discovery", after.LastError); err != nil {
		return err
	}
	if err := c.recordHistory(tx, t.to, node.SeverityInfo, "discovery",
		fmt.Sprintf("The discovered node %s gave up %d of its %d MAC addresses to this node.", before.UUID, len(lost), len(macs))); err != nil {
		return err
	}
	return tx.UpdateNode(before, &after)
}

// checkProvisionalDeletable returns why a provisional node cannot be deleted now, or nil if it can. Its
// hooks may wait, and nobody would run them for the node that took its inventory.
func (c *Conductor) checkProvisionalDeletable(tx *store.Tx, n *node.Node) error {
	if err := c.checkRemovable(tx, n); err != nil {
		return err
	}
	works, err := tx.WorkOf(n.ID)
	if err != nil {
		return err
	}
	if len(works) > 0 {
		return c.underWay(n)
	}
	return deletable(n)
}

// deleteProvisional deletes a provisional node whose machine is that of t.to. If a person said that
// it is, t.to gets the inventory, unless t.to was inspected already or is under work. The deletion
// voids the token of the node: the agent that still runs gets no new token before the machine starts
// its ramdisk again.
func (c *Conductor) deleteProvisional(tx *store.Tx, t *macTransfer, n *node.Node, macs int) error {
	what := ""
	never := t.to.InspectionStartedAt.IsZero() && t.to.InspectionFinishedAt.IsZero()
	if t.whole && never && checkUnleased(tx, t.to) == nil {
		what = " with its inventory"
		if err := tx.MoveInspection(n.ID, t.to.ID); err != nil {
			return err
		}
		before := *t.to
		t.to.InspectionStartedAt, t.to.InspectionFinishedAt = n.InspectionStartedAt, n.InspectionFinishedAt
		if err := tx.UpdateNode(&before, t.to); err != nil {
			return err
		}
	}
	if err := tx.DeleteNode(n); err != nil {
		return err
	}
	t.deleted = append(t.deleted, n.ID)
	return c.recordHistory(tx, t.to, node.SeverityInfo, "discovery", fmt.Sprintf(
		"The machine had been discovered as node %s, with %d MAC addresses; that node became this one%s and was deleted.", n.UUID, macs, what))
}

// takeMACs makes provisional nodes among the matches give up the addresses that a node gets when a
// person creates or changes a port. It accepts the node of the port, because a person has changed
// it. A provisional node that cannot be deleted now gives up only the addresses.
func (c *Conductor) takeMACs(tx *store.Tx, n *node.Node, macs []string, matches []store.ClaimMatch) (*macTransfer, error) {
	accepted := *n
	if err := c.acceptNode(tx, &accepted); err != nil {
		return nil, err
	}
	if err := tx.UpdateNode(n, &accepted); err != nil {
		return nil, err
	}
	t := &macTransfer{to: &accepted, macs: macs, whole: true}
	for _, m := range matches {
		if m.Provisional && m.UUID != n.UUID {
			if err := c.takeFrom(tx, t, m.UUID); err != nil {
				return nil, err
			}
		}
	}
	return t, nil
}

// takeClaims takes an address that a person gives to a port from the inventories of other
// registered nodes: the network card with that address is no longer in their machines.
func (c *Conductor) takeClaims(tx *store.Tx, toUUID, mac string, matches []store.ClaimMatch) error {
	for _, m := range matches {
		if m.Provisional || m.UUID == toUUID {
			continue
		}
		from, err := tx.Node(m.UUID)
		if isNotFound(err) {
			continue
		}
		if err != nil {
			return err
		}
		macs, err := tx.MACsOf(from.ID)
		if err != nil {
			return err
		}
		if !slices.Contains(macs, mac) { // this node matched by another address
			continue
		}
		if err := tx.DropInventoryMAC(from.ID, mac); err != nil {
			return err
		}
		text := fmt.Sprintf("The MAC address %s is that of a port of node %s now, so it no longer leads to this node, whose inventory has it.", mac, toUUID)
		if err := c.recordHistory(tx, from, node.SeverityInfo, "inspection", text); err != nil {
			return err
		}
	}
	return nil
}

// leaveShared removes, from the addresses that a node claims by a post, those that other registered
// nodes claim by their inventories. Otherwise a forged post for one node could make another node
// ambiguous.
func leaveShared(tx *store.Tx, p *post, n *node.Node) (err error) {
	if p.kept, err = tx.InventoryOwners(n.ID, p.macs); err != nil {
		return err
	}
	p.macs = slices.DeleteFunc(slices.Clone(p.macs), func(mac string) bool { return p.kept[mac] != "" })
	return nil
}

// clearDeleted drops what this process keeps of the nodes that a transfer deleted.
func (c *Conductor) clearDeleted(t *macTransfer) {
	if t == nil || len(t.deleted) == 0 {
		return
	}
	for _, id := range t.deleted {
		c.trims.clear(id)
	}
	c.discovered.markStale()
	c.wakeGarbage()
}

// acceptNode makes a discovered node no longer provisional, because a person has requested
// something that no import requests. The caller stores the node.
func (c *Conductor) acceptNode(tx *store.Tx, n *node.Node) error {
	if !n.Provisional {
		return nil
	}
	n.Provisional = false
	return c.recordHistory(tx, n, node.SeverityInfo, "discovery", "Accepted: a request changed this discovered node, so it keeps its addresses.")
}
