package conductor

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// longestAllocation is how long an allocation waits, when all suitable nodes are
// under work, before it fails.
const longestAllocation = time.Minute

// allocationRetry is the time between two attempts for an allocation that still waits.
const allocationRetry = time.Second

// allocatePoll is the longest pause of allocateLoop. Other conductors may leave allocations
// behind, which wake nobody.
const allocatePoll = 2 * time.Second

// Allocations serves the allocations. A new one waits in state allocating until any
// conductor finds a node for it; one that names its node gets it at once.
func (c *Conductor) Allocations() node.Collection[node.Allocation] {
	return collection[node.Allocation]{c: c, kind: store.Allocations, rules: rules[node.Allocation]{
		created: c.createdAllocation,
		deleted: deletedAllocation,
		stored:  func(*node.Allocation) { c.wakeAllocator() },
	}}
}

func (c *Conductor) createdAllocation(tx *store.Tx, a *node.Allocation) error {
	if err := findCandidates(tx, a); err != nil {
		return err
	}
	if a.NodeUUID != "" {
		return c.backfill(tx, a)
	}
	a.State = node.Allocating
	return nil
}

// findCandidates replaces the names of candidate nodes by their UUIDs. An unknown candidate
// is a *node.ValidationError.
func findCandidates(tx *store.Tx, a *node.Allocation) error {
	candidates := a.CandidateNodes.List()
	for i, ident := range candidates {
		n, err := ownerOf(tx, ident)
		if err != nil {
			return err
		}
		candidates[i] = n.UUID
	}
	a.CandidateNodes = node.WordsInOrder(candidates...)
	return nil
}

// backfill gives a new allocation the node that it names, which must run an instance
// already. A node without an instance cannot be named: the allocation chooses among all
// available nodes, or among its candidates.
func (c *Conductor) backfill(tx *store.Tx, a *node.Allocation) error {
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
		a.UUID = store.NewUUID()
	}
	switch {
	case n.AllocationUUID != "":
		return node.Conflict("Node %s belongs to allocation %s already.", n.UUID, n.AllocationUUID)
	case n.InstanceUUID != "" && n.InstanceUUID != a.UUID:
		return node.Conflict("Node %s is associated with instance %s, which is not allocation %s.", n.UUID, n.InstanceUUID, a.UUID)
	case n.ProvisionState != node.Active:
		return node.Conflict("Node %s is in state %q; an allocation can name only an active node. For another one, leave out node and name it in candidate_nodes.",
			n.UUID, n.ProvisionState)
	case a.CandidateNodes != "" && !a.CandidateNodes.Has(n.UUID):
		return node.Conflict("Node %s is not among the candidate_nodes of its allocation; add it to them, or leave them out.", n.UUID)
	case !a.Accepts(n):
		return node.Conflict("Node %s does not have what the allocation asks for: resource class %q, traits %q.",
			n.UUID, a.ResourceClass, a.Traits.List())
	}
	return c.assign(tx, a, n)
}

// instanceTraits is the key of instance_info for the traits that an instance asks for,
// which choose deploy templates.
const instanceTraits = "traits"

// assign gives a node to an allocation. A discovered node is accepted by that, see
// acceptNode. The traits of the allocation replace those of an earlier instance, even when
// the allocation has none. The caller stores the allocation.
func (c *Conductor) assign(tx *store.Tx, a *node.Allocation, n *node.Node) error {
	a.NodeID, a.NodeUUID, a.State, a.LastError = n.ID, n.UUID, node.AllocationActive, ""
	after := *n
	after.InstanceUUID, after.AllocationUUID = a.UUID, a.UUID
	if err := c.acceptNode(tx, &after); err != nil {
		return err
	}
	after.InstanceInfo = n.InstanceInfo.With(map[string]any{instanceTraits: append([]string{}, a.Traits.List()...)})
	return tx.UpdateNode(n, &after)
}

// deletedAllocation releases the node of an allocation that is deleted. It returns a
// *node.ConflictError while the node is active or a verb is in progress on it, unless the
// node is in maintenance.
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
	after.InstanceInfo = n.InstanceInfo.Without(instanceTraits)
	return tx.UpdateNode(n, &after)
}

// busy reports whether a provision verb is in progress.
func busy(n *node.Node) bool {
	class := n.ProvisionState.Class()
	return n.TargetProvisionState != "" && class != node.Stable && class != node.Failed
}

