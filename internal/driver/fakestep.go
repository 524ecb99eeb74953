package driver

import (
	"context"

	"github.com/ingot-metal/ingot/internal/node"
)

// fakeStepper is an interface of fake hardware with steps.
type fakeStepper struct {
	Fake
	steps map[StepKind][]node.Step
}

var _ Stepper = fakeStepper{}

// Steps lists the steps of a kind.
func (f fakeStepper) Steps(_ *node.Node, kind StepKind) []node.Step { return f.steps[kind] }

// RunStep plays a step and stores what it would have changed on a machine.
func (f fakeStepper) RunStep(_ context.Context, n *node.Node, kind StepKind, step node.Step, turn Turn) (Outcome, error) {
	out, err := fakeTurn(n, string(kind), turn)
	if err == nil && out.Done() {
		out.Apply = fakeEffects[step.Interface+"."+step.Step].apply(step)
	}
	return out, err
}

// fakeEffect is what a step leaves behind on a fake machine.
type fakeEffect func(n *node.Node, step node.Step)

func (e fakeEffect) apply(step node.Step) func(*node.Node) {
	if e == nil {
		return nil
	}
	return func(n *node.Node) { e(n, step) }
}

var fakeEffects = map[string]fakeEffect{
	"raid.create_configuration": func(n *node.Node, _ node.Step) { n.RAIDConfig = n.TargetRAIDConfig },
	"raid.delete_configuration": func(n *node.Node, _ node.Step) { n.RAIDConfig = nil },
	"bios.factory_reset":        func(n *node.Node, _ node.Step) { fakeRemember("bios", nil).Apply(n) },
	"bios.apply_configuration": func(n *node.Node, step node.Step) {
		values := map[string]string{}
		fakeRecall(n, "bios", &values)
		settings, _ := step.Args["settings"].([]any)
		for _, one := range settings {
			if setting, ok := one.(map[string]any); ok {
				if name, ok := setting["name"].(string); ok {
					values[name] = textOf(setting["value"])
				}
			}
		}
		fakeRemember("bios", values).Apply(n)
	},
	"firmware.update": func(n *node.Node, step node.Step) {
		versions := map[string]string{}
		fakeRecall(n, "firmware", &versions)
		settings, _ := step.Args["settings"].([]any)
		for _, one := range settings {
			if setting, ok := one.(map[string]any); ok {
				if component, ok := setting["component"].(string); ok {
					versions[component] = textOf(setting["url"])
				}
			}
		}
		fakeRemember("firmware", versions).Apply(n)
	},
}

// outOfBand are steps that both cleaning and servicing offer.
func outOfBand(steps ...node.Step) map[StepKind][]node.Step {
	return map[StepKind][]node.Step{CleanSteps: steps, ServiceSteps: steps, DeploySteps: steps}
}

// fakeDeploy is the deploy interface of fake hardware.
var fakeDeploy = fakeStepper{steps: map[StepKind][]node.Step{
	CleanSteps: inRamdisk(
		node.Step{Step: "erase_devices_metadata", Priority: 99}, node.Step{Step: "erase_devices", Priority: 10},
		node.Step{Step: "erase_pstore"}, node.Step{Step: "burnin_cpu"}, node.Step{Step: "burnin_disk"},
		node.Step{Step: "burnin_memory"}, node.Step{Step: "burnin_network"},
	),
	DeploySteps:  {{Step: "deploy", Priority: 100, Abortable: true}},
	ServiceSteps: inRamdisk(node.Step{Step: "burnin_cpu"}, node.Step{Step: "burnin_memory"}),
}}

// inRamdisk are steps that a machine's ramdisk would run.
func inRamdisk(steps ...node.Step) []node.Step {
	for i := range steps {
		steps[i].RequiresRamdisk, steps[i].Abortable = true, true
	}
	return steps
}

// fakeManagement is the management interface of fake hardware.
var fakeManagement = fakeStepper{steps: outOfBand(
	node.Step{Step: "clear_job_queue"}, node.Step{Step: "set_bmc_clock", Abortable: true},
)}
