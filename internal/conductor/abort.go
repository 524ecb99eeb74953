package conductor

import (
	"context"
	"fmt"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// abortedIntent is the key of the aborted work's kind in the intent of cleaning
// up behind it.
const abortedIntent = "aborted"

// abort ends what the node waits in. The state changes at once and the machine is
// left in order afterwards, by the work that is returned. A step that cannot be
// left half done ends first.
func (c *Conductor) abort(tx *store.Tx, n *node.Node) (*job, error) {
	if n.ProvisionState == node.ServiceFailed { // nothing runs: the instance is declared healthy
		return nil, c.move(tx, n, node.OnAbort)
	}
	for _, f := range flows {
		step, running := node.StepOf(*f.shown(n))
		if running && !step.Abortable && n.ProvisionState.Class() == node.Waiting {
			step.AbortAfter = true
			*f.shown(n) = step.Object()
			return nil, nil
		}
	}
	works, err := tx.WorkOf(n.ID)
	if err != nil {
		return nil, err
	}
	aborted, before := store.WorkKind(""), n.ProvisionState
	for _, w := range works {
		if c.scripts[w.Kind].course {
			aborted = w.Kind
			if err := tx.FinishWork(w); err != nil {
				return nil, err
			}
		}
	}
	if err := c.move(tx, n, node.OnAbort); err != nil {
		return nil, err
	}
	endSteps(n)
	forgetAgent(n)
	n.LastError = fmt.Sprintf("The work on node %s was aborted by request while it was in state %q.", n.UUID, before)
	if err := c.record(tx, n, node.SeverityError, "abort", n.LastError); err != nil {
		return nil, err
	}
	return c.startServed(tx, n, workCleanUp, node.ObjectOf(map[string]any{abortedIntent: aborted}))
}

// agentKeys is what is known of a ramdisk that must not go on.
var agentKeys = []string{agent.TokenKey, agent.URLKey, agent.VerifyCAKey, agent.LastHeartbeatKey}

// forgetAgent makes the token of a ramdisk void that must not go on. A machine
// without a BMC keeps it: nobody could start its ramdisk again, which would never
// ask for another one.
func forgetAgent(n *node.Node) {
	if agent.HasBMC(n) {
		n.DriverInternalInfo = n.DriverInternalInfo.Without(agentKeys...)
	}
}

// runCleanUp leaves a machine in order whose work was aborted. After servicing,
// the instance runs again.
func runCleanUp(ctx context.Context, s *session) error {
	var aborted store.WorkKind
	s.j.Intent.Get(abortedIntent, &aborted)
	leave := switchOff
	if aborted == workService {
		leave = switchOn
	}
	if err := leave(ctx, s); err != nil {
		return err
	}
	return s.finish(ctx, func(tx *store.Tx, n *node.Node) error {
		if aborted == workService && n.ProvisionState == node.ServiceFailed {
			return s.move(tx, n, node.OnAbort)
		}
		return nil
	})
}

// failedCleanUp keeps a node whose rescue system may still run out of use.
func failedCleanUp(n *node.Node, reason string) string {
	if n.ProvisionState == node.RescueFailed {
		n.Maintenance, n.Fault, n.MaintenanceReason = true, node.FaultRescueAbortFailure, reason
	}
	return n.LastError + " " + reason
}

// unhold lets held work go on behind the step that held it.
func (c *Conductor) unhold(tx *store.Tx, n *node.Node) (*job, error) {
	return c.callWork(tx, n, func(*progress) bool { return true })
}

// callWork takes up the parked work of a node, unless wake refuses. It returns nil
// when there is none.
func (c *Conductor) callWork(tx *store.Tx, n *node.Node, wake func(*progress) bool) (*job, error) {
	works, err := tx.WorkOf(n.ID)
	if err != nil {
		return nil, err
	}
	for _, w := range works {
		if !c.scripts[w.Kind].course {
			continue
		}
		var p progress
		if err := p.decode(w.Step); err != nil {
			return nil, err
		}
		if !wake(&p) {
			return nil, nil
		}
		w.NodeUUID, w.Step, w.NotBefore = n.UUID, p.encode(), tx.Now()
		if err := tx.CheckpointWork(w); err != nil {
			return nil, err
		}
		if mine, err := c.serves(tx, n.ConductorGroup); err != nil || !mine {
			return nil, err
		}
		if w.Lease, err = tx.AcquireLease(n.ID, c.cfg.Hostname, c.cfg.LeaseTTL); err != nil {
			return nil, err
		}
		return &job{Work: w}, nil
	}
	return nil, nil
}

// dropParked removes the parked work of a node that something else ended.
func (c *Conductor) dropParked(tx *store.Tx, nodeID int64) error {
	works, err := tx.WorkOf(nodeID)
	if err != nil {
		return err
	}
	for _, w := range works {
		if c.scripts[w.Kind].course {
			if err := tx.FinishWork(w); err != nil {
				return err
			}
		}
	}
	return nil
}
