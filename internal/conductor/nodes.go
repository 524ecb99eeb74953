package conductor

import (
	"context"
	"errors"
	"slices"

	"github.com/ingot-metal/ingot/internal/inspect"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// Node returns the node with this UUID or name.
func (c *Conductor) Node(ctx context.Context, ident string) (*node.Node, error) {
	var n *node.Node
	err := c.store.ReadSingle(ctx, func(tx *store.Tx) (err error) {
		n, err = tx.Node(ident)
		return err
	})
	return n, err
}

// Nodes returns a page of nodes.
func (c *Conductor) Nodes(ctx context.Context, query node.Query) ([]*node.Node, error) {
	var nodes []*node.Node
	err := c.store.Read(ctx, func(tx *store.Tx) (err error) {
		nodes, err = tx.Nodes(query)
		return err
	})
	return nodes, err
}

// CreateNode stores a new node. Interfaces that are not given get the defaults of its
// driver.
func (c *Conductor) CreateNode(ctx context.Context, n *node.Node) (*node.Node, error) {
	created := *n
	if created.UUID == "" {
		created.UUID = store.NewUUID()
	}
	if created.ProvisionState == "" {
		created.ProvisionState = node.Enroll
	}
	var err error
	if created.Interfaces, err = c.drivers.Resolve(created.Driver, created.Interfaces); err != nil {
		return nil, err
	}
	err = c.store.Write(ctx, func(tx *store.Tx) error {
		if err := checkReferences(tx, &created); err != nil {
			return err
		}
		if err := tx.CreateNode(&created); err != nil {
			return err
		}
		return tx.ClaimBMC(created.ID, bmcClaims(created.DriverInfo))
	})
	if err != nil {
		return nil, err
	}
	return &created, nil
}

// UpdateNode changes a node. It waits for at most LockWait while the node is under
// work. Requests for the same node follow one another and all take effect.
func (c *Conductor) UpdateNode(ctx context.Context, ident string, change func(*node.Node) error) (*node.Node, error) {
	var updated node.Node
	err := c.whenFree(ctx, func() error {
		return c.store.Write(ctx, func(tx *store.Tx) error {
			before, err := changeable(tx, ident)
			if err != nil {
				return err
			}
			updated = *before
			if err := change(&updated); err != nil {
				return err
			}
			if updated.Provisional && node.Accepts(before, &updated) {
				if err := c.acceptNode(tx, &updated); err != nil {
					return err
				}
			}
			return c.storeUpdate(tx, before, &updated)
		})
	})
	if err != nil {
		return nil, err
	}
	return &updated, nil
}

// storeUpdate stores a client's change and what follows from it.
func (c *Conductor) storeUpdate(tx *store.Tx, before, after *node.Node) (err error) {
	if before.Driver != after.Driver || before.Interfaces != after.Interfaces {
		if after.Interfaces, err = c.drivers.InterfacesOf(after); err != nil {
			return err
		}
	}
	if err := c.checkSameMachine(tx, before, after); err != nil {
		return err
	}
	if err := checkSameInspection(before, after); err != nil {
		return err
	}
	if before.ParentNode != after.ParentNode || before.ChassisUUID != after.ChassisUUID {
		if err := checkReferences(tx, after); err != nil {
			return err
		}
	}
	if before.InstanceUUID != "" && after.InstanceUUID == "" {
		if err := endAllocation(tx, after); err != nil {
			return err
		}
	}
	if err := tx.UpdateNode(before, after); err != nil {
		return err
	}
	if before.DriverInfo.String() == after.DriverInfo.String() {
		return nil
	}
	return tx.ClaimBMC(after.ID, bmcClaims(after.DriverInfo))
}

// checkSameMachine refuses a change of driver_info after which work would go on with another
// machine. New credentials for the same machine are allowed.
func (c *Conductor) checkSameMachine(tx *store.Tx, before, after *node.Node) error {
	if c.drivers.SameMachine(before, after) {
		return nil
	}
	if class := before.ProvisionState.Class(); class == node.Waiting || class == node.Held || before.Lease.Suspended() {
		return node.Conflict("The machine of node %s cannot be changed in state %q: its work goes on with the BMC and the system that it began with. "+
			"Wait until the node is in a stable state, or abort the work, before you change their address in driver_info.", before.UUID, before.ProvisionState)
	}
	works, err := tx.WorkOf(before.ID)
	if err == nil && len(works) > 0 { // it is to be tried again
		err = c.underWay(before)
	}
	return err
}

// checkSameInspection refuses a change of the interfaces that inspect the machine and boot its
// ramdisk while that goes on: inspection through a BMC cannot end an inspection by a ramdisk, and
// another boot interface cannot withdraw the ramdisk.
func checkSameInspection(before, after *node.Node) error {
	if !inspected(before.ProvisionState) {
		return nil
	}
	for _, kind := range []node.InterfaceKind{node.InspectInterface, node.BootInterface} {
		if before.Interfaces[kind] != after.Interfaces[kind] {
			return node.Conflict("The %s interface of node %s cannot be changed from %q in state %q: its inspection goes on with the one that it began with. "+
				"Wait until the inspection has ended, or abort it in \"inspect wait\".", kind, before.UUID, before.Interfaces[kind], before.ProvisionState)
		}
	}
	return nil
}

// SetMaintenance puts a node into maintenance or ends it.
func (c *Conductor) SetMaintenance(ctx context.Context, ident string, on bool, reason string) error {
	_, err := c.UpdateNode(ctx, ident, func(n *node.Node) error {
		n.Maintenance, n.MaintenanceReason, n.Fault = on, "", ""
		if on {
			n.MaintenanceReason = reason
		}
		return nil
	})
	return err
}

// DeleteNode deletes a node and everything that belongs to it. Its children become
// nodes without a parent: lists hide children, so nobody would find them otherwise.
func (c *Conductor) DeleteNode(ctx context.Context, ident string) error {
	discovered := false
	var id int64
	err := c.whenFree(ctx, func() error {
		return c.store.Write(ctx, func(tx *store.Tx) error {
			n, err := tx.NodeToDelete(ident)
			if err != nil {
				return err
			}
			if err := c.checkRemovable(tx, n); err != nil {
				return err
			}
			if err := deletable(n); err != nil {
				return err
			}
			discovered, id = n.AutoDiscovered, n.ID
			return tx.DeleteNode(n)
		})
	})
	if err != nil {
		return err
	}
	c.trims.clear(id)
	c.wakeGarbage()
	if discovered {
		c.discovered.markStale()
	}
	return nil
}

// checkRemovable refuses to delete a node when that would break off its work. Suspended work is
// deleted with its node. Work that only a newer version can do protects its node, too, except in
// maintenance, because there may be no newer version any more.
func (c *Conductor) checkRemovable(tx *store.Tx, n *node.Node) error {
	if n.Lease.Suspended() && !n.Lease.Busy(tx.Now()) {
		return nil
	}
	err := c.checkIdle(tx, n)
	if err == nil || !n.Maintenance || n.Lease.InForce(tx.Now()) {
		return err
	}
	whole, failed := tx.NodeByID(n.ID)
	if failed != nil {
		return failed
	}
	works, failed := tx.WorkOf(n.ID)
	if failed != nil {
		return failed
	}
	if slices.ContainsFunc(works, func(w *store.Work) bool { return !c.runner.Knows(w, whole) }) {
		return nil
	}
	return err
}

// deletableStates are the states in which a node may be deleted without maintenance.
var deletableStates = []node.State{node.Enroll, node.Manageable, node.AdoptFailed, node.Available}

func deletable(n *node.Node) error {
	switch {
	case n.Protected:
		return &node.ForbiddenError{Reason: "Node " + n.UUID + " is protected: clear its protected flag before you delete it."}
	case n.InstanceUUID != "" && !n.Maintenance:
		return node.Conflict("Node %s is associated with instance %s.", n.UUID, n.InstanceUUID)
	case !n.Maintenance && !slices.Contains(deletableStates, n.ProvisionState):
		return node.Conflict("Can not delete node %q while it is in provision state %q: bring it to \"manageable\" or \"available\", or set maintenance first.", n.UUID, n.ProvisionState)
	}
	return nil
}

// unleased returns a node that is not under a lease and whose work is not suspended. For other
// nodes it returns a *node.LockedError or a *node.SuspendedError.
func unleased(tx *store.Tx, ident string) (*node.Node, error) {
	n, err := tx.Node(ident)
	if err != nil {
		return nil, err
	}
	return n, checkUnleased(tx, n)
}

func checkUnleased(tx *store.Tx, n *node.Node) error {
	if n.Lease.Suspended() || n.Lease.InForce(tx.Now()) {
		return n.Locked()
	}
	return nil
}

// changeable returns a node that is not under a lease, and a *node.LockedError for other nodes.
// Work of the node may be suspended: changes of the stored node alone do not interfere with
// suspended work.
func changeable(tx *store.Tx, ident string) (*node.Node, error) {
	n, err := tx.Node(ident)
	if err != nil {
		return nil, err
	}
	return n, checkChangeable(tx, n)
}

func checkChangeable(tx *store.Tx, n *node.Node) error {
	if n.Lease.Suspended() {
		return nil
	}
	return checkUnleased(tx, n)
}

// idle returns a node without a lease and without work, and an error for other nodes. It is for
// requests that must not interfere with work. Checking the lease does not suffice, because work has
// no lease while it waits for long or is to be tried again.
func (c *Conductor) idle(tx *store.Tx, ident string) (*node.Node, error) {
	n, err := tx.Node(ident)
	if err != nil {
		return nil, err
	}
	if err := c.checkIdle(tx, n); err != nil {
		return nil, err
	}
	return n, c.refuseDuringOtherWork(tx, n)
}

// checkIdle refuses a node with a lease or with work that changes its state.
func (c *Conductor) checkIdle(tx *store.Tx, n *node.Node) error {
	err := checkUnleased(tx, n)
	if err == nil && n.ProvisionState.Class() == node.Working {
		err = c.underWay(n)
	}
	return err
}

// underWay returns the refusal of a request to a node whose work has no lease now, because it waits
// for long or is to be tried again.
func (c *Conductor) underWay(n *node.Node) error {
	return finalLockError{&node.LockedError{Node: n.UUID, Holder: c.cfg.Hostname}}
}

// checkReferences refuses a chassis or a parent that does not exist, and a parent that
// is a descendant of the node. The parent is stored by its UUID, because names change.
func checkReferences(tx *store.Tx, n *node.Node) error {
	if err := checkChassis(tx, n); err != nil || n.ParentNode == "" {
		return err
	}
	ancestor, err := tx.Node(n.ParentNode)
	if errors.Is(err, node.ErrNotFound) {
		return node.Invalid("Parent node %s could not be found.", n.ParentNode)
	}
	if err != nil {
		return err
	}
	n.ParentNode = ancestor.UUID
	for ancestor.UUID != n.UUID {
		ancestor, err = tx.Node(ancestor.ParentNode)
		switch {
		case errors.Is(err, node.ErrNotFound): // the chain of parents ends here
			return nil
		case err != nil:
			return err
		}
	}
	return node.Invalid("Node %s can not be its own parent, directly or through others.", n.UUID)
}

func bmcClaims(info node.Object) []store.Claim {
	var claims []store.Claim
	for _, address := range inspect.BMCAddresses(info) {
		claims = append(claims, store.Claim{Kind: store.BMC, Address: address.String()})
	}
	return claims
}
