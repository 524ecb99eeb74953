package conductor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// Keys of the intent of power work.
const (
	powerTargetIntent  = "target"
	powerTimeoutIntent = "timeout" // seconds; 0 means the engine's default
)

// quietStates are the states in which only the engine may change the power.
var quietStates = []node.State{node.Cleaning, node.CleanWait}

// SetPower asks for a power change and returns when the request is durable. A
// zero timeout means the engine's default.
func (c *Conductor) SetPower(ctx context.Context, ident string, target node.PowerState, timeout time.Duration) error {
	var started *job
	err := c.store.Write(ctx, func(tx *store.Tx) error {
		started = nil
		before, err := unleased(tx, ident)
		if err != nil {
			return err
		}
		if before.TargetPowerState != "" { // its work waits to be tried again
			return &node.LockedError{Node: before.UUID, Owner: c.cfg.Hostname}
		}
		if err := c.permitPower(before, target); err != nil {
			return err
		}
		n := *before
		n.TargetPowerState, n.LastError = settled(target), ""
		intent := node.ObjectOf(map[string]any{powerTargetIntent: target, powerTimeoutIntent: timeout.Seconds()})
		if started, err = c.startServed(tx, &n, workPower, intent); err != nil {
			return err
		}
		return tx.UpdateNode(before, &n)
	})
	if err != nil {
		return err
	}
	c.enqueueStarted(started)
	return nil
}

// permitPower decides whether a client may ask for this change now.
func (c *Conductor) permitPower(n *node.Node, target node.PowerState) error {
	power, err := c.drivers.Power(n)
	if err != nil {
		return err
	}
	switch {
	case slices.Contains(quietStates, n.ProvisionState):
		return node.Invalid("The power state of node %s can not be changed while it is in state %q.", n.UUID, n.ProvisionState)
	case len(power.Supported()) == 0:
		return node.Invalid("Node %s does not support power changes: its power_interface is %q.", n.UUID, n.Interfaces[node.PowerInterface])
	case !slices.Contains(power.Supported(), target):
		return node.Invalid("The power interface %q of node %s does not support %q; it supports %s.",
			n.Interfaces[node.PowerInterface], n.UUID, target, node.Choices(power.Supported()))
	case n.DisablePowerOff && settled(target) == node.PowerOff:
		return node.Conflict("Node %s must not be switched off: its disable_power_off is true.", n.UUID)
	}
	return power.Validate(n)
}

// settled is the state that a machine is in when a change to target is done.
func settled(target node.PowerState) node.PowerState {
	if target == node.PowerOff || target == node.SoftPowerOff {
		return node.PowerOff
	}
	return node.PowerOn
}

// runPower changes the power state as a client asked.
func runPower(ctx context.Context, s *session) error {
	var target node.PowerState
	var seconds float64
	s.j.Intent.Get(powerTargetIntent, &target)
	s.j.Intent.Get(powerTimeoutIntent, &seconds)
	if err := s.perform(ctx, nil, s.powerOperation(target, time.Duration(seconds*float64(time.Second)))); err != nil {
		return err
	}
	return s.finish(ctx, func(_ *store.Tx, n *node.Node) error {
		n.TargetPowerState = ""
		return nil
	})
}

// readPowerAgain stores the power state of a machine that did not change it.
func readPowerAgain(ctx context.Context, s *session) error {
	state, err := s.readPower(ctx, s.n)
	if err != nil {
		state = node.PowerError
	}
	s.pending = append(s.pending, func(n *node.Node) { n.PowerState = state })
	return nil
}

// failedPower ends the wish for a power state.
func failedPower(n *node.Node, reason string) string {
	target := n.TargetPowerState
	n.TargetPowerState = ""
	return fmt.Sprintf("Failed to change power state to '%s'. %s", target, reason)
}

// powerOperation changes the power to target. A machine that is in the wanted
// state already is left alone; reboots are never.
func (s *session) powerOperation(target node.PowerState, timeout time.Duration) operation {
	if timeout <= 0 {
		timeout = s.cfg.Limits.powerTimeout(target)
	}
	return func(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
		power, err := s.drivers.Power(n)
		if err != nil {
			return driver.Outcome{}, err
		}
		reached := func(n *node.Node) { n.PowerState = settled(target) }
		if turn.First && (target == node.PowerOn || target == node.PowerOff) {
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
				Op: "change power of node " + n.UUID, Reason: fmt.Sprintf("the machine did not reach %q within %s.", settled(target), timeout),
			}
		}
		out, err := power.SetPower(ctx, n, target, turn)
		if err == nil && out.Done() {
			out.Apply = reached
		}
		out.Again = min(out.Again, timeout-turn.Elapsed+time.Millisecond)
		return out, err
	}
}

// switchOn and switchOff leave a machine on or off where its power interface can
// do that and the node allows it.
func switchOn(ctx context.Context, s *session) error { return s.switchTo(ctx, node.PowerOn) }

func switchOff(ctx context.Context, s *session) error { return s.switchTo(ctx, node.PowerOff) }

func (s *session) switchTo(ctx context.Context, target node.PowerState) error {
	return s.perform(ctx, nil, s.switchOperation(target))
}

func (s *session) switchOperation(target node.PowerState) operation {
	change := s.powerOperation(target, 0)
	return func(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
		power, err := s.drivers.Power(n)
		if err != nil {
			return driver.Outcome{}, err
		}
		if target == node.PowerOff && n.DisablePowerOff || !slices.Contains(power.Supported(), target) {
			return driver.Outcome{}, nil
		}
		return change(ctx, n, turn)
	}
}
