package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
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

// states lists all states in the order of a boot.
var states = []State{Off, Booting, Inspecting, LookingUp, Running, Failed}

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

// Snapshot sums up a fleet at one moment.
type Snapshot struct {
	Machines int
	States   map[State]int
	Answers  map[Answer]int
}

// String is the progress in one line: "37/100 machines running, 2 looking up".
func (s Snapshot) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d/%d machines running", s.States[Running], s.Machines)
	for _, state := range states {
		if n := s.States[state]; n > 0 && state != Running {
			fmt.Fprintf(&b, ", %d %s", n, stateTexts[state])
		}
	}
	return b.String()
}

// stateTexts are the words of a progress line.
var stateTexts = map[State]string{
	Off:        "powered off",
	Booting:    "booting",
	Inspecting: "posting inspection data",
	LookingUp:  "waiting for lookup",
	Failed:     "failed",
}

// AnswerTable lists the answers counted so far, one per line.
func (s Snapshot) AnswerTable() string {
	var b strings.Builder
	for _, a := range slices.SortedFunc(maps.Keys(s.Answers), compareAnswers) {
		status := "no answer"
		if a.Status != 0 {
			status = fmt.Sprint(a.Status)
		}
		fmt.Fprintf(&b, "%-10s %-10s %8d\n", a.Call, status, s.Answers[a])
	}
	return b.String()
}

func compareAnswers(a, b Answer) int {
	if c := strings.Compare(string(a.Call), string(b.Call)); c != 0 {
		return c
	}
	return a.Status - b.Status
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

// count records an answer of the engine.
func (m *Machine) count(a Answer) {
	f := m.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers[a]++
	m.answers[a]++
	m.status.LastAnswer = a
	f.announce()
}

// announce wakes everybody who waits; it needs the lock.
func (f *Fleet) announce() {
	close(f.changed)
	f.changed = make(chan struct{})
}
