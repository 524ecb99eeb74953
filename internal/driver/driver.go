// Package driver has the table of hardware types with the implementations that each
// may use for the driver interfaces, and gives the conductor the abilities of the
// implementations that a node has chosen. A node uses exactly one implementation of
// each interface. The implementations are in the packages below this one; package
// builtin puts them into a registry.
//
// Every ability is a small interface. A call that may change a machine, or that takes
// several turns, takes a Turn, which says what is known about the calls before it. The
// other calls only read and may be made at any time.
//
// Implementations obey the deadline of their context and do not change the node; the
// caller stores what they return. What they keep in memory, such as sessions of BMCs and
// counts of refused logins, may be lost at any time. They are safe for concurrent use. An
// error is a *node.ValidationError when the node or the request is incomplete or
// wrong, and a *node.DriverError when the machine fails or refuses.
package driver

import (
	"context"

	"github.com/ingot-metal/ingot/internal/node"
)

// Validator checks whether a node has what an interface needs.
type Validator interface {
	// Validate returns a *node.ValidationError unless the node has everything that the
	// implementation needs.
	Validate(n *node.Node) error
}

// Power reads and changes the power of a machine.
type Power interface {
	Validator
	// PowerState reads the state, "power on" or "power off". The error is a
	// *node.DriverError when the state cannot be read now.
	PowerState(ctx context.Context, n *node.Node) (node.PowerState, error)
	// SetPower changes the power to target, which is one of Supported, turn by turn;
	// the caller bounds the time for all turns. A reboot of a machine that is off
	// switches it on. A target that is not supported is a *node.ValidationError.
	SetPower(ctx context.Context, n *node.Node, target node.PowerState, turn Turn) (Outcome, error)
	// Supported lists the targets that SetPower supports.
	Supported() []node.PowerState
}

// Verifier is a power implementation that checks more than the power state before its
// machine is managed. It changes nothing.
type Verifier interface {
	Verify(ctx context.Context, n *node.Node, turn Turn) (Outcome, error)
}

// Management reads and changes the boot device of a machine.
type Management interface {
	Validator
	// BootDevices lists the devices that SetBootDevice supports.
	BootDevices(n *node.Node) []string
	BootDevice(ctx context.Context, n *node.Node) (node.BootDevice, error)
	SetBootDevice(ctx context.Context, n *node.Node, device node.BootDevice, turn Turn) (Outcome, error)
}

// Identifier is a management implementation that tells which machine its BMC belongs to.
type Identifier interface {
	// Identity reads the identity of the machine. What the BMC does not tell is empty.
	Identity(ctx context.Context, n *node.Node) (node.MachineIdentity, error)
}

// MachineReader is a management implementation that tells facts of a machine which the machine's
// operating system finds, too. By them, a machine that was seen without its BMC can be recognized.
type MachineReader interface {
	// MachineFacts reads the facts. What the BMC does not tell is empty.
	MachineFacts(ctx context.Context, n *node.Node) (node.MachineFacts, error)
}

// NetworkReader is a management implementation that shows the network interfaces of a machine.
type NetworkReader interface {
	// NetworkAddresses reads the hardware addresses that enabled interfaces boot with. Interfaces
	// that cannot be read are left out; it is an error if none can.
	NetworkAddresses(ctx context.Context, n *node.Node) ([]string, error)
}

// Interrupter sends a machine a non-maskable interrupt.
type Interrupter interface {
	InjectNMI(ctx context.Context, n *node.Node, turn Turn) (Outcome, error)
}

// BootModes reads and changes the boot mode of a machine, "uefi" or "bios".
type BootModes interface {
	BootMode(ctx context.Context, n *node.Node) (string, error)
	SetBootMode(ctx context.Context, n *node.Node, mode string, turn Turn) (Outcome, error)
}

// SecureBoot reads, enables and disables secure boot of a machine.
type SecureBoot interface {
	SecureBoot(ctx context.Context, n *node.Node) (bool, error)
	SetSecureBoot(ctx context.Context, n *node.Node, on bool, turn Turn) (Outcome, error)
}

