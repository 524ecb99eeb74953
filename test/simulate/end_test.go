package simulate

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/driver/fake"
	"github.com/ingot-metal/ingot/internal/node"
)

// workTriggers are the triggers that only work uses. In two states, work also uses triggers of
// clients.
var workTriggers = []node.Trigger{node.OnDone, node.OnFail, node.OnWait, node.OnResume, node.OnHold}

var clientTriggers = map[node.State][]node.Trigger{
	node.Deleting: {node.OnClean}, node.Cleaning: {node.OnManage},
}

// endsOf returns the states in which a verb may end by the table of transitions: the stable and
// failed states that work can reach from where the verb leads.
func endsOf(verb node.Trigger) map[node.State]bool {
	type stateAndTarget struct{ state, target node.State }
	ends, seen := map[node.State]bool{}, map[stateAndTarget]bool{}
	var visit func(at stateAndTarget)
	visit = func(at stateAndTarget) {
		if class := at.state.Class(); class == node.Stable || class == node.Failed {
			ends[at.state] = true
			return
		}
		if seen[at] {
			return
		}
		seen[at] = true
		for _, t := range node.Transitions() {
			byWork := slices.Contains(workTriggers, t.On) || slices.Contains(clientTriggers[at.state], t.On)
			otherTarget := at.state == node.Cleaning && t.To.Class() == node.Stable && at.target != "" && t.To != at.target
			if t.From == at.state && byWork && !otherTarget {
				visit(stateAndTarget{t.To, at.target})
			}
		}
	}
	for _, t := range node.Transitions() {
		if t.On == verb && !slices.Contains(clientTriggers[t.From], verb) {
			visit(stateAndTarget{t.To, t.Target})
		}
	}
	return ends
}

// fallbacks are the stable states of nodes whose work has failed.
var fallbacks = []node.State{node.Enroll, node.ErrorState}

// reachedMessage is how the event begins that says that a node has reached the state of its verb.
func reachedMessage(state node.State) string { return fmt.Sprintf("The node is %q", state) }

// checkEnd checks that the node is in a state to which the last accepted verb may lead by the
// table. Verbs that were requested at the same time, or whose answers were lost, may have been the
// last, too.
func (w *world) checkEnd(n *node.Node, m *machine) {
	last := w.last(n.UUID, func(q *request) bool { return q.isVerb() && q.accepted })
	if last == nil {
		return
	}
	allowed := map[node.State]bool{}
	for _, q := range w.requests {
		if q.node != n.UUID || !q.isVerb() || !q.mayBeAccepted() || q.answeredAt.Before(last.sentAt) {
			continue
		}
		verb, _ := node.VerbNamed(q.name)
		for state := range endsOf(verb.On) {
			allowed[state] = true
		}
	}
	if !allowed[n.ProvisionState] {
		w.violated("%s: request %d (%s) was accepted and has ended in state %q, where it does not lead", m.name, last.id, last.name, n.ProvisionState)
	}
}

// unknownTask is a request whose outcome a machine has reported as unknown.
type unknownTask struct {
	at        time.Time
	node      string // whose work it is
	operation string
	lost      bool // a restoration of the database lost what the engine knew of it
}

// checkRetry checks that no request is repeated whose outcome is unknown.
func (m *machine) checkRetry(e fake.Effect) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, unknown := m.unknownTasks[e.Origin.Request]
	if unknown && !d.lost && slices.Contains(atMostOnce, e.Kind) {
		m.w.violated("%s: %s is asked for again for %s, whose outcome nobody can know", m.name, e.Kind, e.Origin.Request)
	}
	delete(m.unknownTasks, e.Origin.Request)
}

// checkUnknownTasks checks that work whose outcome is unknown has ended with an error that says so.
// The work need not do so if a client ended it in another way.
func (w *world) checkUnknownTasks(m *machine) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for request, d := range m.unknownTasks {
		n, err := w.node(d.node)
		if w.endedByClient(d.node, d.at) || err != nil || d.lost {
			continue
		}
		reported := slices.ContainsFunc(w.events(n), func(e *node.Event) bool {
			return !e.CreatedAt.Before(d.at.Truncate(time.Microsecond)) && reportsUnknown(e.Message)
		})
		if !reported {
			w.violated("%s: nobody can know what became of %s (%s), and its work has not ended with that", m.name, request, d.operation)
		}
	}
}

// TestEndsOfVerbsComeFromTheTable shows which states checkEnd accepts.
func TestEndsOfVerbsComeFromTheTable(t *testing.T) {
	for verb, want := range map[node.Trigger][]node.State{
		node.OnProvide: {node.Available, node.CleanFailed},
		node.OnClean:   {node.CleanFailed, node.Manageable},
		node.OnDeploy:  {node.Active, node.DeployFailed},
		node.OnDelete:  {node.Available, node.CleanFailed, node.ErrorState},
		node.OnInspect: {node.InspectFailed, node.Manageable},
	} {
		if got := slices.Sorted(maps.Keys(endsOf(verb))); !slices.Equal(got, want) {
			t.Errorf("%s may end in %q, want %q", verb, got, want)
		}
	}
}
