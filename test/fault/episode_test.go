//go:build fault

package fault_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/sim/effect"
)

// episode is a verb and what became of it.
type episode struct {
	s       *subject
	verb    node.Verb
	steps   []node.Step
	from    node.State
	sent    time.Time
	request *request
	also    []node.Trigger // triggers of other requests that may have come in between

	rested    time.Time
	to        node.State
	lastError string
	errors    []string // that the history has since then
}

// lateBy is how long after its client gave up an engine may handle a request, because the engine
// was paused or had no database.
const lateBy = 45 * time.Second

// end notes how the episode ended, and compares that with the state machine. e may be nil.
func (e *episode) end(w *world, r *rand.Rand, n *shown) {
	if e == nil {
		return
	}
	e.to, e.rested, e.lastError = n.State, time.Now(), n.LastError
	for _, q := range e.s.asked(func(q *request) bool { return q != e.request && q.at.After(e.sent.Add(-lateBy)) }, accepted, unknown) {
		verb, ok := node.VerbNamed(q.what)
		if ok && (q.answer == unknown || q.at.After(e.sent)) {
			e.also = append(e.also, verb.On)
		}
	}
	e.errors = w.errorsSince(r, e.s, e.sent)
	e.s.episodes = append(e.s.episodes, e)
	w.note(e.s.name, "%s has led from %q to %q, error %q", e.verb.Name, e.from, e.to, e.lastError)
	w.count(fmt.Sprintf("verb: %s: %s", e.verb.Name, e.to))
	if ends, known := e.ends(); known && !slices.Contains(ends, e.to) {
		w.violated(e.s.name, "%q (%s) has led from %q to %q, want one of %q", e.verb.Name, e.request.answer, e.from, e.to, ends)
	}
	// A power change clears last_error, which may tell of an earlier verb.
	if e.failed() && e.lastError == "" && len(w.errorsSince(r, e.s, n.Since)) == 0 {
		w.violated(e.s.name, "%q has led to %q without a sentence", e.verb.Name, e.to)
	}
}

// failed reports whether the node is not where the verb leads if it goes well.
func (e *episode) failed() bool {
	row, ok := node.Next(e.from, e.verb.On)
	return ok && e.request.answer == accepted && len(e.also) == 0 && e.to != goal(row) || e.to.Class() == node.Failed
}

// goal returns the state to which a transition leads if all goes well.
func goal(row node.Transition) node.State {
	if row.Target != "" {
		return row.Target
	}
	return row.To
}

// errorsSince reads the failures in the history of a node. Its times are whole seconds.
func (w *world) errorsSince(r *rand.Rand, s *subject, since time.Time) (sentences []string) {
	var answer struct {
		History []struct {
			Severity  string    `json:"severity"`
			CreatedAt time.Time `json:"created_at"`
			Event     string    `json:"event"`
		} `json:"history"`
	}
	for w.anyEngine(r).api.read("/v1/nodes/"+s.uuid+"/history/detail?limit=1000", &answer) != nil && pass(w.ctx, 200*time.Millisecond) {
		continue
	}
	for _, event := range answer.History {
		if event.Severity == string(node.SeverityError) && event.Event != "" && !event.CreatedAt.Before(since.Truncate(time.Second)) {
			sentences = append(sentences, event.Event)
		}
	}
	return sentences
}

// byEngines are the triggers with which engines end what is in progress.
var byEngines = []node.Trigger{node.OnDone, node.OnFail, node.OnWait, node.OnResume, node.OnHold}

// ends returns the states in which the node may rest now. known is false if nobody can tell,
// because the engine got the verb in another state than the client saw.
func (e *episode) ends() (ends []node.State, known bool) {
	type place struct{ state, target node.State }
	var todo []place
	seen := map[place]bool{}
	visit := func(n node.Node, on node.Trigger) bool {
		state, target, err := n.Move(on)
		if err == nil && !seen[place{state, target}] {
			seen[place{state, target}] = true
			todo = append(todo, place{state, target})
		}
		return err == nil
	}
	triggers := e.also
	begin := node.Node{ProvisionState: e.from}
	if e.request.answer == unknown {
		triggers = append(slices.Clone(triggers), e.verb.On)
		seen[place{e.from, ""}] = true
		todo = append(todo, place{e.from, ""})
	} else if !visit(begin, e.verb.On) {
		return nil, false
	}
	for len(todo) > 0 {
		at := node.Node{ProvisionState: todo[0].state, TargetProvisionState: todo[0].target}
		todo = todo[1:]
		for _, on := range triggers {
			visit(at, on)
		}
		class := at.ProvisionState.Class()
		if class == node.Stable || class == node.Failed {
			ends = append(ends, at.ProvisionState)
			continue
		}
		for _, on := range byEngines {
			if on == node.OnDone && at.ProvisionState == node.Cleaning && at.TargetProvisionState == node.Manageable {
				on = node.OnManage // cleaning that a client asked for leads back
			}
			visit(at, on)
		}
		if at.ProvisionState == node.Deleting {
			visit(at, node.OnClean)
		}
	}
	return ends, true
}

// wanted counts the destructive effects that the verb leads to.
func (e *episode) wanted() map[string]int {
	switch e.verb.Name {
	case "active", "rebuild":
		return map[string]int{"write": 1}
	case "deleted", "provide":
		return map[string]int{"wipe": 2} // erase_devices_metadata and erase_devices
	}
	kinds := map[string]int{}
	for _, step := range e.steps {
		switch {
		case strings.HasPrefix(step.Step, "erase_"):
			kinds["wipe"]++
		case step.Interface == "firmware":
			kinds["flash"]++
		}
	}
	return kinds
}

// problem compares the episode with the calls of its machine. A verb that went well must have done
// what it asks for as often as it asks for it; a verb that failed, not more often.
func (e *episode) problem(calls []effect.Effect) string {
	if e.request.answer != accepted || len(e.also) > 0 {
		return ""
	}
	did, lied := map[string]int{}, map[string]bool{}
	for _, call := range calls {
		switch {
		case call.Machine != e.s.name || call.Time.Before(e.sent) || call.Time.After(e.rested):
		case call.Fault == "lie":
			lied[call.Kind] = true
		case call.Task != "":
			did[call.Kind]++
		}
	}
	wanted := e.wanted()
	for _, kind := range []string{"wipe", "write", "flash"} {
		switch {
		case did[kind] > wanted[kind]:
			return fmt.Sprintf("%q asked for %d %s and the machine did %d", e.verb.Name, wanted[kind], kind, did[kind])
		case did[kind] < wanted[kind] && !lied[kind] && !e.failed() && len(e.errors) == 0:
			return fmt.Sprintf("%q is said to have gone well, and of %d %s the machine did %d", e.verb.Name, wanted[kind], kind, did[kind])
		}
	}
	return ""
}
