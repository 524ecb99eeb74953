package redfish

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// powerStates are the states that a machine stays in. The others pass.
var powerStates = map[schemas.PowerState]node.PowerState{
	schemas.OnPowerState:  node.PowerOn,
	schemas.OffPowerState: node.PowerOff,
}

// targets are the power targets of the driver.
var targets = []node.PowerState{node.PowerOn, node.PowerOff, node.Rebooting, node.SoftPowerOff, node.SoftRebooting}

// Supported lists every target there is.
func (Driver) Supported() []node.PowerState { return slices.Clone(targets) }

// PowerState reads the power state. While the state changes, it is unknown: the error is a
// retryable *node.DriverError.
func (d Driver) PowerState(ctx context.Context, n *node.Node) (node.PowerState, error) {
	const op = "read power state"
	var state node.PowerState
	err := d.with(ctx, n, op, driver.Turn{}, func(c *call) error {
		system, err := c.system()
		if err != nil {
			return err
		}
		known, ok := powerStates[system.PowerState]
		if !ok {
			return &node.DriverError{Op: op, Retryable: true, Reason: node.CutText("the machine shows " + string(system.PowerState))}
		}
		state = known
		return nil
	})
	return state, err
}

// leg is one part of a power change: a state to reach and the reset that leads to it.
type leg struct {
	phase string
	goal  schemas.PowerState
	// resets are the reset types that do it, the best first.
	resets []schemas.ResetType
	// passing is the power state that shows that the reset has begun to act. It is empty where
	// asking again is harmless or has a use.
	passing schemas.PowerState
	// restarts: the power state is the same before and after.
	restarts bool
}

// sent is the phase after the BMC has accepted the reset of a leg.
func (l leg) sent() string { return l.phase + " sent" }

// waits is the phase in which a leg that cuts power waits while firmware is being written. No reset
// has been sent yet. A leg that begins a power change waits without a phase if its reset may be
// repeated.
// Earlier releases waited in the phase in which the reset is sent.
func (l leg) waits() string { return driver.WaitPhase(l.phase) }

var (
	legOn = leg{phase: "on", goal: schemas.OnPowerState, passing: schemas.PoweringOnPowerState, resets: []schemas.ResetType{
		schemas.OnResetType, schemas.ForceOnResetType, schemas.PushPowerButtonResetType,
	}}
	legOff     = leg{phase: "off", goal: schemas.OffPowerState, resets: []schemas.ResetType{schemas.ForceOffResetType}}
	legSoftOff = leg{phase: "soft off", goal: schemas.OffPowerState, passing: schemas.PoweringOffPowerState, resets: []schemas.ResetType{
		schemas.GracefulShutdownResetType, schemas.PushPowerButtonResetType,
	}}
	legRestart = leg{phase: "restart", goal: schemas.OnPowerState, restarts: true, resets: []schemas.ResetType{
		schemas.ForceRestartResetType, schemas.PowerCycleResetType,
	}}
	legSoftRestart = leg{phase: "soft restart", goal: schemas.OnPowerState, restarts: true, resets: []schemas.ResetType{
		schemas.GracefulRestartResetType,
	}}
)

// legs are all legs.
var legs = []leg{legOn, legOff, legSoftOff, legRestart, legSoftRestart}

// cutsPower reports whether the leg ends what runs on the machine.
func (l leg) cutsPower() bool { return l.restarts || l.goal == schemas.OffPowerState }

// once reports whether the reset of the leg must not be repeated while nobody knows whether it took
// effect. Pushing the power button twice is not at all.
func (l leg) once(system *schemas.ComputerSystem) bool {
	if l.restarts {
		return true
	}
	kind, err := chooseReset(system, l.resets)
	return err == nil && kind == schemas.PushPowerButtonResetType
}

// is reports whether a phase belongs to the leg.
func (l leg) is(phase string) bool {
	return phase == l.phase || phase == l.sent() || phase == l.waits()
}

