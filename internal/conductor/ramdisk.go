package conductor

import (
	"fmt"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// leaveRamdisk withdraws what is served for a boot of the node's ramdisk. When the boot
// interface cannot, because media cannot be detached for instance, the engine serves
// nothing for that boot any more all the same, and the work goes on.
func (c *Conductor) leaveRamdisk(n *node.Node) runner.Operation {
	op := changeBy(c, "leave ramdisk", node.BootInterface, "booting a ramdisk", driver.RamdiskBoot.LeaveRamdisk)
	_, serves := node.RamdiskBootOf(n)
	op.Skip = !serves
	op.Optional = func(cause error) runner.Write {
		text := node.CutText(fmt.Sprintf("What the machine booted its ramdisk from could not be removed from it: %v", cause))
		c.log.Warn("Boot of the ramdisk could not be undone", "node", n.UUID, "err", cause)
		return func(tx *store.Tx, n *node.Node) error {
			node.WithdrawRamdiskBoot(n)
			return c.record(tx, n, node.SeverityError, "boot", text)
		}
	}
	return op
}
