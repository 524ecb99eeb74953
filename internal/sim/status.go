package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/ingot-metal/ingot/internal/sim/agent"
	"github.com/ingot-metal/ingot/internal/sim/disk"
)

// State is the state of a machine.
type State string

// The states of a machine.
const (
	Off        State = "off"
	Starting   State = "starting"   // powered, and looks for something to boot
	On         State = "on"         // powered, nothing boots; Status.Reason says why
	OS         State = "os"         // running the operating system in Status.System
	Booting    State = "booting"    // booting a ramdisk
	Inspecting State = "inspecting" // posting the inspection document
	LookingUp  State = "looking up" // asking the engine which node it is
	Running    State = "running"    // serving commands and sending heartbeats
	Rescued    State = "rescued"    // the rescue system lets users log in; the agent has ended
	Failed     State = "failed"     // the agent has ended with an error; Status.Reason says why
)

// stateOf maps the phases of an agent to states of its machine.
var stateOf = map[agent.Phase]State{
	agent.Inspecting: Inspecting,
	agent.LookingUp:  LookingUp,
	agent.Running:    Running,
}

// Answer is a kind of request and the status of the answer; zero means no answer.
type Answer struct {
	Call   agent.Call
	Status int
}

// Status is a machine's state in full.
type Status struct {
	State  State
	Reason string    // why it failed or boots nothing, empty otherwise
	System *System   // the operating system that runs, nil if none does
	Since  time.Time // when the state began
	Boots  int       // how often a ramdisk was started
	// LastAnswer is the engine's latest answer to the machine.
	LastAnswer Answer
}

// System is an operating system that was booted, from a disk or from an image that is on no disk.
type System struct {
	Device string `json:"device,omitempty"` // empty for an image
	Source string `json:"source,omitempty"` // URL of the image or of its kernel; empty for a disk
	disk.Content
}

// Snapshot returns the present states of the machines.
func (ms *Machines) Snapshot() Snapshot {
	s, _ := ms.observe()
	return s
}

// observe returns the present states and a channel that is closed when they change.
func (ms *Machines) observe() (Snapshot, <-chan struct{}) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	return Snapshot{
		Machines: len(ms.machines),
		States:   maps.Clone(ms.states),
		Answers:  maps.Clone(ms.answers),
		Trouble:  maps.Clone(ms.trouble),
	}, ms.changed
}

// Wait blocks until enough returns true. When ctx ends first, the error has the
// states of the machines.
func (ms *Machines) Wait(ctx context.Context, enough func(Snapshot) bool) error {
	for {
		s, changed := ms.observe()
		if enough(s) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for the machines (%s%s): %w", s, ms.firstFailure(), context.Cause(ctx))
		}
	}
}

// firstFailure describes the first failed machine, if there is any.
func (ms *Machines) firstFailure() string {
	for _, m := range ms.machines {
		if s := m.Status(); s.State == Failed {
			return fmt.Sprintf("; machine %d: %s", m.index, s.Reason)
		}
	}
	return ""
}

// Status returns the machine's status.
func (m *Machine) Status() Status {
	m.all.mu.Lock()
	defer m.all.mu.Unlock()
	return m.status
}

// Wait blocks until the machine is in the state. It returns an error when ctx ends first, or when
// the machine is in [Failed], even if its agent will be restarted.
func (m *Machine) Wait(ctx context.Context, state State) error {
	for {
		_, changed := m.all.observe()
		s := m.Status()
		switch s.State {
		case state:
			return nil
		case Failed:
			return fmt.Errorf("wait for machine %d to be %s: it failed: %s", m.index, state, s.Reason)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for machine %d to be %s (it is %s): %w", m.index, state, s.State, context.Cause(ctx))
		}
	}
}

// enter records a new state.
func (m *Machine) enter(state State, reason string) { m.change(state, reason, nil) }

// change records a new state, and the operating system that runs.
func (m *Machine) change(state State, reason string, system *System) {
	ms := m.all
	ms.mu.Lock()
	defer ms.mu.Unlock()
	ms.states[m.status.State]--
	ms.states[state]++
	m.status.State, m.status.Reason, m.status.Since = state, reason, ms.options.Clock.Now()
	m.status.System, m.hung = system, false
	if state == Booting {
		m.status.Boots++
	}
	ms.announce()
}

// count counts an answer of the engine.
func (m *Machine) count(a Answer, err error) {
	ms := m.all
	ms.mu.Lock()
	defer ms.mu.Unlock()
	ms.answers[a]++
	m.answers[a]++
	m.status.LastAnswer = a
	switch {
	case err != nil:
		ms.trouble[a.Call] = rootCause(err)
	case a.Status >= http.StatusBadRequest:
		ms.trouble[a.Call] = fmt.Sprintf("%d %s", a.Status, http.StatusText(a.Status))
	default:
		delete(ms.trouble, a.Call)
	}
	ms.announce()
}

// rootCause returns the innermost text of an error, such as "connection refused".
func rootCause(err error) string {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err.Error()
}

// announce wakes all waiters; the caller holds the lock.
func (ms *Machines) announce() {
	close(ms.changed)
	ms.changed = make(chan struct{})
}
