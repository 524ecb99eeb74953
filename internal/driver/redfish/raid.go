package redfish

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// raidInterface is the RAID interface of the driver.
type raidInterface struct{ Driver }

var (
	_ driver.RAID    = raidInterface{}
	_ driver.Stepper = raidInterface{}
)

// Names of the RAID steps, as the Bare Metal API has them. apply_configuration takes the
// configuration as its argument raid_config.
const (
	createConfiguration = "create_configuration"
	deleteConfiguration = "delete_configuration"
)

// raidArgument is an argument of the steps that make volumes, true or false.
type raidArgument struct {
	name  string
	value bool // the default
}

// raidChoice has the arguments that say what a step makes, and whether it deletes what is there
// first.
type raidChoice struct{ root, others, deletes raidArgument }

// raidChoices are the arguments of each step that makes volumes, with the defaults that the
// Redfish driver of Ironic gives them.
var raidChoices = map[string]raidChoice{
	createConfiguration: {
		root: raidArgument{"create_root_volume", true}, others: raidArgument{"create_nonroot_volumes", true}, deletes: raidArgument{"delete_existing", false},
	},
	applyConfiguration: {
		root: raidArgument{"create_root_volume", true}, others: raidArgument{"create_nonroot_volumes", false}, deletes: raidArgument{"delete_existing", false},
	},
}

// raidSteps are the steps of each kind of work. None runs by itself. A machine in use has
// its instance on the volumes, so that servicing has none.
var raidSteps = map[driver.StepKind][]node.Step{
	driver.CleanSteps:  {{Step: deleteConfiguration}, {Step: createConfiguration}},
	driver.DeploySteps: {{Step: applyConfiguration}, {Step: deleteConfiguration}, {Step: createConfiguration}},
}

// Steps lists the RAID steps, which need no ramdisk.
func (raidInterface) Steps(_ *node.Node, kind driver.StepKind) []node.Step { return raidSteps[kind] }

// RAIDConfig reads the volumes of all controllers.
func (i raidInterface) RAIDConfig(ctx context.Context, n *node.Node) (node.Object, error) {
	var config node.Object
	err := i.with(ctx, n, "read RAID volumes", driver.Turn{}, func(c *call) error {
		s := &survey{call: c}
		system, err := s.shownSystem()
		if err != nil {
			return err
		}
		units, err := s.storage(system.Storage.String())
		if err != nil {
			return err
		}
		if err := s.complete(units); err != nil {
			return err
		}
		if system.PowerState == schemas.OffPowerState && !showDrives(units) {
			return &node.DriverError{Op: "read RAID volumes", Retryable: true, Reason: "the machine is off, and its BMC shows no drives: switch it on"}
		}
		config = configOf(units)
		return nil
	})
	return config, err
}

// showDrives reports whether any controller shows drives. Those without power show none.
func showDrives(units []storageUnit) bool {
	return slices.ContainsFunc(units, func(u storageUnit) bool { return len(u.drives) > 0 })
}

// allStorage reads all storage controllers of the node's system.
func (s *survey) allStorage() ([]storageUnit, error) {
	system, err := s.shownSystem()
	if err != nil {
		return nil, err
	}
	return s.storage(system.Storage.String())
}

// complete returns an error unless the BMC has shown all controllers, and the volumes of
// each that has any.
func (s *survey) complete(units []storageUnit) error {
	if s.unlisted {
		return s.hidden()
	}
	for _, unit := range units {
		if unit.incomplete && unit.volumesPath != "" {
			return s.hidden()
		}
	}
	return nil
}

// hidden returns the error of a survey that needs what the BMC could not show.
func (s *survey) hidden() error {
	return &node.DriverError{Op: "read the storage", Retryable: true, Reason: node.CutText(
		"the BMC does not show all of it: " + strings.Join(s.leftOut, "; "))}
}

// raidWanted is what a RAID step is to do.
type raidWanted struct {
	deletes bool          // all volumes that are there
	makes   []logicalDisk // nil makes none
}

// raidArguments reads the arguments of a step. The error is a *node.ValidationError.
func raidArguments(n *node.Node, step node.Step) (raidWanted, error) {
	if step.Step == deleteConfiguration {
		return raidWanted{deletes: true}, nil
	}
	choice := raidChoices[step.Step]
	root, err := choice.root.of(n, step)
	if err != nil {
		return raidWanted{}, err
	}
	others, err := choice.others.of(n, step)
	if err != nil {
		return raidWanted{}, err
	}
	deletes, err := choice.deletes.of(n, step)
	if err != nil {
		return raidWanted{}, err
	}
	config := n.TargetRAIDConfig
	if step.Step == applyConfiguration {
		given, ok := step.Args["raid_config"].(map[string]any)
		if !ok {
			return raidWanted{}, node.Invalid("The step %s of node %s needs the argument raid_config, an object with logical_disks.", step.Name(), n.UUID)
		}
		config = node.ObjectOf(given)
	}
	disks, err := logicalDisksOf(n, config)
	if err != nil {
		return raidWanted{}, err
	}
	wanted := raidWanted{deletes: deletes}
	for _, d := range disks {
		if d.Root && root || !d.Root && others {
			wanted.makes = append(wanted.makes, d)
		}
	}
	if len(wanted.makes) == 0 {
		return wanted, node.Invalid("The step %s of node %s has no volume to make: look at the logical disks of its configuration, and at create_root_volume (%t) and create_nonroot_volumes (%t).",
			step.Name(), n.UUID, root, others)
	}
	return wanted, nil
}

// of reads the argument. The error is a *node.ValidationError.
func (a raidArgument) of(n *node.Node, step node.Step) (bool, error) {
	given, ok := step.Args[a.name]
	if !ok {
		return a.value, nil
	}
	value, ok := given.(bool)
	if !ok {
		return false, node.Invalid("The argument %s of the step %s of node %s is neither true nor false.", a.name, step.Name(), n.UUID)
	}
	return value, nil
}

// Bounds of a change of volumes.
const (
	// raidWithin bounds how long each change may take: a machine may restart once for each.
	raidWithin = 2 * time.Hour
	// appearWithin bounds how long a machine that is on may take to show its drives.
	appearWithin = 15 * time.Minute
	// settleFor is how long the shown drives must stay the same, because some controllers appear
	// later than others.
	settleFor = 30 * time.Second
	// startWithin bounds how long a restarted machine may take to show what its restart was to
	// change. If it does not show a request in doubt by then, the request never came.
	startWithin = 20 * time.Minute
)

// RunStep makes a turn of a RAID step: it deletes volumes, then makes volumes, one request after
// the other. Where the controller asks for a restart, the machine restarts once after the deletions
// and once after the new volumes, or once for each request that the controller makes a job of. A
// request whose outcome is unknown is looked for before it is repeated.
func (i raidInterface) RunStep(ctx context.Context, n *node.Node, kind driver.StepKind, step node.Step, turn driver.Turn) (driver.Outcome, error) {
	wanted, err := raidArguments(n, step)
	if err != nil {
		return driver.Outcome{}, err
	}
	r, err := recordOf(turn)
	if err != nil {
		return driver.Outcome{}, err
	}
	if r.RAID == nil {
		r.RAID = &raidWork{}
	}
	r.RAID.noteSent()
	return i.withRecord(ctx, n, "change the RAID volumes", turn, r, func(c *call, r record) (driver.Outcome, error) {
		w := raiding{survey: &survey{call: c}, node: n, kind: kind, wanted: wanted, turn: c.turn, record: r, listed: map[string][]volume{}}
		return w.next()
	})
}
