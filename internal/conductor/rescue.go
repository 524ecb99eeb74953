package conductor

import (
	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
	"github.com/ingot-metal/ingot/internal/unixcrypt"
)

// hashRescuePassword replaces the password of a request by its hash, so that the password
// itself is never stored.
func hashRescuePassword(c *Conductor, request *node.VerbRequest) (err error) {
	switch {
	case request.RescuePassword == "":
		return node.Invalid("The verb rescue needs a rescue_password.")
	case len(request.RescuePassword) > unixcrypt.MaxPassword:
		return node.Invalid("The rescue_password has %d bytes; at most %d are accepted.", len(request.RescuePassword), unixcrypt.MaxPassword)
	}
	request.RescueHash, err = unixcrypt.Hash(c.cfg.RescueHash, request.RescuePassword)
	request.RescuePassword = ""
	return err
}

func permitRescue(c *Conductor, _ *store.Tx, n *node.Node, _ node.VerbRequest) error {
	if err := c.checkInterfaces(n, rescueInterfaces); err != nil || !c.rescuesInRamdisk(n) {
		return err
	}
	rescued := *n
	rescued.ProvisionState = node.Rescuing // the rescue system may be another ramdisk
	return c.checkBoot(&rescued)
}

func beginRescue(_ *Conductor, _ *store.Tx, n *node.Node, request node.VerbRequest) {
	n.InstanceInfo = n.InstanceInfo.With(map[string]any{node.RescueHashKey: request.RescueHash})
}

// rescuesInRamdisk reports whether the rescue system of a node is its ramdisk.
func (c *Conductor) rescuesInRamdisk(n *node.Node) bool {
	implementation, err := c.drivers.Implementation(n, node.RescueInterface)
	if err != nil {
		return false
	}
	_, ok := implementation.(driver.RamdiskRescue)
	return ok
}

// rescueOperations returns the operations that start the rescue system.
func (c *Conductor) rescueOperations(t runner.Task) ([]runner.Operation, error) {
	if !c.rescuesInRamdisk(t.Node) {
		return []runner.Operation{
			c.checkIdentity(t.Node),
			changeBy(c, "rescue", node.RescueInterface, "rescue", driver.Rescue.Rescue),
			c.switchTo(t.Node, node.PowerOn),
		}, nil
	}
	operations := []runner.Operation{
		c.fetchRamdisk(t.Node),
		c.checkIdentity(t.Node), // not before the fetch, which may take half an hour
		{Ref: runner.Ref{Name: "begin rescue"}, Store: c.beginRamdiskRescue(workMark(t.Work))},
	}
	operations = append(operations, c.matchBootMode(t.Node)...)
	operations = append(operations, c.withoutSecureBoot(t.Node)...)
	operations = append(operations, c.offForRamdisk(t.Node), c.bootRamdiskOperation(t.Node))
	operations = append(operations, c.restart(t.Node)...)
	operations = append(operations, c.retryBoot(t.Node, "")...)
	return append(operations, awaitRamdiskOperation,
		changeBy(c, "set rescue password", node.RescueInterface, "rescue", driver.RamdiskRescue.SetRescuePassword)), nil
}

// beginRamdiskRescue forgets the agent of an earlier rescue system. The ramdisk of that system is
// never kept, because it has ended its agent or has another password.
func (c *Conductor) beginRamdiskRescue(mark string) runner.Write {
	return func(_ *store.Tx, n *node.Node) error {
		c.clearEndpoint(n)
		n.DriverInternalInfo = n.DriverInternalInfo.With(map[string]any{ramdiskKeptKey: false, ramdiskStartedKey: mark, bootRetryKey: nil})
		return nil
	}
}

// cleanUpRescue returns the operations that withdraw the rescue system after a failure and switch
// the machine off, unless it still runs its instance.
func (c *Conductor) cleanUpRescue(t runner.Task) []runner.Operation {
	if !c.rescuesInRamdisk(t.Node) {
		return nil
	}
	inRamdisk := startedRamdisk(t.Node, workMark(t.Work)) || agent.EndpointOf(t.Node).URL != "" // the agent of an earlier rescue
	return []runner.Operation{
		c.collectLogs(t, true), c.checkBeforeLeaving(t.Node), c.leaveRamdiskIfItCan(t.Node), c.leftIn(t.Node, node.PowerOff).SkipIf(!inRamdisk),
	}
}

// endRescue forgets the password, which nobody needs any more.
func (c *Conductor) endRescue(tx *store.Tx, _ runner.Task, n *node.Node) error {
	node.ClearRescuePassword(n)
	return c.Move(tx, n, node.OnDone)
}

// failRescue forgets the password of a rescue system that was not started.
func failRescue(n *node.Node, reason string) string {
	node.ClearRescuePassword(n)
	return reason
}

// unrescueOperations returns the operations that start the instance again.
func (c *Conductor) unrescueOperations(t runner.Task) ([]runner.Operation, error) {
	if !c.rescuesInRamdisk(t.Node) {
		return []runner.Operation{
			c.checkIdentity(t.Node),
			changeBy(c, "unrescue", node.RescueInterface, "rescue", driver.Rescue.Unrescue),
			c.switchTo(t.Node, node.PowerOn),
		}, nil
	}
	return []runner.Operation{
		c.checkIdentity(t.Node), c.leaveRamdiskIfItCan(t.Node), c.switchTo(t.Node, node.PowerOff),
		c.changeSecureBoot(t.Node, true), c.bootInstance(t.Node, ""), c.startInstance(t.Node, true),
	}, nil
}

// endUnrescue forgets the rescue system and its password.
func (c *Conductor) endUnrescue(tx *store.Tx, _ runner.Task, n *node.Node) error {
	node.ClearRescuePassword(n)
	if c.rescuesInRamdisk(n) {
		if err := c.clearRamdisk(tx, n); err != nil {
			return err
		}
	}
	return c.Move(tx, n, node.OnDone)
}
