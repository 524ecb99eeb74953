package simulate

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/internal/driver/fake"
	simeffect "github.com/ingot-metal/ingot/internal/sim/effect"
)

// journal has what the agents of a machine were told to do and how that ended.
type journal struct {
	notes  sync.Mutex
	fate   simeffect.CommandFate // of the command that begins
	lost   bool                  // the answer to the command that begins is lost
	orders []agentOrder
}

// agentOrder is a command that an agent has begun.
type agentOrder struct {
	kind    fake.Kind
	fate    simeffect.CommandFate
	id      string
	request string // see driver.Origin
	begun   time.Time
	ended   time.Time // zero when it has no result
	told    bool      // the agent has told a process how it ended
}

// order is the effect of commands that are neither fake.Wipe nor fake.Write nor reboot.
const order fake.Kind = "order"

// kindOfOrder returns the effect of a command. The command has the form "extension.name step", with
// the step that it executes.
func kindOfOrder(command string) fake.Kind {
	name, step, _ := strings.Cut(command, " ")
	switch {
	case strings.HasPrefix(step, "erase_devices"):
		return fake.Wipe
	case step == "write_image":
		return fake.Write
	case name == "standby.run_image":
		return reboot
	}
	return order
}

// harmless are commands that change nothing.
var harmless = []string{"standby.get_partition_uuids", "clean.get_clean_steps", "deploy.get_deploy_steps", "service.get_service_steps"}

// Draw decides what becomes of a command.
func (c *computer) Draw(command simeffect.Command) simeffect.CommandFate {
	c.notes.Lock()
	defer c.notes.Unlock()
	c.fate = simeffect.CommandFate{}
	if slices.Contains(harmless, command.Names[0]) {
		return c.fate
	}
	switch drawn := c.drawn("order", len(c.orders)) % 40; {
	case drawn < 2, c.lost && drawn < 20:
		c.fate.Crash = true
	case drawn < 4:
		c.fate.Vanish = true
	case drawn < 6:
		c.fate.Fail = true
	}
	return c.fate
}

// lose notes that the answer to the command that begins is lost, or is not. An agent that crashes
// then cannot tell of the command.
func (c *computer) lose(lost bool) {
	c.notes.Lock()
	defer c.notes.Unlock()
	c.lost = lost
}

// Add stores a command that begins and returns its number, from 1. It returns 0 for what a command
// does.
func (c *computer) Add(e simeffect.Effect) int64 {
	if e.Kind != simeffect.AgentCommand {
		return 0
	}
	c.notes.Lock()
	defer c.notes.Unlock()
	c.orders = append(c.orders, agentOrder{kind: kindOfOrder(e.Detail), fate: c.fate, begun: time.Now()})
	if c.fate != (simeffect.CommandFate{}) {
		c.w.sched.note("%s: %s will meet: %s", c.name, e.Detail, c.fate.Fault())
	}
	return int64(len(c.orders))
}

// End notes that a command has ended.
func (c *computer) End(number int64, now time.Time) {
	c.notes.Lock()
	defer c.notes.Unlock()
	if number > 0 {
		c.orders[number-1].ended = now
	}
}

// succeeded reports whether a command of a kind has succeeded since a time.
func (c *computer) succeeded(kind fake.Kind, since time.Time) bool {
	c.notes.Lock()
	defer c.notes.Unlock()
	return slices.ContainsFunc(c.orders, func(o agentOrder) bool {
		return o.kind == kind && o.fate == (simeffect.CommandFate{}) && !o.ended.IsZero() && !o.ended.Before(since)
	})
}
