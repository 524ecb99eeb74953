package conductor

import (
	"context"
	"errors"
	"fmt"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// flow is work in steps: where the node keeps its list and shows the running
// step.
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

// endSteps removes the list and the running step of every flow.
func endSteps(n *node.Node) {
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
	stepsIntent  = "steps"  // what the client asked for
	manualIntent = "manual" // true: the client's list alone is run
)

// askedSteps reads the client's steps from the work.
func askedSteps(j job) []node.Step {
	var steps []node.Step
	j.Intent.Get(stepsIntent, &steps)
	return steps
}

// runSteps runs a flow's steps, which plan decides at the beginning and the node
// keeps from then on. That is operation 0 of the script, every step is one more.
func (s *session) runSteps(ctx context.Context, f flow, plan func() ([]node.Step, error)) error {
	steps, err := s.planned(f, plan)
	if err != nil {
		return err
	}
	for i, step := range steps {
		if err := s.runStep(ctx, f, i, step); err != nil {
			return stepError(step, err)
		}
	}
	return s.resume(ctx)
}

// resume brings a node that was held back to work when the script has come to
// where it was held; otherwise it does nothing.
func (s *session) resume(ctx context.Context) error {
	if s.next != s.At || s.Begun || s.n.ProvisionState.Class() != node.Waiting {
		return nil
	}
	return s.commit(ctx, func(tx *store.Tx, n *node.Node) error { return s.move(tx, n, node.OnResume) })
}

// planned returns the list of steps, made at the first attempt.
func (s *session) planned(f flow, plan func() ([]node.Step, error)) ([]node.Step, error) {
	var steps []node.Step
	s.next++
	if s.At > 0 {
		s.n.DriverInternalInfo.Get(f.listKey(), &steps)
		return steps, nil
	}
	steps, err := plan()
	if err != nil {
		return nil, err
	}
	s.At = 1
	s.pending = append(s.pending, func(n *node.Node) {
		n.DriverInternalInfo = n.DriverInternalInfo.With(map[string]any{f.listKey(): steps})
	})
	return steps, nil
}

func (s *session) runStep(ctx context.Context, f flow, i int, step node.Step) error {
	if err := s.resume(ctx); err != nil {
		return err
	}
	begin := func(n *node.Node) {
		*f.shown(n) = step.Object()
		n.DriverInternalInfo = n.DriverInternalInfo.With(map[string]any{f.indexKey(): i})
	}
	if step.Step == node.StepHold && s.next >= s.At {
		s.pending = append(s.pending, begin)
		return s.hold(ctx)
	}
	for _, operation := range s.stepOperations(f, step) {
		if err := s.perform(ctx, begin, operation); err != nil {
			return err
		}
	}
	if running, ok := node.StepOf(*f.shown(s.n)); ok && running.AbortAfter && s.next == s.At {
		return &abortedError{step: step}
	}
	return nil
}

// stepOperations returns what runs a step: one operation, or one for each child
// node that it runs on.
func (s *session) stepOperations(f flow, step node.Step) []operation {
	if !step.ExecuteOnChildNodes {
		return []operation{s.stepOperation(f, step)}
	}
	operations := make([]operation, len(step.LimitChildNodeExecution))
	for i, child := range step.LimitChildNodeExecution {
		operations[i] = s.childOperation(f, step, child)
	}
	return operations
}

// stepOperation returns what runs a step on a node.
func (s *session) stepOperation(f flow, step node.Step) operation {
	switch step.Step {
	case node.StepReboot:
		return s.powerOperation(node.Rebooting, 0)
	case node.StepPowerOn:
		return s.powerOperation(node.PowerOn, 0)
	case node.StepPowerOff:
		return s.powerOperation(node.PowerOff, 0)
	case node.StepWait:
		return waitOperation(step)
	}
	return func(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
		stepper, err := s.drivers.Stepper(n, step)
		if err != nil {
			return driver.Outcome{}, err
		}
		return stepper.RunStep(ctx, n, f.kind, step, turn)
	}
}

// waitOperation waits for a time, or for a heartbeat.
func waitOperation(step node.Step) operation {
	return func(_ context.Context, _ *node.Node, turn driver.Turn) (driver.Outcome, error) {
		wait, err := step.WaitSeconds()
		switch {
		case err != nil, turn.Called:
			return driver.Outcome{}, err
		case step.Args["seconds"] == nil:
			return driver.Outcome{Callback: true}, nil
		case turn.Elapsed < wait:
			return driver.Outcome{Park: wait - turn.Elapsed}, nil
		}
		return driver.Outcome{}, nil
	}
}

// stepError names the step of a failure; other endings stay as they are.
func stepError(step node.Step, err error) error {
	var aborted *abortedError
	if !final(err) || errors.As(err, &aborted) {
		return err
	}
	return fmt.Errorf("step %s: %w", step.Name(), err)
}

// abortedError ends work whose abort had to wait for the end of a step.
type abortedError struct{ step node.Step }

func (e *abortedError) Error() string {
	return "aborted by request after the step " + e.step.Name() + ", which could not be left half done"
}

// faulty returns what marks a node as faulty whose steps had begun.
func faulty(fault string) func(*node.Node, string) string {
	return func(n *node.Node, reason string) string {
		for _, f := range flows {
			if !f.shown(n).IsEmpty() {
				n.Maintenance, n.Fault, n.MaintenanceReason = true, fault, reason
			}
		}
		return reason
	}
}
