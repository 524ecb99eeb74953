package ramdisk

import (
	"cmp"
	"context"
	"slices"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// Deploy is a deploy interface. The agent writes an image, or runs the steps of the request.
type Deploy struct {
	Driver
	core       []node.Step // of every deployment
	needsImage bool
}

var (
	_ driver.Ramdisk = Deploy{}
	_ driver.Deploy  = Deploy{}
)

// Core steps of deployments, with the names and priorities of the Bare Metal API.
var (
	startRamdisk  = node.Step{Step: node.StepStartRamdisk, Priority: 100, Abortable: true}
	writeImage    = node.Step{Step: "write_image", Priority: 80, RequiresRamdisk: true}
	prepareBoot   = node.Step{Step: node.StepPrepareBoot, Priority: 60, RequiresRamdisk: true}
	tearDownAgent = node.Step{Step: node.StepTearDownAgent, Priority: 40, RequiresRamdisk: true}
	tenantNetwork = node.Step{Step: "switch_to_tenant_network", Priority: 30}
	bootInstance  = node.Step{Step: node.StepBootInstance, Priority: 20}
	directSteps   = []node.Step{startRamdisk, writeImage, prepareBoot, tearDownAgent, tenantNetwork, bootInstance}
	customSteps   = []node.Step{startRamdisk, prepareBoot, tearDownAgent, tenantNetwork, bootInstance}
)

// Validate checks how agents are called; CheckInstance is for deployments.
func (Deploy) Validate(n *node.Node) error { return agent.CheckAuthorities(n) }

// CheckInstance checks instance_info.
func (d Deploy) CheckInstance(n *node.Node) error {
	if _, err := configDrive(n); err != nil {
		return err
	}
	if !d.needsImage {
		return nil
	}
	_, err := imageInfo(n, d.options.AllowMD5)
	return err
}

// Running reports whether the ramdisk of a node runs.
func (d Deploy) Running(n *node.Node) bool { return d.options.Running(n) }

// Steps lists the core steps, and those that the agent has told of.
func (d Deploy) Steps(n *node.Node, kind driver.StepKind) []node.Step {
	steps := askedSteps(n, kind, node.DeployInterface.String())
	if kind != driver.DeploySteps {
		return steps
	}
	return append(slices.Clone(d.core), slices.DeleteFunc(steps, func(s node.Step) bool {
		return slices.ContainsFunc(d.core, func(c node.Step) bool { return c.Step == s.Step })
	})...)
}

// RunStep makes a turn of a step.
func (d Deploy) RunStep(ctx context.Context, n *node.Node, kind driver.StepKind, step node.Step, turn driver.Turn) (driver.Outcome, error) {
	if kind != driver.DeploySteps || !slices.ContainsFunc(d.core, func(c node.Step) bool { return c.Step == step.Step }) {
		return d.runAgentStep(ctx, n, kind, step, turn)
	}
	switch step.Step {
	case writeImage.Step:
		info, err := imageInfo(n, d.options.AllowMD5)
		if err != nil {
			return driver.Outcome{}, err
		}
		drive, err := configDrive(n)
		if err != nil {
			return driver.Outcome{}, err
		}
		step.Args = map[string]any{"image_info": info, "configdrive": drive}
		return d.runAgentStep(ctx, n, kind, step, turn)
	case prepareBoot.Step:
		return d.installBootloader(ctx, n, turn)
	case tearDownAgent.Step:
		return d.run(ctx, n, order{name: "standby.sync"}, turn)
	case bootInstance.Step:
		// Machines with a BMC skip this: the engine switches them on.
		return d.run(ctx, n, order{name: restartCommand, lost: true}, turn)
	}
	return driver.Outcome{}, nil
}

// installBootloader makes the machine start the image that was written. In UEFI mode, the agent
// tells the firmware of the image's boot loader. On software RAID, in either mode, the agent
// installs a boot loader on each disk of the volume. In BIOS mode without software RAID, there is
// nothing to do.
func (d Deploy) installBootloader(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
	mode, raid := bootMode(n), asksSoftwareRAID(n)
	if mode != "uefi" && !raid {
		return driver.Outcome{}, nil
	}
	return d.run(ctx, n, order{name: "image.install_bootloader", params: func(ctx context.Context) (map[string]any, error) {
		params := map[string]any{"root_uuid": nil, "efi_system_part_uuid": nil, "prep_boot_part_uuid": nil, "target_boot_mode": mode}
		if !raid {
			return params, nil
		}
		root, err := d.rootUUID(ctx, n)
		if root != "" {
			params["root_uuid"] = root
		}
		return params, err
	}}, turn)
}

// rootUUID returns the UUID of the root file system that was written. Without it, the agent
// installs no boot loader on software RAID. It is the UUID of instance_info, or else the one that
// the agent has found; empty when the agent has found none.
func (d Deploy) rootUUID(ctx context.Context, n *node.Node) (string, error) {
	if own := n.InstanceInfo.Text(rootUUIDKey); own != "" {
		return own, nil
	}
	command, err := d.options.Agents.Execute(ctx, n, partitionUUIDs, nil, true)
	if err != nil {
		return "", err
	}
	if command.Status != agent.CommandSucceeded {
		return "", &node.DriverError{Op: order{name: partitionUUIDs}.does(n), Refused: true, Reason: command.Reason()}
	}
	found, _ := node.ParseObject(command.Result) // another result has none
	return found.Text("root uuid"), nil
}

// rootUUIDKey is the key of instance_info for the UUID of the image's root file system.
const rootUUIDKey = "image_rootfs_uuid"

// bootMode returns the mode that the instance is to boot in, "uefi" unless the node says otherwise.
func bootMode(n *node.Node) string {
	return cmp.Or(n.BootModeCapability(), n.BootMode, "uefi")
}

// TearDown does nothing: cleaning follows, which starts the ramdisk.
func (Deploy) TearDown(context.Context, *node.Node, driver.Turn) (driver.Outcome, error) {
	return driver.Outcome{}, nil
}

// Adopt does nothing: the machine boots its instance already.
func (Deploy) Adopt(context.Context, *node.Node, driver.Turn) (driver.Outcome, error) {
	return driver.Outcome{}, nil
}
