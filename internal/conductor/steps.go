package conductor

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// flow is a kind of work that runs steps: it says where the node keeps the list of
// steps and shows the running one.
type flow struct {
	kind  driver.StepKind
	shown func(*node.Node) *node.Object
}

var (
	cleanFlow   = flow{driver.CleanSteps, func(n *node.Node) *node.Object { return &n.CleanStep }}
	deployFlow  = flow{driver.DeploySteps, func(n *node.Node) *node.Object { return &n.DeployStep }}
	serviceFlow = flow{driver.ServiceSteps, func(n *node.Node) *node.Object { return &n.ServiceStep }}
	flows       = []flow{cleanFlow, deployFlow, serviceFlow}
)

// Keys of driver_internal_info, as clients of the Bare Metal API expect them.
func (f flow) listKey() string  { return string(f.kind) + "_steps" }
func (f flow) indexKey() string { return string(f.kind) + "_step_index" }

// stored returns the planned list of steps.
func (f flow) stored(n *node.Node) []node.Step {
	var steps []node.Step
	n.DriverInternalInfo.Get(f.listKey(), &steps)
	return steps
}

// clearSteps removes the list of steps and the running step of every flow, and withdraws the
// firmware file that is served for a step.
func clearSteps(n *node.Node) {
	node.WithdrawFirmwareFile(n)
	for _, f := range flows {
		if f.shown(n).IsEmpty() && n.DriverInternalInfo.IsEmpty() {
			continue
		}
		*f.shown(n) = nil
		n.DriverInternalInfo = n.DriverInternalInfo.Without(f.listKey(), f.indexKey())
	}
}

// Keys of the intent of work in steps.
const (
	stepsIntent  = "steps"  // the client's steps
	manualIntent = "manual" // true: only the client's steps run
	// disableRamdiskIntent, when true, runs the steps without the ramdisk.
	disableRamdiskIntent = "disable_ramdisk"
)

// askedSteps returns the client's steps from the intent of the work.
func askedSteps(w *store.Work) []node.Step {
	var steps []node.Step
	w.Intent.Get(stepsIntent, &steps)
	return steps
}

// Names of operations that several scripts have, as they are stored.
const (
	planName     = "plan steps"
	stepName     = "step"
	powerOnName  = "power on"
	powerOffName = "power off"
	settingsName = "read settings"
)

// stepsPlan decides which steps the work runs.
type stepsPlan func(tx *store.Tx, w *store.Work, n *node.Node) ([]node.Step, error)

// stepOperations returns the operations that run a flow's steps. Plan decides at the beginning
// which steps these are; the node keeps the list afterwards.
func (c *Conductor) stepOperations(t runner.Task, f flow, plan stepsPlan) []runner.Operation {
	operations := []runner.Operation{{
		Ref: runner.Ref{Name: planName},
		Store: func(tx *store.Tx, n *node.Node) error {
			steps, err := plan(tx, t.Work, n)
			if err == nil {
				n.DriverInternalInfo = n.DriverInternalInfo.With(map[string]any{f.listKey(): steps})
			}
			return err
		},
	}}
	steps := f.stored(t.Node)
	for i, step := range steps {
		if c.restartsBefore(t.Node, steps, i) {
			operations = append(operations, c.restartRamdisk(t.Node, f, stepRef(i, step, "").Item)...)
		}
		operations = append(operations, c.stepOperation(t, f, i, step)...)
	}
	return operations
}

// stepOperation returns the operations of a step. This is one operation, one for each child node
// that the step runs on, or the operations of a core step of a deployment.
func (c *Conductor) stepOperation(t runner.Task, f flow, i int, step node.Step) []runner.Operation {
	operation := runner.Operation{
		Ref:     stepRef(i, step, ""),
		Explain: func(err error) error { return fmt.Errorf("step %s: %w", step.Name(), err) },
		Begin: func(n *node.Node) {
			*f.shown(n) = step.Object()
			n.DriverInternalInfo = n.DriverInternalInfo.With(map[string]any{f.indexKey(): i})
		},
	}
	if step.Interface == node.RAIDInterface.String() && !step.RequiresRamdisk {
		operation.Within = c.storageWithin()
	}
	if step.Step == node.StepHold {
		operation.Hold = true
		return []runner.Operation{operation}
	}
	if step.ExecuteOnChildNodes {
		operations := c.childOperations(f, i, step, operation)
		if len(operations) > 0 {
			operations[len(operations)-1].After = f.abortedAfter(step)
		}
		return operations
	}
	operation.Change, operation.After = c.ownStepChange(f, step), f.abortedAfter(step)
	if operations, ok := c.coreOperations(t, f, i, step, operation); ok {
		return operations
	}
	return []runner.Operation{operation}
}

// storageWithin bounds a call that reads all the storage of a machine through its BMC, which takes
// a request for each controller, drive and volume. Only such calls may take that long: after a
// crash, nobody calls the machine until the bound has passed, and a machine in use has to be
// switched on sooner.
func (c *Conductor) storageWithin() time.Duration {
	const usual, longest = 12, 10 * time.Minute // three minutes for calls of 15 seconds
	return min(usual*c.cfg.CallTimeout, longest)
}

// abortedAfter returns the check that ends the work after a step, if an abort was requested during
// the step and had to wait for its end.
func (f flow) abortedAfter(step node.Step) func(*node.Node) error {
	return func(n *node.Node) error {
		if running, ok := node.StepOf(*f.shown(n)); ok && running.AbortAfter {
			running.Abortable = true // the step has ended
			*f.shown(n) = running.Object()
			return runner.Final(&abortedError{step: step})
		}
		return nil
	}
}

