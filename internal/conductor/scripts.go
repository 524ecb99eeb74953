package conductor

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// Kinds of work, as they are stored. Each has a script.
const (
	workVerify     store.WorkKind = "verify"          // check that a node can be managed
	workInspect    store.WorkKind = "inspection"      // inspect a machine, or wait for its ramdisk to do so
	workHooks      store.WorkKind = "inspect"         // run hooks over a posted document
	workClean      store.WorkKind = "clean"           // run clean steps
	workDeploy     store.WorkKind = "deploy"          // run deploy steps
	workService    store.WorkKind = "service"         // run service steps
	workUndeploy   store.WorkKind = "undeploy"        // remove an instance; cleaning follows
	workAdopt      store.WorkKind = "adopt"           // take an instance over
	workRescue     store.WorkKind = "rescue"          // start a rescue system
	workUnrescue   store.WorkKind = "unrescue"        // start the instance again
	workCleanUp    store.WorkKind = "clean up"        // clean up after aborted work
	workPower      store.WorkKind = "power"           // change the power state
	workBootMode   store.WorkKind = "boot mode"       // change the boot mode
	workSecureBoot store.WorkKind = "secure boot"     // enable or disable secure boot
	workMedia      store.WorkKind = "virtual media"   // attach or detach media
	workVendor     store.WorkKind = "vendor passthru" // run a vendor method
)

// oldInspect is what earlier releases stored for workInspect.
const oldInspect store.WorkKind = "look"

// workScripts returns the script of every kind of work.
func (c *Conductor) workScripts() map[store.WorkKind]runner.Script {
	scripts := map[store.WorkKind]runner.Script{
		workVerify: {
			DrivesState: true, Does: "verify", NoRetry: true,
			Operations: c.verifyOperations, End: c.moveDone,
		},
		workInspect: {
			DrivesState: true, Does: "inspect",
			Operations: c.inspectionOperations, End: c.endInspection, CleanUp: c.cleanUpInspection,
		},
		workHooks: {
			DrivesState: true, Processor: true,
			Operations: c.processOperations, End: keepNode,
		},
		workClean: {
			DrivesState: true, Does: "clean",
			Operations: c.cleanOperations, End: c.endClean, CleanUp: c.cleanUpCleaning, Failed: markFault(node.FaultCleanFailure),
		},
		workDeploy: {
			DrivesState: true, Does: "deploy",
			Operations: c.deployOperations, End: c.endSteps, CleanUp: c.cleanUpDeployment,
		},
		workService: {
			DrivesState: true, Does: "service",
			Operations: c.serviceOperations, End: c.endSteps, CleanUp: c.cleanUpServicing, Failed: markFault(node.FaultServiceFailure),
		},
		workUndeploy: {
			DrivesState: true, Does: "undeploy",
			Operations: c.undeployOperations, End: c.endUndeploy, Then: workClean,
		},
		workAdopt: {DrivesState: true, Does: "adopt", Operations: c.adoptOperations, End: c.moveDone},
		workRescue: {
			DrivesState: true, Does: "rescue",
			Operations: c.rescueOperations, End: c.endRescue, CleanUp: c.cleanUpRescue, Failed: failRescue,
		},
		workUnrescue: {DrivesState: true, Does: "unrescue", Operations: c.unrescueOperations, End: c.endUnrescue},
		workCleanUp:  {Does: "clean up after the aborted work on", Operations: c.cleanUpOperations, End: c.endCleanUp, Failed: failCleanUp},
		workPower:    {Operations: c.powerOperations, End: endPower, CleanUp: c.cleanUpPower, Failed: failPower},

		workBootMode:   {Does: "change the boot mode of", Operations: c.bootModeOperations, End: keepNode},
		workSecureBoot: {Does: "change secure boot of", Operations: c.secureBootOperations, End: keepNode},
		workMedia:      {Does: "change virtual media of", Operations: c.mediaOperations, End: keepNode},
		workVendor:     {Does: "run a vendor method on", Operations: c.vendorOperations, End: keepNode},
	}
	scripts[oldInspect] = scripts[workInspect]
	for kind, script := range scripts {
		script.Numbered = numberedOperations(kind)
		switch kind {
		case workClean, workDeploy, workService, workUndeploy, workRescue, workUnrescue:
			script.Operations = checkedInDoubt(c.refuseOtherMachine, script.Operations)
		case workBootMode, workSecureBoot, workMedia, workVendor:
			script.Operations = checkedInDoubt(c.checkBMCIsOwn, script.Operations)
		}
		scripts[kind] = script
	}
	return scripts
}

