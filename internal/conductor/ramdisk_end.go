package conductor

import (
	"context"
	"fmt"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// endRamdisk returns the operations that withdraw what was served for the ramdisk and switch the
// machine off, unless its ramdisk is kept for the next phase.
func (c *Conductor) endRamdisk(n *node.Node) []runner.Operation {
	return labelled([]runner.Operation{c.leaveRamdisk(n), c.switchTo(n, node.PowerOff).SkipIf(c.keepsRamdisk(n))}, afterSteps)
}

// keepsRamdisk reports whether the ramdisk goes on after cleaning, for the next phase.
func (c *Conductor) keepsRamdisk(n *node.Node) bool {
	return agent.FastTrack(n, c.drivers.Attributes(n), c.cfg.FastTrack)
}

// leaveRamdisk returns the operation that withdraws what is served for the ramdisk. It skips the
// image of an instance that is on no disk, because the instance boots from that image. Before it
// detaches media, it checks which machine it is, because media of another machine stay.
func (c *Conductor) leaveRamdisk(n *node.Node) runner.Operation {
	operation := changeBy(c, leaveRamdiskName, node.BootInterface, "booting a ramdisk", driver.RamdiskBoot.LeaveRamdisk)
	if media, err := driver.Ability[driver.MediaBoot](c.drivers, n, node.BootInterface, "virtual media"); err == nil && media.DetachesMedia() {
		operation = c.ofSameMachine(operation)
	}
	boot, served := node.RamdiskBootOf(n)
	return operation.SkipIf(!served || boot.Instance)
}

// withdrawBoot is leaveRamdiskIfItCan for work after which there is no instance: it withdraws the
// image of an instance, too.
func (c *Conductor) withdrawBoot(n *node.Node) runner.Operation {
	operation := c.leaveRamdiskIfItCan(n)
	_, served := node.RamdiskBootOf(n)
	operation.Skip = !served
	return operation
}

// leaveRamdiskIfItCan is leaveRamdisk for work that goes on when the boot interface fails, for
// instance because media cannot be detached. Even then the engine serves nothing for that boot any
// more.
func (c *Conductor) leaveRamdiskIfItCan(n *node.Node) runner.Operation {
	operation := c.leaveRamdisk(n)
	operation.OnFailure = func(cause error) runner.Write {
		c.log.Warn("What was served for the ramdisk could not be withdrawn", "node", n.UUID, "err", cause)
		text := node.CutText(fmt.Sprintf("What the machine booted from could not be removed from it: %v", cause))
		return func(tx *store.Tx, n *node.Node) error {
			node.WithdrawRamdiskBoot(n)
			return c.recordHistory(tx, n, node.SeverityError, "boot", text)
		}
	}
	return operation
}

// bootInstance returns the operation that makes the machine boot its instance from now on, if
// anything can choose what the machine boots.
func (c *Conductor) bootInstance(n *node.Node, item string) runner.Operation {
	operation := changeBy(c, bootInstanceName, node.BootInterface, "booting an instance", driver.InstanceBoot.BootInstance)
	if c.bootsImage(n) {
		// The fetch of the image may take half an hour.
		operation = c.ofSameMachine(changeBy(c, bootInstanceName, node.BootInterface, "booting an image", driver.ImageBoot.BootImage))
	}
	operation.Item = item
	if _, err := driver.Ability[driver.InstanceBoot](c.drivers, n, node.BootInterface, "booting an instance"); err == nil {
		return operation
	}
	operation.Change = changeBy(c, "", node.ManagementInterface, "boot devices",
		func(management driver.Management, ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
			always := true
			return management.SetBootDevice(ctx, n, node.BootDevice{Device: diskDevice, Persistent: &always}, turn)
		}).Change
	return operation.SkipIf(!c.chooses(n, diskDevice))
}

// backToInstance returns the operations that withdraw the ramdisk that the work with this mark has
// started on a machine with an instance, and start the instance. A machine that runs its instance
// stays on.
func (c *Conductor) backToInstance(n *node.Node, mark string) []runner.Operation {
	started, noAgent := startedRamdisk(n, mark), agent.EndpointOf(n).URL == ""
	operations := append([]runner.Operation{c.checkBeforeLeaving(n), c.leaveRamdiskIfItCan(n)}, skipIf(!started,
		c.leftIn(n, node.PowerOff), c.changeSecureBoot(n, true), c.ofSameMachine(c.bootInstance(n, "")),
		c.restartByAgent(n).SkipIf(noAgent), // nothing has started the ramdisk yet
	)...)
	return append(operations, c.ofSameMachine(c.startInstance(n, started)))
}

// startInstance returns the operation that switches a machine on. After a ramdisk, it restarts a
// machine that must not be switched off, because that machine still runs the ramdisk.
func (c *Conductor) startInstance(n *node.Node, ramdisk bool) runner.Operation {
	if ramdisk {
		return c.switchOnAnew(n)
	}
	return c.switchTo(n, node.PowerOn)
}

// diskDevice is the boot device for booting from the disk.
const diskDevice = "disk"
