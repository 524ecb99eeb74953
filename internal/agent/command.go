package agent

import (
	"encoding/json"
	"strings"

	"github.com/ingot-metal/ingot/internal/node"
)

// CommandStatus is the state of a command.
type CommandStatus string

// States of a command, as ironic-python-agent spells them.
const (
	CommandRunning   CommandStatus = "RUNNING"
	CommandSucceeded CommandStatus = "SUCCEEDED"
	CommandFailed    CommandStatus = "FAILED"
	// CommandVersionMismatch: the hardware managers of the agent are not those that
	// listed the step.
	CommandVersionMismatch CommandStatus = "CLEAN_VERSION_MISMATCH"
)

// Command is a command of an agent, as its API shows it (ironic-python-agent, GET
// /v1/commands/).
type Command struct {
	ID     string          `json:"id"`
	Name   string          `json:"command_name"` // without its extension
	Status CommandStatus   `json:"command_status"`
	Error  *CommandError   `json:"command_error"`
	Result json.RawMessage `json:"command_result"`
}

// CommandError is why a command failed.
type CommandError struct {
	Type    string `json:"type"`
	Message string `json:"message"`
	Details string `json:"details"`
}

// Reason is the failure of a command for people, without credentials; empty when it did
// not fail.
func (c Command) Reason() string {
	switch {
	case c.Status == CommandRunning || c.Status == CommandSucceeded:
		return ""
	case c.Error == nil:
		return "the agent gives no reason."
	}
	parts := make([]string, 0, 2)
	for _, part := range []string{c.Error.Message, c.Error.Details} {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return node.CutText(strings.Join(parts, ": "))
}

// Document is what agents get of a node with a command. It has no secrets: of the open
// dictionaries only what ramdisks may read, see node.RamdiskKeys.
func Document(n *node.Node, more []string) map[string]any {
	return map[string]any{
		"uuid": n.UUID, "name": n.Name, "driver": n.Driver, "driver_info": struct{}{}, "extra": struct{}{},
		"properties":           node.RamdiskKeys(n.Properties, more),
		"instance_info":        node.RamdiskKeys(n.InstanceInfo, more),
		"driver_internal_info": node.RamdiskKeys(n.DriverInternalInfo.Without(TokenKey), more),
		"raid_config":          n.RAIDConfig,
		"target_raid_config":   n.TargetRAIDConfig,
		"deploy_interface":     n.Interfaces[node.DeployInterface],
	}
}

// PortDocuments is what agents get of a node's ports with a command.
func PortDocuments(ports []*node.Port) []map[string]any {
	documents := make([]map[string]any, len(ports))
	for i, p := range ports {
		documents[i] = map[string]any{
			"uuid": p.UUID, "address": p.Address, "pxe_enabled": p.PXEEnabled,
			"local_link_connection": p.LocalLinkConnection, "physical_network": p.PhysicalNetwork,
		}
	}
	return documents
}
