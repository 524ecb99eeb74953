package simulate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/internal/driver/fake"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// finishRounds bounds how often finishWork looks whether work is left.
const finishRounds = 40

// finishWork ends the faults and lets time pass until no work is left.
func (w *world) finishWork() {
	w.sched.end()
	w.outage = 0
	for _, c := range w.computers {
		c.ignoreRequests(0)
	}
	pause := 5 * time.Second
	for range finishRounds {
		w.restartReplicas()
		w.endSuspension()
		time.Sleep(pause) //nolint:forbidigo // time of a bubble, which passes by itself
		pause = min(2*pause, 7*time.Minute)
		if w.isIdle() {
			return
		}
		for _, uuid := range w.nodes {
			w.unblock(uuid)
		}
	}
}

// unblock does what a node waits for.
func (w *world) unblock(uuid string) {
	r := w.drawReplica()
	n, err := w.node(uuid)
	if r == nil || err != nil {
		return
	}
	switch n.ProvisionState {
	case node.CleanHold, node.DeployHold, node.ServiceHold:
		w.requestVerb(r, uuid, "unhold")
	case node.InspectWait: // the inspection ends by itself if nobody posts
	default:
		w.restartRamdisk(r, n)
	}
}

// restartRamdisk makes sure that the ramdisk of a node sends heartbeats. On a machine without a BMC
// whose agent has ended, a person has to press the power button.
func (w *world) restartRamdisk(r *replica, n *node.Node) {
	c := w.computerOf(n.UUID)
	switch {
	case c == nil:
		w.sendHeartbeat(r, n.UUID)
	case c.bmc == nil && c.agentHandler() == nil && n.ProvisionState.Class() == node.Waiting:
		w.pressPowerButton(n.UUID)
	}
}

func (w *world) node(uuid string) (n *node.Node, err error) {
	err = w.db.Read(context.Background(), func(tx *store.Tx) (err error) {
		n, err = tx.Node(uuid)
		return err
	})
	return n, err
}

// isIdle reports whether no request waits for its answer, no work and no lease is left, and no state
// that ends by itself.
func (w *world) isIdle() bool {
	if len(w.unanswered()) > 0 {
		return false
	}
	for _, uuid := range w.nodes {
		n, err := w.node(uuid)
		if err != nil {
			continue // it was deleted
		}
		if class := n.ProvisionState.Class(); n.Lease.InForce(time.Now()) || n.TargetPowerState != "" || class != node.Stable && class != node.Failed {
			return false
		}
	}
	works := 0
	_ = w.db.Read(context.Background(), func(tx *store.Tx) (err error) {
		works, err = tx.CountWork()
		return err
	})
	return works == 0
}

// check finds what does not hold at the end of a run.
func (w *world) check() {
	for _, uuid := range w.nodes {
		w.checkNode(uuid)
		w.checkOrder(w.machines[uuid])
		w.checkUnknownTasks(w.machines[uuid])
	}
	for _, q := range w.unanswered() {
		w.violated("request %d (%s) was never answered", q.id, q.name)
	}
}

func (w *world) unanswered() (requests []*request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, q := range w.requests {
		if !q.answered {
			requests = append(requests, q)
		}
	}
	return requests
}

// readOnlyCalls are calls that only read information. Their failure must not end any work.
var readOnlyCalls = []string{readingSettings, "read BIOS settings", "read firmware versions"}

// checkNode compares a node with the answers that clients got about it.
func (w *world) checkNode(uuid string) {
	m := w.machines[uuid]
	n, err := w.node(uuid)
	if err != nil {
		if !w.mayBeDeleted(uuid) {
			w.violated("%s is gone, and nobody deleted it: %v", m.name, err)
		}
		return
	}
	if q := w.last(uuid, func(q *request) bool { return q.name == "delete" && q.accepted }); q != nil {
		w.violated("%s: request %d (%s) was accepted, and the node is there in state %q", m.name, q.id, q.name, n.ProvisionState)
	}
	works := w.works(n)
	_, serves := node.RamdiskBootOf(n)
	class := n.ProvisionState.Class()
	switch {
	case len(works) > 0:
		w.violated("%s: %d pieces of work are left in state %q, the first is %+v, lease %+v", m.name, len(works), n.ProvisionState, *works[0], n.Lease)
	case n.Lease.InForce(time.Now()):
		w.violated("%s: lease %+v is left in state %q", m.name, n.Lease, n.ProvisionState)
	case class != node.Stable && class != node.Failed:
		w.violated("%s ends in state %q, which nobody ends", m.name, n.ProvisionState)
	case class == node.Failed && n.LastError == "" && !w.hasFailureEvent(n): // a power change clears last_error
		w.violated("%s ends in state %q without a word", m.name, n.ProvisionState)
	case serves:
		w.violated("%s: a ramdisk is still served in state %q", m.name, n.ProvisionState)
	case n.TargetPowerState != "":
		w.violated("%s: the request for %q is left", m.name, n.TargetPowerState)
	}
	for _, q := range w.requests {
		if key, ok := strings.CutPrefix(q.name, "patch "); ok && q.node == uuid && q.accepted {
			if _, kept := n.Extra.Fields()[key]; !kept {
				w.violated("%s: %s was answered and is lost", m.name, q.name)
			}
		}
	}
	events := w.events(n)
	w.checkPower(n, m, events)
	w.checkBootDevices(n, m)
	w.checkIPMIBootDevices(n, m)
	w.checkInterrupts(n, m)
	w.checkEnd(n, m)
	w.checkTracked(uuid)
	w.checkLastInventory(n)
	w.checkMaintenance(n, events)
	for _, e := range events {
		if e.Severity == node.SeverityError && strings.Contains(e.Message, "The requested action") {
			w.violated("%s: work has asked for a state that the node cannot go to: %s", m.name, e.Message)
		}
		if e.Severity == node.SeverityError && slices.ContainsFunc(readOnlyCalls, func(op string) bool { return strings.Contains(e.Message, op+":") }) {
			w.violated("%s: reading settings, which only informs, has failed the node: %s", m.name, e.Message)
		}
	}
}

