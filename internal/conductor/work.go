package conductor

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// Kinds of work. Each has a runner.
const (
	workVerify   store.WorkKind = "verify"   // check that a node can be managed
	workInspect  store.WorkKind = "inspect"  // run hooks over a posted document
	workLook     store.WorkKind = "look"     // inspect a machine, or wait for its ramdisk to do so
	workClean    store.WorkKind = "clean"    // run clean steps
	workDeploy   store.WorkKind = "deploy"   // run deploy steps
	workService  store.WorkKind = "service"  // run service steps
	workUndeploy store.WorkKind = "undeploy" // take an instance down; cleaning follows
	workAdopt    store.WorkKind = "adopt"    // take an instance over
	workRescue   store.WorkKind = "rescue"   // start a rescue system
	workUnrescue store.WorkKind = "unrescue" // start the instance again
	workCleanUp  store.WorkKind = "clean up" // leave a machine in order whose work was aborted
	workPower    store.WorkKind = "power"    // change the power state
)

// script is work that runs as a session.
type script struct {
	// course says that the work is the node's provision state: it parks in the
	// waiting state, and its failure is the failed state. Other work leaves the
	// provision state alone.
	course bool
	// does is what the work is called in the sentence "Failed to …"; empty when
	// failed writes that sentence.
	does string
	run  func(ctx context.Context, s *session) error
	// abandon leaves the machine in order when the work fails; nil has nothing to
	// do. What it fails with is added to the reason.
	abandon func(ctx context.Context, s *session) error
	// failed writes what the failure means into the node, beside the state, and
	// returns the sentence for last_error; nil for nothing.
	failed func(n *node.Node, reason string) string
}

// scripts is every script there is.
func scripts() map[store.WorkKind]script {
	all := map[store.WorkKind]script{
		workLook:     {course: true, does: "inspect", run: runLook, abandon: abandonLook},
		workClean:    {course: true, does: "clean", run: runClean, abandon: switchOff, failed: faulty(node.FaultCleanFailure)},
		workDeploy:   {course: true, does: "deploy", run: runDeploy, abandon: abandonDeploy},
		workService:  {course: true, does: "service", run: runService, abandon: switchOn, failed: faulty(node.FaultServiceFailure)},
		workUndeploy: {course: true, does: "undeploy", run: runUndeploy},
		workAdopt:    {course: true, does: "adopt", run: runAdopt},
		workRescue:   {course: true, does: "rescue", run: runRescue},
		workUnrescue: {course: true, does: "unrescue", run: runUnrescue},
		workCleanUp:  {does: "leave in order", run: runCleanUp, failed: failedCleanUp},
		workPower:    {run: runPower, abandon: readPowerAgain, failed: failedPower},
	}
	maps.Copy(all, settingScripts())
	return all
}

// runScript makes one attempt at a script.
func (c *Conductor) runScript(ctx context.Context, j job, work script) error {
	s, err := c.open(ctx, j)
	if err != nil {
		return err
	}
	if s.Doomed == "" {
		err := work.run(ctx, s)
		if err == nil || !final(err) {
			return err
		}
		if err := s.doom(ctx, work.sentence(s.n, err.Error())); err != nil {
			return err
		}
	}
	return s.abandon(ctx, work)
}

// sentence tells an operator what failed.
func (w script) sentence(n *node.Node, reason string) string {
	if w.does == "" {
		return reason
	}
	return fmt.Sprintf("Failed to %s node %s: %s", w.does, n.UUID, reason)
}

// final reports whether trying again cannot help.
func final(err error) bool {
	var invalid *node.ValidationError
	var missing *node.NotSupportedError
	var hardware *node.DriverError
	var timeout *timeoutError
	var aborted *abortedError
	switch {
	case errors.As(err, &hardware):
		return !hardware.Retryable
	case errors.As(err, &timeout), errors.As(err, &aborted), errors.As(err, &invalid), errors.As(err, &missing):
		return true
	}
	return false
}

// doom records that the work fails, before the machine is left in order.
func (s *session) doom(ctx context.Context, reason string) error {
	s.progress = progress{Doomed: node.CutText(reason)}
	s.next, s.pending = 0, nil
	return s.commit(ctx, func(tx *store.Tx, n *node.Node) error {
		if s.course && n.ProvisionState.Class() == node.Waiting {
			return s.move(tx, n, node.OnResume)
		}
		return nil
	})
}

// abandon leaves the machine in order and commits the failure.
func (s *session) abandon(ctx context.Context, work script) error {
	if work.abandon != nil {
		switch err := work.abandon(ctx, s); {
		case err == nil:
		case errors.Is(err, errAsleep), errors.Is(err, errParked), errors.Is(err, node.ErrLeaseLost), ctx.Err() != nil:
			return err
		default:
			s.Doomed = node.CutText(s.Doomed + " Then, leaving the machine in order failed: " + err.Error())
		}
	}
	s.j.end(WorkFailed)
	return s.Conductor.finish(ctx, s.j, func(tx *store.Tx, n *node.Node) error {
		s.apply(n)
		reason := s.Doomed
		if work.failed != nil {
			reason = work.failed(n, reason)
		}
		return s.fails(tx, s.j, n, reason)
	})
}

// giveUp fails work that was tried often enough.
func (c *Conductor) giveUp(ctx context.Context, j job, reason string) error {
	work, ok := c.scripts[j.Kind]
	if !ok {
		return c.fail(ctx, j, reason)
	}
	s, err := c.open(ctx, j)
	if err != nil {
		return err
	}
	if s.Doomed == "" {
		if err := s.doom(ctx, work.sentence(s.n, reason)); err != nil {
			return err
		}
	}
	err = s.abandon(ctx, work)
	if errors.Is(err, errAsleep) || errors.Is(err, errParked) {
		return nil
	}
	return err
}
