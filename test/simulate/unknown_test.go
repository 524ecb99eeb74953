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

// unknownSayings are how failures say that nobody can know what became of a request.
var unknownSayings = []string{"outcome unknown", "its outcome is unknown", "it is unknown how far it came"}

func saysUnknown(message string) bool {
	return slices.ContainsFunc(unknownSayings, func(saying string) bool { return strings.Contains(message, saying) })
}

// endedByClient reports whether a client may have ended the work of a node since a time.
func (w *world) endedByClient(uuid string, since time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.requests, func(q *request) bool {
		open := q.until.IsZero() || !q.until.Before(since)
		return q.node == uuid && (q.counts() || q.stored) && open && slices.Contains([]string{"abort", "deleted", "delete"}, q.what)
	})
}

// doing is a request to erase, write or flash of which a computer cannot tell what became of it.
type doing struct {
	what string
	at   time.Time
}

// forgottenUpdate is an update whose answer was lost, and of which the BMC has no task any more.
type forgottenUpdate struct {
	effect
	component, version string
}

// mayForget draws whether the BMC forgets its tasks after an update whose answer was lost, as a restart
// may make it do. The update goes on.
func (c *computer) mayForget(e effect) {
	if c.w.drawn(e.origin.Request, "forgets")%2 > 0 {
		return
	}
	c.serving.Lock()
	defer c.serving.Unlock()
	tasks := c.bmc.Tasks()
	slices.Reverse(tasks) // the last one is that of the update
	i := slices.IndexFunc(tasks, func(t bmc.Task) bool { return t.Kind == bmc.FlashTask && !t.Done() })
	if i < 0 {
		return
	}
	c.w.sched.note("the BMC of %s forgets its tasks", c.name)
	c.bmc.ForgetTasks()
	e.at = time.Now()
	c.forgotten = append(c.forgotten, forgottenUpdate{e, tasks[i].Component, tasks[i].Version})
}

// ordered notes the ID of the command that the agent has begun last, and the request that it was
// sent for.
func (c *computer) ordered(id, request string) {
	c.notes.Lock()
	defer c.notes.Unlock()
	if last := len(c.orders) - 1; last >= 0 {
		c.orders[last].id, c.orders[last].request = id, request
	}
}

// tells notes what a process hears of the ends of commands.
func (c *computer) tells(answer []byte) {
	var list struct{ Commands []agent.Command }
	if json.Unmarshal(answer, &list) != nil {
		return
	}
	c.notes.Lock()
	defer c.notes.Unlock()
	for i, o := range c.orders {
		c.orders[i].told = o.told || slices.ContainsFunc(list.Commands, func(known agent.Command) bool {
			return known.ID == o.id && known.Status != agent.CommandRunning
		})
	}
}

// dropDoubts drops what is known of requests, because the database that knew of them is gone.
func (c *computer) dropDoubts() {
	c.notes.Lock()
	for i := range c.orders {
		c.orders[i].told = true
	}
	c.notes.Unlock()
	c.serving.Lock()
	defer c.serving.Unlock()
	c.forgotten = nil
}

// doubted returns the requests of a row, see requestedWork, of which the machine can tell no process
// any more how they ended. The row is gone, so nobody asks for the end of a command later. A version
// that the BMC shows tells of its update.
func (c *computer) doubted(key string) (all []doing) {
	c.notes.Lock()
	for _, o := range c.orders {
		if slices.Contains(once, o.kind) && strings.HasPrefix(o.request, key) && !o.told {
			all = append(all, doing{string(o.kind), o.begun})
		}
	}
	c.notes.Unlock()
	c.serving.Lock()
	defer c.serving.Unlock()
	for _, u := range c.forgotten {
		shown := slices.Contains(c.bmc.Components(), bmc.Component{ID: u.component, Version: u.version})
		if strings.HasPrefix(u.origin.Request, key) && !shown {
			all = append(all, doing{fmt.Sprintf("%s (%s)", u.kind, u.detail), u.at})
		}
	}
	return all
}

// checkUnknown checks the end of the work of a verb: if nobody can know what became of one of its
// requests, the work has failed and says so. A client may end the work before.
func (w *world) checkUnknown(n *node.Node, q *request, said sayings) {
	c := w.computerOf(n.UUID)
	if c == nil {
		return
	}
	for _, d := range c.doubted(q.work.key) {
		unknown := slices.ContainsFunc(said, func(e *node.Event) bool { return e.Severity == node.SeverityError && saysUnknown(e.Message) })
		if !unknown && !w.endedByClient(n.UUID, d.at) {
			w.violated("%s: nobody can know what became of the %s, and request %d (%s) ends in state %q without saying so: %s", n.Name, d.what, q.id, q.what, n.ProvisionState, n.LastError)
		}
	}
}
