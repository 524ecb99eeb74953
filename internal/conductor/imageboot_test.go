package conductor

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// live has the node's machine boot an image over the network at each start.
func bootsAtEachStart(n *node.Node) {
	n.Interfaces[node.DeployInterface], n.Interfaces[node.BootInterface] = "ramdisk", "ipxe"
	n.InstanceInfo = node.ObjectOf(map[string]any{"boot_iso": "http://images/live.iso"})
}

// planned returns the operations of a deployment whose steps are planned.
func planned(t *testing.T, c *Conductor, n *node.Node, steps ...node.Step) []string {
	t.Helper()
	n.DriverInternalInfo = n.DriverInternalInfo.With(map[string]any{deployFlow.listKey(): steps})
	operations, err := c.deployOperations(runner.Task{Work: &store.Work{ID: 7, Kind: workDeploy}, Node: n})
	if err != nil {
		t.Fatal(err)
	}
	return unskipped(operations)
}

func TestImageIsBootedWithoutARamdisk(t *testing.T) {
	c, _, n := withRamdisk(t, bootsAtEachStart)
	core := c.drivers.Steps(n, driver.DeploySteps)
	var deploy []node.Step
	for _, step := range core {
		if step.Interface == node.DeployInterface.String() {
			deploy = append(deploy, step)
		}
	}
	want := []string{planName, stepName, powerOffName, bootInstanceName, powerOnName, powerOnName}
	if diff := cmp.Diff(want, planned(t, c, n, deploy...)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	n.InstanceInfo = n.InstanceInfo.With(map[string]any{configDriveKey: "http://192.0.2.1/drive"})
	if got := planned(t, c, n, deploy...); got[2] != "tell of config drive" {
		t.Errorf("with a config drive: %q, want a word about it", got)
	}
}

// TestMachineWithoutABMCIsRestartedIntoItsImage by the agent that runs on it, or by hand.
func TestMachineWithoutABMCIsRestartedIntoItsImage(t *testing.T) {
	manual := func(n *node.Node) {
		n.Driver, n.DriverInfo, n.Interfaces[node.PowerInterface], n.Interfaces[node.ManagementInterface] = "manual-management", nil, "agent", "noop"
	}
	c, _, n := withRamdisk(t, bootsAtEachStart, manual)
	if diff := cmp.Diff([]string{bootInstanceName, startByHandName}, unskipped(c.startImage(n))); diff != "" {
		t.Errorf("without an agent (-want +got):\n%s", diff)
	}
	n.DriverInternalInfo = node.ObjectOf(map[string]any{"agent_url": "https://192.0.2.7:9999"})
	if diff := cmp.Diff([]string{bootInstanceName, restartByAgentName}, unskipped(c.startImage(n))); diff != "" {
		t.Errorf("with one (-want +got):\n%s", diff)
	}
	steps := c.restartByAgent(n)
	out, err := steps.Change(t.Context(), n, driver.Turn{Attempt: driver.Continued, Phase: "to send", Handle: "c0"})
	if err != nil || !out.Done() { // busyAgents begin commands; only a restart is done then
		t.Errorf("the restart: %+v, %v, want it done when the agent has begun it", out, err)
	}
}

func TestStepsThatNeedARamdiskAreRefusedForAnImage(t *testing.T) {
	c, _, n := withRamdisk(t, bootsAtEachStart)
	offered := append(c.drivers.Steps(n, driver.DeploySteps), node.Step{Interface: "raid", Step: "apply_configuration", RequiresRamdisk: true, Priority: 50})
	ask := node.Step{Interface: "raid", Step: "apply_configuration", Priority: 10}
	if _, err := imageBootSteps(n, offered, nil, []node.Step{ask}); err == nil || !strings.Contains(err.Error(), "raid.apply_configuration") {
		t.Errorf("asked for: %v, want a refusal", err)
	}
	offered = append(offered, node.Step{Interface: "bios", Step: "factory_reset"})
	steps, err := imageBootSteps(n, offered, []node.Step{{Interface: "bios", Step: "factory_reset", Priority: 150}}, nil)
	if err != nil || steps[0].Name() != "bios.factory_reset" {
		t.Errorf("a step through the BMC: %+v, %v, want it first", steps, err)
	}
	for _, step := range steps {
		if step.RequiresRamdisk {
			t.Errorf("%s is planned", step.Name())
		}
	}
}

// TestImageStaysServedUntilItsInstanceEnds looks at everything that withdraws a ramdisk.
func TestImageStaysServedUntilItsInstanceEnds(t *testing.T) {
	for instance, want := range map[bool][]string{true: {"undeploy", "failed deployment", "aborted deployment"}, false: {
		"servicing that failed", "rescue that ended", "undeploy", "failed deployment", "aborted deployment",
	}} {
		c, _, n := withRamdisk(t, bootsAtEachStart, inTheRamdisk, func(n *node.Node) {
			node.RamdiskBoot{Secret: node.NewBootSecret(), ISO: "http://images/live.iso", Instance: instance}.StoreIn(n)
		})
		task := runner.Task{Work: &store.Work{ID: 7}, Node: n}
		ends := map[string]func() ([]runner.Operation, error){
			"servicing that failed": func() ([]runner.Operation, error) { return c.cleanUpServicing(task), nil },
			"rescue that ended":     func() ([]runner.Operation, error) { return c.unrescueOperations(task) },
			"undeploy":              func() ([]runner.Operation, error) { return c.undeployOperations(task) },
			"failed deployment":     func() ([]runner.Operation, error) { return c.cleanUpDeployment(task), nil },
			"aborted deployment":    func() ([]runner.Operation, error) { return c.cleanUpOperations(task) },
		}
		for name, operations := range ends {
			list, err := operations()
			if err != nil {
				t.Fatal(err)
			}
			withdraws := cmp.Equal(unskipped(list)[:1], []string{leaveRamdiskName})
			if wanted := strings.Contains(strings.Join(want, ","), name); withdraws != wanted {
				t.Errorf("instance %v, %s: %q, want it withdrawn: %v", instance, name, unskipped(list), wanted)
			}
		}
	}
}

func TestDeploymentOfAnImageNeedsABootInterfaceThatCan(t *testing.T) {
	c, _, n := withRamdisk(t, bootsAtEachStart)
	if err := c.checkDeployable(n); err == nil || !strings.Contains(err.Error(), "boot.listen") {
		t.Errorf("without a boot service: %v", err)
	}
	n.Interfaces[node.BootInterface] = "fake"
	if err := c.checkDeployable(n); err == nil || !strings.Contains(err.Error(), "booting an image") {
		t.Errorf("with another boot interface: %v", err)
	}
}
