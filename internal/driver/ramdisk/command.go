package ramdisk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// Phases of a command, as they are stored. The handle of phaseToSend and phaseInDoubt is the ID of
// the agent's last command before it; that of phaseSent is the ID of the command itself.
const (
	phaseToSend = "to send"
	// phaseInDoubt: the command may have been sent, and the agent could not be asked.
	phaseInDoubt = "in doubt"
	phaseSent    = "sent"
)

const (
	// atOnce is the pause before the turn that sends a command: only the commit in between
	// counts.
	atOnce = time.Millisecond
	// askEvery is how often a running command is asked for. The agent also sends a
	// heartbeat when a command ends.
	askEvery = time.Minute
	// longestRestart bounds how long an agent that cannot be asked may go on sending
	// heartbeats after a command with which it goes down.
	longestRestart = 30 * time.Minute
)

// order is a command that is to be carried out once.
type order struct {
	name   string // "extension.command"
	params func(ctx context.Context) (map[string]any, error)
	// lost says that the agent goes down with the command. The command counts as done when the
	// agent has begun it.
	lost bool
	// ends says that the agent ends after the command. Nobody can then ask it for the outcome when
	// its answer is lost.
	ends bool
	// keep returns what the result of the command changes in the node, or the reason why the result
	// is a failure although the agent calls it a success. Nil keeps nothing.
	keep func(result json.RawMessage) (func(*node.Node), error)
	// names reports whether a result is that of this order, and not that of another order with the
	// same command. Nil means that there is no other.
	names func(result json.RawMessage) bool
}

// last returns the name of the command without its extension, as the agent lists it.
func (o order) last() string {
	_, name, _ := strings.Cut(o.name, ".")
	return name
}

// shownBy reports whether the last command of an agent is that of the order. A command that has not
// succeeded has no result that names the order. It is that of the order all the same, because work
// does not go on to another order behind such a command.
func (o order) shownBy(last agent.Command) bool {
	return last.Name == o.last() && (o.names == nil || last.Status != agent.CommandSucceeded || o.names(last.Result))
}

// run makes a turn of a command. Its outcome is done when the command has succeeded.
func (d Driver) run(ctx context.Context, n *node.Node, o order, turn driver.Turn) (driver.Outcome, error) {
	switch turn.Phase {
	case "":
		return d.prepare(ctx, n, o, turn)
	case phaseToSend, phaseInDoubt:
		return d.send(ctx, n, o, turn)
	case phaseSent:
		return d.follow(ctx, n, o, turn)
	}
	return driver.Outcome{}, driver.OutcomeUnknown(o.does(n))
}

// judgedKey is the key of driver_internal_info for the ID of the last command whose success was
// taken for that of an order. Earlier releases stored none.
const judgedKey = "agent_judged_command"

// prepare stores the ID of the agent's last command. If what was stored of the order may be lost,
// the last command may be that of the order. Then it is judged, unless it was that of an earlier
// order. An agent that has had no command since its start gets a harmless one first. The ID of that
// command tells this start from a later one, after which the list of commands may be empty again.
func (d Driver) prepare(ctx context.Context, n *node.Node, o order, turn driver.Turn) (driver.Outcome, error) {
	commands, err := d.options.Agents.Commands(ctx, n)
	if err != nil {
		return driver.Outcome{}, err
	}
	if turn.Attempt == driver.Unknown && len(commands) > 0 {
		if last := commands[len(commands)-1]; last.ID != n.DriverInternalInfo.Text(judgedKey) && o.shownBy(last) {
			return judge(n, o, last)
		}
	}
	if len(commands) == 0 {
		first, err := d.options.Agents.Execute(ctx, n, partitionUUIDs, nil, true)
		if err != nil {
			return driver.Outcome{}, err
		}
		commands = []agent.Command{first}
	}
	last := commands[len(commands)-1].ID
	if last == "" {
		return driver.Outcome{}, &node.DriverError{Op: o.does(n), Refused: true, Reason: "the agent lists a command without ID."}
	}
	return driver.Outcome{Again: atOnce, Phase: phaseToSend, Handle: last}, nil
}

// partitionUUIDs asks for the UUIDs of what was written. It changes nothing, needs no parameters
// and has ended when it is answered.
const partitionUUIDs = "standby.get_partition_uuids"

// send sends the command, unless an earlier turn has sent it.
func (d Driver) send(ctx context.Context, n *node.Node, o order, turn driver.Turn) (driver.Outcome, error) {
	if turn.Attempt != driver.Continued || turn.Phase == phaseInDoubt {
		commands, err := d.options.Agents.Commands(ctx, n)
		if err != nil && (o.lost || o.ends) && (turn.Attempt == driver.Unknown || turn.Phase == phaseInDoubt) {
			return d.gone(n, turn, err)
		}
		if err != nil {
			return driver.Outcome{}, err
		}
		behind, ok := after(commands, turn.Handle)
		if !ok {
			return driver.Outcome{}, restarted(o, n)
		}
		if i := slices.IndexFunc(behind, func(c agent.Command) bool { return c.Name == o.last() }); i >= 0 {
			return judge(n, o, behind[i])
		}
	}
	params := map[string]any{}
	if o.params != nil {
		var err error
		if params, err = o.params(ctx); err != nil {
			return driver.Outcome{}, err
		}
	}
	command, err := d.options.Agents.Execute(ctx, n, o.name, params, false)
	if err != nil {
		return driver.Outcome{}, err
	}
	return judge(n, o, command)
}

