package conductor

import (
	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// bootsImage reports whether the instance of a node is an image that its machine boots at each
// start.
func (c *Conductor) bootsImage(n *node.Node) bool {
	implementation, err := c.drivers.Implementation(n, node.DeployInterface)
	if err != nil {
		return false
	}
	_, ok := implementation.(driver.LiveDeploy)
	return ok
}

// deploysInRamdisk reports whether the deployment of a node runs in its ramdisk.
func (c *Conductor) deploysInRamdisk(n *node.Node) bool {
	_, ok := c.ramdiskOf(n)
	return ok && !c.bootsImage(n)
}

// checkImage returns a *node.ValidationError, or a *node.NotSupportedError, unless the node has
// an image that its boot interface can boot.
func (c *Conductor) checkImage(n *node.Node) error {
	boot, err := driver.Ability[driver.ImageBoot](c.drivers, n, node.BootInterface, "booting an image")
	if err != nil {
		return err
	}
	return boot.CheckImage(n)
}

// imageBootSteps returns the steps of a deployment without a ramdisk. It refuses steps that run in
// a ramdisk.
func imageBootSteps(n *node.Node, offered, templates, asked []node.Step) ([]node.Step, error) {
	for _, steps := range [][]node.Step{templates, asked} {
		if step, found := node.InRamdisk(steps, offered); found {
			return nil, node.Invalid("The step %s runs in the ramdisk, which the deploy interface %q of node %s does not start for a deployment.",
				step.Name(), n.Interfaces[node.DeployInterface], n.UUID)
		}
	}
	return node.DeploySteps(node.WithoutRamdisk(offered), templates, asked)
}

// startImage returns the operations that restart a machine into the image of its instance. A
// machine without a BMC is restarted by the agent of the ramdisk that was kept, or else by a
// person.
func (c *Conductor) startImage(n *node.Node) []runner.Operation {
	byHand, noAgent := !c.switches(n, node.PowerOn), agent.EndpointOf(n).URL == ""
	drive := n.InstanceInfo.Fields()[configDriveKey]
	operations := append([]runner.Operation{
		{Ref: runner.Ref{Name: "tell of config drive"}, Store: c.tellOfConfigDrive, Skip: len(drive) == 0 || string(drive) == "null"},
	}, c.matchBootMode(n)...)
	return append(operations,
		c.switchTo(n, node.PowerOff).SkipIf(byHand), c.changeSecureBoot(n, true), c.bootInstance(n, ""),
		runner.Operation{Ref: runner.Ref{Name: startByHandName}, Store: c.askForImage, Skip: !byHand || !noAgent},
		c.restartByAgent(n).SkipIf(noAgent), c.switchOnAnew(n),
	)
}

// configDriveKey is the key of instance_info for the config drive.
const configDriveKey = "configdrive"

// tellOfConfigDrive writes into the history that the instance gets no config drive.
func (c *Conductor) tellOfConfigDrive(tx *store.Tx, n *node.Node) error {
	return c.recordHistory(tx, n, node.SeverityInfo, eventType(workDeploy),
		"The instance gets no config drive: it is an image that is booted as it is. Put into the image what it needs.")
}

// askForImage writes into the history that a person has to restart the machine, because the engine
// cannot.
func (c *Conductor) askForImage(tx *store.Tx, n *node.Node) error {
	return c.recordHistory(tx, n, node.SeverityInfo, eventType(workDeploy),
		"This machine has no BMC and no agent that could restart it: restart it by hand now, so that it boots its image.")
}
