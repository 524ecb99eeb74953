package conductor

import (
	"context"
	"slices"
	"strconv"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// Names of the operations that start a ramdisk and end it, as they are stored.
const (
	fetchRamdiskName  = "fetch ramdisk"
	chooseRamdiskName = "choose ramdisk"
	offForRamdiskName = "power off for ramdisk"
	bootRamdiskName   = "boot ramdisk"
	startByHandName   = "ask for start by hand"
	awaitRamdiskName  = "wait for ramdisk"
	askStepsName      = "ask for steps"
	leaveRamdiskName  = "leave ramdisk"
	bootInstanceName  = "boot instance"
	// restartByAgentName is the restart of a machine without a BMC.
	restartByAgentName = "restart by agent"
)

// Items of operations that some scripts have before their steps and after them.
const (
	beforeSteps = "before steps"
	afterSteps  = "after steps"
)

// ramdiskKeptKey is the key of driver_internal_info that says whether the ramdisk of an earlier
// phase goes on.
const ramdiskKeptKey = "ramdisk_kept"

// ramdiskStartedKey is the key of driver_internal_info for the workMark of the work that started
// the ramdisk. It outlives that work, so that the work that cleans up afterwards knows it.
const ramdiskStartedKey = "ramdisk_started_by"

// workMark names a piece of work in driver_internal_info.
func workMark(w *store.Work) string { return strconv.FormatInt(w.ID, 10) }

// startedRamdisk reports whether the work with this mark has started the node's ramdisk.
func startedRamdisk(n *node.Node, mark string) bool {
	return mark != "" && n.DriverInternalInfo.Text(ramdiskStartedKey) == mark
}

// ramdiskOf returns the deploy interface of a node whose steps run in the ramdisk, and false for
// other nodes.
func (c *Conductor) ramdiskOf(n *node.Node) (driver.Ramdisk, bool) {
	implementation, err := c.drivers.Implementation(n, node.DeployInterface)
	if err != nil {
		return nil, false
	}
	ramdisk, ok := implementation.(driver.Ramdisk)
	return ramdisk, ok
}

// needsRamdisk reports whether work in steps needs the ramdisk. Work that has started the ramdisk
// needs it until its end, even if the settings of the node or the engine change, because the work
// has to end the ramdisk, too.
func (c *Conductor) needsRamdisk(t runner.Task, f flow) bool {
	if startedRamdisk(t.Node, workMark(t.Work)) {
		return true
	}
	if _, ok := c.ramdiskOf(t.Node); !ok {
		return false
	}
	var disabled bool
	t.Work.Intent.Get(disableRamdiskIntent, &disabled)
	switch {
	case disabled:
		return false
	case f.kind == driver.CleanSteps && !manual(t.Work):
		return c.cleans(t.Node) || instanceLeftRunning(t.Node)
	}
	return !node.OutOfBand(askedSteps(t.Work), c.drivers.Steps(t.Node, f.kind))
}

// startRamdisk returns the operations that start the ramdisk of a node, unless the ramdisk of an
// earlier phase goes on, and ask its agent for the steps of a flow. Item tells these operations
// from those of another start in the same script.
func (c *Conductor) startRamdisk(t runner.Task, f flow, item string) []runner.Operation {
	n := t.Node
	fetch := c.fetchRamdisk(n).SkipIf(c.mayKeepRamdisk(n))
	fetches := !fetch.Skip
	operations := []runner.Operation{
		fetch,
		c.checkIdentity(n).SkipIf(!fetches), // the fetch may have taken half an hour
		{Ref: runner.Ref{Name: chooseRamdiskName}, Read: c.chooseRamdisk(workMark(t.Work)), Decides: true},
		c.awaitKeptRamdisk(n),
	}
	operations = append(operations, skipIf(kept(n), slices.Concat(c.matchBootMode(n), c.withoutSecureBoot(n))...)...)
	operations = append(operations, c.offForRamdisk(n), c.bootRamdiskOperation(n))
	operations = labelled(append(operations, c.restart(n)...), item)
	return slices.Concat(operations, c.retryBoot(n, item), labelled([]runner.Operation{
		awaitRamdiskOperation,
		{Ref: runner.Ref{Name: askStepsName}, Read: c.askSteps(f)},
	}, item))
}

// ramdiskFetcher is a boot interface that fetches the files that the ramdisk boots from. The fetch
// may take long or fail.
type ramdiskFetcher interface {
	// FetchRamdisk makes a turn of fetching the files that BootRamdisk serves. It changes neither
	// the node nor its machine.
	FetchRamdisk(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error)
}

// fetchRamdisk returns the operation that fetches the files that the ramdisk boots from. It comes
// before the work is marked as the one that started the ramdisk, and before any change of the
// machine. So an instance runs on during the fetch, and also when the fetch fails.
func (c *Conductor) fetchRamdisk(n *node.Node) runner.Operation {
	operation := changeBy(c, fetchRamdiskName, node.BootInterface, "fetching a ramdisk", ramdiskFetcher.FetchRamdisk)
	operation.ReadsOnly = true
	boot, err := c.bootWay(n)
	if err != nil && c.switches(n, node.PowerOn) {
		operation.Change = func(context.Context, *node.Node, driver.Turn) (driver.Outcome, error) { return driver.Outcome{}, err }
		return operation
	}
	_, unable := driver.Ability[ramdiskFetcher](c.drivers, n, node.BootInterface, "fetching a ramdisk")
	return operation.SkipIf(boot != managedBoot || unable != nil)
}

// offForRamdisk returns the operation that switches a machine off before it is told to boot the
// ramdisk. Some BMCs refuse to change what the machine boots while it starts, and a machine that
// hangs never ends its start. If somebody else started the machine in between, that start would use
// up a setting for one boot.
func (c *Conductor) offForRamdisk(n *node.Node) runner.Operation {
	off := c.switchTo(n, node.PowerOff).SkipIf(kept(n) || !c.switches(n, node.PowerOn))
	off.Name = offForRamdiskName
	return off
}

// restart returns the operations that switch a machine off and on again so that it boots the
// ramdisk, or ask a person to do so. The machine is off already, unless somebody has switched it on
// since, or the work began in a release without offForRamdisk.
func (c *Conductor) restart(n *node.Node) []runner.Operation {
	byHand := !c.switches(n, node.PowerOn)
	return skipIf(kept(n),
		runner.Operation{Ref: runner.Ref{Name: startByHandName}, Store: c.askForStart, Skip: !byHand},
		c.switchTo(n, node.PowerOff).SkipIf(byHand), c.switchOnAnew(n),
	)
}

// labelled gives operations an item.
func labelled(operations []runner.Operation, item string) []runner.Operation {
	for i := range operations {
		operations[i].Item = item
	}
	return operations
}

// skipIf skips all the operations if the condition is true.
func skipIf(condition bool, operations ...runner.Operation) []runner.Operation {
	for i := range operations {
		operations[i] = operations[i].SkipIf(condition)
	}
	return operations
}

// kept reports whether the ramdisk of an earlier phase goes on.
func kept(n *node.Node) bool {
	var kept bool
	n.DriverInternalInfo.Get(ramdiskKeptKey, &kept)
	return kept
}

// chooseRamdisk decides whether the running ramdisk goes on. If not, it forgets the agent, so that
// the next agent gets a token. A machine without a BMC cannot be stopped, so its agent keeps its
// token. An agent may have died since its last heartbeat: if the engine can start the ramdisk anew,
// it calls the agent first.
func (c *Conductor) chooseRamdisk(mark string) runner.Read {
	return func(ctx context.Context, n *node.Node) (runner.Write, error) {
		keep := c.mayKeepRamdisk(n)
		if endpoint := agent.EndpointOf(n); keep && endpoint.URL != "" && c.switches(n, node.PowerOn) {
			bounded, cancel := context.WithTimeout(ctx, agentCallTime)
			defer cancel()
			keep = agent.ReplyOf(c.cfg.Agents.Answers(bounded, endpoint)) != agent.NoAnswer
		}
		return func(_ *store.Tx, n *node.Node) error {
			keep := keep && c.mayKeepRamdisk(n)
			if !keep {
				c.clearEndpoint(n)
			}
			n.DriverInternalInfo = n.DriverInternalInfo.With(map[string]any{ramdiskKeptKey: keep, ramdiskStartedKey: mark, bootRetryKey: nil})
			return nil
		}, nil
	}
}

// mayKeepRamdisk reports whether the ramdisk of an earlier phase goes on, provided that it is
// alive.
func (c *Conductor) mayKeepRamdisk(n *node.Node) bool {
	ramdisk, ok := c.ramdiskOf(n)
	return ok && agent.FastTrack(n, c.drivers.Attributes(n), c.cfg.FastTrack) && ramdisk.Running(n) &&
		!instanceLeftRunning(n) && n.PowerState != node.PowerOff
}

// awaitKeptRamdisk returns the operation that waits for the first heartbeat of a kept ramdisk that
// has only posted its inventory. If no heartbeat comes in time, the ramdisk is started anew after
// all.
func (c *Conductor) awaitKeptRamdisk(n *node.Node) runner.Operation {
	return runner.Operation{
		Ref: runner.Ref{Name: "wait for kept ramdisk"}, ReadsOnly: true,
		Skip: !kept(n) || agent.EndpointOf(n).URL != "" || !c.switches(n, node.PowerOn),
		Change: func(_ context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
			if agent.EndpointOf(n).URL != "" {
				return driver.Outcome{}, nil
			}
			if left := c.leftToBeHeard(c.cfg.HeartbeatTimeout, turn.Elapsed); left > 0 {
				return driver.Outcome{Callback: true, Park: left}, nil
			}
			return driver.Outcome{Apply: func(n *node.Node) {
				c.clearEndpoint(n)
				n.DriverInternalInfo = n.DriverInternalInfo.With(map[string]any{ramdiskKeptKey: false})
			}}, nil
		},
	}
}

// clearEndpoint clears the callback URL of the node's agent, so that only a later heartbeat says
// that the ramdisk runs. It also voids the token, see voidToken.
func (c *Conductor) clearEndpoint(n *node.Node) {
	c.voidToken(n)
	n.DriverInternalInfo = n.DriverInternalInfo.Without(agent.URLKey, agent.VerifyCAKey)
}

// restartRamdisk returns the operations that start the ramdisk again before the step of that item.
// The step before has ended. Meanwhile the node shows the start of the ramdisk as its step: that
// start can be aborted, and no command runs during it.
func (c *Conductor) restartRamdisk(n *node.Node, f flow, item string) []runner.Operation {
	// Without a URL, the agent has restarted the machine for a step and is forgotten.
	byAgent := c.restartByAgent(n).SkipIf(agent.EndpointOf(n).URL == "")
	agentRestarts := !byAgent.Skip
	operations := []runner.Operation{
		{Ref: runner.Ref{Name: "forget ramdisk"}, Store: func(_ *store.Tx, n *node.Node) error {
			if !agentRestarts { // else the restart forgets it
				c.clearEndpoint(n)
			}
			n.DriverInternalInfo = n.DriverInternalInfo.With(map[string]any{ramdiskKeptKey: false})
			start := node.Step{Interface: node.DeployInterface.String(), Step: node.StepStartRamdisk, Abortable: true}
			*f.shown(n) = start.Object()
			return nil
		}},
		c.offForRamdisk(n), c.bootRamdiskOperation(n), byAgent,
	}
	operations = append(operations, c.restart(n)[1:]...) // nobody has to start it by hand
	return labelled(append(operations, awaitRamdiskOperation), "before "+item)
}

// restartByAgent returns the operation in which the agent restarts a machine that nothing else can
// switch off and on. The operation also forgets the agent, so that its last heartbeats are not
// taken for those of the next ramdisk.
func (c *Conductor) restartByAgent(n *node.Node) runner.Operation {
	restart := c.stepChange(deployFlow, node.Step{Interface: node.DeployInterface.String(), Step: node.StepBootInstance})
	return runner.Operation{
		Ref: runner.Ref{Name: restartByAgentName}, Skip: c.switches(n, node.PowerOn),
		Change: func(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
			out, err := restart(ctx, n, turn)
			if err == nil && out.Done() {
				out.Apply = func(n *node.Node) { n.DriverInternalInfo = agent.Clear(n.DriverInternalInfo) }
			}
			return out, err
		},
	}
}

// bootRamdiskOperation returns the operation that makes the machine boot the ramdisk at its next
// start. It checks which machine it is after the images are fetched, which may take half an hour.
func (c *Conductor) bootRamdiskOperation(n *node.Node) runner.Operation {
	boot, err := c.bootWay(n)
	byHand := !c.switches(n, node.PowerOn)
	operation := runner.Operation{
		Ref: runner.Ref{Name: bootRamdiskName}, Change: afterCheck(c.refuseOtherMachine, c.bootRamdisk(boot)),
		Skip: kept(n) || err != nil && byHand || boot == unmanagedBoot && !c.choosesNetwork(n),
	}
	if err != nil {
		operation.Change = func(context.Context, *node.Node, driver.Turn) (driver.Outcome, error) { return driver.Outcome{}, err }
	}
	return operation
}

// awaitRamdiskOperation waits for the first heartbeat of the ramdisk.
var awaitRamdiskOperation = runner.Operation{Ref: runner.Ref{Name: awaitRamdiskName}, Change: awaitRamdisk, ReadsOnly: true}

// awaitRamdisk waits until the agent of the ramdisk has sent a heartbeat with its callback URL.
func awaitRamdisk(_ context.Context, n *node.Node, _ driver.Turn) (driver.Outcome, error) {
	if agent.EndpointOf(n).URL == "" || n.DriverInternalInfo.Text(agent.TokenKey) == "" {
		return driver.Outcome{Callback: true}, nil
	}
	return driver.Outcome{}, nil
}

// askSteps asks the agent for its steps.
func (c *Conductor) askSteps(f flow) runner.Read {
	return func(ctx context.Context, n *node.Node) (runner.Write, error) {
		ramdisk, ok := c.ramdiskOf(n)
		if !ok {
			return nil, node.Invalid("The deploy interface %q of node %s has no ramdisk any more.", n.Interfaces[node.DeployInterface], n.UUID)
		}
		out, err := ramdisk.AskSteps(ctx, n, f.kind)
		if err != nil || out.Apply == nil {
			return nil, err
		}
		return func(_ *store.Tx, n *node.Node) error {
			out.Apply(n)
			return nil
		}, nil
	}
}

// coreOperations returns the operations of a core step of a deployment through the ramdisk: the
// step itself and what the engine does besides. It returns false for other steps.
func (c *Conductor) coreOperations(t runner.Task, f flow, i int, step node.Step, itself runner.Operation) ([]runner.Operation, bool) {
	core := f.kind == driver.DeploySteps && step.Interface == node.DeployInterface.String()
	switch {
	case core && c.bootsImage(t.Node) && step.Step == node.StepStartRamdisk:
		return append([]runner.Operation{itself}, labelled(c.startImage(t.Node), itself.Item)...), true
	case !core || !c.deploysInRamdisk(t.Node):
		return nil, false
	}
	item := itself.Item
	hasBMC := c.drivers.HasBMC(t.Node)
	switch step.Step {
	case node.StepStartRamdisk:
		operations := append([]runner.Operation{itself}, c.startRamdisk(t, f, item)...)
		return append(operations, runner.Operation{Ref: runner.Ref{Name: planName, Item: item}, Store: c.replanDeployment(t.Work, i)}), true
	case node.StepPrepareBoot:
		return []runner.Operation{itself, c.bootInstance(t.Node, item)}, true
	case node.StepTearDownAgent:
		// Without a BMC, the agent restarts the machine, which must not boot the ramdisk again.
		off := c.switchTo(t.Node, node.PowerOff).SkipIf(!hasBMC)
		return append([]runner.Operation{itself}, labelled([]runner.Operation{c.collectLogs(t, false), c.leaveRamdisk(t.Node), off, c.changeSecureBoot(t.Node, true)}, item)...), true
	case node.StepBootInstance:
		// A BMC only has to switch the machine on.
		return []runner.Operation{itself.SkipIf(hasBMC), {Ref: runner.Ref{Name: "forget ramdisk", Item: item}, Store: c.clearRamdisk}}, true
	}
	return nil, false
}

// clearRamdisk clears the agent of a ramdisk that the instance has replaced.
func (*Conductor) clearRamdisk(_ *store.Tx, n *node.Node) error {
	n.DriverInternalInfo = agent.Clear(n.DriverInternalInfo).Without(ramdiskKeptKey)
	return nil
}

// replanDeployment plans the deployment again with the steps of the agent, behind the steps that
// have run.
func (c *Conductor) replanDeployment(w *store.Work, i int) runner.Write {
	return func(tx *store.Tx, n *node.Node) error {
		run := deployFlow.stored(n)[:i+1]
		templates, err := templateSteps(tx, n)
		if err != nil {
			return err
		}
		planned, err := node.DeploySteps(c.drivers.Steps(n, driver.DeploySteps), templates, askedSteps(w))
		if err != nil {
			return err
		}
		steps := append(run[:len(run):len(run)], node.StepsBehind(run, planned)...)
		n.DriverInternalInfo = n.DriverInternalInfo.With(map[string]any{deployFlow.listKey(): steps})
		return nil
	}
}

// restartedBy are the interfaces whose steps through a BMC restart the machine. After such a step,
// the ramdisk has to be started again before the next step that runs in it. RAID steps of the agent
// run in the ramdisk themselves.
var restartedBy = []string{node.BIOSInterface.String(), node.FirmwareInterface.String(), node.RAIDInterface.String()}

// restartsBefore reports whether the ramdisk has to be started again before a step, because
// a step since the last one that ran in it has restarted the machine.
func (c *Conductor) restartsBefore(n *node.Node, steps []node.Step, i int) bool {
	if _, ok := c.ramdiskOf(n); !ok || !steps[i].RequiresRamdisk && !steps[i].AwaitsAgent() {
		return false
	}
	for _, before := range slices.Backward(steps[:i]) {
		switch {
		case before.ExecuteOnChildNodes:
		case before.RebootRequested, before.CutsPower(), !before.Own() && !before.RequiresRamdisk && slices.Contains(restartedBy, before.Interface):
			return true
		case before.RequiresRamdisk, before.AwaitsAgent(), before.Interface == node.DeployInterface.String() && before.Step == node.StepStartRamdisk:
			return false
		}
	}
	return false
}

// checkRamdiskStart returns a *node.ValidationError when neither the engine nor people
// could start the node's ramdisk.
func (c *Conductor) checkRamdiskStart(n *node.Node) error {
	if _, ok := c.ramdiskOf(n); !ok || !c.switches(n, node.PowerOn) {
		return nil
	}
	return c.checkBoot(n)
}

// checkBoot returns a *node.ValidationError when the engine could not start the node's
// ramdisk.
func (c *Conductor) checkBoot(n *node.Node) error {
	boot, err := c.bootWay(n)
	if err == nil && boot == managedBoot {
		err = c.checkInterfaces(n, bootInterfaces)
	}
	return err
}

// instanceLeftRunning reports whether a machine without a BMC still runs an instance that was
// undeployed. Only the restart of the machine into the ramdisk ends that instance.
func instanceLeftRunning(n *node.Node) bool {
	var left bool
	n.DriverInternalInfo.Get(instanceLeftKey, &left)
	return left
}

// instanceLeftKey is the key of driver_internal_info for instanceLeftRunning.
const instanceLeftKey = "instance_left_running"

// bootWay decides what starts the node's ramdisk. The error is a
// *node.ValidationError.
func (c *Conductor) bootWay(n *node.Node) (bootWay, error) {
	boot, err := driver.Ability[driver.RamdiskBoot](c.drivers, n, node.BootInterface, "booting a ramdisk")
	if err == nil {
		err = boot.Validate(n)
	}
	switch {
	case err == nil:
		return managedBoot, nil
	case c.cfg.Inspection.UnmanagedBoot:
		return unmanagedBoot, nil
	}
	return noRamdisk, node.Invalid("The boot interface %q of node %s cannot start the ramdisk. %v "+
		"If another server starts it on the machine's network, set inspector.require_managed_boot to false, see docs/inspection.md.",
		n.Interfaces[node.BootInterface], n.UUID, err)
}
