package simulate

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/internal/driver/fake"
	simeffect "github.com/ingot-metal/ingot/internal/sim/effect"
)

// journal has the commands that the agents of a machine have begun and how they ended.
type journal struct {
	commandMu  sync.Mutex
	fate       simeffect.CommandFate // of the command that begins
	answerLost bool                  // the answer to the command that begins is lost
	commandLog []agentCommand
}

// agentCommand is a command that an agent has begun.
type agentCommand struct {
	kind     fake.Kind
	fate     simeffect.CommandFate
	id       string
	request  string // see driver.Origin
	begun    time.Time
	ended    time.Time // zero when it has no result
	reported bool      // a process has read how it ended
}

// otherCommand is the effect of commands that are neither fake.Wipe nor fake.Write nor reboot.
const otherCommand fake.Kind = "order"

// kindOfCommand returns the effect of a command. The command has the form "extension.name step",
// with the step that it executes.
func kindOfCommand(command string) fake.Kind {
	name, step, _ := strings.Cut(command, " ")
	switch {
	case strings.HasPrefix(step, "erase_devices"):
		return fake.Wipe
	case step == "write_image":
		return fake.Write
	case name == "standby.run_image":
		return reboot
	}
	return otherCommand
}

// readOnlyCommands are commands that change nothing.
var readOnlyCommands = []string{"standby.get_partition_uuids", "clean.get_clean_steps", "deploy.get_deploy_steps", "service.get_service_steps"}

// Draw decides what becomes of a command.
func (c *computer) Draw(command simeffect.Command) simeffect.CommandFate {
	c.commandMu.Lock()
	defer c.commandMu.Unlock()
	c.fate = simeffect.CommandFate{}
	if slices.Contains(readOnlyCommands, command.Names[0]) {
		return c.fate
	}
	switch drawn := c.drawn("order", len(c.commandLog)) % 40; {
	case drawn < 2, c.answerLost && drawn < 20:
		c.fate.Crash = true
	case drawn < 4:
		c.fate.Vanish = true
	case drawn < 6:
		c.fate.Fail = true
	}
	return c.fate
}

// setAnswerLost notes whether the answer to the command that begins is lost. An agent that crashes
// then cannot list the command any more.
func (c *computer) setAnswerLost(lost bool) {
	c.commandMu.Lock()
	defer c.commandMu.Unlock()
	c.answerLost = lost
}

// Add stores a command that begins and returns its number, from 1. It returns 0 for what a command
// does.
func (c *computer) Add(e simeffect.Effect) int64 {
	if e.Kind != simeffect.AgentCommand {
		return 0
	}
	c.commandMu.Lock()
	defer c.commandMu.Unlock()
	c.commandLog = append(c.commandLog, agentCommand{kind: kindOfCommand(e.Detail), fate: c.fate, begun: time.Now()})
	if c.fate != (simeffect.CommandFate{}) {
		c.w.sched.note("%s: %s will meet: %s", c.name, e.Detail, c.fate.Fault())
	}
	return int64(len(c.commandLog))
}

// End notes that a command has ended.
func (c *computer) End(number int64, now time.Time) {
	c.commandMu.Lock()
	defer c.commandMu.Unlock()
	if number > 0 {
		c.commandLog[number-1].ended = now
	}
}

// succeeded reports whether a command of a kind has succeeded since a time.
func (c *computer) succeeded(kind fake.Kind, since time.Time) bool {
	c.commandMu.Lock()
	defer c.commandMu.Unlock()
	return slices.ContainsFunc(c.commandLog, func(o agentCommand) bool {
		return o.kind == kind && o.fate == (simeffect.CommandFate{}) && !o.ended.IsZero() && !o.ended.Before(since)
	})
}
