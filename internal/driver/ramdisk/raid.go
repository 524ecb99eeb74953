package ramdisk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// RAID offers and runs the RAID steps of the agent.
type RAID struct{ Driver }

var _ driver.Stepper = RAID{}

// Names of the RAID steps, as the Bare Metal API has them. apply_configuration takes the
// configuration as its argument raid_config.
const (
	createConfiguration = "create_configuration"
	applyConfiguration  = "apply_configuration"
	deleteConfiguration = "delete_configuration"
)

// Validate accepts every node: only the agent knows the controllers.
func (RAID) Validate(*node.Node) error { return nil }

// Steps lists the steps that the agent has reported.
func (RAID) Steps(n *node.Node, kind driver.StepKind) []node.Step {
	return askedSteps(n, kind, node.RAIDInterface.String())
}

// RunStep makes a turn of a step. Afterwards the node has the volumes that the agent made.
func (r RAID) RunStep(ctx context.Context, n *node.Node, kind driver.StepKind, step node.Step, turn driver.Turn) (driver.Outcome, error) {
	o := r.stepOrder(n, kind, step)
	switch step.Step {
	case createConfiguration:
		// This is checked only before the command is sent: a later change of the configuration
		// changes nothing.
		if turn.Phase == "" && len(logicalDisks(n.TargetRAIDConfig)) == 0 {
			return driver.Outcome{}, node.Invalid("Node %s has no logical_disks in target_raid_config, which the step %s is to make.", n.UUID, step.Name())
		}
		o.keep = volumesOf(kind)
	case applyConfiguration:
		o.keep = volumesOf(kind)
	case deleteConfiguration:
		o.keep = noVolumes
	}
	return r.run(ctx, n, o, turn)
}

// maxRAIDConfig bounds what an agent tells of its volumes, in bytes, because the node keeps it.
const maxRAIDConfig = 1 << 20

// volumesOf reads the volumes that a step of that kind has made. An agent whose hardware managers
// cannot make the volumes does nothing, says so by an empty configuration, and calls it a success.
func volumesOf(kind driver.StepKind) func(json.RawMessage) (func(*node.Node), error) {
	return func(result json.RawMessage) (func(*node.Node), error) {
		if len(result) > maxRAIDConfig {
			return nil, fmt.Errorf("the agent's list of RAID volumes has %d bytes, more than %d", len(result), maxRAIDConfig)
		}
		var byKey map[string]json.RawMessage
		_ = json.Unmarshal(result, &byKey) // another result has no volumes, either
		config, err := node.ParseObject(byKey[string(kind)+"_result"])
		if err != nil {
			return nil, fmt.Errorf("the agent's list of RAID volumes cannot be read: %w", err)
		}
		disks := logicalDisks(config)
		if len(disks) == 0 {
			return nil, errors.New("the agent made no RAID volumes. An unmodified one makes only software RAID: give the logical disks the controller \"software\", or use a ramdisk with a hardware manager for the machine's controller")
		}
		hint := rootHint(disks)
		return func(n *node.Node) {
			n.RAIDConfig = config
			if !hint.IsEmpty() {
				n.Properties = n.Properties.With(map[string]any{rootDeviceKey: hint})
			}
		}, nil
	}
}

// noVolumes forgets the volumes, and the hints for the disk to write to: they may name a volume
// that is gone.
func noVolumes(json.RawMessage) (func(*node.Node), error) {
	return func(n *node.Node) {
		n.RAIDConfig, n.Properties = nil, n.Properties.Without(rootDeviceKey)
	}, nil
}

// rootDeviceKey is the key of properties for the hints of the disk to write to.
const rootDeviceKey = "root_device"

// logicalDisks returns the volumes of a RAID configuration, undecoded. It returns none when the
// configuration has no list of objects.
func logicalDisks(config node.Object) []map[string]json.RawMessage {
	var disks []map[string]json.RawMessage
	if !config.Get("logical_disks", &disks) {
		return nil
	}
	return disks
}

// asksSoftwareRAID reports whether a node is to have volumes that the operating system makes.
func asksSoftwareRAID(n *node.Node) bool {
	return slices.ContainsFunc(logicalDisks(n.TargetRAIDConfig), func(disk map[string]json.RawMessage) bool {
		return string(disk["controller"]) == `"software"`
	})
}

// rootHint returns the hint by which the agent finds the root volume again, empty when the agent
// does not tell.
func rootHint(disks []map[string]json.RawMessage) node.Object {
	for _, disk := range disks {
		if string(disk["is_root_volume"]) == "true" {
			hint, _ := node.ParseObject(disk["root_device_hint"]) // no object is no hint
			return hint
		}
	}
	return nil
}