// powerPlans are the legs of each target. A reboot passes through off, which can be
// seen, where the node allows that.
var powerPlans = map[node.PowerState][]leg{
	node.PowerOn:       {legOn},
	node.PowerOff:      {legOff},
	node.SoftPowerOff:  {legSoftOff},
	node.Rebooting:     {legOff, legOn},
	node.SoftRebooting: {legSoftOff, legOn},
}

// stayingOn are the plans of a machine that must not be switched off.
var stayingOn = map[node.PowerState][]leg{
	node.Rebooting:     {legRestart},
	node.SoftRebooting: {legSoftRestart},
}

// planOf returns the legs that lead to a target. With keepsOn, the machine must not be switched
// off; a restart then switches it on if it is off.
func planOf(target node.PowerState, keepsOn bool, state schemas.PowerState, phase string) []leg {
	plan, ok := stayingOn[target]
	if !keepsOn || !ok {
		return powerPlans[target]
	}
	if phase == legOn.sent() || state == schemas.OffPowerState {
		return []leg{legOn}
	}
	return plan
}

const (
	// restartDelay is the time within which an accepted restart begins.
	restartDelay = 15 * time.Second
	// shortestPoll is the shortest time between two reads of a machine that is changing.
	shortestPoll = 500 * time.Millisecond
)

// SetPower makes a turn of a power change.
func (d Driver) SetPower(ctx context.Context, n *node.Node, target node.PowerState, turn driver.Turn) (driver.Outcome, error) {
	if !slices.Contains(targets, target) {
		return driver.Outcome{}, driver.UnsupportedPower("redfish", target, targets)
	}
	var out driver.Outcome
	err := d.with(ctx, n, "set power to "+string(target), turn, func(c *call) (err error) {
		out, err = c.changePower(n, target, turn)
		return err
	})
	return out, err
}

// changePower reads the power state in every turn. It repeats a reset whose outcome is unknown only
// when the state shows that the reset had no effect, so that repeating it harms nothing. It does
// not repeat a reset that the BMC has accepted; the caller bounds how long the machine may take. It
// does not cut the power of a machine whose firmware is being written.
func (c *call) changePower(n *node.Node, target node.PowerState, turn driver.Turn) (driver.Outcome, error) {
	if turn.Phase != "" && !slices.ContainsFunc(legs, func(l leg) bool { return l.is(turn.Phase) }) {
		return driver.Outcome{}, &node.DriverError{Op: "change the power", Reason: "this version does not know the stored phase " + strconv.Quote(node.CutText(turn.Phase))}
	}
	system, err := c.system()
	if err != nil {
		return driver.Outcome{}, err
	}
	plan := planOf(target, n.DisablePowerOff, system.PowerState, turn.Phase)
	i := max(0, slices.IndexFunc(plan, func(l leg) bool { return l.is(turn.Phase) }))
	now := plan[i]
	resets := turn.Phase != now.sent() && (now.restarts || system.PowerState != now.goal && system.PowerState != now.passing)
	waits := turn.Phase == now.waits()
	if driver.IsWaitPhase(turn.Phase) && !waits { // the machine has another state than at the wait
		return driver.Outcome{Again: driver.NextTurn, Phase: now.phase}, nil
	}
	// This comes before any wait: after a wait, nobody would know that the outcome is unknown.
	if resets && now.cutsPower() && !waits && turn.Attempt == driver.Unknown && now.once(system) {
		return driver.Outcome{}, driver.OutcomeUnknown(now.phase)
	}
	var out driver.Outcome
	if resets && now.cutsPower() {
		out, err = c.awaitFirmware(n, turn)
		switch {
		case err == nil && !out.Done() && (turn.Phase != "" || now.once(system)):
			out.Phase = now.waits()
		case err == nil && waits: // the reset has a turn of its own, whose outcome may be unknown
			out.Again, out.Phase = driver.NextTurn, now.phase
		}
		if err != nil || !out.Done() {
			return out, err
		}
	}
	if now.restarts {
		out.Again, out.Phase, err = c.resetOn(system, now, turn)
		return out, err
	}
	if resets {
		if system, err = c.reset(system, now); err != nil {
			return driver.Outcome{}, err
		}
	}
	switch {
	case system.PowerState != now.goal:
		out.Again, out.Phase = driver.PollPause(turn.Elapsed, shortestPoll), now.sent()
	case i+1 < len(plan):
		out.Again, out.Phase = driver.NextTurn, plan[i+1].phase
	}
	return out, nil
}

