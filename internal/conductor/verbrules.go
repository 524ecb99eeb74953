package conductor

import (
	"fmt"
	"slices"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// verbRule has what a verb requires besides a state that allows it, and the work that it starts.
type verbRule struct {
	work store.WorkKind // the kind of work to start, for verbs that lead to a working state
	// maintained allows the verb in maintenance.
	maintained bool
	// prepare completes the request with what takes long to compute, before the transaction; nil
	// for nothing.
	prepare func(c *Conductor, request *node.VerbRequest) error
	// permit checks everything but the state; nil permits the verb.
	permit func(c *Conductor, tx *store.Tx, n *node.Node, request node.VerbRequest) error
	// begin copies fields of the request into the node; nil for none.
	begin func(c *Conductor, tx *store.Tx, n *node.Node, request node.VerbRequest)
}

// verbRules has every verb except abort and unhold, which continue existing work.
var verbRules = map[node.Trigger]verbRule{
	node.OnManage:   {work: workVerify, maintained: true},
	node.OnProvide:  {work: workClean, maintained: true, permit: permitProvide},
	node.OnInspect:  {work: workInspect, maintained: true, permit: permitInspect, begin: beginInspect},
	node.OnClean:    {work: workClean, permit: permitClean},
	node.OnAdopt:    {work: workAdopt, maintained: true},
	node.OnDeploy:   {work: workDeploy, permit: permitDeploy, begin: beginDeploy},
	node.OnRebuild:  {work: workDeploy, permit: permitRebuild, begin: beginDeploy},
	node.OnDelete:   {work: workUndeploy, maintained: true, permit: permitUndeploy},
	node.OnRescue:   {work: workRescue, permit: permitRescue, begin: beginRescue, prepare: hashRescuePassword},
	node.OnUnrescue: {work: workUnrescue},
	node.OnService:  {work: workService, permit: permitService},
}

// permit returns an error unless the verb may begin on the node, whose state allows it.
func (c *Conductor) permit(tx *store.Tx, n *node.Node, request node.VerbRequest) error {
	rule := verbRules[request.Verb.On]
	if n.Maintenance && !rule.maintained && rule.work != "" {
		return node.Invalid("Node %s is in maintenance, in which %q is not allowed: end maintenance first.", n.UUID, request.Verb.Name)
	}
	if rule.permit == nil {
		return nil
	}
	return rule.permit(c, tx, n, request)
}

func permitProvide(c *Conductor, tx *store.Tx, n *node.Node, _ node.VerbRequest) error {
	switch {
	case n.Retired:
		return node.Invalid("Node %s is retired and can not be made available: clear its retired flag first.", n.UUID)
	case !c.cleans(n):
		return nil
	}
	if err := c.checkInterfaces(n, cleanInterfaces); err != nil {
		return node.Invalid("Node %s has automated cleaning enabled: %v To make it available without cleaning, set automated_clean to false.", n.UUID, err)
	}
	if err := c.checkRamdiskStart(n); err != nil {
		return err
	}
	return c.roomForCleaning(tx)
}

func permitClean(c *Conductor, tx *store.Tx, n *node.Node, request node.VerbRequest) error {
	if err := checkRequestSteps(request); err != nil {
		return err
	}
	for _, step := range request.Steps {
		if slices.Contains(c.cfg.RefusedCleanSteps, step.Name()) {
			return node.Invalid("The step %s is refused by this engine's configuration.", step.Name())
		}
	}
	if err := c.checkRamdisk(n, request, driver.CleanSteps); err != nil {
		return err
	}
	return c.roomForCleaning(tx)
}

func permitService(c *Conductor, _ *store.Tx, n *node.Node, request node.VerbRequest) error {
	if err := checkRequestSteps(request); err != nil {
		return err
	}
	return c.checkRamdisk(n, request, driver.ServiceSteps)
}

// checkRamdisk returns an error unless the steps of a request can run with a ramdisk or, with
// disable_ramdisk, without one. Steps without a ramdisk only need a power interface that works.
func (c *Conductor) checkRamdisk(n *node.Node, request node.VerbRequest, kind driver.StepKind) error {
	offered := c.drivers.Steps(n, kind)
	if step, ok := node.InRamdisk(request.Steps, offered); ok && request.DisableRamdisk {
		return node.Invalid("The step %s runs in the ramdisk, which disable_ramdisk forbids.", step.Name())
	}
	if request.DisableRamdisk || node.OutOfBand(request.Steps, offered) {
		return c.checkInterfaces(n, powerInterfaces)
	}
	if err := c.checkRamdiskStart(n); err != nil {
		return err
	}
	return c.checkInterfaces(n, cleanInterfaces)
}

// checkRequestSteps refuses a request without steps.
func checkRequestSteps(request node.VerbRequest) error {
	if len(request.Steps) == 0 {
		return node.Invalid("The verb %q needs steps: give %s_steps or a runbook.", request.Verb.Name, request.Verb.Name)
	}
	return node.CheckSteps(request.Steps)
}

func permitInspect(c *Conductor, _ *store.Tx, n *node.Node, _ node.VerbRequest) error {
	if err := c.checkInterfaces(n, inspectInterfaces); err != nil {
		return err
	}
	boot, err := c.inspectionBoot(n)
	if err == nil && boot == managedBoot {
		err = c.checkInterfaces(n, bootInterfaces)
	}
	return err
}

func permitDeploy(c *Conductor, tx *store.Tx, n *node.Node, request node.VerbRequest) error {
	if err := node.CheckSteps(request.Steps); err != nil {
		return err
	}
	if request.ConfigDrive != nil {
		with := *n
		n = &with
		beginDeploy(c, tx, n, request)
	}
	if err := c.checkDeployable(n); err != nil {
		return err
	}
	return c.roomForDeploying(tx)
}

// checkDeployable returns a *node.ValidationError unless the node has what a deployment
// needs.
func (c *Conductor) checkDeployable(n *node.Node) error {
	if _, ok := c.ramdiskOf(n); !ok {
		return c.checkInterfaces(n, deployInterfaces)
	}
	if err := c.checkInterfaces(n, powerInterfaces); err != nil {
		return err
	}
	if !c.bootsImage(n) {
		if err := c.checkRamdiskStart(n); err != nil {
			return err
		}
	}
	return c.checkInstance(n)
}

// checkInstance returns a *node.ValidationError, or a *node.NotSupportedError, unless the node's
// machine can get the instance that instance_info describes.
func (c *Conductor) checkInstance(n *node.Node) error {
	ramdisk, ok := c.ramdiskOf(n)
	if !ok {
		return nil
	}
	if err := c.checkSecureBoot(n); err != nil {
		return err
	}
	if c.bootsImage(n) {
		return c.checkImage(n)
	}
	return ramdisk.CheckInstance(n)
}

func permitRebuild(c *Conductor, tx *store.Tx, n *node.Node, request node.VerbRequest) error {
	if err := unprotected(n, request); err != nil {
		return err
	}
	return permitDeploy(c, tx, n, request)
}

func permitUndeploy(c *Conductor, tx *store.Tx, n *node.Node, request node.VerbRequest) error {
	if err := unprotected(n, request); err != nil {
		return err
	}
	return c.roomForDeploying(tx)
}

func unprotected(n *node.Node, request node.VerbRequest) error {
	if !n.Protected {
		return nil
	}
	return &node.ForbiddenError{Reason: fmt.Sprintf("Node %s is protected, which forbids %q: clear its protected flag first.", n.UUID, request.Verb.Name)}
}

// States that count against the limits of concurrent work.
var (
	deployingStates = []node.State{node.Deploying, node.DeployWait, node.Deleting}
	cleaningStates  = []node.State{node.Cleaning, node.CleanWait}
)

func (c *Conductor) roomForDeploying(tx *store.Tx) error {
	return room(tx, "deployed or undeployed", "conductor.max_deploying", c.cfg.Limits.MaxDeploying, deployingStates)
}

func (c *Conductor) roomForCleaning(tx *store.Tx) error {
	return room(tx, "cleaned", "conductor.max_cleaning", c.cfg.Limits.MaxCleaning, cleaningStates)
}

func room(tx *store.Tx, what, key string, limit int, states []node.State) error {
	if err := tx.LockName(key); err != nil {
		return err
	}
	busy, err := tx.CountStates(states...)
	if err == nil && busy >= limit {
		err = &node.BusyError{Reason: fmt.Sprintf("Nodes being %s: %d. The limit of this engine (%s) is %d, please retry later.", what, busy, key, limit)}
	}
	return err
}

func beginInspect(c *Conductor, tx *store.Tx, n *node.Node, _ node.VerbRequest) {
	n.InspectionStartedAt = tx.Now()
	c.voidToken(n)
}

func beginDeploy(_ *Conductor, _ *store.Tx, n *node.Node, request node.VerbRequest) {
	if request.ConfigDrive != nil {
		n.InstanceInfo = n.InstanceInfo.With(map[string]any{"configdrive": request.ConfigDrive})
	}
}
