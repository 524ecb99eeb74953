package fake

import (
	"context"
	"errors"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// order is an effect to request, and whether repeating it could do harm.
type order struct {
	kind   Kind
	detail string
	// settings are the new values of changed settings.
	settings Settings
	// once says that repeating the effect could do harm.
	once bool
}

// carryOut makes a turn of an operation that requests an effect and waits for its task.
func carryOut(ctx context.Context, machine Machine, o order, turn driver.Turn) (driver.Outcome, error) {
	if turn.Handle != "" || turn.Attempt == driver.Unknown {
		task, err := outcome(ctx, machine, turn)
		if err != nil {
			return driver.Outcome{}, err
		}
		switch {
		case task.State == Done, task.State == Running, task.State == Failed:
			return o.outcome(task, turn)
		case task.State == None && turn.Handle == "": // the request never arrived
		case o.once: // the machine has lost its list of tasks, or a task that it had accepted
			return driver.Outcome{}, driver.OutcomeUnknown(o.op())
		}
	}
	task, err := machine.Do(ctx, Effect{Origin: turn.Origin, Kind: o.kind, Detail: o.detail, Settings: o.settings})
	if err != nil {
		return driver.Outcome{}, err
	}
	return o.outcome(task, turn)
}

// outcome reads from the machine what became of the request that the turn belongs to.
func outcome(ctx context.Context, machine Machine, turn driver.Turn) (Task, error) {
	if turn.Origin.Request == "" {
		return Task{State: Unknown}, nil
	}
	task, err := machine.Outcome(ctx, turn.Origin.Request)
	return task, read(err)
}

// read returns the error of a call that only reads. It is never marked as refused, because the
// caller would take that for a refusal of the change.
func read(err error) error {
	var failure *node.DriverError
	if errors.As(err, &failure) && failure.Refused {
		said := *failure
		said.Refused = false
		return &said
	}
	return err
}

// outcome returns the outcome of a turn, by the state of the machine's task.
func (o order) outcome(task Task, turn driver.Turn) (driver.Outcome, error) {
	switch task.State {
	case Done:
		return driver.Outcome{}, nil
	case Running:
		handle := task.ID
		if handle == "" {
			handle = turn.Origin.Request
		}
		return driver.Outcome{Again: driver.PollPause(turn.Elapsed, shortestPoll), Handle: handle}, nil
	}
	return driver.Outcome{}, &node.DriverError{Op: o.op(), Reason: "the task failed: " + node.CutText(task.Error)}
}

func (o order) op() string {
	if o.detail == "" {
		return string(o.kind)
	}
	return string(o.kind) + " (" + o.detail + ")"
}

// shortestPoll is the shortest time between two reads of a task.
const shortestPoll = 100 * time.Millisecond
