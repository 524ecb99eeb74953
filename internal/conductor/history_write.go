package conductor

import (
	"fmt"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// recordHistory appends to the node's history.
func (c *Conductor) recordHistory(tx *store.Tx, n *node.Node, severity node.Severity, kind, message string) error {
	return c.addEvent(tx, &node.Event{NodeID: n.ID, Severity: severity, Type: kind, Message: message})
}

// addEvent completes and stores a row of history. It masks credentials in URLs, and trims the
// history when that is due.
func (c *Conductor) addEvent(tx *store.Tx, e *node.Event) error {
	e.Message = node.MaskURLs(e.Message)
	e.UUID, e.Conductor = store.NewUUID(), c.cfg.Hostname
	if err := tx.AddEvent(e); err != nil {
		return err
	}
	keep := c.cfg.Limits.HistoryEntries
	if !c.trims.due(e.NodeID, max(keep/10, 1)) {
		return nil
	}
	return tx.TrimEvents(e.NodeID, keep)
}

// eventType returns the event type of history rows about a kind of work. All kinds of work
// of an inspection share one type.
func eventType(kind store.WorkKind) string {
	if kind == workInspect || kind == oldInspect {
		kind = workHooks
	}
	return string(kind)
}

// recordRequest writes into the history that a verb was requested. An abort that
// takes effect at once has its own row.
func (c *Conductor) recordRequest(tx *store.Tx, request node.VerbRequest, before, after *node.Node) error {
	on := request.Verb.On
	kind := string(on)
	message := fmt.Sprintf("%q was asked for: the node goes from %q to %q.", request.Verb.Name, before.ProvisionState, after.ProvisionState)
	switch {
	case on == node.OnAbort && before.ProvisionState != node.ServiceFailed && before.ProvisionState != after.ProvisionState:
		return nil
	case before.ProvisionState == after.ProvisionState:
		message = fmt.Sprintf("%q was asked for: %s", request.Verb.Name, c.awaitedEnd(after))
	case after.ProvisionState.Class() == node.Working:
		kind = eventType(verbRules[on].work)
	}
	return c.addEvent(tx, &node.Event{
		NodeID: after.ID, Severity: node.SeverityInfo, Type: kind, User: request.User, Message: message,
	})
}

// awaitedEnd returns the clause that says what an abort waits for.
func (c *Conductor) awaitedEnd(n *node.Node) string {
	for _, f := range flows {
		step, running := node.StepOf(*f.shown(n))
		switch {
		case !running:
		case step.RequiresRamdisk:
			return fmt.Sprintf("it follows the end of the step %s, which cannot be left half done. The step fails if it did not end within %s (agent.step_timeout).",
				step.Name(), c.cfg.Limits.StepTimeout)
		default:
			return fmt.Sprintf("it follows the end of the step %s, which cannot be left half done.", step.Name())
		}
	}
	return "it follows the end of the step under way."
}

// recordArrival writes into the history that the node has reached the state that its
// verb leads to. A failure of the verb has its own row; the error of a setting that failed
// meanwhile is not one.
func (c *Conductor) recordArrival(tx *store.Tx, w *store.Work, before, after *node.Node) error {
	if after.ProvisionState == before.ProvisionState || after.ProvisionState.Class() != node.Stable || after.Failed() && after.LastError != before.LastError {
		return nil
	}
	took := tx.Now().Sub(w.CreatedAt).Round(time.Millisecond)
	return c.recordHistory(tx, after, node.SeverityInfo, eventType(w.Kind), fmt.Sprintf("The node is %q, after %s.", after.ProvisionState, took))
}

// trims decides when a node's history is trimmed: after a number of new rows from this
// process, so that most rows cost nothing extra.
type trims struct {
	mu   sync.Mutex
	rows map[int64]int // since the last trim, by node key
}

// due counts a row and reports whether it is time to trim.
func (t *trims) due(nodeID int64, every int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rows == nil {
		t.rows = map[int64]int{}
	}
	t.rows[nodeID]++
	if t.rows[nodeID] < every {
		return false
	}
	delete(t.rows, nodeID)
	return true
}

// clear drops the count of a node that was deleted.
func (t *trims) clear(nodeID int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.rows, nodeID)
}
