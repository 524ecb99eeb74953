package conductor

import (
	"slices"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// manual reports whether cleaning is manual: it runs the client's steps and no others.
func manual(w *store.Work) bool {
	var manual bool
	w.Intent.Get(manualIntent, &manual)
	return manual
}

// cleanOperations run the client's clean steps or, in automated cleaning, those of the
// node's drivers.
func (c *Conductor) cleanOperations(t runner.Task) ([]runner.Operation, error) {
	without := !c.needsRamdisk(t, cleanFlow)
	operations := append([]runner.Operation{c.checkIdentity(t.Node)}, c.startRamdisk(t, cleanFlow, beforeSteps, without)...)
	operations = append(operations, c.stepOperations(t, cleanFlow, func(tx *store.Tx, w *store.Work, n *node.Node) ([]node.Step, error) {
		offered := c.drivers.Steps(n, driver.CleanSteps)
		switch {
		case manual(w):
			return listedSteps(tx, w, n, offered)
		case !c.cleans(n):
			return nil, nil
		}
		return c.automatedSteps(offered), nil
	})...)
	logs := labelled([]runner.Operation{c.collectLogs(t, false)}, afterSteps, without || c.keepsRamdisk(t.Node))
	operations = append(operations, logs...)
	operations = append(operations, c.endRamdisk(t.Node, without)...)
	return append(operations, c.readSettings(len(cleanFlow.stored(t.Node)) > 0)), nil
}

// automatedSteps returns the steps of automated cleaning in their order, out of the steps that
// the drivers and the agent of a node offer. Config.CleanPriorities applies.
func (c *Conductor) automatedSteps(offered []node.Step) []node.Step {
	steps := slices.Clone(offered)
	for i, step := range steps {
		if priority, set := c.cfg.CleanPriorities[step.Step]; set && step.Interface == node.DeployInterface.String() {
			steps[i].Priority = priority
		}
	}
	return node.SortSteps(steps)
}

// endClean makes the node available, or manageable after manual cleaning.
func (c *Conductor) endClean(tx *store.Tx, t runner.Task, n *node.Node) error {
	forgetSteps(n)
	n.DriverInternalInfo = n.DriverInternalInfo.Without(ramdiskKeptKey, instanceLeftKey)
	if manual(t.Work) || n.Retired {
		return c.Move(tx, n, node.OnManage)
	}
	return c.Move(tx, n, node.OnDone)
}

// cleans reports whether automated cleaning is enabled for the node.
func (c *Conductor) cleans(n *node.Node) bool {
	if n.AutomatedClean != nil {
		return *n.AutomatedClean
	}
	return c.cfg.AutomatedClean
}

// serviceOperations run the client's service steps and start the instance again.
func (c *Conductor) serviceOperations(t runner.Task) ([]runner.Operation, error) {
	without := !c.needsRamdisk(t, serviceFlow)
	operations := append([]runner.Operation{c.checkIdentity(t.Node)}, c.startRamdisk(t, serviceFlow, beforeSteps, without)...)
	operations = append(operations, c.stepOperations(t, serviceFlow, func(tx *store.Tx, w *store.Work, n *node.Node) ([]node.Step, error) {
		return listedSteps(tx, w, n, c.drivers.Steps(n, driver.ServiceSteps))
	})...)
	operations = append(operations, labelled([]runner.Operation{
		c.collectLogs(t, false), c.leaveRamdisk(t.Node), c.switchTo(t.Node, node.PowerOff),
		c.changeSecureBoot(t.Node, true), c.bootInstance(t.Node, ""), c.restartByAgent(t.Node),
	}, afterSteps, without)...)
	return append(operations, c.startInstance(t.Node, !without), c.readSettings(true)), nil
}

// leaveServiced starts the instance of a machine whose servicing failed. A machine whose BMC may
// still write firmware is left on instead, without a restart. Where the agent restarts the
// machine, its logs are not collected: the restart fails when the list of the agent's answers
// has become long.
func (c *Conductor) leaveServiced(t runner.Task) []runner.Operation {
	logs, read := c.collectLogs(t, true), c.readSettingsLeft(t.Node, serviceFlow)
	if writesFirmware(t.Node) {
		boot := c.ofSameMachine(c.bootInstance(t.Node, ""))
		boot.Skip = boot.Skip || !c.bootsImage(t.Node) // the ramdisk was served in place of the image
		secure := c.ofSameMachine(c.secureAgain(t.Node))
		secure.Skip = secure.Skip || !startedRamdisk(t.Node, workMark(t.Work))
		return []runner.Operation{
			logs, c.checkBeforeLeaving(t.Node), c.leaveRamdiskIfItCan(t.Node), boot, secure, c.leftIn(t.Node, node.PowerOn), read,
		}
	}
	back := c.backToInstance(t.Node, workMark(t.Work))
	logs.Skip = logs.Skip || slices.ContainsFunc(back, func(o runner.Operation) bool { return o.Name == restartByAgentName && !o.Skip })
	return append(append([]runner.Operation{logs}, back...), read)
}

// leaveCleaned withdraws the ramdisk of a machine whose cleaning failed, and switches the machine
// off. A machine whose BMC may still write firmware stays on, because it must not lose power.
func (c *Conductor) leaveCleaned(t runner.Task) []runner.Operation {
	off := c.leftIn(t.Node, node.PowerOff)
	off.Skip = off.Skip || writesFirmware(t.Node)
	return []runner.Operation{
		c.collectLogs(t, true), c.checkBeforeLeaving(t.Node), c.leaveRamdiskIfItCan(t.Node), off, c.readSettingsLeft(t.Node, cleanFlow),
	}
}

// writesFirmware reports whether the step that runs, or has failed, may have left the BMC
// writing firmware.
func writesFirmware(n *node.Node) bool {
	step, running := bmcStep(n)
	return running && step.Interface == node.FirmwareInterface.String()
}