// VendorDetector reads who made a machine.
type VendorDetector interface {
	// DetectVendor returns the manufacturer as the machine names it; empty when it does not
	// tell.
	DetectVendor(ctx context.Context, n *node.Node) (string, error)
}

// HealthReader reads the health of a machine: OK, Warning or Critical, or nothing when the machine
// does not tell.
type HealthReader interface {
	Health(ctx context.Context, n *node.Node) (string, error)
}

// BIOS reads a machine's BIOS settings.
type BIOS interface {
	BIOSSettings(ctx context.Context, n *node.Node) ([]node.BIOSSetting, error)
}

// Firmware reads the versions of a machine's firmware. If some cannot be read, it returns the
// others together with the error.
type Firmware interface {
	FirmwareComponents(ctx context.Context, n *node.Node) ([]node.FirmwareComponent, error)
}

// RAID reads the RAID volumes of a machine, in the form of a node's raid_config; nothing when
// there are none.
type RAID interface {
	RAIDConfig(ctx context.Context, n *node.Node) (node.Object, error)
}

// VirtualMedia attaches images to a machine as virtual devices.
type VirtualMedia interface {
	AttachMedium(ctx context.Context, n *node.Node, medium node.Medium, turn Turn) (Outcome, error)
	// DetachMedia detaches the media of these device types; none means all.
	DetachMedia(ctx context.Context, n *node.Node, deviceTypes []string, turn Turn) (Outcome, error)
	Media(ctx context.Context, n *node.Node) ([]node.Medium, error)
}

// Inspector inspects a machine. An outcome that is done means that the inspection is
// complete; one that parks for a callback means that the machine's ramdisk will post
// the inventory.
type Inspector interface {
	Validator
	Inspect(ctx context.Context, n *node.Node, turn Turn) (Outcome, error)
}

// InventoryReader is an inspect interface that reads the hardware of a machine through its
// BMC, without changing anything.
type InventoryReader interface {
	Validator
	// ReadInventory returns an inspection document, as a ramdisk would post it: an object
	// with an inventory and plugin data. What the BMC does not tell is not in there.
	ReadInventory(ctx context.Context, n *node.Node) ([]byte, error)
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
	// Steps lists the steps, with the priorities that they have unless a request says
	// otherwise.
	Steps(n *node.Node, kind StepKind) []node.Step
	// RunStep makes a turn of a step. AbortAfter in the step means that an abort waits for the end
	// of the step, which then ends as soon as the machine is not left half done.
	RunStep(ctx context.Context, n *node.Node, kind StepKind, step node.Step, turn Turn) (Outcome, error)
}

// Deploy prepares machines for instances and cleans up after them.
type Deploy interface {
	Validator
	// TearDown ends an instance before its machine is cleaned.
	TearDown(ctx context.Context, n *node.Node, turn Turn) (Outcome, error)
	// Adopt takes over a machine that runs an instance already.
	Adopt(ctx context.Context, n *node.Node, turn Turn) (Outcome, error)
}

// Rescue boots machines into a rescue system and back into their instance.
type Rescue interface {
	Validator
	Rescue(ctx context.Context, n *node.Node, turn Turn) (Outcome, error)
	Unrescue(ctx context.Context, n *node.Node, turn Turn) (Outcome, error)
}

// Describer describes the driver_info keys that an implementation reads, besides those
// of every node of its hardware type.
type Describer interface {
	Properties() map[string]string
}

// Vendor adds methods to the API.
type Vendor interface {
	Methods() map[string]node.VendorMethod
	// Call runs a method, whose body is a JSON object or nothing, and returns a
	// JSON value; nil means that there is no answer. A call is one turn.
	Call(ctx context.Context, n *node.Node, httpMethod, method string, body node.Object, turn Turn) ([]byte, error)
}

// Type is an enabled hardware type, as the configuration restricts it.
type Type struct {
	Name string
	// Enabled lists per interface the implementations that a node may choose,
	// the preferred one first.
	Enabled [node.InterfaceCount][]string
	// Default is the implementation that a node gets when it chooses none.
	Default node.Interfaces
}