// stepRef names the operation of a step. The node's list of steps does not change, so
// the position in it is part of the name.
func stepRef(i int, step node.Step, child string) runner.Ref {
	item := strconv.Itoa(i) + " " + step.Name()
	if child != "" {
		item += " on " + child
	}
	return runner.Ref{Name: stepName, Item: item}
}

// stepChange returns the change that runs a step on a node, which may be a child of the node of the
// work. A step through the BMC begins with a check which machine it is: the step may come days after
// the one before, such as after a hold, and nothing else checks the machine of a child.
func (c *Conductor) stepChange(f flow, step node.Step) runner.Change {
	change := c.uncheckedStep(f, step)
	if byBMC(step) {
		return afterCheck(c.refuseOtherMachine, change)
	}
	return change
}

func (c *Conductor) uncheckedStep(f flow, step node.Step) runner.Change {
	switch step.Step {
	case node.StepReboot:
		return c.powerChange(node.Rebooting, 0)
	case node.StepPowerOn:
		return c.powerChange(node.PowerOn, 0)
	case node.StepPowerOff:
		return c.powerChange(node.PowerOff, 0)
	case node.StepWait:
		return waitChange(step)
	}
	return func(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
		stepper, err := c.drivers.Stepper(n, step)
		if err != nil {
			return driver.Outcome{}, err
		}
		return stepper.RunStep(ctx, n, f.kind, step, turn)
	}
}

// ownStepChange returns the change that runs a step on the node that shows the step, where a client
// may abort it meanwhile. It is not for a step that runs on a child node: such a step cannot be
// aborted, and the child shows a step of its own work.
func (c *Conductor) ownStepChange(f flow, step node.Step) runner.Change {
	return func(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
		running, _ := node.StepOf(*f.shown(n))
		step.AbortAfter = running.AbortAfter
		return c.stepChange(f, step)(ctx, n, turn)
	}
}

// byBMC reports whether a step acts on the machine through its BMC.
func byBMC(step node.Step) bool {
	return step.CutsPower() || !step.Own() && !step.RequiresRamdisk && step.Interface != node.DeployInterface.String()
}

// waitChange returns the change that waits for the seconds of a step, or for a heartbeat if the
// step gives none.
func waitChange(step node.Step) runner.Change {
	return func(_ context.Context, _ *node.Node, turn driver.Turn) (driver.Outcome, error) {
		wait, err := step.WaitSeconds()
		switch {
		case err != nil, turn.Heard:
			return driver.Outcome{}, err
		case step.Args["seconds"] == nil:
			return driver.Outcome{Callback: true}, nil
		case turn.Elapsed < wait:
			return driver.Outcome{Park: wait - turn.Elapsed}, nil
		}
		return driver.Outcome{}, nil
	}
}

// bmcStep returns the running step of a node if the BMC runs it and it cannot be left half done,
// such as a firmware update.
func bmcStep(n *node.Node) (node.Step, bool) {
	for _, f := range flows {
		if step, running := node.StepOf(*f.shown(n)); running && !step.Abortable && !step.RequiresRamdisk && !step.Own() {
			return step, true
		}
	}
	return node.Step{}, false
}

// checkInterruptible refuses a request that would switch a machine off in the middle of a step that
// its BMC runs. An abort is accepted and waits for the end of the step.
func checkInterruptible(n *node.Node) error {
	if step, running := bmcStep(n); running && n.ProvisionState.Class() == node.Waiting {
		return node.Conflict("Node %s runs the step %s, which cannot be interrupted: wait until it ends, or abort, which takes effect after it.",
			n.UUID, step.Name())
	}
	return nil
}

// abortedError ends work after a step for whose end an abort had to wait.
type abortedError struct{ step node.Step }

func (e *abortedError) Error() string {
	return "aborted by request after the step " + e.step.Name() + ", which could not be left half done"
}

// markFault returns a function that puts a node into maintenance with a fault, if a step has begun
// on the node.
func markFault(fault string) func(*node.Node, string) string {
	return func(n *node.Node, reason string) string {
		for _, f := range flows {
			if !f.shown(n).IsEmpty() {
				n.Maintenance, n.Fault, n.MaintenanceReason = true, fault, reason
			}
		}
		return reason
	}
}

// settingInterfaces are the interfaces whose steps may change those settings of the machine of
// which the engine keeps a copy.
var settingInterfaces = []string{"bios", "firmware", "management", "vendor"}

// changesSettings reports whether one of a flow's steps may have changed the
// machine's settings.
func changesSettings(n *node.Node, f flow) bool { return hasStepOf(n, f, settingInterfaces...) }

// leavesSettings is changesSettings for steps that failed or were aborted. These include RAID
// steps, because only a RAID step that succeeds stores the volumes itself.
func leavesSettings(n *node.Node, f flow) bool {
	return changesSettings(n, f) || hasStepOf(n, f, node.RAIDInterface.String())
}

// hasStepOf reports whether a flow has a step of some interfaces.
func hasStepOf(n *node.Node, f flow, interfaces ...string) bool {
	return slices.ContainsFunc(f.stored(n), func(step node.Step) bool { return slices.Contains(interfaces, step.Interface) })
}

// endSteps ends work in steps.
func (c *Conductor) endSteps(tx *store.Tx, _ runner.Task, n *node.Node) error {
	clearSteps(n)
	return c.Move(tx, n, node.OnDone)
}

// settingsWithin bounds the time for reading all settings of a machine.
const settingsWithin = 30 * time.Second
