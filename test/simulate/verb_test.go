package simulate

import (
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/internal/driver/fake"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/store"
)

// kindsBesideState are the kinds of work that do not decide the provision state of their node.
var kindsBesideState = []store.WorkKind{"clean up", "power", bootModeWork, secureBootWork, mediaWork, "vendor passthru"}

// startsWork reports whether a request is one for a verb that starts work, or that leads to another
// state at once. The other two end work or let it go on.
func (q *request) startsWork() bool { return q.isVerb() && q.name != "abort" && q.name != "unhold" }

// newEvents are the events of a node that the last commit may have written.
type newEvents []*node.Event

// hasPrefix reports whether one of the events begins with a text.
func (s newEvents) hasPrefix(severity node.Severity, prefix string) bool {
	return slices.ContainsFunc(s, func(e *node.Event) bool {
		return e.Severity == severity && e.Message != "" && strings.HasPrefix(e.Message, prefix)
	})
}

func newEventsOf(tx *store.Tx, n *node.Node) (newEvents, error) {
	events, err := tx.Events(n.ID)
	return slices.DeleteFunc(events, func(e *node.Event) bool { return !writtenNow(tx, e.CreatedAt) }), err
}

// checkStart checks the commit that has accepted a verb: it must have stored work, unless the verb
// has ended with it.
func (w *world) checkStart(tx *store.Tx, q *request) error {
	n, err := tx.Node(q.node)
	if err != nil {
		return err
	}
	events, err := newEventsOf(tx, n)
	class := n.ProvisionState.Class()
	switch {
	case err != nil || q.work.row != 0:
	case class != node.Stable && class != node.Failed:
		w.violated("%s: request %d (%s) leads to state %q, and no work was stored", n.Name, q.id, q.name, n.ProvisionState)
	case !events.hasPrefix(node.SeverityInfo, ""):
		w.violated("%s: request %d (%s) leads to state %q without a word", n.Name, q.id, q.name, n.ProvisionState)
	}
	return err
}

// checkVerbEnd checks the end of a verb whose row is gone. committer is the request that made the
// commit, or nil: a post goes on with work of its own, and another verb ends the work that waits.
func (w *world) checkVerbEnd(tx *store.Tx, n *node.Node, q, committer *request) error {
	switch {
	case committer != nil && committer.inventory != "" && committer.work.row != 0:
		q.work = requestedWork{row: committer.work.row, key: committer.work.key}
		return nil
	case committer != nil && committer.isVerb():
		return nil
	}
	events, err := newEventsOf(tx, n)
	if err != nil {
		return err
	}
	verb, _ := node.VerbNamed(q.name)
	w.checkUnknownEffects(n, q, events)
	state, class := n.ProvisionState, n.ProvisionState.Class()
	failed := class == node.Failed || slices.Contains(fallbacks, state)
	switch {
	case class != node.Stable && class != node.Failed:
		w.violated("%s: the work of request %d (%s) is gone in state %q", n.Name, q.id, q.name, state)
	case !endsOf(verb.On)[state]:
		w.violated("%s: request %d (%s) has ended in state %q, where it does not lead", n.Name, q.id, q.name, state)
	case failed && (n.LastError == "" || !events.hasPrefix(node.SeverityError, "")):
		w.violated("%s: request %d (%s) has failed without a word, last_error %q", n.Name, q.id, q.name, n.LastError)
	case failed:
		w.checkUnknownVolumes(n, q, events)
	case !events.hasPrefix(node.SeverityInfo, reachedMessage(state)):
		w.violated("%s: request %d (%s) has ended in state %q without a word, last_error %q", n.Name, q.id, q.name, state, n.LastError)
	default:
		q.work.succeeded = true
		w.checkVerb(n, q)
	}
	return nil
}

// verbKinds has, for verbs that change the disks, the effect that they must lead to. A cleaning
// does so only with some steps.
var verbKinds = map[string]fake.Kind{"active": fake.Write, "rebuild": fake.Write, "deleted": fake.Wipe, "provide": fake.Wipe, "clean": fake.Wipe}

// checkVerb checks a verb that went well: the machine must have had the effect of the verb.
func (w *world) checkVerb(n *node.Node, q *request) {
	m, c := w.machines[n.UUID], w.computerOf(n.UUID)
	switch {
	case c != nil && c.bmc != nil:
		w.checkFirmware(n, c, q)
		w.checkVolumes(n, c, q)
	case c == nil && n.Driver == "fake-hardware":
		w.checkSteps(m, q)
	case c == nil:
		return
	}
	kind, asks := verbKinds[q.name]
	erases := slices.ContainsFunc(q.steps, func(s node.Step) bool { return strings.HasPrefix(s.Step, "erase_") && !s.ExecuteOnChildNodes })
	if !asks || q.name == "clean" && !erases {
		return
	}
	if done := m.carriedOut(kind, "", q.work.key); !done || c != nil && !c.succeeded(kind, q.sentAt) {
		w.violated("%s: request %d (%s) is said to have gone well, and the machine knows of no %s that did", m.name, q.id, q.name, kind)
	}
}

// checkSteps checks that a fake machine has carried out the steps of a request.
func (w *world) checkSteps(m *machine, q *request) {
	for _, step := range q.steps {
		if !step.Own() && !step.ExecuteOnChildNodes && !m.carriedOut("", step.Name(), q.work.key) {
			w.violated("%s: request %d (%s) is said to have gone well, and the machine has not carried out %s", m.name, q.id, q.name, step.Name())
		}
	}
}

// checkFirmware checks that the machine has the firmware versions of a request.
func (w *world) checkFirmware(n *node.Node, c *computer, q *request) {
	for _, step := range q.steps {
		component, version, ok := firmwareOf(step)
		has := func(b bmc.Component) bool { return b.ID == component && b.Version == version }
		if ok && !slices.ContainsFunc(c.bmc.Components(), has) {
			w.violated("%s: request %d (%s) is said to have gone well, and the firmware of %s is not %s", n.Name, q.id, q.name, component, version)
		}
	}
}
