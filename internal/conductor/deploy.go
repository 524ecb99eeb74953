package conductor

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// deployOperations run the deploy steps of the drivers, of the templates that the
// instance asks for, and of the request, and start the instance.
func (c *Conductor) deployOperations(t runner.Task) ([]runner.Operation, error) {
	operations := []runner.Operation{c.checkIdentity(t.Node)}
	operations = append(operations, c.stepOperations(t, deployFlow, func(tx *store.Tx, w *store.Work, n *node.Node) ([]node.Step, error) {
		templates, err := templateSteps(tx, n)
		if err != nil {
			return nil, err
		}
		offered, asked := c.drivers.Steps(n, driver.DeploySteps), askedSteps(w)
		switch {
		case c.bootsImage(n):
			return imageBootSteps(n, offered, templates, asked)
		case c.deploysInRamdisk(n): // the agent has not reported its steps yet
			templates, asked = node.KnownSteps(templates, offered), node.KnownSteps(asked, offered)
		}
		return node.DeploySteps(offered, templates, asked)
	})...)
	return append(operations, c.startInstance(t.Node, c.deploysInRamdisk(t.Node)), c.readSettings(changesSettings(t.Node, deployFlow))), nil
}

// cleanUpDeployment withdraws the ramdisk after a failed deployment and switches the machine
// off, unless Limits.KeepPowerOn keeps it on to be examined.
func (c *Conductor) cleanUpDeployment(t runner.Task) []runner.Operation {
	return []runner.Operation{
		c.collectLogs(t, true), c.checkBeforeLeaving(t.Node), c.withdrawBoot(t.Node),
		c.leftIn(t.Node, node.PowerOff).SkipIf(c.cfg.Limits.KeepPowerOn), c.readSettingsLeft(t.Node, deployFlow),
	}
}

// undeployOperations remove the instance, and what is served for it or for the ramdisk of a
// deployment that has not ended. Cleaning follows.
func (c *Conductor) undeployOperations(t runner.Task) ([]runner.Operation, error) {
	return []runner.Operation{
		c.checkBeforeLeaving(t.Node), // passes if the BMC is silent, so that nothing stays served
		c.withdrawBoot(t.Node),
		c.checkIdentity(t.Node),
		changeBy(c, "tear down", node.DeployInterface, "deployment", driver.Deploy.TearDown),
		c.switchTo(t.Node, node.PowerOff),
		c.changeSecureBoot(t.Node, false),
	}, nil
}

// endUndeploy removes the instance from the node in the commit that begins cleaning.
func (c *Conductor) endUndeploy(tx *store.Tx, _ runner.Task, n *node.Node) error {
	if err := endInstance(tx, n); err != nil {
		return err
	}
	if _, ok := c.ramdiskOf(n); ok && !c.switches(n, node.PowerOff) {
		n.DriverInternalInfo = n.DriverInternalInfo.With(map[string]any{instanceLeftKey: true})
	}
	return c.Move(tx, n, node.OnClean)
}

// instanceKeys are the keys of driver_internal_info that belong to an instance.
var instanceKeys = []string{"deploy_boot_mode", "root_uuid_or_disk_id", "is_whole_disk_image", "instance", "vendor_instance"}

// endInstance removes everything that belongs to the instance from the node.
func endInstance(tx *store.Tx, n *node.Node) error {
	if n.InstanceUUID != "" {
		n.InstanceUUID = ""
		if err := endAllocation(tx, n); err != nil {
			return err
		}
	}
	if err := detachVIFs(tx, n); err != nil {
		return err
	}
	n.InstanceInfo, n.InstanceName = nil, ""
	n.DriverInternalInfo = n.DriverInternalInfo.Without(instanceKeys...)
	clearSteps(n)
	return nil
}

// adoptOperations take over a machine that already runs its instance. They change
// nothing on the machine.
func (c *Conductor) adoptOperations(t runner.Task) ([]runner.Operation, error) {
	if err := c.checkInterfaces(t.Node, adoptInterfaces); err != nil {
		return nil, err
	}
	return []runner.Operation{changeBy(c, "adopt", node.DeployInterface, "adoption", driver.Deploy.Adopt)}, nil
}

// Interfaces that must be configured and built for verbs.
var (
	deployInterfaces  = []node.InterfaceKind{node.BootInterface, node.DeployInterface, node.PowerInterface}
	adoptInterfaces   = []node.InterfaceKind{node.PowerInterface, node.BootInterface, node.DeployInterface}
	cleanInterfaces   = []node.InterfaceKind{node.PowerInterface, node.DeployInterface, node.NetworkInterface}
	rescueInterfaces  = []node.InterfaceKind{node.PowerInterface, node.RescueInterface}
	powerInterfaces   = []node.InterfaceKind{node.PowerInterface}
	bootInterfaces    = []node.InterfaceKind{node.BootInterface}
	inspectInterfaces = []node.InterfaceKind{node.PowerInterface, node.InspectInterface}
)

// checkInterfaces returns a *node.ValidationError when one of the interfaces
// could not work. A no-… interface is refused, too.
func (c *Conductor) checkInterfaces(n *node.Node, kinds []node.InterfaceKind) error {
	for _, kind := range kinds {
		switch validation := c.drivers.Validate(n, kind); {
		case validation.Result == nil:
			return node.Invalid("Node %s needs its %s interface for this. %s", n.UUID, kind, validation.Reason)
		case !*validation.Result:
			return &node.ValidationError{Reason: validation.Reason}
		}
	}
	return nil
}

// templateSteps returns the steps of the deploy templates whose trait the
// instance asks for.
func templateSteps(tx *store.Tx, n *node.Node) ([]node.Step, error) {
	var traits []string
	if !n.InstanceInfo.Get(instanceTraits, &traits) || len(traits) == 0 {
		return nil, nil
	}
	slices.Sort(traits)
	var steps []node.Step
	for _, trait := range slices.Compact(traits) {
		template, err := store.DeployTemplates.Get(tx, trait)
		switch {
		case isNotFound(err) || err == nil && template.Name != trait: // a trait without a template
			continue
		case err != nil:
			return nil, err
		}
		more, err := stepsOf(template.Steps)
		if err != nil {
			return nil, fmt.Errorf("deploy template %s: %w", trait, err)
		}
		steps = append(steps, more...)
	}
	return steps, nil
}

// stepsOf decodes the steps of a template or runbook.
func stepsOf(stored node.Array) ([]node.Step, error) {
	var steps []node.Step
	if err := json.Unmarshal([]byte(stored.String()), &steps); err != nil {
		return nil, node.Invalid("Its steps cannot be read: %v.", err)
	}
	return steps, nil
}
