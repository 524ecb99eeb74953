package ramdisk

import (
	"cmp"
	"context"
	"slices"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// Deploy is a deploy interface: an image, or what the steps of a request do, is written by
// the agent.
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

// Validate accepts every node; CheckInstance is for deployments.
func (Deploy) Validate(*node.Node) error { return nil }

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
		// Machines with a BMC are switched on by it.
		return d.run(ctx, n, order{name: restartCommand, lost: true}, turn)
	}
	return driver.Outcome{}, nil
}

// installBootloader makes the firmware know the boot loader of the image that was written.
// Firmware in BIOS mode needs no entry.
func (d Deploy) installBootloader(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
	mode := bootMode(n)
	if mode != "uefi" {
		return driver.Outcome{}, nil
	}
	return d.run(ctx, n, order{name: "image.install_bootloader", params: func(context.Context) (map[string]any, error) {
		return map[string]any{"root_uuid": nil, "efi_system_part_uuid": nil, "prep_boot_part_uuid": nil, "target_boot_mode": mode}, nil
	}}, turn)
}

// bootMode is the mode that the instance is to boot in, "uefi" unless the node says
// otherwise.
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
