package driver_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/drivertest"
	"github.com/ingot-metal/ingot/internal/node"
)

func alive(n *node.Node) bool { return n.UUID == "alive" }

func TestFakePower(t *testing.T) {
	drivertest.Power(t, drivertest.PowerCase{Power: driver.Fake{}, Reachable: &node.Node{UUID: "any"}})
}

func TestFakePowerShowsWhatWasStored(t *testing.T) {
	for _, state := range []node.PowerState{node.PowerOn, node.PowerOff} {
		got, err := driver.Fake{}.PowerState(t.Context(), &node.Node{PowerState: state})
		if err != nil || got != state {
			t.Errorf("PowerState = %q, %v, want %q", got, err, state)
		}
	}
}

func TestAgentPower(t *testing.T) {
	drivertest.Power(t, drivertest.PowerCase{
		Power:     driver.Agent{Alive: alive, Reboot: func(ctx context.Context, _ *node.Node) error { return ctx.Err() }},
		Reachable: &node.Node{UUID: "alive"}, Unreachable: &node.Node{UUID: "silent"},
	})
}

func TestAgentPowerWithoutRebootRefusesEveryTarget(t *testing.T) {
	drivertest.Power(t, drivertest.PowerCase{
		Power: driver.Agent{Alive: alive}, Reachable: &node.Node{UUID: "alive"}, Unreachable: &node.Node{UUID: "silent"},
	})
}

func TestSilentRamdiskIsRetryable(t *testing.T) {
	_, err := driver.Agent{}.PowerState(t.Context(), &node.Node{UUID: "u"})
	var failure *node.DriverError
	if !errors.As(err, &failure) || !failure.Retryable {
		t.Errorf("PowerState without an agent = %v, want a retryable DriverError", err)
	}
}
