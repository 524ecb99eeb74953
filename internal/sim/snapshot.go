package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/internal/sim/agent"
)

// states lists all states in the order of a boot.
var states = []State{Off, Starting, On, Booting, Inspecting, LookingUp, Running, Rescued, Failed, OS}

// Snapshot is the state of all machines at one moment.
type Snapshot struct {
	Machines int
	States   map[State]int
	Answers  map[Answer]int
	// Trouble has the latest failure of each kind of request whose last answer was
	// not a success, for people: "503", "connection refused".
	Trouble map[agent.Call]string
}

// String returns the progress in one line: "37/100 machines running, 2 waiting for lookup (lookup:
// 404)".
func (s Snapshot) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d/%d machines running", s.States[Running], s.Machines)
	for _, state := range states {
		if n := s.States[state]; n > 0 && state != Running {
			fmt.Fprintf(&b, ", %d %s", n, stateTexts[state])
		}
	}
	var troubles []string
	for _, call := range slices.Sorted(maps.Keys(s.Trouble)) {
		if s.States[Running] == s.Machines && call != agent.CallHeartbeat {
			continue // a later request has succeeded
		}
		troubles = append(troubles, fmt.Sprintf("%s: %s", call, s.Trouble[call]))
	}
	if len(troubles) > 0 {
		fmt.Fprintf(&b, " (%s)", strings.Join(troubles, "; "))
	}
	return b.String()
}

// stateTexts name the states in a progress line.
var stateTexts = map[State]string{
	Off:        "powered off",
	Starting:   "looking for something to boot",
	On:         "with nothing to boot",
	OS:         "in their operating system",
	Booting:    "booting",
	Inspecting: "posting inspection data",
	LookingUp:  "waiting for lookup",
	Rescued:    "in their rescue system",
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
