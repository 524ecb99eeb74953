package ramdisk

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// collectLogs makes an agent return the logs of its ramdisk.
var collectLogs = order{name: "log.collect_system_logs"}

var _ driver.LogSource = Driver{}

// Logs asks the agent for the logs of the ramdisk. It does so only once in the life of the agent,
// because the agent lists the logs with all of its commands from then on. A second time is an
// error.
func (d Driver) Logs(ctx context.Context, n *node.Node) ([]byte, error) {
	commands, err := d.options.Agents.Commands(ctx, n)
	if err != nil {
		return nil, err
	}
	refused := func(reason string) error {
		return &node.DriverError{Op: collectLogs.does(n), Refused: true, Reason: node.CutText(reason)}
	}
	if slices.ContainsFunc(commands, func(c agent.Command) bool { return c.Name == collectLogs.last() }) {
		return nil, refused("the agent was asked for its logs before and is asked once between two starts of the ramdisk. The history of the node names the file of that time; restart the ramdisk to get later logs.")
	}
	command, err := d.options.Agents.Execute(ctx, n, collectLogs.name, nil, true)
	switch {
	case err != nil:
		return nil, err
	case command.Status != agent.CommandSucceeded:
		return nil, refused(command.Reason())
	}
	var result struct {
		Logs string `json:"system_logs"`
	}
	if err := json.Unmarshal(command.Result, &result); err != nil {
		return nil, refused("its answer cannot be read: " + err.Error())
	}
	archive, err := base64.StdEncoding.DecodeString(strings.NewReplacer("\n", "", "\r", "").Replace(result.Logs))
	if err != nil {
		return nil, refused("its answer is not base64: " + err.Error())
	}
	return archive, nil
}
