package bmc

import (
	"slices"
	"time"

	"github.com/ingot-metal/ingot/internal/sim/effect"
)

// PowerState is the power state of a machine, as Redfish spells it.
type PowerState string

// The power states.
const (
	On          PowerState = "On"
	Off         PowerState = "Off"
	PoweringOn  PowerState = "PoweringOn"
	PoweringOff PowerState = "PoweringOff"
)

// ResetType is a change of power, as Redfish spells it (Resource.ResetType).
type ResetType string

// The reset types.
const (
	ResetOn               ResetType = "On"
	ResetForceOff         ResetType = "ForceOff"
	ResetForceRestart     ResetType = "ForceRestart"
	ResetGracefulShutdown ResetType = "GracefulShutdown"
	ResetGracefulRestart  ResetType = "GracefulRestart"
	ResetPowerCycle       ResetType = "PowerCycle"
	ResetPushPowerButton  ResetType = "PushPowerButton"
	ResetNMI              ResetType = "Nmi"
)

// action is what the hardware does at one moment.
type action int

const (
	cutPower  action = iota // takes the power
	givePower               // gives power; POST begins
	restart                 // keeps the power; POST begins
	endPOST                 // settings are applied and the machine boots
)

// step is one planned action.
type step struct {
	at   time.Time
	what action
	soft bool // waits for the operating system to shut down; until then the machine counts as on
}

// reset is what a reset type does. A nil plan leaves the power as it is.
type reset struct {
	kind    Kind
	wantsOn bool // only machines that are on accept it
	soft    bool // asks the operating system first
	plan    func(t Times, now time.Time) []step
}

// resets has every reset type but the power button.
var resets = map[ResetType]reset{
	ResetOn:       {kind: PowerOn, plan: func(t Times, now time.Time) []step { return []step{{at: now.Add(t.PowerOn), what: givePower}} }},
	ResetForceOff: {kind: PowerOff, wantsOn: true, plan: func(t Times, now time.Time) []step { return []step{{at: now.Add(t.PowerOff), what: cutPower}} }},
	ResetForceRestart: {kind: Reboot, wantsOn: true, plan: func(t Times, now time.Time) []step {
		return []step{{at: now.Add(t.PowerOff), what: restart}}
	}},
	ResetGracefulShutdown: {kind: SoftPowerOff, wantsOn: true, soft: true, plan: func(t Times, now time.Time) []step {
		return []step{{at: now.Add(t.Shutdown), what: cutPower, soft: true}}
	}},
	ResetGracefulRestart: {kind: SoftReboot, wantsOn: true, soft: true, plan: func(t Times, now time.Time) []step {
		return []step{{at: now.Add(t.Shutdown), what: restart, soft: true}}
	}},
	ResetPowerCycle: {kind: PowerCycle, wantsOn: true, plan: func(t Times, now time.Time) []step {
		off := now.Add(t.PowerOff)
		return []step{{at: off, what: cutPower}, {at: off.Add(t.PowerCycle), what: givePower}}
	}},
	ResetNMI: {kind: NMI, wantsOn: true},
}

// Power returns the present power state.
func (b *BMC) Power() PowerState {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.actDue()
	return b.powerState()
}

func (b *BMC) powerState() PowerState {
	switch {
	case len(b.plan) > 0 && b.plan[0].what == givePower:
		return PoweringOn
	case len(b.plan) > 0 && b.plan[0].what == cutPower && !b.plan[0].soft:
		return PoweringOff
	case b.on:
		return On
	}
	return Off
}

// InPOST reports whether the machine is on and has not booted yet.
func (b *BMC) InPOST() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.actDue()
	return b.inPOST()
}

func (b *BMC) inPOST() bool {
	return b.on && slices.ContainsFunc(b.plan, func(s step) bool { return s.what == endPOST })
}

// Reset changes the power. It returns before the change has taken effect. A request replaces an
// earlier one that has not taken effect yet. The error is a *RefusedError.
func (b *BMC) Reset(c *Call, kind ResetType) error {
	if !slices.Contains(b.config.Profile.Resets, kind) {
		return &RefusedError{Reason: UnknownReset, Property: "ResetType", Value: string(kind)}
	}
	r, ok := resets[kind]
	if !ok { // the effect of the power button depends on the power state
		r = resets[ResetOn]
		if b.Power() == On {
			r = resets[ResetGracefulShutdown]
		}
		r.kind = PowerButton
	}
	return b.apply(c, change{
		kind: r.kind, detail: string(kind),
		check: func(time.Time) *RefusedError { return b.checkReset(r) },
		do: func(now time.Time, fate effect.Fate) *Task {
			b.begin(r, now, fate)
			return nil
		},
	})
}

// Switch gives the machine power or cuts it at once, as a person in front of the machine does. That
// is no call: it meets no faults and is not logged.
func (b *BMC) Switch(on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.actDue()
	if b.on == on && len(b.plan) == 0 {
		return
	}
	what := cutPower
	if on {
		what = givePower
	}
	b.plan = []step{{at: now, what: what}}
	b.actDue()
}

// checkReset refuses a reset that the power state does not allow.
func (b *BMC) checkReset(r reset) *RefusedError {
	state, same := b.powerState(), b.config.Profile.SamePower
	switch {
	case r.wantsOn && state == Off && (!same || r.kind != PowerOff):
		return &RefusedError{Reason: AlreadyOff}
	case r.kind == PowerOn && (state == On || state == PoweringOn) && !same:
		return &RefusedError{Reason: AlreadyOn}
	}
	return nil
}

// begin plans the steps of a reset.
func (b *BMC) begin(r reset, now time.Time, fate effect.Fate) {
	switch {
	case r.plan == nil, fate.FailTask:
		return
	case r.kind == PowerOn && b.powerState() != Off && b.powerState() != PoweringOff,
		r.kind == PowerOff && b.powerState() == Off:
		return // accepted, but there is nothing to do
	case r.soft && (b.inPOST() || b.computer != nil && !b.computer.Shutdown()):
		return // no operating system reacts
	}
	b.plan = r.plan(b.config.Times, now.Add(fate.TaskTime))
	if r.kind == PowerOn && b.on { // it was about to lose power
		b.plan = slices.Insert(b.plan, 0, step{at: now, what: cutPower})
	}
	b.wake(now)
}

// wake makes the BMC take each step of the plan in time. Only a computer needs that.
func (b *BMC) wake(now time.Time) {
	if b.config.Wake == nil || b.computer == nil {
		return
	}
	for _, s := range b.plan {
		b.config.Wake(s.at.Sub(now), b.ActDue)
	}
}

// perform does one step of the plan, at the time of the step.
func (b *BMC) perform(s step) {
	if b.on && s.what != endPOST {
		b.noteInterrupted(s.at)
	}
	switch s.what {
	case cutPower:
		b.on = false
		if b.computer != nil {
			b.computer.PowerOff()
		}
	case givePower, restart:
		if b.on && b.computer != nil {
			b.computer.PowerOff()
		}
		b.on = true
		flashed := b.flashWaiting(s.at)
		b.plan = append(b.plan, step{at: flashed.Add(b.config.Times.POST), what: endPOST})
		b.wake(b.Now())
	case endPOST:
		boot := b.nextBoot()
		if b.computer != nil {
			b.computer.PowerOn(boot)
		}
	}
}
