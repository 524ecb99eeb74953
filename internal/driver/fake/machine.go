package fake

import (
	"context"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// Machine is a simulated machine of a node of fake hardware. It runs outside the
// engine, has a memory and faults of its own, and is safe for concurrent use. One that is
// a driver.Verifier, too, makes the turns of the verification of its node.
//
// An error is that of the context or a *node.DriverError, whose Refused says that
// nothing was done.
type Machine interface {
	// PowerState reads "power on" or "power off".
	PowerState(ctx context.Context) (node.PowerState, error)
	// Do requests an effect and returns when the machine has accepted it. An effect that takes
	// longer is a running task of the machine.
	Do(ctx context.Context, effect Effect) (Task, error)
	// Outcome returns the task of a request, see driver.Origin. It changes nothing.
	Outcome(ctx context.Context, request string) (Task, error)
	// Settings reads the changed BIOS settings and firmware versions.
	Settings(ctx context.Context) (Settings, error)
}

// Settings are the settings of a machine that differ from its factory settings, by
// name.
type Settings struct {
	BIOS     map[string]string `json:"bios,omitempty"`
	Firmware map[string]string `json:"firmware,omitempty"` // versions of components
}

// Machines returns the machine of a node; false means that it has none.
type Machines func(n *node.Node) (Machine, bool)

// Effect is one change of a machine.
type Effect struct {
	Origin driver.Origin
	Kind   Kind
	Detail string // such as the boot device or the name of the step
	// Settings are the new values of changed settings; FactoryReset has none.
	Settings Settings
}

// FactoryReset is the Detail of an effect that resets the BIOS to its factory
// settings.
const FactoryReset = "bios.factory_reset"

// Kind is the kind of an effect.
type Kind string

// Kinds of effects.
const (
	PowerOn      Kind = "power on"
	PowerOff     Kind = "power off"
	SoftPowerOff Kind = "soft power off"
	BootDevice   Kind = "boot device"
	BootRamdisk  Kind = "boot ramdisk"
	AttachMedium Kind = "attach medium"
	DetachMedia  Kind = "detach media"
	NMI          Kind = "nmi"
	Wipe         Kind = "wipe"
	Write        Kind = "write"
	Flash        Kind = "flash"
	Configure    Kind = "configure"
	BurnIn       Kind = "burn in"
	TearDown     Kind = "tear down"
	Rescue       Kind = "rescue"
	Unrescue     Kind = "unrescue"
	VendorMethod Kind = "vendor method"
)

// Task is a request as the machine carries it out.
type Task struct {
	ID    string // the machine's identifier of the task; empty without a task
	State TaskState
	Error string // why it failed
}

// TaskState is the state of a task.
type TaskState string

// States of tasks.
const (
	None    TaskState = "none" // the machine never got the request
	Running TaskState = "running"
	Done    TaskState = "done"
	Failed  TaskState = "failed"
	// Unknown: the machine has lost its list of tasks, or a part of it.
	Unknown TaskState = "unknown"
)
