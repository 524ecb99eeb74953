package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/ingot-metal/ingot/internal/sim/agent"
)

// State is what a machine is doing.
type State string

// The states of a machine.
const (
	Off        State = "off"
	Booting    State = "booting"    // powered, no ramdisk yet
	Inspecting State = "inspecting" // posting what it found
	LookingUp  State = "looking up" // asking the engine which node it is
	Running    State = "running"    // serving commands and sending heartbeats
	Failed     State = "failed"     // the ramdisk gave up; Status.Reason says why
)

// stateOf names the phases of an agent.
var stateOf = map[agent.Phase]State{
	agent.Inspecting: Inspecting,
	agent.LookingUp:  LookingUp,
	agent.Running:    Running,
}

// Answer is a kind of request and the status that answered it; zero stands for
// a request without an answer.
type Answer struct {
	Call   agent.Call
	Status int
}

// Status is a machine's state in full.
type Status struct {
	State  State
	Reason string    // why it failed, empty otherwise
	Since  time.Time // when the state began
	Boots  int       // how often a ramdisk was started
	// LastAnswer is the engine's latest answer to the machine.
	LastAnswer Answer
}

// Snapshot sums up the fleet now.
func (f *Fleet) Snapshot() Snapshot {
	s, _ := f.observe()
	return s
}

// observe returns the present and a channel that closes when it has passed.
func (f *Fleet) observe() (Snapshot, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Snapshot{
		Machines: len(f.machines),
		States:   maps.Clone(f.states),
		Answers:  maps.Clone(f.answers),
		Trouble:  maps.Clone(f.trouble),
	}, f.changed
}

// Wait blocks until enough says that the fleet is where it should be. When ctx
// ends first, the error says where the fleet is.
func (f *Fleet) Wait(ctx context.Context, enough func(Snapshot) bool) error {
	for {
		s, changed := f.observe()
		if enough(s) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for the fleet (%s%s): %w", s, f.firstFailure(), context.Cause(ctx))
		}
	}
}

// WaitRunning blocks until every machine runs.
func (f *Fleet) WaitRunning(ctx context.Context) error {
	return f.Wait(ctx, func(s Snapshot) bool { return s.States[Running] == s.Machines })
}

// firstFailure explains one failed machine, if there is any.
func (f *Fleet) firstFailure() string {
	for _, m := range f.machines {
		if s := m.Status(); s.State == Failed {
			return fmt.Sprintf("; machine %d: %s", m.index, s.Reason)
		}
	}
	return ""
}

// Status returns what the machine is doing.
func (m *Machine) Status() Status {
	m.fleet.mu.Lock()
	defer m.fleet.mu.Unlock()
	return m.status
}

// Wait blocks until the machine is in the state. It returns an error when ctx
// ends first or when the machine failed and will not get there by itself.
func (m *Machine) Wait(ctx context.Context, state State) error {
	for {
		_, changed := m.fleet.observe()
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
func (m *Machine) enter(state State, reason string) {
	f := m.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	f.states[m.status.State]--
	f.states[state]++
	m.status.State, m.status.Reason, m.status.Since = state, reason, f.options.Clock.Now()
	if state == Booting {
		m.status.Boots++
	}
	f.announce()
}

// count records how the engine answered.
func (m *Machine) count(a Answer, err error) {
	f := m.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers[a]++
	m.answers[a]++
	m.status.LastAnswer = a
	switch {
	case err != nil:
		f.trouble[a.Call] = rootCause(err)
	case a.Status >= http.StatusBadRequest:
		f.trouble[a.Call] = fmt.Sprintf("%d %s", a.Status, http.StatusText(a.Status))
	default:
		delete(f.trouble, a.Call)
	}
	f.announce()
}

// rootCause is the innermost text of an error, such as "connection refused".
func rootCause(err error) string {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err.Error()
}

// announce wakes everybody who waits; it needs the lock.
func (f *Fleet) announce() {
	close(f.changed)
	f.changed = make(chan struct{})
}
