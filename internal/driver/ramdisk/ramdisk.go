// Package ramdisk implements the interfaces that work through the agent of a machine's ramdisk
// (ironic-python-agent): deployment as direct, custom-agent and ramdisk, RAID and rescue as agent.
//
// Steps of the agent are commands. The engine cannot choose an ID for a command. Before it sends
// one, it therefore stores the ID of the agent's last command. A command of the same name behind
// that one is the one that was sent, whatever became of the answer. The engine asks the agent for
// its commands before it repeats anything.
package ramdisk

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// Agents calls the agents of ramdisks. Errors are *node.DriverError.
type Agents interface {
	// Commands lists the commands that the node's agent has had since its start, the
	// oldest first.
	Commands(ctx context.Context, n *node.Node) ([]agent.Command, error)
	// Execute sends a command and returns what the agent says of it: at its end when wait
	// is true, else at once. The error is Refused when the agent has not begun it.
	Execute(ctx context.Context, n *node.Node, name string, params map[string]any, wait bool) (agent.Command, error)
}

// Options are what the interfaces need of the engine.
type Options struct {
	Agents Agents // nil means that no agent can be called, so that the interfaces do not exist
	// Running reports whether a node's ramdisk has sent a heartbeat recently.
	Running func(*node.Node) bool
	// Silent reports whether a node's ramdisk has sent no heartbeat for so long although the engine
	// listened all that time. Nil means that a ramdisk that is not running is silent.
	Silent func(*node.Node) bool
	// Ports returns the ports of a node.
	Ports func(ctx context.Context, n *node.Node) ([]*node.Port, error)
	// StepTimeout bounds one command of an agent, such as a step; zero means 72 hours.
	// Erasing a large disk takes more than a day.
	StepTimeout time.Duration
	// AllowMD5 permits images whose checksum is MD5. That is no protection from somebody who makes
	// another image with the same checksum.
	AllowMD5 bool
	// LookupKeys are keys of the open dictionaries that ramdisks get in addition to those that
	// agents read.
	LookupKeys []string
}

// Driver has the interfaces.
type Driver struct{ options Options }

// New returns a driver.
func New(options Options) Driver {
	options.StepTimeout = cmp.Or(options.StepTimeout, defaultStepTimeout)
	if options.Silent == nil {
		options.Silent = func(n *node.Node) bool { return !options.Running(n) }
	}
	return Driver{options}
}

const defaultStepTimeout = 72 * time.Hour

// Interfaces returns the implementations, by interface and name.
func (d Driver) Interfaces() map[node.InterfaceKind]map[string]driver.Implementation {
	if d.options.Agents == nil {
		return nil
	}
	return map[node.InterfaceKind]map[string]driver.Implementation{
		node.DeployInterface: {
			"direct":       Deploy{Driver: d, core: directSteps, needsImage: true},
			"custom-agent": Deploy{Driver: d, core: customSteps},
			"ramdisk":      Live{Deploy{Driver: d, core: customSteps}},
		},
		node.RAIDInterface:   {"agent": RAID{d}},
		node.RescueInterface: {"agent": Rescue{d}},
	}
}

// Reboot makes a turn of having the agent restart the machine. The outcome is done when the agent
// has begun the restart, or is gone after it may have begun.
func (d Driver) Reboot(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
	restart := order{name: restartCommand, lost: true}
	// Earlier releases sent the command in their first turn. This one does not, so an agent that cannot
	// be asked has not necessarily gone down with it.
	if turn.Phase == "" && turn.Attempt == driver.Unknown {
		commands, err := d.options.Agents.Commands(ctx, n)
		if err != nil {
			return driver.Outcome{}, err
		}
		if i := slices.IndexFunc(commands, func(c agent.Command) bool { return c.Name == restart.last() }); i >= 0 {
			return judge(n, restart, commands[i])
		}
	}
	return d.run(ctx, n, restart, turn)
}

// restartCommand makes an agent restart its machine.
const restartCommand = "standby.run_image"