// resetOn makes a turn of a leg that leaves the power state as it was before. It returns the time
// until the next turn, and the phase of that turn.
func (c *call) resetOn(system *schemas.ComputerSystem, now leg, turn driver.Turn) (again time.Duration, phase string, err error) {
	switch {
	case turn.Phase == now.sent() && system.PowerState == now.goal:
		return 0, "", nil
	case turn.Phase == now.sent():
		return driver.PollPause(turn.Elapsed, shortestPoll), now.sent(), nil
	}
	if _, err := c.reset(system, now); err != nil {
		return 0, "", err
	}
	return restartDelay, now.sent(), nil
}

// reset requests the reset of a leg and reads the system again. A refusal is ignored if the machine
// has the wanted state already. A reset that the BMC has accepted is done, even if the BMC does not
// answer afterwards: reset then returns the system as it was before.
func (c *call) reset(system *schemas.ComputerSystem, l leg) (*schemas.ComputerSystem, error) {
	kind, err := chooseReset(system, l.resets)
	if err != nil {
		return nil, err
	}
	if kind == schemas.PushPowerButtonResetType && c.turn.Attempt == driver.Unknown {
		return nil, driver.OutcomeUnknown("push the power button") // twice is not at all
	}
	_, refusal := system.Reset(kind)
	if refusal != nil && (l.restarts || !isRefusal(refusal)) {
		return nil, refusal
	}
	after, err := c.system()
	switch {
	case refusal != nil && (err != nil || after.PowerState != l.goal):
		return nil, refusal
	case err != nil:
		return system, nil //nolint:nilerr // the next turn reads it
	}
	return after, nil
}

// isRefusal reports whether a BMC refused a request.
func isRefusal(err error) bool { status := statusOf(err); return status >= 400 && status < 500 }

// chooseReset picks the first reset type that the system allows.
func chooseReset(system *schemas.ComputerSystem, wanted []schemas.ResetType) (schemas.ResetType, error) {
	allowed, err := system.GetSupportedResetTypes()
	if err != nil || len(allowed) == 0 { // not every BMC lists them
		return wanted[0], nil //nolint:nilerr // the BMC answers itself when it does not know the type
	}
	for _, kind := range wanted {
		if slices.Contains(allowed, kind) {
			return kind, nil
		}
	}
	return "", &node.DriverError{Op: "reset the machine", Refused: true, Reason: node.CutText(
		"the BMC supports none of " + listed(wanted) + "; it supports " + listed(allowed))}
}

// listed writes values with commas.
func listed[T ~string](values []T) string {
	var text string
	for i, value := range values {
		if i > 0 {
			text += ", "
		}
		text += string(value)
	}
	return text
}

// InjectNMI interrupts the machine. It does not repeat a request whose outcome is unknown: a second
// interrupt would end what the first one started, such as writing a crash dump. It refuses while
// firmware is being written, because some machines restart at an interrupt.
func (d Driver) InjectNMI(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
	const op = "interrupt the machine"
	if turn.Attempt == driver.Unknown {
		return driver.Outcome{}, driver.OutcomeUnknown(op)
	}
	var out driver.Outcome
	err := d.with(ctx, n, op, turn, func(c *call) error {
		system, err := c.system()
		if err != nil {
			return err
		}
		switch out, err = c.awaitFirmware(n, turn); {
		case err != nil:
			return err
		case !out.Done():
			return &node.DriverError{Op: op, Refused: true, Reason: "the BMC writes firmware: ask again when that has ended"}
		}
		kind, err := chooseReset(system, []schemas.ResetType{schemas.NmiResetType})
		if err != nil {
			return err
		}
		_, err = system.Reset(kind)
		return err
	})
	return out, err
}
