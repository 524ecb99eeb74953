package redfish

import (
	"context"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// Identity reads the UUID and the serial number of the system (ComputerSystem.UUID and
// SerialNumber).
func (d Driver) Identity(ctx context.Context, n *node.Node) (node.MachineIdentity, error) {
	var identity node.MachineIdentity
	err := d.with(ctx, n, "read the identity of the machine", driver.Turn{}, func(c *call) error {
		system, err := c.system()
		if err == nil {
			identity = node.NewMachineIdentity(system.UUID, system.SerialNumber)
		}
		return err
	})
	return identity, err
}
