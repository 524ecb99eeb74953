package builtin

import (
	"context"
	"slices"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// passive is an interface that does nothing, such as the network interface noop.
type passive struct{}

// Validate accepts every node.
func (passive) Validate(*node.Node) error { return nil }

// noManagement is the management interface of machines whose boot device only people
// can choose.
type noManagement struct{ passive }

var _ driver.Management = noManagement{}

// BootDevices lists the devices that a person can choose.
func (noManagement) BootDevices(*node.Node) []string { return []string{"pxe", "disk"} }

// BootDevice returns an unknown device.
func (noManagement) BootDevice(context.Context, *node.Node) (node.BootDevice, error) {
	return node.BootDevice{}, nil
}

// SetBootDevice checks the device and changes nothing.
func (m noManagement) SetBootDevice(_ context.Context, n *node.Node, device node.BootDevice, _ driver.Turn) (driver.Outcome, error) {
	if !slices.Contains(m.BootDevices(n), device.Device) {
		return driver.Outcome{}, node.Invalid("The management interface noop of node %s does not support the boot device %q.", n.UUID, device.Device)
	}
	return driver.Outcome{}, nil
}
