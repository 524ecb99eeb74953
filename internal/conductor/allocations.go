package conductor

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// allocationPatience is how long an allocation waits for suitable nodes that are
// under work before it fails.
const allocationPatience = time.Minute

// allocationRetry is how long such an allocation waits between two tries.
const allocationRetry = time.Second

// Allocations serves the allocations. A new one waits in state allocating, which
// is what any conductor takes as work; one that names its node gets it at once.
func (c *Conductor) Allocations() node.Collection[node.Allocation] {
	return collection[node.Allocation]{c: c, kind: store.Allocations, rules: rules[node.Allocation]{
		created: createdAllocation,
		deleted: deletedAllocation,
		stored:  func(*node.Allocation) { c.wakeAllocator() },
	}}
}

func createdAllocation(tx *store.Tx, a *node.Allocation) error {
	if a.NodeUUID != "" {
		return backfill(tx, a)
	}
	candidates := a.CandidateNodes.List()
	for i, ident := range candidates {
		n, err := ownerOf(tx, ident)
		if err != nil {
			return err
		}
		candidates[i] = n.UUID
	}
	a.CandidateNodes, a.State = node.WordsOf(candidates...), node.Allocating
	return nil
}

// backfill makes an allocation for the node that it names and that runs an
// instance already, or will.
func backfill(tx *store.Tx, a *node.Allocation) error {
	if _, err := ownerOf(tx, a.NodeUUID); err != nil {
		return err
	}
	n, err := unleased(tx, a.NodeUUID)
	if err != nil {
		return err
	}
	if a.ResourceClass == "" {
		a.ResourceClass = n.ResourceClass
	}
	if a.UUID == "" {
		a.UUID = n.InstanceUUID
	}
	if a.UUID == "" {
		a.UUID = uuid.NewString()
	}
	switch {
	case n.AllocationUUID != "":
		return node.Conflict("Node %s belongs to allocation %s already.", n.UUID, n.AllocationUUID)
	case n.InstanceUUID != "" && n.InstanceUUID != a.UUID:
		return node.Conflict("Node %s is associated with instance %s, which is not allocation %s.", n.UUID, n.InstanceUUID, a.UUID)
	case !a.Accepts(n):
		return node.Conflict("Node %s does not have what the allocation asks for: resource class %q, traits %q.",
			n.UUID, a.ResourceClass, a.Traits.List())
	}
	return assign(tx, a, n)
}

// assign gives a node to an allocation, both of which the caller stores or has
// stored.
func assign(tx *store.Tx, a *node.Allocation, n *node.Node) error {
	a.NodeID, a.NodeUUID, a.State, a.LastError = n.ID, n.UUID, node.AllocationActive, ""
	after := *n
	after.InstanceUUID, after.AllocationUUID = a.UUID, a.UUID
	if a.Traits != "" {
		after.InstanceInfo = n.InstanceInfo.With(map[string]any{"traits": a.Traits.List()})
	}
	return tx.UpdateNode(n, &after)
}

// deletedAllocation gives the node of an allocation back. While the engine works
// on it that is a conflict, unless it is in maintenance.
func deletedAllocation(tx *store.Tx, a *node.Allocation) error {
	if a.NodeID == 0 {
		return nil
	}
	n, err := unleased(tx, a.NodeUUID)
	if err != nil {
		return err
	}
	switch {
	case n.Maintenance:
	case busy(n):
		return node.Conflict("Allocation %s cannot be removed while node %s is in state %q: wait until it is done, or set maintenance.",
			a.UUID, n.UUID, n.ProvisionState)
	case n.ProvisionState == node.Active:
		return node.Conflict("Allocation %s cannot be removed while node %s is active: undeploy the node, or set maintenance.", a.UUID, n.UUID)
	}
	after := *n
	after.AllocationUUID = ""
	if after.InstanceUUID == a.UUID {
		after.InstanceUUID = ""
	}
	after.InstanceInfo = n.InstanceInfo.Without("traits")
	return tx.UpdateNode(n, &after)
}

// busy reports whether a provision verb is under way.
func busy(n *node.Node) bool {
	class := n.ProvisionState.Class()
	return n.TargetProvisionState != "" && class != node.Stable && class != node.Failed
}

// endAllocation removes the allocation of a node whose instance has gone, as
// part of the transaction that ends it.
func endAllocation(tx *store.Tx, n *node.Node) error {
	if n.AllocationUUID == "" {
		return nil
	}
	a, err := store.Allocations.Get(tx, n.AllocationUUID)
	n.AllocationUUID = ""
	if isNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return store.Allocations.Delete(tx, a)
}

func (c *Conductor) wakeAllocator() {
	select {
	case c.allocate <- struct{}{}:
	default:
	}
}

// allocateLoop looks for nodes for allocations that wait: new ones at once, and
// those of a conductor that is gone after a while.
func (c *Conductor) allocateLoop(ctx context.Context) {
	for {
		wait, err := c.allocateAll(ctx)
		if err != nil && ctx.Err() == nil {
			c.log.Error("Allocations could not be served", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-c.allocate:
		case <-time.After(wait):
		}
	}
}

// allocateAll serves every waiting allocation once, the oldest first, and
// returns when to look again.
func (c *Conductor) allocateAll(ctx context.Context) (time.Duration, error) {
	var waiting []*node.Allocation
	err := c.store.Read(ctx, func(tx *store.Tx) (err error) {
		waiting, err = store.Allocations.List(tx, node.Query{Filters: []node.Filter{{Field: "state", Value: string(node.Allocating)}}})
		return err
	})
	wait := idlePoll
	for _, a := range waiting {
		again, failed := c.allocateOne(ctx, a.UUID)
		if again {
			wait = allocationRetry
		}
		err = errors.Join(err, failed)
	}
	return wait, err
}

// allocateOne finds a node for one allocation, or fails it; again is true when
// it still waits.
func (c *Conductor) allocateOne(ctx context.Context, uuid string) (again bool, err error) {
	err = c.store.Write(ctx, func(tx *store.Tx) error {
		again = false
		before, err := store.Allocations.Get(tx, uuid)
		if isNotFound(err) {
			return nil // deleted meanwhile
		}
		if err != nil || before.State != node.Allocating {
			return err
		}
		nodes, err := tx.Nodes(node.Query{Filters: []node.Filter{
			{Field: "resource_class", Value: before.ResourceClass},
			{Field: "provision_state", Value: string(node.Available)},
			{Field: "instance_uuid", Op: node.IsSet, Value: false},
			{Field: "maintenance", Value: false},
		}})
		if err != nil {
			return err
		}
		// Spread the wear, and let replicas choose different ones.
		rand.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] }) //nolint:gosec // nobody gains by a guess
		after := *before
		chosen, retry, reason := before.Choose(nodes, tx.Now())
		switch {
		case chosen != nil:
			err := assign(tx, &after, chosen)
			var taken *node.ConflictError // its UUID is the instance of another node
			if errors.As(err, &taken) {
				after = *before
				after.State, after.LastError = node.AllocationError, taken.Reason
			} else if err != nil {
				return err
			}
		case retry && tx.Now().Sub(before.CreatedAt) < allocationPatience:
			again = true
			return nil
		default:
			after.State, after.LastError = node.AllocationError, reason
		}
		return store.Allocations.Update(tx, before, &after)
	})
	return again, err
}