// endAllocation removes the allocation of a node whose instance ends, and the traits that
// the node got from it, in the same transaction.
func endAllocation(tx *store.Tx, n *node.Node) error {
	if n.AllocationUUID == "" {
		return nil
	}
	a, err := store.Allocations.Get(tx, n.AllocationUUID)
	n.AllocationUUID, n.InstanceInfo = "", n.InstanceInfo.Without(instanceTraits)
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

// allocateLoop finds nodes for waiting allocations until ctx ends. It serves a new allocation
// of this conductor at once, and one that another conductor left behind after allocatePoll at
// most.
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

// allocateAll tries every waiting allocation once, the oldest first, and returns how long
// to wait before the next try. It leaves out the allocations that a restored database came
// with, because they are suspended.
func (c *Conductor) allocateAll(ctx context.Context) (time.Duration, error) {
	var waiting []*node.Allocation
	err := c.store.Read(ctx, func(tx *store.Tx) (err error) {
		waiting, err = store.Allocations.List(tx, node.Query{Filters: []node.Filter{{Field: "state", Value: string(node.Allocating)}}})
		if err != nil || len(waiting) == 0 {
			return err
		}
		suspension, err := tx.Suspension()
		waiting = slices.DeleteFunc(waiting, func(a *node.Allocation) bool {
			return suspension.Reason == node.Restored && !a.CreatedAt.After(suspension.Since)
		})
		return err
	})
	wait := allocatePoll
	for _, a := range waiting {
		again, failed := c.allocateOne(ctx, a.UUID)
		if again {
			wait = allocationRetry
		}
		err = errors.Join(err, failed)
	}
	return wait, err
}

// candidates is how many nodes an allocation tries before it waits.
const candidates = 10

// allocateOne gives a node to one allocation, or makes the allocation fail. again is true
// when it still waits. The search for nodes runs in a read transaction.
func (c *Conductor) allocateOne(ctx context.Context, uuid string) (again bool, err error) {
	var found []*node.Node
	err = c.store.Read(ctx, func(tx *store.Tx) error {
		a, err := store.Allocations.Get(tx, uuid)
		if err == nil {
			found, err = tx.AllocationCandidates(a, candidates)
		}
		return err
	})
	switch {
	case isNotFound(err):
		return false, nil // deleted meanwhile
	case err != nil:
		return false, err
	case len(found) == 0:
		return c.allocateFrom(ctx, uuid, nil)
	}
	for _, n := range found {
		if again, err = c.allocateFrom(ctx, uuid, n); !again || err != nil {
			return again, err
		}
	}
	return again, nil
}

// allocateFrom gives an allocation the node that was found for it, if the node still fits.
// again is true when it no longer fits, or is under work and the allocation may still wait,
// see longestAllocation. The allocation fails when found is nil, when it has waited too long,
// or when its UUID is the instance of another node.
func (c *Conductor) allocateFrom(ctx context.Context, uuid string, found *node.Node) (again bool, err error) {
	err = c.store.Write(ctx, func(tx *store.Tx) error {
		again = false
		if restored, err := tx.WasRestored(); restored || err != nil {
			return err // the allocation is looked at again once that is noted
		}
		before, err := store.Allocations.Get(tx, uuid)
		if isNotFound(err) {
			return nil // deleted meanwhile
		}
		if err != nil || before.State != node.Allocating {
			return err
		}
		var nodes []*node.Node
		if found != nil {
			n, err := tx.NodeByID(found.ID)
			if err != nil && !isNotFound(err) {
				return err
			}
			if err == nil {
				nodes = append(nodes, n)
			}
		}
		after := *before
		chosen, locked, reason := before.Choose(nodes, tx.Now())
		switch {
		case chosen != nil:
			err := c.assign(tx, &after, chosen)
			var taken *node.ConflictError // the allocation's UUID is the instance of another node
			if errors.As(err, &taken) {
				after = *before
				after.State, after.LastError = node.AllocationError, taken.Reason
			} else if err != nil {
				return err
			}
		case found != nil && (!locked || tx.Now().Sub(before.CreatedAt) < longestAllocation):
			again = true
			return nil
		default:
			after.State, after.LastError = node.AllocationError, reason
		}
		return store.Allocations.Update(tx, before, &after)
	})
	return again, err
}
