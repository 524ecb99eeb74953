package conductor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// Keys of the intent of power work.
const (
	powerTargetIntent  = "target"
	powerTimeoutIntent = "timeout" // seconds; 0 means the engine's default
	// acceptedStateIntent is the provision state in which a client's request was accepted. Rows of
	// earlier releases have none.
	acceptedStateIntent = "accepted_state"
)

// poweredByEngine are the states in which only the engine may change the power.
var poweredByEngine = []node.State{node.Cleaning, node.CleanWait}

// SetPower requests a power change and returns when the request is durable. A zero timeout means
// the engine's default.
func (c *Conductor) SetPower(ctx context.Context, ident string, target node.PowerState, timeout time.Duration) error {
	var started *runner.Job
	err := c.store.Write(ctx, func(tx *store.Tx) error {
		started = nil
		before, err := tx.Node(ident)
		if err != nil {
			return err
		}
		if before.Lease.Suspended() {
			return before.Locked()
		}
		if slices.Contains(poweredByEngine, before.ProvisionState) {
			return node.Invalid("The power state of node %s can not be changed while it is in state %q.", before.UUID, before.ProvisionState)
		}
		if before, err = c.idle(tx, ident); err != nil {
			return err
		}
		if err := c.permitPower(before, target); err != nil {
			return err
		}
		n := *before
		n.TargetPowerState = reachedBy(target)
		n.ClearError()
		intent := node.ObjectOf(map[string]any{
			powerTargetIntent: target, powerTimeoutIntent: timeout.Seconds(), acceptedStateIntent: n.ProvisionState,
		})
		if started, err = c.startServed(tx, &n, workPower, intent); err != nil {
			return err
		}
		return tx.UpdateNode(before, &n)
	})
	if err != nil {
		return err
	}
	c.runner.Enqueue(started)
	return nil
}

// permitPower returns an error unless a client may request this change now.
func (c *Conductor) permitPower(n *node.Node, target node.PowerState) error {
	if err := checkInterruptible(n); err != nil {
		return err
	}
	power, err := c.drivers.Power(n)
	if err != nil {
		return err
	}
	switch {
	case len(power.Supported()) == 0:
		return node.Invalid("Node %s does not support power changes: its power_interface is %q.", n.UUID, n.Interfaces[node.PowerInterface])
	case !slices.Contains(power.Supported(), target):
		return node.Invalid("The power interface %q of node %s does not support %q; it supports %s.",
			n.Interfaces[node.PowerInterface], n.UUID, target, node.Choices(power.Supported()))
	case n.DisablePowerOff && reachedBy(target) == node.PowerOff:
		return node.Conflict("Node %s must not be switched off: its disable_power_off is true.", n.UUID)
	}
	return power.Validate(n)
}

// reachedBy returns the power state after a change to target.
func reachedBy(target node.PowerState) node.PowerState {
	if target == node.PowerOff || target == node.SoftPowerOff {
		return node.PowerOff
	}
	return node.PowerOn
}

// powerOperations change the power state as a client requested.
func (c *Conductor) powerOperations(t runner.Task) ([]runner.Operation, error) {
	var target node.PowerState
	var seconds float64
	t.Work.Intent.Get(powerTargetIntent, &target)
	t.Work.Intent.Get(powerTimeoutIntent, &seconds)
	return []runner.Operation{{
		Ref:    runner.Ref{Name: "change power"},
		Change: whileWaiting(t.Work, c.ofOwnMachine(c.powerChange(target, time.Duration(seconds*float64(time.Second))))),
	}}, nil
}

// whileWaiting makes a change begin only where checkStillWaits allows that.
func whileWaiting(w *store.Work, change runner.Change) runner.Change {
	return func(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
		begins := turn.Phase == "" && turn.Attempt != driver.Continued || driver.IsWaitPhase(turn.Phase)
		if err := checkStillWaits(w, n); begins && err != nil {
			return driver.Outcome{}, runner.Final(err)
		}
		return change(ctx, n, turn)
	}
}

// checkStillWaits refuses a change that was requested while other work of the node waited, once that
// work has gone on. The change has no lease while it waits for another attempt, and would now switch
// off a machine in the middle of that work, or in the hands of its user.
func checkStillWaits(w *store.Work, n *node.Node) error {
	accepted := node.State(w.Intent.Text(acceptedStateIntent))
	if class := accepted.Class(); class != node.Waiting && class != node.Held {
		return nil
	}
	if n.ProvisionState != accepted {
		return node.Conflict("Node %s has gone from %q to %q since the request, so nothing more was done to its machine: request it again.", n.UUID, accepted, n.ProvisionState)
	}
	return checkInterruptible(n)
}

