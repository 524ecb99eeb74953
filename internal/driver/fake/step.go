package fake

import (
	"context"
	"maps"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// stepper is an interface of fake hardware with steps.
type stepper struct {
	Hardware
	steps map[driver.StepKind][]node.Step
}

var _ driver.Stepper = stepper{}

// Steps lists the steps of a kind.
func (s stepper) Steps(_ *node.Node, kind driver.StepKind) []node.Step { return s.steps[kind] }

// RunStep makes a turn of a step and stores what it changed.
func (s stepper) RunStep(ctx context.Context, n *node.Node, kind driver.StepKind, step node.Step, turn driver.Turn) (driver.Outcome, error) {
	name := step.Interface + "." + step.Step
	row := stepTable[name]
	if row.kind == "" {
		row.kind = Configure
	}
	o := order{kind: row.kind, detail: name, once: row.once}
	if row.settings != nil {
		row.settings(&o.settings, step)
	}
	out, err := s.turn(ctx, n, string(kind), o, turn)
	_, outside := s.machine(n)
	return applied(out, err, func(n *node.Node) {
		if row.leaves != nil {
			row.leaves(n)
		}
		if !outside {
			o.storeSettings(n)
		}
	})
}

// storeSettings stores what the order changes with a node that has no machine.
func (o order) storeSettings(n *node.Node) {
	if o.detail == FactoryReset {
		remember("bios", nil)(n)
	}
	merge(n, "bios", o.settings.BIOS)
	merge(n, "firmware", o.settings.Firmware)
}

// merge stores values beside those that were stored before; nil stores nothing.
func merge(n *node.Node, key string, values map[string]string) {
	if values == nil {
		return
	}
	all := map[string]string{}
	recall(n, key, &all)
	maps.Copy(all, values)
	remember(key, all)(n)
}

// stepRow describes a step.
type stepRow struct {
	kind   Kind // empty means Configure
	once   bool // whether repeating it could do harm
	leaves func(n *node.Node)
	// settings adds the settings that the step's arguments change.
	settings func(*Settings, node.Step)
}

var stepTable = map[string]stepRow{
	"deploy.erase_devices_metadata": {kind: Wipe, once: true},
	"deploy.erase_devices":          {kind: Wipe, once: true},
	"deploy.erase_pstore":           {kind: Wipe, once: true},
	"deploy.deploy":                 {kind: Write, once: true},
	"deploy.burnin_cpu":             {kind: BurnIn},
	"deploy.burnin_disk":            {kind: BurnIn},
	"deploy.burnin_memory":          {kind: BurnIn},
	"deploy.burnin_network":         {kind: BurnIn},
	"raid.create_configuration":     {once: true, leaves: func(n *node.Node) { n.RAIDConfig = n.TargetRAIDConfig }},
	"raid.delete_configuration":     {once: true, leaves: func(n *node.Node) { n.RAIDConfig = nil }},
	"bios.apply_configuration":      {settings: func(s *Settings, step node.Step) { s.BIOS = arguments(step, "name", "value") }},
	"firmware.update": {kind: Flash, once: true, settings: func(s *Settings, step node.Step) {
		s.Firmware = arguments(step, "component", "url")
	}},
}

// arguments returns values of a step's argument "settings", by name.
func arguments(step node.Step, name, value string) map[string]string {
	values := map[string]string{}
	settings, _ := step.Args["settings"].([]any)
	for _, one := range settings {
		if setting, ok := one.(map[string]any); ok {
			if named, ok := setting[name].(string); ok {
				values[named] = textOf(setting[value])
			}
		}
	}
	return values
}

// Steps of the interfaces of fake hardware.
var (
	biosSteps       = everywhere(node.Step{Step: "apply_configuration"}, node.Step{Step: "factory_reset"})
	firmwareSteps   = everywhere(node.Step{Step: "update"})
	managementSteps = everywhere(node.Step{Step: "clear_job_queue"}, node.Step{Step: "set_bmc_clock", Abortable: true})
	raidSteps       = everywhere(node.Step{Step: "create_configuration"}, node.Step{Step: "delete_configuration"})
	deploySteps     = map[driver.StepKind][]node.Step{
		driver.CleanSteps: inRamdisk(
			node.Step{Step: "erase_devices_metadata", Priority: 99}, node.Step{Step: "erase_devices", Priority: 10},
			node.Step{Step: "erase_pstore"}, node.Step{Step: "burnin_cpu"}, node.Step{Step: "burnin_disk"},
			node.Step{Step: "burnin_memory"}, node.Step{Step: "burnin_network"},
		),
		driver.DeploySteps:  {{Step: "deploy", Priority: 100, Abortable: true}},
		driver.ServiceSteps: inRamdisk(node.Step{Step: "burnin_cpu"}, node.Step{Step: "burnin_memory"}),
	}
)

// everywhere offers steps, which run outside the ramdisk, for cleaning, servicing and
// deployment.
func everywhere(steps ...node.Step) map[driver.StepKind][]node.Step {
	return map[driver.StepKind][]node.Step{driver.CleanSteps: steps, driver.ServiceSteps: steps, driver.DeploySteps: steps}
}

// inRamdisk marks steps as run by the ramdisk.
func inRamdisk(steps ...node.Step) []node.Step {
	for i := range steps {
		steps[i].RequiresRamdisk, steps[i].Abortable = true, true
	}
	return steps
}
