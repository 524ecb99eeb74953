package conductor

import (
	"context"
	"slices"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// Validate checks every driver interface of a node. It changes nothing.
func (c *Conductor) Validate(ctx context.Context, ident string) (map[node.InterfaceKind]node.Validation, error) {
	n, err := c.Node(ctx, ident)
	if err != nil {
		return nil, err
	}
	all := make(map[node.InterfaceKind]node.Validation, node.InterfaceCount)
	for kind := range node.InterfaceCount {
		all[kind] = c.drivers.Validate(n, kind)
	}
	return all, nil
}

func (c *Conductor) management(n *node.Node) (driver.Management, error) {
	return driver.Ability[driver.Management](c.drivers, n, node.ManagementInterface, "boot devices")
}

// BootDevices lists what the node can be told to start from.
func (c *Conductor) BootDevices(ctx context.Context, ident string) ([]string, error) {
	n, err := c.Node(ctx, ident)
	if err != nil {
		return nil, err
	}
	management, err := c.management(n)
	if err != nil {
		return nil, err
	}
	return management.BootDevices(n), nil
}

// BootDevice reads what the node starts from.
func (c *Conductor) BootDevice(ctx context.Context, ident string) (node.BootDevice, error) {
	n, err := c.Node(ctx, ident)
	if err != nil {
		return node.BootDevice{}, err
	}
	management, err := c.management(n)
	if err != nil {
		return node.BootDevice{}, err
	}
	return management.BootDevice(ctx, n)
}

// SetBootDevice tells the node what to start from. A device that it does not
// know is a *node.ValidationError.
func (c *Conductor) SetBootDevice(ctx context.Context, ident string, device node.BootDevice) error {
	return c.direct(ctx, ident, func(ctx context.Context, n *node.Node) (driver.Outcome, error) {
		management, err := c.management(n)
		if err != nil {
			return driver.Outcome{}, err
		}
		if devices := management.BootDevices(n); !slices.Contains(devices, device.Device) {
			return driver.Outcome{}, node.Invalid("Node %s does not know the boot device %q; it knows %s.", n.UUID, node.CutText(device.Device), node.Choices(devices))
		}
		if err := management.Validate(n); err != nil {
			return driver.Outcome{}, err
		}
		return management.SetBootDevice(ctx, n, device)
	})
}

// InjectNMI interrupts the node.
func (c *Conductor) InjectNMI(ctx context.Context, ident string) error {
	return c.direct(ctx, ident, func(ctx context.Context, n *node.Node) (driver.Outcome, error) {
		interrupter, err := driver.Ability[driver.Interrupter](c.drivers, n, node.ManagementInterface, "interrupts")
		if err != nil {
			return driver.Outcome{}, err
		}
		return driver.Outcome{}, interrupter.InjectNMI(ctx, n)
	})
}

// Media lists the virtual media of a node.
func (c *Conductor) Media(ctx context.Context, ident string) ([]node.Medium, error) {
	n, err := c.Node(ctx, ident)
	if err != nil {
		return nil, err
	}
	media, err := c.virtualMedia(n)
	if err != nil {
		return nil, err
	}
	return media.Media(ctx, n)
}

func (c *Conductor) virtualMedia(n *node.Node) (driver.VirtualMedia, error) {
	return driver.Ability[driver.VirtualMedia](c.drivers, n, node.ManagementInterface, "virtual media")
}

// SetRAIDConfig stores what the next cleaning builds, even when only that
// cleaning will find that the interface is not built. A node that chose not to
// have RAID is a *node.NotFoundError, as clients expect.
func (c *Conductor) SetRAIDConfig(ctx context.Context, ident string, config node.Object) error {
	_, err := c.UpdateNode(ctx, ident, func(n *node.Node) error {
		if !driver.Has(n, node.RAIDInterface) {
			return &node.NotFoundError{Kind: "RAID of node", Ident: n.UUID}
		}
		n.TargetRAIDConfig = config
		return nil
	})
	return err
}

// SetConsole switches the console of a node on or off.
func (c *Conductor) SetConsole(ctx context.Context, ident string, on bool) error {
	_, err := c.UpdateNode(ctx, ident, func(n *node.Node) error {
		if validation := c.drivers.Validate(n, node.ConsoleInterface); validation.Result == nil || !*validation.Result {
			return &node.ValidationError{Reason: validation.Reason}
		}
		n.ConsoleEnabled = on
		return nil
	})
	return err
}