// endPower clears the target power state.
func endPower(_ *store.Tx, _ runner.Task, n *node.Node) error {
	n.TargetPowerState = ""
	return nil
}

// cleanUpPower returns the operations that read the power state of a machine after a failed change.
// After a failed reboot they switch the machine on, unless it tells that it is on.
func (c *Conductor) cleanUpPower(t runner.Task) []runner.Operation {
	var target node.PowerState
	t.Work.Intent.Get(powerTargetIntent, &target)
	reboot := target == node.Rebooting || target == node.SoftRebooting
	on := c.switchTo(t.Node, node.PowerOn).SkipIf(!reboot || t.Node.PowerState == node.PowerOn || checkStillWaits(t.Work, t.Node) != nil)
	on.Change = c.ofOwnMachine(on.Change)
	return []runner.Operation{c.checkBMCIsOwnBeforeLeaving(t.Node), {Ref: runner.Ref{Name: "read power again"}, Read: func(ctx context.Context, n *node.Node) (runner.Write, error) {
		state, err := c.readPower(ctx, n)
		if err != nil {
			state = node.PowerError
		}
		return func(_ *store.Tx, n *node.Node) error {
			n.PowerState = state
			return nil
		}, nil
	}}, on}
}

// failPower clears the target power state and returns the sentence for last_error.
func failPower(n *node.Node, reason string) string {
	target := n.TargetPowerState
	n.TargetPowerState = ""
	return fmt.Sprintf("Failed to change power state to '%s'. %s", target, reason)
}

// powerChange returns the change of the power to target. It leaves a machine alone that is to be on
// or off and already is; it always does a reboot. A zero timeout means the engine's default.
func (c *Conductor) powerChange(target node.PowerState, timeout time.Duration) runner.Change {
	if timeout <= 0 {
		timeout = c.cfg.Limits.powerTimeout(target)
	}
	reached := func(n *node.Node) {
		n.PowerState = reachedBy(target)
		if target != node.PowerOn { // the ramdisk has ended, and the next one needs a token
			c.clearAgentProcess(n)
		}
	}
	return func(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
		power, err := c.drivers.Power(n)
		if err != nil {
			return driver.Outcome{}, err
		}
		if turn.Attempt != driver.Continued && (target == node.PowerOn || target == node.PowerOff) {
			state, err := power.PowerState(ctx, n)
			if err != nil {
				return driver.Outcome{}, err
			}
			if state == target {
				return driver.Outcome{Apply: reached}, nil
			}
		}
		if turn.Elapsed > timeout {
			return driver.Outcome{}, &node.DriverError{
				Op: "change power of node " + n.UUID, Reason: fmt.Sprintf("the machine did not reach %q within %s.", reachedBy(target), timeout),
			}
		}
		out, err := power.SetPower(ctx, n, target, turn)
		if err == nil && out.Done() {
			changed := out.Apply
			out.Apply = func(n *node.Node) {
				if changed != nil {
					changed(n)
				}
				reached(n)
			}
		}
		out.Again = min(out.Again, timeout-turn.Elapsed+time.Millisecond)
		return out, err
	}
}

// leftIn returns the operation that leaves the machine of failed work on or off.
func (c *Conductor) leftIn(n *node.Node, target node.PowerState) runner.Operation {
	operation := c.switchTo(n, target)
	if target == node.PowerOff { // which is checked in any case
		return operation
	}
	return c.ofSameMachine(operation)
}

// switchTo returns the operation that switches a machine on or off, if its power interface can do
// that and the node allows it. Before it cuts the power, it checks which machine it is: the check at
// the beginning of the work may have been hours ago.
func (c *Conductor) switchTo(n *node.Node, target node.PowerState) runner.Operation {
	name, change := powerOnName, c.powerChange(target, 0)
	if target == node.PowerOff {
		name, change = powerOffName, afterCheck(c.refuseOtherMachine, change)
	}
	return runner.Operation{Ref: runner.Ref{Name: name}, Skip: !c.switches(n, target), Change: change, Shown: true}
}

// switches reports whether a machine can and may be switched on or off. It returns true for a power
// interface that is not built, so that the use of that interface fails with the reason.
func (c *Conductor) switches(n *node.Node, target node.PowerState) bool {
	power, err := c.drivers.Power(n)
	if err != nil {
		return true
	}
	return slices.Contains(power.Supported(), target) && (target != node.PowerOff || !n.DisablePowerOff)
}
