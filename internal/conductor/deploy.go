package conductor

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// runDeploy runs the deploy steps of the drivers, of the templates that the
// instance asks for, and of the request, and starts the instance.
func runDeploy(ctx context.Context, s *session) error {
	err := s.runSteps(ctx, deployFlow, func() ([]node.Step, error) {
		templates, err := s.templateSteps(ctx)
		if err != nil {
			return nil, err
		}
		return node.DeploySteps(s.drivers.Steps(s.n, driver.DeploySteps), templates, askedSteps(s.j))
	})
	if err == nil {
		err = switchOn(ctx, s)
	}
	if err != nil {
		return err
	}
	keep := func(*store.Tx, *node.Node) error { return nil }
	if s.changesSettings(deployFlow) {
		settings, err := s.lookAgain(ctx)
		if err != nil {
			return err
		}
		keep = settings.store
	}
	return s.finish(ctx, func(tx *store.Tx, n *node.Node) error {
		endSteps(n)
		if err := keep(tx, n); err != nil {
			return err
		}
		return s.move(tx, n, node.OnDone)
	})
}

// settingInterfaces are the interfaces whose steps may change what the engine
// keeps of a machine's own settings.
var settingInterfaces = []string{"bios", "firmware", "management", "vendor"}

// changesSettings reports whether one of a flow's steps may have changed the
// machine's settings.
func (s *session) changesSettings(f flow) bool {
	var steps []node.Step
	s.n.DriverInternalInfo.Get(f.listKey(), &steps)
	return slices.ContainsFunc(steps, func(step node.Step) bool { return slices.Contains(settingInterfaces, step.Interface) })
}

// abandonDeploy switches the machine off, unless somebody wants to look at it.
func abandonDeploy(ctx context.Context, s *session) error {
	if s.cfg.Limits.KeepPowerOn {
		return nil
	}
	return switchOff(ctx, s)
}

// runUndeploy takes the instance down and cleans the machine. The node forgets
// the instance in the commit that begins cleaning.
func runUndeploy(ctx context.Context, s *session) error {
	err := s.perform(ctx, nil, func(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
		deploy, err := driver.Ability[driver.Deploy](s.drivers, n, node.DeployInterface, "deployment")
		if err != nil {
			return driver.Outcome{}, err
		}
		return deploy.TearDown(ctx, n, turn)
	})
	if err == nil {
		err = switchOff(ctx, s)
	}
	if err != nil {
		return err
	}
	s.progress, s.next = progress{}, 0
	cleaning := *s.j.Work
	cleaning.Kind, cleaning.Intent = workClean, nil
	s.j.Work = &cleaning
	err = s.commit(ctx, func(tx *store.Tx, n *node.Node) error {
		if err := endInstance(tx, n); err != nil {
			return err
		}
		return s.move(tx, n, node.OnClean)
	})
	if err != nil {
		return err
	}
	return s.runScript(ctx, s.j, s.scripts[workClean])
}

// instanceKeys are the keys of driver_internal_info that belong to an instance.
var instanceKeys = []string{"deploy_boot_mode", "root_uuid_or_disk_id", "is_whole_disk_image", "instance", "vendor_instance"}

// endInstance removes everything from the node that belonged to its instance.
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
	endSteps(n)
	return nil
}

// runAdopt takes over a machine that runs its instance already. Nothing about it
// is changed.
func runAdopt(ctx context.Context, s *session) error {
	if err := s.checkInterfaces(s.n, adoptInterfaces); err != nil {
		return err
	}
	err := s.perform(ctx, nil, func(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
		deploy, err := driver.Ability[driver.Deploy](s.drivers, n, node.DeployInterface, "adoption")
		if err != nil {
			return driver.Outcome{}, err
		}
		return deploy.Adopt(ctx, n, turn)
	})
	if err != nil {
		return err
	}
	return s.finish(ctx, func(tx *store.Tx, n *node.Node) error { return s.move(tx, n, node.OnDone) })
}

// Interfaces that verbs need in order.
var (
	deployInterfaces = []node.InterfaceKind{node.BootInterface, node.DeployInterface, node.PowerInterface}
	adoptInterfaces  = []node.InterfaceKind{node.PowerInterface, node.BootInterface, node.DeployInterface}
	cleanInterfaces  = []node.InterfaceKind{node.PowerInterface, node.DeployInterface, node.NetworkInterface}
	rescueInterfaces = []node.InterfaceKind{node.PowerInterface, node.RescueInterface}
	bootInterfaces   = []node.InterfaceKind{node.BootInterface}
	lookInterfaces   = []node.InterfaceKind{node.PowerInterface, node.InspectInterface}
)

// checkInterfaces returns a *node.ValidationError when one of the interfaces
// could not work. An interface that the node chose not to have counts when it is
// needed for more than power and network.
func (c *Conductor) checkInterfaces(n *node.Node, kinds []node.InterfaceKind) error {
	for _, kind := range kinds {
		switch validation := c.drivers.Validate(n, kind); {
		case validation.Result == nil:
			return node.Invalid("Node %s cannot do this without its %s interface. %s", n.UUID, kind, validation.Reason)
		case !*validation.Result:
			return &node.ValidationError{Reason: validation.Reason}
		}
	}
	return nil
}

// templateSteps returns the steps of the deploy templates whose trait the
// instance asks for.
func (s *session) templateSteps(ctx context.Context) ([]node.Step, error) {
	var traits []string
	if !s.n.InstanceInfo.Get("traits", &traits) || len(traits) == 0 {
		return nil, nil
	}
	slices.Sort(traits)
	var steps []node.Step
	err := s.store.Read(ctx, func(tx *store.Tx) error {
		steps = nil
		for _, trait := range slices.Compact(traits) {
			template, err := store.DeployTemplates.Get(tx, trait)
			switch {
			case isNotFound(err) || err == nil && template.Name != trait: // a trait without a template
				continue
			case err != nil:
				return err
			}
			more, err := stepsOf(template.Steps)
			if err != nil {
				return fmt.Errorf("deploy template %s: %w", trait, err)
			}
			steps = append(steps, more...)
		}
		return nil
	})
	return steps, err
}

// stepsOf reads the steps of a template or runbook.
func stepsOf(stored node.Array) ([]node.Step, error) {
	var steps []node.Step
	if err := json.Unmarshal([]byte(stored.String()), &steps); err != nil {
		return nil, node.Invalid("Its steps cannot be read: %v.", err)
	}
	return steps, nil
}
