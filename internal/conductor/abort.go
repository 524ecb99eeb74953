package conductor

import (
	"fmt"
	"slices"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// Keys of the intent of clean-up work.
const (
	abortedIntent     = "aborted"      // the kind of work that was aborted
	abortedMarkIntent = "aborted_mark" // the workMark of the work whose ramdisk runs, else of that work
	// settingsIntent is true when the machine's settings are to be read, because steps of the
	// aborted work may have changed them.
	settingsIntent = "settings"
)

// abort ends the work that the node waits in. The state changes at once, and the returned
// work cleans up afterwards. While a step runs that cannot be interrupted, abort only notes
// the request in the step, and the work ends after that step.
func (c *Conductor) abort(tx *store.Tx, n *node.Node) (*runner.Job, error) {
	if n.ProvisionState == node.ServiceFailed { // nothing runs: the instance is declared healthy
		return nil, c.Move(tx, n, node.OnAbort)
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
	aborted, mark, before := store.WorkKind(""), "", n.ProvisionState
	changed := slices.ContainsFunc(flows, func(f flow) bool { return leavesSettings(n, f) })
	for _, w := range works {
		if c.drivesState(w.Kind) {
			aborted, mark = w.Kind, workMark(w)
			if err := tx.FinishWork(w); err != nil {
				return nil, err
			}
		}
	}
	if agent.EndpointOf(n).URL != "" { // the ramdisk of earlier work, unless that work has started its own
		mark = n.DriverInternalInfo.Text(ramdiskStartedKey)
	}
	if err := c.Move(tx, n, node.OnAbort); err != nil {
		return nil, err
	}
	clearSteps(n)
	c.voidToken(n)
	node.ClearRescuePassword(n)
	n.LastError = fmt.Sprintf("The work on node %s was aborted by request while it was in state %q.", n.UUID, before)
	if err := c.recordHistory(tx, n, node.SeverityError, "abort", n.LastError); err != nil {
		return nil, err
	}
	return c.startServed(tx, n, workCleanUp, node.ObjectOf(map[string]any{abortedIntent: aborted, abortedMarkIntent: mark, settingsIntent: changed}))
}

// voidToken makes the agent's token void, so that the ramdisk of an aborted
// operation cannot go on. A machine without a BMC keeps its token: the engine could
// not start its ramdisk again, and a running one never asks for a new token.
func (c *Conductor) voidToken(n *node.Node) {
	if c.drivers.HasBMC(n) {
		n.DriverInternalInfo = agent.Clear(n.DriverInternalInfo)
	}
}

// clearAgentProcess clears the agent of a machine that was switched off. A token on the
// machine's virtual medium stays valid, because the next agent reads it there.
func (c *Conductor) clearAgentProcess(n *node.Node) {
	if agent.Pregenerated(n) != "" {
		n.DriverInternalInfo = agent.ClearProcess(n.DriverInternalInfo)
		return
	}
	c.voidToken(n)
}

// cleanUpOperations clean up after aborted work. After servicing, they start the
// instance again. After a rescue that has started no ramdisk, the instance runs on.
func (c *Conductor) cleanUpOperations(t runner.Task) ([]runner.Operation, error) {
	var changed bool
	t.Work.Intent.Get(settingsIntent, &changed)
	read := c.readSettings(changed)
	if abortedKind(t.Work) == workService {
		return append(c.backToInstance(t.Node, t.Work.Intent.Text(abortedMarkIntent)), read), nil
	}
	withdraw, off := c.withdrawBoot(t.Node), c.leftIn(t.Node, node.PowerOff)
	if c.leftInstance(t) {
		withdraw, off.Skip = c.leaveRamdiskIfItCan(t.Node), true
	}
	operations := []runner.Operation{c.checkBeforeLeaving(t.Node), withdraw, off}
	if kind := abortedKind(t.Work); kind == workInspect || kind == oldInspect {
		unstartable := !c.switches(t.Node, node.PowerOn) // nothing could start the ramdisk again
		operations = append(operations, c.rebootInspected(t.Node).SkipIf(unstartable))
	}
	return append(operations, read), nil
}

// leftInstance reports whether a rescue was aborted while the machine still ran its instance, as
// during the fetch of the ramdisk. Earlier releases stored no mark of old rescues.
func (c *Conductor) leftInstance(t runner.Task) bool {
	mark := t.Work.Intent.Text(abortedMarkIntent)
	return abortedKind(t.Work) == workRescue && c.rescuesInRamdisk(t.Node) && mark != "" && !startedRamdisk(t.Node, mark)
}

func (c *Conductor) endCleanUp(tx *store.Tx, t runner.Task, n *node.Node) error {
	if abortedKind(t.Work) == workService && n.ProvisionState == node.ServiceFailed {
		return c.Move(tx, n, node.OnAbort)
	}
	return nil
}

// abortedKind returns the kind of the work that was aborted.
func abortedKind(w *store.Work) store.WorkKind {
	var aborted store.WorkKind
	w.Intent.Get(abortedIntent, &aborted)
	return aborted
}

// failCleanUp puts a node into maintenance when its rescue system may still run, and returns
// the sentences for last_error.
func failCleanUp(n *node.Node, reason string) string {
	if n.ProvisionState == node.RescueFailed {
		n.Maintenance, n.Fault, n.MaintenanceReason = true, node.FaultRescueAbortFailure, reason
	}
	return n.LastError + " " + reason
}
