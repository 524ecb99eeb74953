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
	inRamdisk := c.needsRamdisk(t, cleanFlow)
	operations := append([]runner.Operation{c.checkIdentity(t.Node)}, skipIf(!inRamdisk, c.startRamdisk(t, cleanFlow, beforeSteps)...)...)
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
	logs := labelled([]runner.Operation{c.collectLogs(t, false).SkipIf(c.keepsRamdisk(t.Node))}, afterSteps)
	operations = append(operations, skipIf(!inRamdisk, append(logs, c.endRamdisk(t.Node)...)...)...)
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
	clearSteps(n)
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
	inRamdisk := c.needsRamdisk(t, serviceFlow)
	operations := append([]runner.Operation{c.checkIdentity(t.Node)}, skipIf(!inRamdisk, c.startRamdisk(t, serviceFlow, beforeSteps)...)...)
	operations = append(operations, c.stepOperations(t, serviceFlow, func(tx *store.Tx, w *store.Work, n *node.Node) ([]node.Step, error) {
		return listedSteps(tx, w, n, c.drivers.Steps(n, driver.ServiceSteps))
	})...)
	operations = append(operations, labelled(skipIf(!inRamdisk,
		c.collectLogs(t, false), c.leaveRamdisk(t.Node), c.switchTo(t.Node, node.PowerOff),
		c.changeSecureBoot(t.Node, true), c.bootInstance(t.Node, ""), c.restartByAgent(t.Node),
	), afterSteps)...)
	return append(operations, c.startInstance(t.Node, inRamdisk), c.readSettings(true)), nil
}

// cleanUpServicing starts the instance of a machine whose servicing failed. A machine whose BMC may
// still write firmware is left on instead, without a restart. Where the agent restarts the
// machine, its logs are not collected: the restart fails when the list of the agent's answers
// has become long.
func (c *Conductor) cleanUpServicing(t runner.Task) []runner.Operation {
	logs, read := c.collectLogs(t, true), c.readSettingsLeft(t.Node, serviceFlow)
	if writesFirmware(t.Node) {
		return []runner.Operation{
			logs, c.checkBeforeLeaving(t.Node), c.leaveRamdiskIfItCan(t.Node),
			c.ofSameMachine(c.bootInstance(t.Node, "")).SkipIf(!c.bootsImage(t.Node)), // the ramdisk was served in place of the image
			c.secureAgain(t.Node).SkipIf(!startedRamdisk(t.Node, workMark(t.Work))),
			c.leftIn(t.Node, node.PowerOn), read,
		}
	}
	back := c.backToInstance(t.Node, workMark(t.Work))
	agentRestarts := slices.ContainsFunc(back, func(o runner.Operation) bool { return o.Name == restartByAgentName && !o.Skip })
	return append(append([]runner.Operation{logs.SkipIf(agentRestarts)}, back...), read)
}

// cleanUpCleaning withdraws the ramdisk of a machine whose cleaning failed, and switches the machine
// off. A machine whose BMC may still write firmware stays on, because it must not lose power.
func (c *Conductor) cleanUpCleaning(t runner.Task) []runner.Operation {
	return []runner.Operation{
		c.collectLogs(t, true), c.checkBeforeLeaving(t.Node), c.leaveRamdiskIfItCan(t.Node),
		c.leftIn(t.Node, node.PowerOff).SkipIf(writesFirmware(t.Node)), c.readSettingsLeft(t.Node, cleanFlow),
	}
}

// writesFirmware reports whether the step that runs, or has failed, may have left the BMC
// writing firmware.
func writesFirmware(n *node.Node) bool {
	step, running := bmcStep(n)
	return running && step.Interface == node.FirmwareInterface.String()
}
