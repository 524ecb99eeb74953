package powersync

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// apply acts on the result of a reading, and returns the time until the node's next reading.
func (s *Syncer) apply(ctx context.Context, e *entry, n *node.Node, observed node.PowerState, failure error) (time.Duration, error) {
	if errors.Is(failure, errBusy) {
		return nextDue(s.cfg.Interval/4, false, e.spread()), nil
	}
	failures, first := s.count(e, failure != nil)
	if failure != nil {
		due := retryDue(s.cfg.Interval, failures, e.spread())
		if failures < s.cfg.Tries {
			return due, nil
		}
		return due, s.markFailure(ctx, n, failures, failure)
	}
	due := nextDue(s.cfg.Interval, first, e.spread())
	what := decide(n, observed, s.cfg.Accept)
	if what != keep {
		if working, err := s.underWork(ctx, n); working || err != nil {
			return due, err
		}
	}
	if what == restore {
		return due, s.differs(ctx, e, n, observed)
	}
	s.setRestores(e, 0)
	if what == accept {
		if err := s.store(ctx, n, observed); err != nil {
			return due, err
		}
	}
	return due, s.noDifference(ctx, e)
}

// underWork reports whether work on the node is running or waits for another try, so that the
// machine may be in an intermediate state. Suspended work does not count, because it does nothing
// to the machine.
func (s *Syncer) underWork(ctx context.Context, n *node.Node) (working bool, err error) {
	err = s.db.Read(ctx, func(tx *store.Tx) error {
		now, err := tx.NodeByID(n.ID)
		if err != nil || now.Lease.Suspended() {
			return err
		}
		works, err := tx.WorkOf(n.ID)
		working = len(works) > 0
		return err
	})
	return working, err
}

// ifUntouched changes a node if nobody works on it and it has not changed since its machine was
// read. Suspended work does not prevent the change.
func (s *Syncer) ifUntouched(ctx context.Context, n *node.Node, change func(*store.Tx, *node.Node) error) error {
	return s.db.Write(ctx, func(tx *store.Tx) error {
		before, err := tx.NodeByID(n.ID)
		if err != nil {
			return err
		}
		if before.Lease.InForce(tx.Now()) && (!before.Lease.Suspended() || before.Lease.Busy(tx.Now())) || before.PowerState != n.PowerState || before.Fault != n.Fault || !sameMachine(before, n) {
			return nil
		}
		after := *before
		if err := change(tx, &after); err != nil {
			return err
		}
		return tx.UpdateNode(before, &after)
	})
}

// ifSynced is ifUntouched, but does nothing when the node's power is no longer synchronized.
func (s *Syncer) ifSynced(ctx context.Context, n *node.Node, change func(*store.Tx, *node.Node) error) error {
	return s.ifUntouched(ctx, n, func(tx *store.Tx, after *node.Node) error {
		if !synced(after) {
			return nil
		}
		return change(tx, after)
	})
}

// store stores the observed power state in the node.
func (s *Syncer) store(ctx context.Context, n *node.Node, observed node.PowerState) error {
	return s.ifSynced(ctx, n, func(tx *store.Tx, after *node.Node) error {
		after.PowerState = observed
		return s.owner.Record(tx, after, node.SeverityInfo, fmt.Sprintf("The machine was found in %q, which is kept.", observed))
	})
}

// restore has the node's power state restored on the machine. During a suspension it restores
// nothing and only notes why, once, in the database and in the node's history. It gives up on a
// machine that changes its power state again and again.
func (s *Syncer) restore(ctx context.Context, e *entry, n *node.Node, observed node.PowerState) error {
	var begin func()
	before := s.restoresOf(e)
	err := s.ifSynced(ctx, n, func(tx *store.Tx, after *node.Node) error {
		begin = nil
		suspension, err := tx.Suspension()
		if err != nil {
			return err
		}
		if suspension.InForce() {
			return s.noteDifference(tx, after, observed, suspension)
		}
		if restored, err := tx.WasRestored(); restored || err != nil {
			return err // the machine is read again
		}
		if works, err := tx.WorkOf(after.ID); len(works) > 0 || err != nil {
			return err // stored since the machine was read
		}
		if before >= s.cfg.Tries {
			return s.stopRestoring(tx, after, observed, before)
		}
		after.TargetPowerState = after.PowerState
		if begin, err = s.owner.Restore(tx, after); err != nil {
			return err
		}
		return s.owner.Record(tx, after, node.SeverityInfo,
			fmt.Sprintf("The machine was found in %q although nobody asked the engine for it; %q is being restored.", observed, n.PowerState))
	})
	if err == nil && begin != nil {
		s.setRestores(e, before+1)
		begin()
	}
	return err
}

// stopRestoring puts a node into maintenance because its machine does not stay in the power state
// of the node. The node takes the power state of the machine.
func (s *Syncer) stopRestoring(tx *store.Tx, n *node.Node, observed node.PowerState, times int) error {
	reason := fmt.Sprintf("The power state %q of node %s was restored %d times in a row, and its machine was found in %q each time: see what is wrong with the machine, "+
		"then request the power state that you want.", n.PowerState, n.UUID, times, observed)
	n.PowerState = observed
	n.Maintenance, n.Fault, n.MaintenanceReason, n.LastError = true, node.FaultPowerFailure, reason, reason
	return s.owner.Record(tx, n, node.SeverityError, reason)
}

// noteDifference records why the power state of a node is not restored.
func (s *Syncer) noteDifference(tx *store.Tx, n *node.Node, observed node.PowerState, suspension node.Suspension) error {
	news, err := tx.NotePowerDifference(n.ID, observed)
	if err != nil || !news {
		return err
	}
	because := suspension.Detail
	if suspension.Reason == node.Restored {
		because = "the database is a copy of an older state"
	}
	return s.owner.Record(tx, n, node.SeverityInfo,
		fmt.Sprintf("The machine was found in %q, not in %q; nothing was done because %s. Power states are not restored until a person lets it go on.", observed, n.PowerState, because))
}

// markFailure puts a node into maintenance because its power state cannot be read.
func (s *Syncer) markFailure(ctx context.Context, n *node.Node, failures int, cause error) error {
	return s.ifSynced(ctx, n, func(tx *store.Tx, after *node.Node) error {
		reason := node.CutText(fmt.Sprintf("The power state of node %s could not be read %d times: %v", n.UUID, failures, cause))
		after.PowerState = node.PowerError
		after.Maintenance, after.Fault, after.MaintenanceReason, after.LastError = true, node.FaultPowerFailure, reason, reason
		return s.owner.Record(tx, after, node.SeverityError, reason)
	})
}

// recoverNode ends the maintenance of a node whose BMC answers again.
func (s *Syncer) recoverNode(ctx context.Context, e *entry, n *node.Node, observed node.PowerState, failure error) (time.Duration, error) {
	due := nextDue(s.cfg.Recovery, false, e.spread())
	if errors.Is(failure, errBusy) {
		return nextDue(s.cfg.Recovery/4, false, e.spread()), nil
	}
	if failure != nil { // the node has its fault because of such failures
		return due, nil
	}
	s.count(e, false)
	return due, s.ifUntouched(ctx, n, func(tx *store.Tx, after *node.Node) error {
		if after.Fault != node.FaultPowerFailure {
			return nil
		}
		after.PowerState = observed
		after.Maintenance, after.Fault, after.MaintenanceReason, after.LastError = false, "", "", ""
		return s.owner.Record(tx, after, node.SeverityInfo, "The power state can be read; maintenance is over.")
	})
}
