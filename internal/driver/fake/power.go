package fake

import (
	"context"
	"slices"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// leg is one part of a power change: a state to reach and the effect that leads to it.
type leg struct {
	phase string
	goal  node.PowerState
	kind  Kind
}

// sent is the phase after the machine has accepted the effect of a leg.
func (l leg) sent() string { return l.phase + " sent" }

var (
	on      = leg{"on", node.PowerOn, PowerOn}
	off     = leg{"off", node.PowerOff, PowerOff}
	softOff = leg{"off", node.PowerOff, SoftPowerOff}

	powerPlans = map[node.PowerState][]leg{
		node.PowerOn:       {on},
		node.PowerOff:      {off},
		node.SoftPowerOff:  {softOff},
		node.Rebooting:     {off, on},
		node.SoftRebooting: {softOff, on},
	}
)

// changePower makes a turn of a power change. A leg is stored before its effect is requested, and
// every turn reads the power state first. A request whose outcome is unknown is repeated only when
// the power state shows that it had no effect, so that repeating it is harmless. An accepted
// request is not repeated; the caller bounds how long the machine may take.
func changePower(ctx context.Context, machine Machine, target node.PowerState, turn driver.Turn) (driver.Outcome, error) {
	legs := powerPlans[target]
	i := max(0, slices.IndexFunc(legs, func(l leg) bool { return turn.Phase == l.phase || turn.Phase == l.sent() }))
	now := legs[i]
	state, err := machine.PowerState(ctx)
	if err != nil {
		return driver.Outcome{}, read(err)
	}
	if state != now.goal && turn.Phase != now.sent() {
		task, err := machine.Do(ctx, Effect{Origin: turn.Origin, Kind: now.kind})
		if err != nil {
			return driver.Outcome{}, err
		}
		if task.State == Failed {
			return order{kind: now.kind}.outcome(task, turn)
		}
		if state, err = machine.PowerState(ctx); err != nil {
			return driver.Outcome{}, read(err)
		}
	}
	switch {
	case state != now.goal:
		return driver.Outcome{Again: driver.PollPause(turn.Elapsed, shortestPoll), Phase: now.sent()}, nil
	case i+1 < len(legs):
		return driver.Outcome{Again: driver.NextTurn, Phase: legs[i+1].phase}, nil
	}
	return driver.Outcome{}, nil
}
