package simulate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
)

// unknownPhrases are how failures say that the outcome of a request is unknown.
var unknownPhrases = []string{"outcome unknown", "its outcome is unknown", "it is unknown how far it came"}

func reportsUnknown(message string) bool {
	return slices.ContainsFunc(unknownPhrases, func(phrase string) bool { return strings.Contains(message, phrase) })
}

// endedByClient reports whether a client may have ended the work of a node since a time.
func (w *world) endedByClient(uuid string, since time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.requests, func(q *request) bool {
		open := q.answeredAt.IsZero() || !q.answeredAt.Before(since)
		return q.node == uuid && (q.mayBeAccepted() || q.committed) && open && slices.Contains([]string{"abort", "deleted", "delete"}, q.name)
	})
}

// unknownEffect is a request to erase, write or flash whose outcome no process has read and no
// process can read any more.
type unknownEffect struct {
	name string
	at   time.Time
}

// untrackedUpdate is an update whose answer was lost, and for which the BMC has no task any more.
type untrackedUpdate struct {
	effect
	component, version string
}

// drawTaskLoss draws whether the BMC loses its tasks after an update whose answer was lost, as a
// restart may make it do. The update goes on.
func (c *computer) drawTaskLoss(e effect) {
	if c.w.drawn(e.origin.Request, "forgets")%2 > 0 {
		return
	}
	c.bmcMu.Lock()
	defer c.bmcMu.Unlock()
	tasks := c.bmc.Tasks()
	slices.Reverse(tasks) // the last one is that of the update
	i := slices.IndexFunc(tasks, func(t bmc.Task) bool { return t.Kind == bmc.FlashTask && !t.Done() })
	if i < 0 {
		return
	}
	c.w.sched.note("the BMC of %s forgets its tasks", c.name)
	c.bmc.ForgetTasks()
	e.at = time.Now()
	c.untrackedUpdates = append(c.untrackedUpdates, untrackedUpdate{e, tasks[i].Component, tasks[i].Version})
}

// noteCommandID notes the ID of the command that the agent has begun last, and the request that it
// was sent for.
func (c *computer) noteCommandID(id, request string) {
	c.commandMu.Lock()
	defer c.commandMu.Unlock()
	if last := len(c.commandLog) - 1; last >= 0 {
		c.commandLog[last].id, c.commandLog[last].request = id, request
	}
}

// noteReported notes the commands whose end a process has read.
func (c *computer) noteReported(answer []byte) {
	var list struct{ Commands []agent.Command }
	if json.Unmarshal(answer, &list) != nil {
		return
	}
	c.commandMu.Lock()
	defer c.commandMu.Unlock()
	for i, o := range c.commandLog {
		c.commandLog[i].reported = o.reported || slices.ContainsFunc(list.Commands, func(known agent.Command) bool {
			return known.ID == o.id && known.Status != agent.CommandRunning
		})
	}
}

// dropUnknownEffects drops what is known of requests, because the database that knew of them is
// gone.
func (c *computer) dropUnknownEffects() {
	c.commandMu.Lock()
	for i := range c.commandLog {
		c.commandLog[i].reported = true
	}
	c.commandMu.Unlock()
	c.bmcMu.Lock()
	defer c.bmcMu.Unlock()
	c.untrackedUpdates = nil
}

// unknownEffects returns the requests of a row, see requestedWork, whose outcome is unknown. The
// row is gone, so no process reads the end of a command later. If the BMC shows the version of an
// update, its outcome is known.
func (c *computer) unknownEffects(key string) (all []unknownEffect) {
	c.commandMu.Lock()
	for _, o := range c.commandLog {
		if slices.Contains(atMostOnce, o.kind) && strings.HasPrefix(o.request, key) && !o.reported {
			all = append(all, unknownEffect{string(o.kind), o.begun})
		}
	}
	c.commandMu.Unlock()
	c.bmcMu.Lock()
	defer c.bmcMu.Unlock()
	for _, u := range c.untrackedUpdates {
		shown := slices.Contains(c.bmc.Components(), bmc.Component{ID: u.component, Version: u.version})
		if strings.HasPrefix(u.origin.Request, key) && !shown {
			all = append(all, unknownEffect{fmt.Sprintf("%s (%s)", u.kind, u.detail), u.at})
		}
	}
	return all
}

// checkUnknownEffects checks the end of the work of a verb: if the outcome of one of its requests
// is unknown, the work has failed and says so. A client may end the work before.
func (w *world) checkUnknownEffects(n *node.Node, q *request, events newEvents) {
	c := w.computerOf(n.UUID)
	if c == nil {
		return
	}
	for _, d := range c.unknownEffects(q.work.key) {
		unknown := slices.ContainsFunc(events, func(e *node.Event) bool { return e.Severity == node.SeverityError && reportsUnknown(e.Message) })
		if !unknown && !w.endedByClient(n.UUID, d.at) {
			w.violated("%s: nobody can know what became of the %s, and request %d (%s) ends in state %q without saying so: %s", n.Name, d.name, q.id, q.name, n.ProvisionState, n.LastError)
		}
	}
}
