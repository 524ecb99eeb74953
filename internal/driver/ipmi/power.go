package ipmi

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// control is an action of the command Chassis Control (section 28.3).
type control byte

// Actions.
const (
	powerDown           control = 0
	powerUp             control = 1
	hardReset           control = 3
	diagnosticInterrupt control = 4
	softShutdown        control = 5
)

// targets are the power targets of the driver.
var targets = []node.PowerState{node.PowerOn, node.PowerOff, node.Rebooting, node.SoftPowerOff, node.SoftRebooting}

// Supported lists every target there is.
func (Driver) Supported() []node.PowerState { return slices.Clone(targets) }

// PowerState reads the power state.
func (d Driver) PowerState(ctx context.Context, n *node.Node) (node.PowerState, error) {
	var state node.PowerState
	err := d.with(ctx, n, "read power state", driver.Turn{}, func(c *call) (err error) {
		state, err = c.powerState(ctx)
		return err
	})
	return state, err
}

// powerState reads the chassis status (section 28.2).
func (c *call) powerState(ctx context.Context) (node.PowerState, error) {
	data, err := c.read(ctx, getChassisStatus)
	switch {
	case err != nil:
		return "", err
	case len(data) < 1:
		return "", &node.DriverError{Op: "read power state", Retryable: true, Refused: c.refused(), Reason: "the BMC answered without a state"}
	case data[0]&1 != 0:
		return node.PowerOn, nil
	}
	return node.PowerOff, nil
}

// leg is one part of a power change: a state to reach and the action that leads to it.
type leg struct {
	phase  string
	goal   node.PowerState
	action control
}

// sent is the phase after the BMC has accepted the action of a leg.
func (l leg) sent() string { return l.phase + " sent" }

// is reports whether a phase belongs to the leg.
func (l leg) is(phase string) bool { return phase == l.phase || phase == l.sent() }

var (
	legOn      = leg{"on", node.PowerOn, powerUp}
	legOff     = leg{"off", node.PowerOff, powerDown}
	legSoftOff = leg{"soft off", node.PowerOff, softShutdown}
	legRestart = leg{"restart", node.PowerOn, hardReset}

	// legs are all legs.
	legs = []leg{legOn, legOff, legSoftOff, legRestart}

	// powerPlans are the legs of each target. A reboot passes through off, which can be
	// seen, where the node allows that.
	powerPlans = map[node.PowerState][]leg{
		node.PowerOn:       {legOn},
		node.PowerOff:      {legOff},
		node.SoftPowerOff:  {legSoftOff},
		node.Rebooting:     {legOff, legOn},
		node.SoftRebooting: {legSoftOff, legOn},
	}
)

const (
	// restartDelay is the time within which an accepted restart begins.
	restartDelay = 15 * time.Second
	// shortestPoll is the shortest time between two reads of a machine that is changing.
	shortestPoll = 500 * time.Millisecond
)

// SetPower makes a turn of a power change.
func (d Driver) SetPower(ctx context.Context, n *node.Node, target node.PowerState, turn driver.Turn) (driver.Outcome, error) {
	if !slices.Contains(targets, target) {
		return driver.Outcome{}, driver.UnsupportedPower("ipmitool", target, targets)
	}
	if n.DisablePowerOff && target == node.SoftRebooting {
		return driver.Outcome{}, node.Invalid("IPMI restarts a machine softly only by switching it off, which disable_power_off of node %s forbids; request %q.", n.UUID, node.Rebooting)
	}
	if turn.Phase != "" && !slices.ContainsFunc(legs, func(l leg) bool { return l.is(turn.Phase) }) {
		return driver.Outcome{}, &node.DriverError{Op: "change the power", Reason: "this version does not know the stored phase " + strconv.Quote(node.CutText(turn.Phase))}
	}
	var out driver.Outcome
	err := d.with(ctx, n, "set power to "+string(target), turn, func(c *call) (err error) {
		state, err := c.powerState(ctx)
		switch {
		case err != nil:
			return err
		case n.DisablePowerOff && target == node.Rebooting && (turn.Phase == legRestart.sent() || turn.Phase == "" && state == node.PowerOn):
			out, err = c.restart(ctx, state, turn)
		case n.DisablePowerOff && target == node.Rebooting:
			out, err = c.changePower(ctx, []leg{legOn}, state, turn)
		default:
			out, err = c.changePower(ctx, powerPlans[target], state, turn)
		}
		return err
	})
	return out, err
}

// changePower makes a turn of a plan. It repeats an action whose outcome is unknown only when the
// power state shows that the action had no effect, so that repeating it harms nothing. It does not
// repeat an action that the BMC has accepted; the caller bounds how long the machine may take.
func (c *call) changePower(ctx context.Context, plan []leg, state node.PowerState, turn driver.Turn) (driver.Outcome, error) {
	i := max(0, slices.IndexFunc(plan, func(l leg) bool { return l.is(turn.Phase) }))
	now := plan[i]
	if state != now.goal && turn.Phase != now.sent() {
		err := c.change(ctx, chassisControl, byte(now.action))
		if err != nil && !isRefusal(err) {
			return driver.Outcome{}, err
		}
		after, unread := c.powerState(ctx)
		switch {
		case err != nil && (unread != nil || after != now.goal): // else it had the state already
			return driver.Outcome{}, err
		case unread != nil:
			return driver.Outcome{}, unread
		}
		state = after
	}
	switch {
	case state != now.goal:
		return driver.Outcome{Again: driver.PollPause(turn.Elapsed, shortestPoll), Phase: now.sent()}, nil
	case i+1 < len(plan):
		return driver.Outcome{Again: driver.NextTurn, Phase: plan[i+1].phase}, nil
	}
	return driver.Outcome{}, nil
}

// restart makes a turn of a reset, which leaves the power state as it was before.
func (c *call) restart(ctx context.Context, state node.PowerState, turn driver.Turn) (driver.Outcome, error) {
	switch {
	case turn.Phase == legRestart.sent() && state == legRestart.goal:
		return driver.Outcome{}, nil
	case turn.Phase == legRestart.sent():
		return driver.Outcome{Again: driver.PollPause(turn.Elapsed, shortestPoll), Phase: legRestart.sent()}, nil
	case turn.Attempt == driver.Unknown:
		return driver.Outcome{}, driver.OutcomeUnknown(legRestart.phase)
	}
	if err := c.change(ctx, chassisControl, byte(legRestart.action)); err != nil {
		return driver.Outcome{}, err
	}
	return driver.Outcome{Again: restartDelay, Phase: legRestart.sent()}, nil
}

// InjectNMI interrupts the machine. It does not repeat a request whose outcome is unknown: a second
// interrupt would end what the first one started, such as writing a crash dump.
func (d Driver) InjectNMI(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
	const op = "interrupt the machine"
	if turn.Attempt == driver.Unknown {
		return driver.Outcome{}, driver.OutcomeUnknown(op)
	}
	return driver.Outcome{}, d.with(ctx, n, op, turn, func(c *call) error {
		return c.change(ctx, chassisControl, byte(diagnosticInterrupt))
	})
}
