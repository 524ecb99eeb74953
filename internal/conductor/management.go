package conductor

import (
	"context"
	"slices"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// Validate checks every driver interface of a node. For the deploy interface, it also checks
// whether the present instance of the node could be deployed. It changes nothing.
func (c *Conductor) Validate(ctx context.Context, ident string) (map[node.InterfaceKind]node.Validation, error) {
	n, err := c.Node(ctx, ident)
	if err != nil {
		return nil, err
	}
	all := make(map[node.InterfaceKind]node.Validation, node.InterfaceCount)
	for kind := range node.InterfaceCount {
		all[kind] = c.drivers.Validate(n, kind)
	}
	if deploy := all[node.DeployInterface]; deploy.Result != nil && *deploy.Result {
		if err := c.checkInstance(n); err != nil {
			*deploy.Result, deploy.Reason = false, err.Error()
			all[node.DeployInterface] = deploy
		}
	}
	return all, nil
}

func (c *Conductor) management(n *node.Node) (driver.Management, error) {
	return driver.Ability[driver.Management](c.drivers, n, node.ManagementInterface, "boot devices")
}

// BootDevices lists the boot devices that the node supports.
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

// BootDevice reads the boot device of the node.
func (c *Conductor) BootDevice(ctx context.Context, ident string) (node.BootDevice, error) {
	n, err := c.Node(ctx, ident)
	if err != nil {
		return node.BootDevice{}, err
	}
	management, err := c.management(n)
	if err != nil {
		return node.BootDevice{}, err
	}
	var device node.BootDevice
	err = c.runner.Ask(ctx, n, func(ctx context.Context) (err error) {
		device, err = management.BootDevice(ctx, n)
		return err
	})
	return device, err
}

// direct makes a quick change to a machine while the client waits. It refuses a node under work
// before it waits for the BMC, because that work may occupy the BMC.
func (c *Conductor) direct(ctx context.Context, ident string, change runner.Change) error {
	return c.whenFree(ctx, func() error {
		var n *node.Node
		err := c.store.Read(ctx, func(tx *store.Tx) (err error) {
			n, err = c.idle(tx, ident)
			return err
		})
		if err != nil {
			return err
		}
		return c.runner.Direct(ctx, n, func(tx *store.Tx) (*node.Node, error) { return c.idle(tx, ident) }, change)
	})
}

// SetBootDevice sets the boot device of the node. It returns a *node.ValidationError for a device
// that the node does not support.
func (c *Conductor) SetBootDevice(ctx context.Context, ident string, device node.BootDevice) error {
	return c.direct(ctx, ident, func(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
		management, err := c.management(n)
		if err != nil {
			return driver.Outcome{}, err
		}
		if devices := management.BootDevices(n); !slices.Contains(devices, device.Device) {
			return driver.Outcome{}, node.Invalid("Node %s does not support the boot device %q; it supports %s.", n.UUID, node.CutText(device.Device), node.Choices(devices))
		}
		if err := management.Validate(n); err != nil {
			return driver.Outcome{}, err
		}
		out, err := management.SetBootDevice(ctx, n, device, turn)
		if err == nil && !out.Done() && out.Note != "" { // nothing was done, and no client waits that long
			err = &node.DriverError{Op: "set boot device to " + device.Device, Retryable: true, Refused: true, Reason: out.Note}
		}
		return out, err
	})
}

// InjectNMI sends the node a non-maskable interrupt.
func (c *Conductor) InjectNMI(ctx context.Context, ident string) error {
	return c.direct(ctx, ident, func(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
		interrupter, err := driver.Ability[driver.Interrupter](c.drivers, n, node.ManagementInterface, "interrupts")
		if err != nil {
			return driver.Outcome{}, err
		}
		return interrupter.InjectNMI(ctx, n, turn)
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
	var attached []node.Medium
	err = c.runner.Ask(ctx, n, func(ctx context.Context) (err error) {
		attached, err = media.Media(ctx, n)
		return err
	})
	return attached, err
}

func (c *Conductor) virtualMedia(n *node.Node) (driver.VirtualMedia, error) {
	return driver.Ability[driver.VirtualMedia](c.drivers, n, node.ManagementInterface, "virtual media")
}

// SetRAIDConfig stores the RAID configuration that the next cleaning creates. It does so even when
// the node's RAID interface is not built; only that cleaning reports it. For a node with the
// interface no-raid it returns a *node.NotFoundError, as clients expect.
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

// SetConsole enables or disables the console of a node.
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
