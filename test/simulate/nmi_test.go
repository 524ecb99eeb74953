package simulate

import (
	"context"
	"fmt"
	"time"

	"github.com/ingot-metal/ingot/internal/driver/fake"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
)

// injectNMI is the name of requests to interrupt a machine.
const injectNMI = "inject nmi"

// interruptsEvery says that clients interrupt machines in one in this many runs.
const interruptsEvery = 3

// interrupts reports whether a client that would set a boot device interrupts the machine.
func (w *world) interrupts() bool {
	return w.drawn("run", "nmi")%interruptsEvery == 0 && w.drawn(fmt.Sprint(len(w.requests)), "nmi")%3 != 0
}

func (w *world) requestNMI(r *replica, uuid string) {
	w.send(r, uuid, injectNMI, nil, func(ctx context.Context) error { return r.InjectNMI(ctx, uuid) })
}

// noteInterrupts checks that no request interrupts a machine twice, or while firmware is written:
// an interrupt ends what an earlier one started, and some machines restart.
func (m *machine) noteInterrupts(ctx context.Context, done ...effect) {
	task, c := runner.InfoOf(ctx).Task, m.w.computerOf(m.uuid)
	for _, e := range done {
		if e.kind != fake.NMI {
			continue
		}
		m.mu.Lock()
		m.interrupts[task]++
		again := m.interrupts[task] > 1
		m.mu.Unlock()
		if again {
			m.w.violated("%s: %s happens a second time for %s", m.name, e, task)
		}
		if c != nil && c.flashing() != "" {
			m.w.violated("%s: %s while the firmware of %s is written", m.name, e, c.flashing())
		}
	}
}

// checkInterrupts checks that the machine was interrupted for each request that was accepted, unless
// its BMC has lied.
func (w *world) checkInterrupts(n *node.Node, m *machine) {
	for _, q := range w.requests {
		if q.node == n.UUID && q.name == injectNMI && q.accepted && !m.hasEffect(fake.NMI, q.sentAt, q.answeredAt) && !m.liedWithin(q.sentAt, q.answeredAt) {
			w.violated("%s: request %d (%s) was accepted, and the machine knows of none", m.name, q.id, q.name)
		}
	}
}

// liedWithin reports whether the BMC has lied in a period.
func (m *machine) liedWithin(from, to time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return anyWithin(m.lieTimes, from, to)
}
