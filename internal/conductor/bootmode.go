package conductor

import (
	"context"
	"fmt"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// matchBootMode gives a machine the boot mode that its instance asks for, or else its node,
// before the machine boots a ramdisk or an image. In another mode the machine may fail to start
// it, or the instance that is written to its disk afterwards. A machine that shows another mode is
// switched off first, because the change would restart it otherwise. A change that waits before that
// restart may wait long, so each attempt begins with a check which machine it is. A machine whose mode the
// engine cannot set is left as it is. If its BMC refuses the change, the node's history says so
// and the work goes on: some modes can be set in the firmware alone, and the machine may start all
// the same.
func (c *Conductor) matchBootMode(n *node.Node) []runner.Operation {
	asked := n.BootModeCapability()
	_, err := c.bootModes(n)
	off := c.switchTo(n, node.PowerOff)
	off.Name = "power off for boot mode"
	match := c.ofSameMachine(changeBy(c, "match boot mode", node.ManagementInterface, "boot modes",
		func(modes driver.BootModes, ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
			return modes.SetBootMode(ctx, n, asked, turn)
		}))
	match.Shown = true
	match.OnFailure = func(cause error) runner.Write {
		c.log.Warn("The boot mode could not be set", "node", n.UUID, "mode", asked, "err", cause)
		text := node.CutText(fmt.Sprintf("The machine is left in its boot mode, because %s could not be set: %v", asked, cause))
		return func(tx *store.Tx, n *node.Node) error { return c.recordHistory(tx, n, node.SeverityInfo, "boot", text) }
	}
	needless := asked == "" || asked == n.BootMode
	return skipIf(needless || err != nil || !c.switches(n, node.PowerOn), off.SkipIf(n.BootMode == ""), match)
}

// withoutSecureBoot disables the secure boot that the instance asks for, so that the machine boots
// its ramdisk without it. The machine is switched off first, as for a change of its boot mode.
func (c *Conductor) withoutSecureBoot(n *node.Node) []runner.Operation {
	disable := c.changeSecureBoot(n, false)
	disables := !disable.Skip
	off := c.switchTo(n, node.PowerOff).SkipIf(!disables)
	off.Name = "power off for secure boot"
	return []runner.Operation{off, disable}
}

// changeSecureBoot enables the secure boot that the instance asks for, from the next start of the
// machine on. If on is false, it disables secure boot: for a ramdisk, or when the instance is
// removed. The change may restart the machine, so it begins with a check which machine it is.
func (c *Conductor) changeSecureBoot(n *node.Node, on bool) runner.Operation {
	name := "disable secure boot"
	if on {
		name = "enable secure boot"
	}
	operation := c.ofSameMachine(changeBy(c, name, node.ManagementInterface, "secure boot",
		func(secure driver.SecureBoot, ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
			return secure.SetSecureBoot(ctx, n, on, turn)
		}))
	operation.Shown = true
	_, err := c.secureBoot(n)
	return operation.SkipIf(!n.AsksSecureBoot() || err != nil) // n.SecureBoot may be out of date
}

// secureAgain enables secure boot on a machine that stays on because its BMC may still write
// firmware. If that fails, secure boot stays disabled, and the node's history says so.
func (c *Conductor) secureAgain(n *node.Node) runner.Operation {
	enable := c.changeSecureBoot(n, true)
	enable.OnFailure = func(cause error) runner.Write {
		c.log.Warn("Secure boot could not be enabled", "node", n.UUID, "err", cause)
		text := node.CutText(fmt.Sprintf("Secure boot of the machine stays disabled, because it could not be enabled: %v. The next servicing or rescue enables it.", cause))
		return func(tx *store.Tx, n *node.Node) error {
			return c.recordHistory(tx, n, node.SeverityError, "boot", text)
		}
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