// works returns the work on a node.
func (w *world) works(n *node.Node) (works []*store.Work) {
	_ = w.db.Read(context.Background(), func(tx *store.Tx) (err error) {
		works, err = tx.WorkOf(n.ID)
		return err
	})
	return works
}

// events returns the history of a node.
func (w *world) events(n *node.Node) (events []*node.Event) {
	_ = w.db.Read(context.Background(), func(tx *store.Tx) (err error) {
		events, err = tx.Events(n.ID)
		return err
	})
	return events
}

// hasFailureEvent reports whether the history says why the node failed.
func (w *world) hasFailureEvent(n *node.Node) bool {
	return slices.ContainsFunc(w.events(n), func(e *node.Event) bool {
		return e.Severity == node.SeverityError && !e.CreatedAt.Before(n.ProvisionUpdatedAt.Truncate(time.Microsecond)) && e.Message != ""
	})
}

// mayBeDeleted reports whether a client may have deleted a node.
func (w *world) mayBeDeleted(uuid string) bool {
	return slices.ContainsFunc(w.requests, func(q *request) bool { return q.node == uuid && q.name == "delete" && q.mayBeAccepted() })
}

// mayBeAccepted reports whether a request was accepted, or may have been.
func (q *request) mayBeAccepted() bool { return q.accepted || q.answerUnknown }

// isVerb reports whether a request is one for a verb.
func (q *request) isVerb() bool {
	_, ok := node.VerbNamed(q.name)
	return ok
}

// last returns the last request about a node that fits; nil when there is none.
func (w *world) last(uuid string, fits func(*request) bool) *request {
	var last *request
	for _, q := range w.requests {
		if q.node == uuid && fits(q) {
			last = q
		}
	}
	return last
}

// lastAccepted returns the last request about a node that fits and was accepted; nil when
// there is none, or another one may have been accepted after it.
func (w *world) lastAccepted(uuid string, fits func(*request) bool) *request {
	last := w.last(uuid, func(q *request) bool { return fits(q) && q.mayBeAccepted() })
	if last == nil || !last.accepted {
		return nil
	}
	if slices.ContainsFunc(w.requests, func(q *request) bool {
		return q.node == uuid && q != last && fits(q) && q.mayBeAccepted() && !q.answeredAt.Before(last.sentAt)
	}) {
		return nil
	}
	return last
}

// checkOrder finds effects of an operation that come after those of a later operation
// of the same work.
func (w *world) checkOrder(m *machine) {
	m.mu.Lock()
	defer m.mu.Unlock()
	seen := map[string][]string{} // operations in order, by work
	old := true                   // it was done before the database was restored
	for _, e := range m.log {
		if old && !e.at.Before(w.restoration.restoredAt) { // then work is older than the machine
			clear(seen)
			old = false
		}
		work, operation, _ := strings.Cut(e.origin.Request, " ")
		done := seen[work]
		switch at := slices.Index(done, operation); {
		case at < 0:
			seen[work] = append(done, operation)
		case at < len(done)-1:
			w.violated("%s: %s comes after %q of the same work had begun", m.name, e, done[len(done)-1])
		}
	}
}

// hasEffect reports whether an effect of a kind was done in a period, including its ends.
func (m *machine) hasEffect(kind fake.Kind, from, to time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.log, func(e effect) bool { return e.kind == kind && anyWithin([]time.Time{e.at}, from, to) })
}

// problems returns what does not hold, with what led to it.
func (w *world) problems() string {
	if len(w.violations) == 0 {
		return ""
	}
	return fmt.Sprintf("%s\n\ntrace:\n%s\n\nlogs:\n%s", strings.Join(w.violations, "\n"), strings.Join(w.sched.trace, "\n"), strings.Join(w.log, ""))
}