// gone decides what became of a command that the agent goes down with, or ends after, when the
// agent cannot be asked. A silent agent has carried out the command. While the agent sends
// heartbeats, perhaps the command was never sent, so the agent is asked again until longestRestart.
func (d Driver) gone(n *node.Node, turn driver.Turn, cause error) (driver.Outcome, error) {
	switch {
	case d.options.Silent(n):
		return driver.Outcome{}, nil
	case turn.Elapsed >= longestRestart:
		return driver.Outcome{}, cause
	}
	return driver.Outcome{Park: askEvery, Phase: phaseInDoubt, Handle: turn.Handle}, nil
}

// follow asks for the command that was sent. An agent that cannot be reached for a while is asked
// again as long as it may be alive. An error that will not change is not waited out.
func (d Driver) follow(ctx context.Context, n *node.Node, o order, turn driver.Turn) (driver.Outcome, error) {
	again := await(turn.Handle)
	commands, err := d.options.Agents.Commands(ctx, n)
	var final *node.DriverError
	switch {
	case errors.As(err, &final) && !final.Retryable:
		return driver.Outcome{}, &node.DriverError{
			Op: o.does(n), Reason: fmt.Sprintf("the ramdisk cannot be asked for it, so its outcome is unknown. %v", err),
		}
	case err != nil && !d.options.Silent(n) && turn.Elapsed < d.options.StepTimeout:
		return again, nil
	case err != nil:
		return driver.Outcome{}, &node.DriverError{
			Op: o.does(n), Reason: fmt.Sprintf("the ramdisk vanished while the command ran, so its outcome is unknown. %v", err),
		}
	}
	i := slices.IndexFunc(commands, func(c agent.Command) bool { return c.ID == turn.Handle })
	switch {
	case i < 0:
		return driver.Outcome{}, restarted(o, n)
	case commands[i].Status == agent.CommandRunning && turn.Elapsed >= d.options.StepTimeout:
		return driver.Outcome{}, &node.DriverError{
			Op: o.does(n), Reason: fmt.Sprintf("it did not end within %s (agent.step_timeout). Look at the machine before you repeat the work.", d.options.StepTimeout),
		}
	}
	return judge(n, o, commands[i])
}

// judge returns the outcome of an order from the command that the agent shows for it.
func judge(n *node.Node, o order, c agent.Command) (driver.Outcome, error) {
	switch c.Status {
	case agent.CommandRunning:
		if o.lost {
			return driver.Outcome{}, nil
		}
		return await(c.ID), nil
	case agent.CommandSucceeded:
		var change func(*node.Node)
		if o.keep != nil {
			var err error
			if change, err = o.keep(c.Result); err != nil {
				return driver.Outcome{}, &node.DriverError{Op: o.does(n), Reason: node.CutText(err.Error())}
			}
		}
		return driver.Outcome{Apply: func(n *node.Node) {
			if change != nil {
				change(n)
			}
			if len(c.ID) <= maxName {
				n.DriverInternalInfo = n.DriverInternalInfo.With(map[string]any{judgedKey: c.ID})
			}
		}}, nil
	case agent.CommandVersionMismatch:
		return driver.Outcome{}, &node.DriverError{
			Op: o.does(n), Reason: "the ramdisk has other hardware managers than when it was asked for its steps: request the work again. " + c.Reason(),
		}
	}
	return driver.Outcome{}, &node.DriverError{Op: o.does(n), Reason: c.Reason()}
}

// await returns the outcome that waits for the end of the command with that ID.
func await(id string) driver.Outcome {
	return driver.Outcome{Callback: true, Park: askEvery, Phase: phaseSent, Handle: id}
}

func (o order) does(n *node.Node) string {
	return "run " + o.name + " in the ramdisk of node " + n.UUID
}

// restarted returns the failure of a command of which a restarted agent knows nothing.
func restarted(o order, n *node.Node) error {
	return &node.DriverError{
		Op: o.does(n), Reason: "the agent was restarted since and knows nothing of the command, so it is unknown how far it came. Look at the machine, then request the work again.",
	}
}

// after returns the commands behind the one with that ID. It returns false when the list does not
// have the ID, and for an empty ID: every command of a later start would be behind that.
func after(commands []agent.Command, id string) ([]agent.Command, bool) {
	i := slices.IndexFunc(commands, func(c agent.Command) bool { return c.ID == id })
	if i < 0 || id == "" {
		return nil, false
	}
	return commands[i+1:], true
}
