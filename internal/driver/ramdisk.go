package driver

import (
	"context"

	"github.com/ingot-metal/ingot/internal/node"
)

// RamdiskBoot is a boot interface that can boot the ramdisk.
type RamdiskBoot interface {
	Validator
	// BootRamdisk makes the machine boot the ramdisk at its next start. It does not
	// start the machine. What the engine serves for that boot is stored in the node
	// before a BMC gets a request, see node.RamdiskBoot.
	BootRamdisk(ctx context.Context, n *node.Node, turn Turn) (Outcome, error)
	// LeaveRamdisk withdraws what BootRamdisk has prepared: it detaches media, and the
	// engine serves nothing for that boot any more.
	LeaveRamdisk(ctx context.Context, n *node.Node, turn Turn) (Outcome, error)
}

// MediaBoot is a RamdiskBoot that may put media into the machine through its BMC.
type MediaBoot interface {
	RamdiskBoot
	// DetachesMedia reports whether LeaveRamdisk detaches media.
	DetachesMedia() bool
}

// InstanceBoot is a boot interface that can boot the instance of a machine.
type InstanceBoot interface {
	// BootInstance makes the machine boot its instance at each start from now on.
	BootInstance(ctx context.Context, n *node.Node, turn Turn) (Outcome, error)
}

// ImageBoot is a boot interface that can boot an instance that is on no disk but is an image: an
// ISO image, or a kernel with its initial file system.
type ImageBoot interface {
	// CheckImage returns a *node.ValidationError unless instance_info names such an image that
	// can be booted.
	CheckImage(n *node.Node) error
	// BootImage makes the machine boot the image at each start from now on. What the engine
	// serves for that is stored in the node, see node.RamdiskBoot; LeaveRamdisk of RamdiskBoot
	// withdraws it.
	BootImage(ctx context.Context, n *node.Node, turn Turn) (Outcome, error)
}

// LiveDeploy marks a deploy interface whose instances are images that the machine boots at
// each start, see ImageBoot. Its deployments need no ramdisk.
type LiveDeploy interface {
	Ramdisk
	LiveDeploy()
}

// InBand marks an Inspector that waits for the post of the machine's ramdisk, so that
// the ramdisk has to be started.
type InBand interface {
	Inspector
	InBand()
}

// Ramdisk is a deploy interface whose steps run in the machine's ramdisk, which has to be
// started before them. Steps lists the steps of the ramdisk's agent only after AskSteps.
type Ramdisk interface {
	Stepper
	// AskSteps asks the agent of the running ramdisk which steps of a kind it has. Apply
	// of the outcome, which is done, stores them in the node.
	AskSteps(ctx context.Context, n *node.Node, kind StepKind) (Outcome, error)
	// CheckInstance returns a *node.ValidationError unless the node has what a deployment
	// needs.
	CheckInstance(n *node.Node) error
	// Running reports whether the agent of a ramdisk has sent a heartbeat recently.
	Running(n *node.Node) bool
}

// LogSource is a deploy interface that gets the logs of a running ramdisk from its agent.
type LogSource interface {
	// Logs returns an archive of logs as the agent made it (tar, gzip), at most some megabytes. It
	// is a *node.DriverError if this agent was asked before.
	Logs(ctx context.Context, n *node.Node) ([]byte, error)
}

// RamdiskRescue is a rescue interface whose rescue system is the machine's ramdisk: it has to
// be started, and its agent sets the password.
type RamdiskRescue interface {
	Validator
	// SetRescuePassword makes a turn of telling the agent the hash of the password that
	// node.RescueHashOf returns. Apply of the outcome removes it from the node.
	SetRescuePassword(ctx context.Context, n *node.Node, turn Turn) (Outcome, error)
}
