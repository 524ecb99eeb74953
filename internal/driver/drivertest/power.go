// Package drivertest holds the suites that every implementation of a driver
// interface must pass.
package drivertest

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// PowerCase is one power implementation under test.
type PowerCase struct {
	Power driver.Power
	// Reachable is a node whose power can be read and changed, Unreachable one
	// whose power cannot; nil when there is no such node.
	Reachable, Unreachable *node.Node
}

// everyTarget is every target that clients may ask for, and words that are none.
var everyTarget = []node.PowerState{
	node.PowerOn, node.PowerOff, node.Rebooting, node.SoftPowerOff, node.SoftRebooting, node.PowerError, "", "explode",
}

// Power checks the contract of driver.Power.
func Power(t *testing.T, c PowerCase) {
	t.Helper()
	t.Run("validates a complete node", func(t *testing.T) {
		if err := c.Power.Validate(c.Reachable); err != nil {
			t.Errorf("Validate: %v", err)
		}
	})
	t.Run("reads on or off", func(t *testing.T) {
		state, err := c.Power.PowerState(t.Context(), c.Reachable)
		if err != nil || state != node.PowerOn && state != node.PowerOff {
			t.Errorf("PowerState = %q, %v, want on or off", state, err)
		}
	})
	t.Run("takes exactly the supported targets", func(t *testing.T) {
		for _, target := range everyTarget {
			err := set(t.Context(), c.Power, c.Reachable, target)
			var invalid *node.ValidationError
			if supported := slices.Contains(c.Power.Supported(), target); supported && err != nil {
				t.Errorf("SetPower(%q): %v", target, err)
			} else if !supported && !errors.As(err, &invalid) {
				t.Errorf("SetPower(%q) = %v, want a ValidationError", target, err)
			}
		}
	})
	t.Run("obeys its context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for _, target := range c.Power.Supported() {
			if _, err := c.Power.SetPower(ctx, c.Reachable, target, driver.Turn{}); err == nil {
				t.Errorf("SetPower(%q) succeeds after its context ended", target)
			}
		}
	})
	t.Run("leaves the node alone", func(t *testing.T) {
		before := *c.Reachable
		for _, target := range c.Power.Supported() {
			_ = set(t.Context(), c.Power, c.Reachable, target)
		}
		if c.Reachable.PowerState != before.PowerState || c.Reachable.TargetPowerState != before.TargetPowerState {
			t.Error("SetPower changed the node")
		}
	})
	if c.Unreachable != nil {
		t.Run("says that it cannot know", func(t *testing.T) { unreachable(t, c) })
	}
}

func unreachable(t *testing.T, c PowerCase) {
	t.Helper()
	var failure *node.DriverError
	if state, err := c.Power.PowerState(t.Context(), c.Unreachable); state != "" || !errors.As(err, &failure) {
		t.Errorf("PowerState = %q, %v, want a DriverError", state, err)
	}
	for _, target := range c.Power.Supported() {
		if err := set(t.Context(), c.Power, c.Unreachable, target); !errors.As(err, &failure) {
			t.Errorf("SetPower(%q) = %v, want a DriverError", target, err)
		}
	}
}

// After returns the turn that follows an outcome which asked for it.
func After(turn driver.Turn, out driver.Outcome) driver.Turn {
	after := driver.Turn{
		Attempt: driver.Continued, Origin: turn.Origin, Elapsed: turn.Elapsed, Phase: out.Phase, Handle: out.Handle,
	}
	if !out.Waits {
		after.Elapsed += max(out.Again, out.Park)
	}
	return after
}

// maxTurns bounds how many turns an operation may take.
const maxTurns = 1000

// set makes the turns of a power change until it is done, without waiting.
func set(ctx context.Context, p driver.Power, n *node.Node, target node.PowerState) error {
	turn := driver.Turn{}
	for range maxTurns {
		out, err := p.SetPower(ctx, n, target, turn)
		if err != nil || out.Done() {
			return err
		}
		turn = After(turn, out)
	}
	return errors.New("the power change never ends")
}
