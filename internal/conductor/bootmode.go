package conductor

import (
	"context"
	"fmt"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// matchBootMode gives a machine the boot mode that its instance, or its node, asks for before
// it boots a ramdisk or an image: in another mode it may not start that, or the instance that
// is written then. A machine that shows another mode is switched off first, since it would be
// restarted for the change otherwise. Machines whose mode the engine cannot set are left as
// they are, and the node's history says so where their BMC refuses it: some modes are set in
// the firmware alone, and the machine may start all the same.
func (c *Conductor) matchBootMode(n *node.Node) []runner.Operation {
	asked := n.BootModeCapability()
	_, err := c.bootModes(n)
	off := c.switchTo(n, node.PowerOff)
	off.Name = "power off for boot mode"
	match := changeBy(c, "match boot mode", node.ManagementInterface, "boot modes",
		func(modes driver.BootModes, ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
			return modes.SetBootMode(ctx, n, asked, turn)
		})
	match.Shown = true
	match.Optional = func(cause error) runner.Write {
		c.log.Warn("The boot mode could not be set", "node", n.UUID, "mode", asked, "err", cause)
		text := node.CutText(fmt.Sprintf("The machine is left in its boot mode, because %s could not be set: %v", asked, cause))
		return func(tx *store.Tx, n *node.Node) error { return c.record(tx, n, node.SeverityInfo, "boot", text) }
	}
	match.Skip = asked == "" || asked == n.BootMode || err != nil || !c.switches(n, node.PowerOn)
	off.Skip = off.Skip || match.Skip || n.BootMode == ""
	return []runner.Operation{off, match}
}

// withoutSecureBoot has a machine boot its ramdisk without the secure boot that its instance asks
// for. It is switched off first, as for another boot mode.
func (c *Conductor) withoutSecureBoot(n *node.Node) []runner.Operation {
	off, disable := c.switchTo(n, node.PowerOff), c.changeSecureBoot(n, false)
	off.Name = "power off for secure boot"
	off.Skip = off.Skip || disable.Skip
	return []runner.Operation{off, disable}
}

// changeSecureBoot enables the secure boot that an instance asks for, from the next start of the
// machine on, or disables it before a ramdisk or when the instance goes.
func (c *Conductor) changeSecureBoot(n *node.Node, on bool) runner.Operation {
	name := "disable secure boot"
	if on {
		name = "enable secure boot"
	}
	operation := changeBy(c, name, node.ManagementInterface, "secure boot",
		func(secure driver.SecureBoot, ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
			return secure.SetSecureBoot(ctx, n, on, turn)
		})
	operation.Shown = true
	_, err := c.secureBoot(n)
	operation.Skip = !n.AsksSecureBoot() || err != nil // what was read of the machine last may be old
	return operation
}

// secureAgain enables secure boot on a machine that stays on while its BMC may still write firmware.
// If it cannot, the machine is left without, and the node's history says so.
func (c *Conductor) secureAgain(n *node.Node) runner.Operation {
	enable := c.changeSecureBoot(n, true)
	enable.Optional = func(cause error) runner.Write {
		c.log.Warn("Secure boot could not be enabled", "node", n.UUID, "err", cause)
		text := node.CutText(fmt.Sprintf("Secure boot of the machine stays disabled, because it could not be enabled: %v. The next servicing or rescue enables it.", cause))
		return func(tx *store.Tx, n *node.Node) error { return c.record(tx, n, node.SeverityError, "boot", text) }
	}
	return enable
}

// checkSecureBoot returns an error when the instance of a node asks for secure boot, and the
// engine cannot enable it.
func (c *Conductor) checkSecureBoot(n *node.Node) error {
	if !n.AsksSecureBoot() {
		return nil
	}
	if _, err := c.secureBoot(n); err != nil {
		return node.Invalid("The instance of node %s asks for secure boot, and the engine cannot enable it: %v", n.UUID, err)
	}
	return nil
}
