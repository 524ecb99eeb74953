package httpapi

import (
	"context"

	"github.com/ingot-metal/ingot/internal/node"
)

// NodeControl reads and changes the machine behind a node. A request that the node's drivers do not
// support is a *node.NotSupportedError. A change of a locked node is a *node.LockedError.
type NodeControl interface {
	// Validate checks every driver interface and changes nothing.
	Validate(ctx context.Context, ident string) (map[node.InterfaceKind]node.Validation, error)
	BootDevices(ctx context.Context, ident string) ([]string, error)
	BootDevice(ctx context.Context, ident string) (node.BootDevice, error)
	// SetBootDevice returns when the device is set. A device that the node does not
	// support is a *node.ValidationError.
	SetBootDevice(ctx context.Context, ident string, device node.BootDevice) error
	InjectNMI(ctx context.Context, ident string) error
	// SetBootMode and SetSecureBoot return when the request is durable. While the engine works on
	// the node, the error is a *node.ConflictError.
	SetBootMode(ctx context.Context, ident, mode string) error
	SetSecureBoot(ctx context.Context, ident string, on bool) error
	// SetRAIDConfig stores the configuration that the next cleaning builds. A node
	// without RAID is a *node.NotFoundError.
	SetRAIDConfig(ctx context.Context, ident string, config node.Object) error
	SetConsole(ctx context.Context, ident string, on bool) error
	// AttachMedium and DetachMedia return when the request is durable. Failures of the
	// machine show in the node later. No device types means all of them.
	AttachMedium(ctx context.Context, ident string, medium node.Medium) error
	DetachMedia(ctx context.Context, ident string, deviceTypes []string) error
	Media(ctx context.Context, ident string) ([]node.Medium, error)
	VendorMethods(ctx context.Context, ident string) (map[string]node.VendorMethod, error)
	// CallVendor returns a JSON value or nil. async means that the call still runs.
	CallVendor(ctx context.Context, ident string, call node.VendorCall) (answer []byte, async bool, err error)
	Hardware(ctx context.Context, ident string) (node.Hardware, error)
	// History returns rows, oldest first. It uses only Marker and Limit of query.
	History(ctx context.Context, ident string, query node.Query) ([]*node.Event, error)
	Event(ctx context.Context, ident, uuid string) (*node.Event, error)
}

// Drivers has the vendor methods of enabled hardware types, which need no node.
type Drivers interface {
	DriverMethods(driver string) map[string]node.VendorMethod
	// CallDriver returns a JSON value. An unknown method is a *node.ValidationError.
	CallDriver(ctx context.Context, driver string, call node.VendorCall) ([]byte, error)
}
