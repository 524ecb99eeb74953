package conductor

import (
	"context"
	"errors"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// finish commits the outcome of a job: under its lease it applies change to a
// fresh copy of the node, removes the work and releases the lease. It returns
// node.ErrLeaseLost when the job is no longer ours.
func (c *Conductor) finish(ctx context.Context, j job, change func(*store.Tx, *node.Node) error) error {
	var before *node.Node
	var after node.Node
	err := c.store.Write(ctx, func(tx *store.Tx) (err error) {
		if before, err = tx.NodeByID(j.NodeID); err != nil {
			return err
		}
		if before.Lease.Epoch != j.Lease.Epoch || !before.Lease.Held(tx.Now()) {
			return node.ErrLeaseLost
		}
		after = *before
		for _, write := range j.found {
			write(&after)
		}
		if err := change(tx, &after); err != nil {
			return err
		}
		if err := c.recordArrival(tx, j, before, &after); err != nil {
			return err
		}
		if err := tx.UpdateNode(before, &after); err != nil {
			return err
		}
		if err := tx.FinishWork(j.Work); err != nil {
			return err
		}
		return tx.ReleaseLease(j.Lease)
	})
	if err == nil {
		c.logEnd(j, before, &after)
	}
	return err
}

// logEnd tells the log what work made of a node, when that is news.
func (c *Conductor) logEnd(j job, before, after *node.Node) {
	switch {
	case after.LastError != "" && after.LastError != before.LastError:
		c.log.Warn("Work failed for good", "node", after.UUID, "work", j.Kind, "state", after.ProvisionState, "err", after.LastError)
	case after.ProvisionState != before.ProvisionState:
		c.log.Info("Work done", "node", after.UUID, "work", j.Kind, "state", after.ProvisionState)
	}
}

// fail commits that a job failed for good: last_error and history say why, and a
// working state becomes its failed one. A state without a failed one, such as a
// discovered node's enroll, stays.
func (c *Conductor) fail(ctx context.Context, j job, reason string) error {
	reason = node.CutText(reason)
	err := c.finish(ctx, j, func(tx *store.Tx, n *node.Node) error { return c.fails(tx, j, n, reason) })
	if err == nil {
		j.end(WorkFailed)
	}
	return err
}

// fails writes a failure for good into the node.
func (c *Conductor) fails(tx *store.Tx, j job, n *node.Node, reason string) error {
	if work, ok := c.scripts[j.Kind]; !ok || work.course {
		if err := c.move(tx, n, node.OnFail); err != nil && !isTransition(err) {
			return err
		}
		endSteps(n)
	}
	n.LastError = reason
	return c.record(tx, n, node.SeverityError, eventType(j.Kind), reason)
}

// move applies a trigger to the node.
func (c *Conductor) move(tx *store.Tx, n *node.Node, on node.Trigger) error {
	state, target, err := n.Move(on)
	if err != nil {
		return err
	}
	ended := inspected(n.ProvisionState) && !inspected(state)
	n.ProvisionState, n.TargetProvisionState = state, target
	n.ProvisionUpdatedAt = tx.Now()
	if ended {
		return dropBMCAddresses(tx, n)
	}
	return nil
}

func isLocked(err error) bool { return errors.Is(err, node.ErrLocked) }

func isTransition(err error) bool {
	var transition *node.TransitionError
	return errors.As(err, &transition)
}
