package redfish

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// record is what a step remembers between its turns. It is stored as the handle of the
// outcome, and later releases read it.
type record struct {
	// WasOff: the machine was off when the step began, and is switched off at its end.
	WasOff bool `json:"was_off,omitempty"`
	// Since is how long the step had taken when its present part began, in seconds.
	Since float64 `json:"since,omitempty"`
	// Boot is what the BMC showed of the last boot before a machine was asked to restart itself.
	Boot *bootMark `json:"boot,omitempty"`
	// Update is how far an update of firmware has come.
	Update *update `json:"update,omitempty"`
	// RAID is how far a change of volumes has come.
	RAID *raidWork `json:"raid,omitempty"`
	// Silent is how long the step had taken when the BMC first failed to answer, in seconds; 0
	// while it answers.
	Silent float64 `json:"silent,omitempty"`
	// Doubt: nobody knows what became of the last call.
	Doubt bool `json:"doubt,omitempty"`
}

// recordOf reads the record of the last turn.
func recordOf(turn driver.Turn) (record, error) {
	var r record
	if turn.Handle == "" {
		return r, nil
	}
	if err := json.Unmarshal([]byte(turn.Handle), &r); err != nil {
		return r, &node.DriverError{Op: "go on with the step", Reason: "its stored record cannot be read: " + err.Error()}
	}
	return r, nil
}

// outcome adds the record to an outcome.
func (r record) outcome(out driver.Outcome) driver.Outcome {
	text, err := json.Marshal(r)
	if err == nil { // its types always can be written
		out.Handle = string(text)
	}
	return out
}

// took returns how long the present part of the step has taken.
func (r record) took(turn driver.Turn) time.Duration {
	return turn.Elapsed - time.Duration(r.Since*float64(time.Second))
}

// parkFor returns how long the node waits until the BMC is asked again about something that has
// taken so long.
func parkFor(took time.Duration) time.Duration {
	return min(max(took/4, time.Second), 10*time.Second)
}

// from returns the record with a present part that begins now.
func (r record) from(turn driver.Turn) record {
	r.Since = turn.Elapsed.Seconds()
	return r
}

// switchOffPhase is the phase in which a machine that was off before the step is switched off
// again.
const switchOffPhase = "switch off"

// ends adds to the outcome at the end of a step that a machine which was off before the step is
// switched off again, unless it must stay on.
func (r record) ends(n *node.Node, out driver.Outcome) driver.Outcome {
	if !r.WasOff || n.DisablePowerOff {
		return out
	}
	out.Again, out.Phase = driver.NextTurn, switchOffPhase
	return r.outcome(out)
}

// softOffWithin bounds how long an operating system may take to shut down. After that the machine
// is switched off, or restarted without being asked.
const softOffWithin = 10 * time.Minute

// rebootOf returns how a step restarts the machine. A machine in use gets the time to shut down.
func rebootOf(kind driver.StepKind) node.PowerState {
	if kind == driver.ServiceSteps {
		return node.SoftRebooting
	}
	return node.Rebooting
}

// beginRestart returns the outcome after a request that a restart of the machine applies.
func (c *call) beginRestart(n *node.Node, kind driver.StepKind, r record, elapsed time.Duration) (driver.Outcome, error) {
	system, err := c.system()
	if err != nil {
		return driver.Outcome{}, err
	}
	r.WasOff = r.WasOff || system.PowerState == schemas.OffPowerState
	plan := planOf(rebootOf(kind), n.DisablePowerOff, system.PowerState, "")
	return r.from(driver.Turn{Elapsed: elapsed}).outcome(driver.Outcome{Again: driver.NextTurn, Phase: plan[0].phase}), nil
}

// restart makes a turn of the restart, after which the step verifies what it did, or of switching
// the machine off again. A machine that does not shut down in time is switched off. If it must stay
// on, it is restarted without a shutdown.
func (c *call) restart(n *node.Node, kind driver.StepKind, turn driver.Turn, r record) (driver.Outcome, error) {
	target, ends := rebootOf(kind), verifyPhase
	switch {
	case strings.HasPrefix(turn.Phase, switchOffPhase):
		target, ends = node.PowerOff, ""
		turn.Phase = legOff.phase + strings.TrimPrefix(turn.Phase, switchOffPhase)
	case turn.Phase == legSoftOff.sent() && r.took(turn) > softOffWithin:
		target, turn.Phase = node.Rebooting, legOff.phase
	case legOff.is(turn.Phase), legRestart.is(turn.Phase):
		target = node.Rebooting
	case legSoftRestart.is(turn.Phase):
		if out, err := c.awaitSoftRestart(turn, &r); err != nil || !out.Done() {
			return r.outcome(out), err
		}
	}
	out, err := c.changePower(n, target, turn)
	switch {
	case err != nil:
		return out, err
	case out.Done() && ends == "":
		return out, nil
	case out.Done():
		out.Again, out.Phase = driver.NextTurn, ends
		return r.from(turn).outcome(out), nil
	case ends == "":
		out.Phase = switchOffPhase + strings.TrimPrefix(out.Phase, legOff.phase)
	}
	return r.outcome(out), nil
}

// endLate returns the failure of a change that took too long. If the restart has left the machine
// off, as when the engine stood still in between, endLate switches it on first.
func (c *call) endLate(r record, failure error) error {
	if r.WasOff || !slices.ContainsFunc(legs, func(l leg) bool { return l.is(c.turn.Phase) }) {
		return failure
	}
	system, err := c.system()
	if err == nil && system.PowerState == schemas.OffPowerState {
		_, err = c.reset(system, legOn)
	}
	if err != nil {
		return err
	}
	return failure
}
