package simulate

import (
	"slices"
	"time"

	"github.com/ingot-metal/ingot/internal/driver/fake"
	"github.com/ingot-metal/ingot/internal/node"
)

// powerPeriod is a power state of a machine, which lasts until the next one. That of a computer is
// what its BMC has shown.
type powerPeriod struct {
	since time.Time // zero for the first
	state node.PowerState
}

// notePower notes the power state of a machine.
func (m *machine) notePower(state node.PowerState) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.notePowerLocked(state)
}

// notePowerLocked is notePower for a caller that holds the lock.
func (m *machine) notePowerLocked(state node.PowerState) {
	if state != m.powerNow() {
		m.power = append(m.power, powerPeriod{time.Now(), state})
	}
}

// powerNow returns the present power state. The caller holds the lock.
func (m *machine) powerNow() node.PowerState { return m.power[len(m.power)-1].state }

// notePressed notes that a person pressed the power button.
func (m *machine) notePressed() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pressed = append(m.pressed, time.Now())
}

// lastPressed returns when a person last pressed the power button. The caller holds the lock.
func (m *machine) lastPressed() (last time.Time) {
	if len(m.pressed) > 0 {
		last = m.pressed[len(m.pressed)-1]
	}
	return last
}

// hadPowerState reports whether the machine had a power state at some moment of a period, including
// its ends.
func (m *machine) hadPowerState(state node.PowerState, from, to time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, p := range m.power {
		ended := i+1 < len(m.power) && m.power[i+1].since.Before(from)
		if p.state == state && !p.since.After(to) && !ended {
			return true
		}
	}
	return false
}

// restartedWithin reports whether the machine was given power in a period, or a person pressed its
// power button.
func (m *machine) restartedWithin(from, to time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return anyWithin(m.pressed, from, to) || slices.ContainsFunc(m.power, func(p powerPeriod) bool {
		return p.state == node.PowerOn && anyWithin([]time.Time{p.since}, from, to)
	})
}

// powerIdleAfter returns the first moment after a time at which no power change was wanted any
// more.
func (m *machine) powerIdleAfter(at time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := slices.IndexFunc(m.powerIdle, func(idle time.Time) bool { return idle.After(at) }); i >= 0 {
		return m.powerIdle[i]
	}
	return time.Now()
}

// checkPower checks that each power change that a client requested was made before its work ended,
// or that the history has an error. A machine that can be switched on and off must have been in the
// wanted state at some moment, and always shows it. A machine without a BMC can only reboot, and
// nobody may know whether it did.
func (w *world) checkPower(n *node.Node, m *machine, events []*node.Event) {
	for _, q := range w.requests {
		target := node.PowerState(q.name)
		if q.node != n.UUID || !q.accepted || !slices.Contains([]node.PowerState{node.PowerOn, node.PowerOff, node.SoftPowerOff, node.Rebooting}, target) {
			continue
		}
		until := m.powerIdleAfter(q.answeredAt)
		var reached bool
		switch {
		case n.Driver == "manual-management":
			reached = m.hasEffect(reboot, q.sentAt, until) || m.unknownWithin(q.sentAt, until)
		case target == node.Rebooting:
			reached = m.restartedWithin(q.sentAt, until)
		case target == node.SoftPowerOff:
			reached = m.hadPowerState(node.PowerOff, q.sentAt, until)
		default:
			reached = m.hadPowerState(target, q.sentAt, until)
		}
		failed := slices.ContainsFunc(events, func(e *node.Event) bool {
			return e.Severity == node.SeverityError && !e.CreatedAt.Before(q.sentAt.Truncate(time.Microsecond)) && !e.CreatedAt.After(until)
		})
		if !reached && !failed {
			w.violated("%s: request %d (%s) is said to have gone well, and the machine knows of none", m.name, q.id, q.name)
		}
	}
}

// checkBootDevices checks that fake machines have got each boot device that a client set. The
// client waits for that.
func (w *world) checkBootDevices(n *node.Node, m *machine) {
	for _, q := range w.requests {
		if q.node == n.UUID && q.name == "boot device" && q.accepted && n.Driver == "fake-hardware" && !m.hasEffect(fake.BootDevice, q.sentAt, q.answeredAt) {
			w.violated("%s: request %d (%s) was accepted, and the machine knows of none", m.name, q.id, q.name)
		}
	}
}
