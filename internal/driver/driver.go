// Package driver knows the hardware types and which implementations of each
// driver interface they may use, and gives the conductor the abilities of the
// implementation that a node has chosen. One node uses one implementation per
// interface; nothing is tried in turn.
//
// Every ability is a small interface. Implementations obey the deadline of their
// context, write nothing to the node and keep no state of it; the caller stores
// what they return. They are safe for concurrent use. An error is a
// *node.ValidationError when the node or the request lacks something, and a
// *node.DriverError when the machine does not do what it is asked.
package driver

import (
	"context"

	"github.com/ingot-metal/ingot/internal/node"
)

// Validator checks what an interface needs.
type Validator interface {
	// Validate reports whether the node carries all that the implementation
	// needs. Its error is a *node.ValidationError for the operator.
	Validate(n *node.Node) error
}

// Power reads and changes the power of a machine.
type Power interface {
	Validator
	// PowerState reads the state, "power on" or "power off". The error is a
	// *node.DriverError when it cannot be known now.
	PowerState(ctx context.Context, n *node.Node) (node.PowerState, error)
	// SetPower brings the machine to target, which is one of Supported, turn by
	// turn; the caller bounds how long it goes on. A reboot of a machine that is
	// off switches it on. A target that is not supported is a
	// *node.ValidationError.
	SetPower(ctx context.Context, n *node.Node, target node.PowerState, turn Turn) (Outcome, error)
	// Supported lists the targets that SetPower takes.
	Supported() []node.PowerState
}

// Verifier is a power implementation that has more to check than the power state
// before its machine is managed. It changes nothing.
type Verifier interface {
	Verify(ctx context.Context, n *node.Node, turn Turn) (Outcome, error)
}

// Management chooses what a machine starts from.
type Management interface {
	Validator
	// BootDevices lists the devices that SetBootDevice takes.
	BootDevices(n *node.Node) []string
	BootDevice(ctx context.Context, n *node.Node) (node.BootDevice, error)
	SetBootDevice(ctx context.Context, n *node.Node, device node.BootDevice) (Outcome, error)
}

// Interrupter sends a machine a non-maskable interrupt.
type Interrupter interface {
	InjectNMI(ctx context.Context, n *node.Node) error
}

// BootModes reads and changes how a machine starts, "uefi" or "bios".
type BootModes interface {
	BootMode(ctx context.Context, n *node.Node) (string, error)
	SetBootMode(ctx context.Context, n *node.Node, mode string, turn Turn) (Outcome, error)
}

// SecureBoot reads and changes whether a machine starts signed systems only.
type SecureBoot interface {
	SecureBoot(ctx context.Context, n *node.Node) (bool, error)
	SetSecureBoot(ctx context.Context, n *node.Node, on bool, turn Turn) (Outcome, error)
}

// BIOS reads a machine's firmware settings.
type BIOS interface {
	BIOSSettings(ctx context.Context, n *node.Node) ([]node.BIOSSetting, error)
}

// Firmware reads the versions of a machine's firmware.
type Firmware interface {
	FirmwareComponents(ctx context.Context, n *node.Node) ([]node.FirmwareComponent, error)
}

// VirtualMedia shows images to a machine as if they were devices.
type VirtualMedia interface {
	AttachMedium(ctx context.Context, n *node.Node, medium node.Medium) (Outcome, error)
	// DetachMedia ejects these device types; none means all.
	DetachMedia(ctx context.Context, n *node.Node, deviceTypes []string) (Outcome, error)
	Media(ctx context.Context, n *node.Node) ([]node.Medium, error)
}

// Inspector finds out what a machine consists of. An outcome that is done means
// that the inspection is; one that parks for a callback, that the machine's
// ramdisk will post its inventory.
type Inspector interface {
	Validator
	Inspect(ctx context.Context, n *node.Node, turn Turn) (Outcome, error)
}

// StepKind is the kind of work that a step belongs to.
type StepKind string

// Kinds of steps.
const (
	CleanSteps   StepKind = "clean"
	DeploySteps  StepKind = "deploy"
	ServiceSteps StepKind = "service"
)

// Stepper offers steps and runs them.
type Stepper interface {
	// Steps lists what the implementation can do, with the priority it has when
	// nobody asks for it.
	Steps(n *node.Node, kind StepKind) []node.Step
	RunStep(ctx context.Context, n *node.Node, kind StepKind, step node.Step, turn Turn) (Outcome, error)
}

// Deploy prepares and clears machines for their instances.
type Deploy interface {
	Validator
	// TearDown ends an instance before its machine is cleaned.
	TearDown(ctx context.Context, n *node.Node, turn Turn) (Outcome, error)
	// Adopt takes over a machine that runs an instance already.
	Adopt(ctx context.Context, n *node.Node, turn Turn) (Outcome, error)
}

// Rescue starts machines into a rescue system and back.
type Rescue interface {
	Validator
	Rescue(ctx context.Context, n *node.Node, turn Turn) (Outcome, error)
	Unrescue(ctx context.Context, n *node.Node, turn Turn) (Outcome, error)
}

// Vendor adds methods to the API.
type Vendor interface {
	Methods() map[string]node.VendorMethod
	// Call runs a method, whose body is a JSON object or nothing, and returns a
	// JSON value; nil means that there is no answer.
	Call(ctx context.Context, n *node.Node, httpMethod, method string, body node.Object) ([]byte, error)
}

// Type is a hardware type with what the configuration made of it.
type Type struct {
	Name string
	// Enabled lists per interface the implementations that a node may choose,
	// the preferred one first.
	Enabled [node.InterfaceCount][]string
	// Default is what a node gets that does not choose.
	Default node.Interfaces
}
