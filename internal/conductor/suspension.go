package conductor

import (
	"context"
	"fmt"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// Suspension returns the suspension with its Nodes and Differing set.
func (c *Conductor) Suspension(ctx context.Context) (node.Suspension, error) {
	var suspension node.Suspension
	err := c.store.Read(ctx, func(tx *store.Tx) (err error) {
		if suspension, err = tx.Suspension(); err == nil {
			suspension.Nodes, suspension.Differing, err = tx.CountSuspended()
		}
		return err
	})
	return suspension, err
}

// SuspendedNodes returns, for each node, what waits for a person.
func (c *Conductor) SuspendedNodes(ctx context.Context) ([]*node.SuspendedNode, error) {
	var nodes []*node.SuspendedNode
	err := c.store.Read(ctx, func(tx *store.Tx) (err error) {
		nodes, err = tx.SuspendedNodes()
		return err
	})
	return nodes, err
}

// countUse notes that this conductor uses the database. If the database turns out to be a copy of
// an older state, the same commit suspends the work in it.
func (c *Conductor) countUse(tx *store.Tx) (copied bool, err error) {
	found, err := tx.CountUse()
	if err != nil || found == nil {
		return false, err
	}
	_, err = c.suspend(tx, node.Restored, found.How)
	return true, err
}

// suspend suspends all work that is not running, and writes that into the history. It does nothing,
// and began is false, if a suspension is in force already; see store.Tx.Suspend for the exception.
func (c *Conductor) suspend(tx *store.Tx, reason node.SuspensionReason, detail string) (began bool, err error) {
	suspended, began, err := tx.Suspend(reason, detail)
	if err != nil || !began {
		return false, err
	}
	for _, w := range suspended {
		message := fmt.Sprintf("The work %q is suspended until a person lets it go on: %s.", w.Kind, suspensionText(reason, detail))
		if err := c.addEvent(tx, &node.Event{NodeID: w.NodeID, Severity: node.SeverityInfo, Type: "suspension", Message: message}); err != nil {
			return false, err
		}
	}
	return true, nil
}

// suspensionText returns why work is suspended, as a clause without a period.
func suspensionText(reason node.SuspensionReason, detail string) string {
	if reason == node.Restored {
		return "the database is a copy of an older state, because " + detail
	}
	return detail
}

// followSuspension logs a suspension once. Began says that it began while this conductor ran. If
// the configuration says so, followSuspension then ends the suspension of a restored database.
func (c *Conductor) followSuspension(ctx context.Context, began bool) error {
	suspension, err := c.Suspension(ctx)
	if err != nil || !suspension.InForce() {
		return err
	}
	news := !suspension.Since.Equal(c.suspendedSince)
	c.suspendedSince = suspension.Since
	resume := suspension.Reason == node.Restored && c.cfg.ResumeAfterRestore
	switch {
	case !news:
	case resume:
		c.log.Warn("The database is a copy of an older state, its work goes on", "because", suspension.Detail, "nodes", suspension.Nodes)
	case began:
		c.log.Error("Work is suspended, and power states are not restored, until a person lets them go on: see ingot suspension",
			"reason", suspension.Reason, "detail", suspension.Detail, "nodes", suspension.Nodes)
	default:
		c.log.Warn("Work is still suspended", "reason", suspension.Reason, "detail", suspension.Detail, "since", suspension.Since, "nodes", suspension.Nodes)
	}
	if resume {
		return c.Resume(ctx, "")
	}
	return nil
}

// Resume ends a suspension: all suspended work goes on, and power states are restored
// again. The user may be empty.
func (c *Conductor) Resume(ctx context.Context, user string) error {
	var resumed []*store.Work
	was := false
	err := c.store.Write(ctx, func(tx *store.Tx) error {
		suspension, err := tx.Suspension()
		if was = suspension.InForce(); err != nil || !was {
			return err
		}
		if resumed, err = tx.SuspendedWork(); err != nil {
			return err
		}
		for _, w := range resumed {
			if err := c.resumeWork(tx, w, user); err != nil {
				return err
			}
		}
		return tx.EndSuspension()
	})
	if err != nil || !was {
		return err
	}
	c.log.Info("Suspended work goes on", "work", len(resumed), "user", user)
	c.runner.WakeClaim()
	c.wakeAllocator()
	return nil
}

// resumeWork prepares a piece of suspended work to go on once its lease ends.
func (c *Conductor) resumeWork(tx *store.Tx, w *store.Work, user string) (err error) {
	if w.Checkpoint, err = runner.Doubt(w.Checkpoint, tx.Now()); err != nil {
		return err
	}
	if err := tx.CheckpointWork(w); err != nil {
		return err
	}
	return c.addEvent(tx, &node.Event{
		NodeID: w.NodeID, Severity: node.SeverityInfo, Type: "suspension", User: user,
		Message: fmt.Sprintf("The suspended work %q goes on; the machine is asked before anything is done to it.", w.Kind),
	})
}

// ResumeNode lets the suspended work of one node go on.
func (c *Conductor) ResumeNode(ctx context.Context, ident, user string) error {
	return c.endSuspended(ctx, ident, user, func(tx *store.Tx, works []*store.Work, n *node.Node) error {
		if n.ProvisionState.Class() == node.Waiting {
			n.ProvisionUpdatedAt = tx.Now()
		}
		for _, w := range works {
			if err := c.resumeWork(tx, w, user); err != nil {
				return err
			}
		}
		return nil
	})
}

// DropSuspended makes the suspended work of one node fail. Nothing is done to its
// machine, but the engine no longer serves the ramdisk that the work was for.
func (c *Conductor) DropSuspended(ctx context.Context, ident, user string) error {
	return c.endSuspended(ctx, ident, user, func(tx *store.Tx, works []*store.Work, n *node.Node) error {
		for _, w := range works {
			if err := c.dropSuspended(tx, w, n); err != nil {
				return err
			}
		}
		return nil
	})
}

// endSuspended ends the suspension of one node's work. End decides what becomes of that work.
func (c *Conductor) endSuspended(ctx context.Context, ident, user string, end func(*store.Tx, []*store.Work, *node.Node) error) error {
	var uuid string
	err := c.store.Write(ctx, func(tx *store.Tx) error {
		before, err := tx.Node(ident)
		if err != nil {
			return err
		}
		if uuid = before.UUID; !before.Lease.Suspended() {
			return node.Conflict("Node %s has no suspended work.", uuid)
		}
		works, err := tx.WorkOf(before.ID)
		if err != nil {
			return err
		}
		after := *before
		if err := end(tx, works, &after); err != nil {
			return err
		}
		if err := tx.UpdateNode(before, &after); err != nil {
			return err
		}
		return tx.EndLeaseKeepBusy(before.Lease)
	})
	if err != nil {
		return err
	}
	c.log.Info("A person has decided on suspended work", "node", uuid, "user", user)
	c.runner.WakeClaim()
	return nil
}

// dropSuspended writes into the node that a piece of its work has failed, and withdraws the ramdisk
// that was served for that work. It refuses work of a newer version of the engine, because only
// that version knows what has to be done at the end of the work.
func (c *Conductor) dropSuspended(tx *store.Tx, w *store.Work, n *node.Node) error {
	script, known := c.scripts[w.Kind]
	if !known {
		return node.Conflict("The suspended work %q on node %s is of a newer version of the engine: give it up there.", w.Kind, n.UUID)
	}
	if err := tx.FinishWork(w); err != nil {
		return err
	}
	reason := fmt.Sprintf("The suspended work %q on node %s was given up by request. Nothing was done to the machine: see in which state it is.", w.Kind, n.UUID)
	if boot, served := node.RamdiskBootOf(n); (script.DrivesState || w.Kind == workCleanUp) && served && !boot.Instance {
		node.WithdrawRamdiskBoot(n)
	}
	if script.DrivesState && n.ProvisionState.Class() == node.Held {
		// Only a person leads a node out of the hold state.
		if err := c.Move(tx, n, node.OnUnhold); err != nil {
			return err
		}
	}
	if script.Failed != nil {
		reason = script.Failed(n, reason)
	}
	return c.Failed(tx, w, n, reason)
}