// drivesState reports whether work of a kind decides the provision state of its node.
func (c *Conductor) drivesState(kind store.WorkKind) bool { return c.scripts[kind].DrivesState }

// moveDone ends work whose only result is the next provision state.
func (c *Conductor) moveDone(tx *store.Tx, _ runner.Task, n *node.Node) error {
	return c.Move(tx, n, node.OnDone)
}

// keepNode ends work whose operations have already stored its whole result.
func keepNode(*store.Tx, runner.Task, *node.Node) error { return nil }

// Script, Kinds, BMC, Scope, Move, Failed, Noted and Ended are the methods that the runner calls.
var _ runner.Conductor = (*Conductor)(nil)

// Script returns the script of a kind of work; false for a kind that this version
// does not know.
func (c *Conductor) Script(kind store.WorkKind) (runner.Script, bool) {
	script, ok := c.scripts[kind]
	return script, ok
}

// Kinds returns the kinds of work that this version knows.
func (c *Conductor) Kinds() []store.WorkKind { return slices.Sorted(maps.Keys(c.scripts)) }

// BMC names the BMC that calls for the node go to.
func (c *Conductor) BMC(n *node.Node) string { return c.drivers.BMC(n) }

// Move applies a trigger to the node.
func (c *Conductor) Move(tx *store.Tx, n *node.Node, on node.Trigger) error {
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

// Failed stores in the node that work has failed for good. The reason goes into last_error and the
// history, and a working state becomes its failed state. A state without a failed state, such as
// the enroll of a discovered node, stays.
func (c *Conductor) Failed(tx *store.Tx, w *store.Work, n *node.Node, reason string) error {
	if c.drivesState(w.Kind) {
		if err := c.Move(tx, n, node.OnFail); err != nil && !isTransition(err) {
			return err
		}
		clearSteps(n)
	}
	n.LastError = reason
	return c.recordHistory(tx, n, node.SeverityError, eventType(w.Kind), reason)
}

// Noted writes a text of an operation about the machine into the history.
func (c *Conductor) Noted(tx *store.Tx, w *store.Work, n *node.Node, text string) error {
	return c.recordHistory(tx, n, node.SeverityInfo, eventType(w.Kind), node.CutText(text))
}

// Ended writes into the history that the node has reached the state that its verb leads to. Failed
// writes the row about a failure.
func (c *Conductor) Ended(tx *store.Tx, w *store.Work, before, after *node.Node) error {
	return c.recordArrival(tx, w, before, after)
}

func isTransition(err error) bool {
	var transition *node.TransitionError
	return errors.As(err, &transition)
}

// abilityChange makes one turn of a change through an ability.
type abilityChange[A any] func(a A, ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error)

// changeBy returns the operation with this name that makes its change through the ability A of the
// node's interface of this kind.
func changeBy[A any](c *Conductor, name string, kind node.InterfaceKind, what string, do abilityChange[A]) runner.Operation {
	return runner.Operation{
		Ref: runner.Ref{Name: name},
		Change: func(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
			ability, err := driver.Ability[A](c.drivers, n, kind, what)
			if err != nil {
				return driver.Outcome{}, err
			}
			return do(ability, ctx, n, turn)
		},
	}
}
