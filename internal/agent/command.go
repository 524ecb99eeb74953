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
	// CommandVersionMismatch means that the hardware managers of the agent are no longer those that
	// listed the step.
	CommandVersionMismatch CommandStatus = "CLEAN_VERSION_MISMATCH"
)

// Command is a command of an agent, in the form of its API (ironic-python-agent, GET
// /v1/commands/).
type Command struct {
	ID     string          `json:"id"`
	Name   string          `json:"command_name"` // without the name of its extension
	Status CommandStatus   `json:"command_status"`
	Error  *CommandError   `json:"command_error"`
	Result json.RawMessage `json:"command_result"`
}

// CommandError is the reason why a command failed.
type CommandError struct {
	Type    string `json:"type"`
	Message string `json:"message"`
	Details string `json:"details"`
}

// Reason returns the failure of a command for people, without credentials. It is empty if the
// command did not fail.
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

// Document returns the node in the form that agents get with a command. It has no secrets. From the
// open dictionaries it takes only what ramdisks may read, see node.RamdiskKeys, and what steps of
// ironic-python-agent need besides: files to inject, and settings of burn-ins.
func Document(n *node.Node, more []string) map[string]any {
	return map[string]any{
		"uuid": n.UUID, "name": n.Name, "driver": n.Driver, "extra": struct{}{},
		"automated_clean": n.AutomatedClean, "instance_uuid": n.InstanceUUID, "provision_state": n.ProvisionState, "resource_class": n.ResourceClass,
		"driver_info":          node.OnlyKeys(n.DriverInfo, "agent_burnin_*"),
		"properties":           node.RamdiskKeys(n.Properties, append([]string{"inject_files"}, more...)),
		"instance_info":        node.RamdiskKeys(n.InstanceInfo, more),
		"driver_internal_info": node.RamdiskKeys(n.DriverInternalInfo.Without(TokenKey), more),
		"raid_config":          n.RAIDConfig,
		"target_raid_config":   n.TargetRAIDConfig,
		"deploy_interface":     n.Interfaces[node.DeployInterface],
	}
}

// instanceKeys are the keys of instance_info from which hardware managers deploy by themselves.
var instanceKeys = []string{
	"configdrive", "image_source", "image_checksum", "image_os_hash_algo", "image_os_hash_value", "image_disk_format", "image_type",
}

// DeploymentDocument is Document for a step that may deploy by itself, such as a step of a hardware
// manager. It has the image and the config drive, which may contain secrets of the instance.
func DeploymentDocument(n *node.Node, more []string) map[string]any {
	document := Document(n, more)
	document["instance_info"] = node.RamdiskKeys(n.InstanceInfo, append(instanceKeys[:len(instanceKeys):len(instanceKeys)], more...))
	return document
}

// PortDocuments returns a node's ports in the form that agents get with a command.
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
