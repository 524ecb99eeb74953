package agentpower_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/agentpower"
	"github.com/ingot-metal/ingot/internal/driver/drivertest"
	"github.com/ingot-metal/ingot/internal/node"
)

func alive(n *node.Node) bool { return n.UUID == "alive" }

func TestPower(t *testing.T) {
	drivertest.Power(t, drivertest.PowerCase{
		Power:     agentpower.Power{Alive: alive, Reboot: func(ctx context.Context, _ *node.Node) error { return ctx.Err() }},
		Reachable: &node.Node{UUID: "alive"}, Unreachable: &node.Node{UUID: "silent"},
	})
}

func TestPowerWithoutRebootRefusesEveryTarget(t *testing.T) {
	drivertest.Power(t, drivertest.PowerCase{
		Power: agentpower.Power{Alive: alive}, Reachable: &node.Node{UUID: "alive"}, Unreachable: &node.Node{UUID: "silent"},
	})
}

func TestSilentRamdiskIsARetryableRefusal(t *testing.T) {
	power := agentpower.Power{Reboot: func(context.Context, *node.Node) error { return nil }}
	_, reading := power.PowerState(t.Context(), &node.Node{UUID: "u"})
	_, rebooting := power.SetPower(t.Context(), &node.Node{UUID: "u"}, node.Rebooting, driver.Turn{})
	for _, err := range []error{reading, rebooting} {
		var failure *node.DriverError
		if !errors.As(err, &failure) || !failure.Retryable || !failure.Refused {
			t.Errorf("without an agent: %v, want a DriverError that is retryable and says that nothing was sent", err)
		}
	}
}

func TestRebootIsSentUnlessItMayHaveArrived(t *testing.T) {
	for attempt, want := range map[driver.Attempt]int{
		driver.Fresh: 1, driver.Refused: 1, driver.Continued: 0, driver.Unknown: 0,
	} {
		sent := 0
		power := agentpower.Power{Alive: alive, Reboot: func(context.Context, *node.Node) error { sent++; return nil }}
		out, err := power.SetPower(t.Context(), &node.Node{UUID: "alive"}, node.Rebooting, driver.Turn{Attempt: attempt})
		if err != nil || !out.Done() || sent != want {
			t.Errorf("attempt %q: %+v, %v, %d reboots; want it done with %d", attempt, out, err, sent, want)
		}
	}
}

func TestRefusedHeartbeatsAreNamed(t *testing.T) {
	n := &node.Node{UUID: "u", DriverInternalInfo: node.ObjectOf(map[string]any{
		node.HeartbeatRefusalsKey: []node.HeartbeatRefusal{{Reason: node.RefusedPlainHTTP, URL: "http://192.0.2.7:9999"}},
	})}
	_, err := agentpower.Power{}.PowerState(t.Context(), n)
	for _, want := range []string{"http://192.0.2.7:9999", "agent.require_tls", "accepted no heartbeat"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want %q in it", err, want)
		}
	}
}

func TestRamdiskThatRestartsItsMachineIsForgotten(t *testing.T) {
	n := &node.Node{UUID: "alive", DriverInternalInfo: node.ObjectOf(map[string]any{agent.TokenKey: "t", agent.URLKey: "https://192.0.2.7:9999"})}
	for want, reboot := range map[bool]error{true: nil, false: errors.New("busy")} {
		power := agentpower.Power{Alive: alive, Reboot: func(context.Context, *node.Node) error { return reboot }}
		out, _ := power.SetPower(t.Context(), n, node.Rebooting, driver.Turn{})
		after := *n
		if out.Apply != nil {
			out.Apply(&after)
		}
		if forgotten := after.DriverInternalInfo.IsEmpty(); forgotten != want {
			t.Errorf("accepted %v: the node keeps %s", want, after.DriverInternalInfo)
		}
	}
}
