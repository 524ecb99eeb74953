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

// accepts is a ramdisk that restarts its machine.
func accepts(ctx context.Context, _ *node.Node, _ driver.Turn) (driver.Outcome, error) {
	return driver.Outcome{}, ctx.Err()
}

func TestPower(t *testing.T) {
	drivertest.Power(t, drivertest.PowerCase{
		Power:     agentpower.Power{Alive: alive, Reboot: accepts},
		Reachable: &node.Node{UUID: "alive"}, Unreachable: &node.Node{UUID: "silent"},
	})
}

func TestPowerWithoutRebootRefusesEveryTarget(t *testing.T) {
	drivertest.Power(t, drivertest.PowerCase{
		Power: agentpower.Power{Alive: alive}, Reachable: &node.Node{UUID: "alive"}, Unreachable: &node.Node{UUID: "silent"},
	})
}

func TestSilentRamdiskIsARetryableRefusal(t *testing.T) {
	power := agentpower.Power{Reboot: accepts}
	_, reading := power.PowerState(t.Context(), &node.Node{UUID: "u"})
	_, rebooting := power.SetPower(t.Context(), &node.Node{UUID: "u"}, node.Rebooting, driver.Turn{})
	for _, err := range []error{reading, rebooting} {
		var failure *node.DriverError
		if !errors.As(err, &failure) || !failure.Retryable || !failure.Refused {
			t.Errorf("without an agent: %v, want a DriverError that is retryable and says that nothing was sent", err)
		}
	}
}

// TestSilentRamdiskIsAskedWhenItMayHaveGoneDown: the silence may be the effect of the reboot that
// was requested.
func TestSilentRamdiskIsAskedWhenItMayHaveGoneDown(t *testing.T) {
	for _, tc := range []struct {
		turn driver.Turn
		want int
	}{
		{driver.Turn{}, 0},
		{driver.Turn{Attempt: driver.Refused}, 0},
		{driver.Turn{Attempt: driver.Unknown}, 1},
		{driver.Turn{Attempt: driver.Continued, Phase: "to send"}, 1},
		{driver.Turn{Attempt: driver.Unknown, Phase: "to send"}, 1},
	} {
		asked := 0
		power := agentpower.Power{Alive: alive, Reboot: func(context.Context, *node.Node, driver.Turn) (driver.Outcome, error) {
			asked++
			return driver.Outcome{}, nil
		}}
		_, err := power.SetPower(t.Context(), &node.Node{UUID: "silent"}, node.Rebooting, tc.turn)
		if asked != tc.want || (err == nil) != (tc.want == 1) {
			t.Errorf("%+v: asked %d times, %v, want %d", tc.turn, asked, err, tc.want)
		}
	}
}

// TestRamdiskThatNobodyListenedToIsAsked: the ramdisk may have sent its heartbeats to an engine
// that was away.
func TestRamdiskThatNobodyListenedToIsAsked(t *testing.T) {
	for _, silent := range []bool{false, true} {
		asked := false
		power := agentpower.Power{Alive: alive, Silent: func(*node.Node) bool { return silent }, Reboot: func(context.Context, *node.Node, driver.Turn) (driver.Outcome, error) {
			asked = true
			return driver.Outcome{}, nil
		}}
		if _, err := power.SetPower(t.Context(), &node.Node{UUID: "u"}, node.Rebooting, driver.Turn{}); asked == silent || (err != nil) != silent {
			t.Errorf("silent %v: asked %v, %v", silent, asked, err)
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
	for name, tc := range map[string]struct {
		turn driver.Turn
		out  driver.Outcome
		err  error
		want bool
	}{
		"accepted":          {want: true},
		"gone after a call": {turn: driver.Turn{Attempt: driver.Unknown, Phase: "to send"}, want: true},
		"refused":           {err: errors.New("busy")},
		"not sent yet":      {out: driver.Outcome{Again: 1, Phase: "to send"}},
	} {
		power := agentpower.Power{Alive: alive, Reboot: func(context.Context, *node.Node, driver.Turn) (driver.Outcome, error) { return tc.out, tc.err }}
		out, _ := power.SetPower(t.Context(), n, node.Rebooting, tc.turn)
		after := *n
		if out.Apply != nil {
			out.Apply(&after)
		}
		if forgotten := after.DriverInternalInfo.IsEmpty(); forgotten != tc.want {
			t.Errorf("%s: the node keeps %s", name, after.DriverInternalInfo)
		}
	}
}
