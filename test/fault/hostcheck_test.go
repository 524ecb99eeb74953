//go:build fault

package fault_test

import (
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/effect"
)

// mostOf returns how often a step may do what does harm.
func (l *hostLife) mostOf(step string) map[string]int {
	most := map[string]map[string]int{
		"registration": {effect.Wipe: 1},
		"deployment":   {effect.Write: 1},
		"live update":  {string(bmc.Flash): 1},
		"removal":      {effect.Wipe: 1},
	}[step]
	if l.shape.volumes && step == "registration" {
		most[string(bmc.CreateVolume)] = 1
	}
	return most
}

// checkHostEnd looks for what does not hold at the end of the life.
func (l *hostLife) checkHostEnd() {
	l.t.Helper()
	effects, _ := l.machine.effects(0)
	requests := map[string]bool{}
	done := map[string]map[string]int{}
	for _, e := range effects {
		if e.Kind == string(bmc.InterruptFlash) {
			l.t.Errorf("effect %d: the machine lost its power, or was restarted, while the firmware of %s was written", e.Sequence, e.Detail)
		}
		if !slices.Contains(harmful, e.Kind) {
			continue
		}
		key := e.Kind + " " + e.Detail + " " + e.Request
		if e.Request != "" && requests[key] {
			l.t.Errorf("effect %d: %s %s was done again for %q", e.Sequence, e.Kind, e.Detail, e.Request)
		}
		requests[key] = true
		step := l.stepAt(e.Sequence)
		if done[step] == nil {
			done[step] = map[string]int{}
		}
		done[step][e.Kind]++
	}
	for _, m := range l.marks {
		for _, kind := range harmful {
			most := l.mostOf(m.step)[kind]
			if got := done[m.step][kind]; got < most || got > most+l.unknowns() {
				l.t.Errorf("%s: the machine did %d of %s, want %d and at most %d more for failures with an unknown outcome", m.step, got, kind, most, l.unknowns())
			}
		}
	}
	if l.shape.vendor != "" {
		l.checkHolds()
		if now := l.machine.observe(); now.PowerState != string(bmc.Off) || len(now.Disks) != 0 {
			l.t.Errorf("the machine of the deleted host is %s, with the disks %v", now.PowerState, now.Disks)
		}
	}
	if l.shape.discovered && l.shape.vendor != "" {
		l.checkOther()
	}
	for _, text := range l.calls.shared() {
		l.t.Error(text)
	}
	l.engine.stop()
	panics := l.engine.panics()
	for _, p := range l.places {
		panics = append(panics, p.operator.panics()...)
	}
	for _, line := range panics {
		l.t.Error(line)
	}
	l.checkNoWork()
}

// stepAt returns the step in which an effect happened.
func (l *hostLife) stepAt(sequence int64) string {
	step := ""
	for _, m := range l.marks {
		if m.since < sequence {
			step = m.step
		}
	}
	return step
}

// unknowns counts the failures whose outcome the engine does not know, because it died. Only after
// such a failure may the operator ask for the same again.
func (l *hostLife) unknowns() int {
	n := 0
	for _, note := range l.notes {
		if strings.Contains(note, "unknown") {
			n++
		}
	}
	return n
}
