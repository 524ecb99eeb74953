package conductor

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

func TestMachineGetsTheBootModeThatIsAskedForBeforeItBootsTheRamdisk(t *testing.T) {
	const off, match = "power off for boot mode", "match boot mode"
	asks := func(mode string) func(*node.Node) {
		return func(n *node.Node) { n.Properties = node.ObjectOf(map[string]any{"capabilities": "boot_mode:" + mode}) }
	}
	shows := func(mode string) func(*node.Node) { return func(n *node.Node) { n.BootMode = mode } }
	for name, tc := range map[string]struct {
		changes []func(*node.Node)
		want    []string
	}{
		"nothing is asked for": {[]func(*node.Node){shows("bios")}, nil},
		"it is so":             {[]func(*node.Node){shows("uefi"), asks("uefi")}, nil},
		"another mode":         {[]func(*node.Node){shows("bios"), asks("uefi")}, []string{off, match}},
		"unknown mode":         {[]func(*node.Node){asks("bios")}, []string{match}},
		"the instance prevails": {[]func(*node.Node){shows("bios"), asks("bios"), func(n *node.Node) {
			n.InstanceInfo = node.ObjectOf(map[string]any{"capabilities": map[string]any{"boot_mode": "uefi"}})
		}}, []string{off, match}},
		"never off": {[]func(*node.Node){shows("bios"), asks("uefi"), func(n *node.Node) { n.DisablePowerOff = true }}, []string{match}},
		"engine cannot set it": {[]func(*node.Node){shows("bios"), asks("uefi"), func(n *node.Node) {
			n.Interfaces[node.ManagementInterface] = "noop"
		}}, nil},
		"ramdisk is kept": {[]func(*node.Node){shows("bios"), asks("uefi"), func(n *node.Node) {
			n.DriverInternalInfo = node.ObjectOf(map[string]any{ramdiskKeptKey: true})
		}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c, _, n := withRamdisk(t, tc.changes...)
			task := runner.Task{Work: &store.Work{ID: 7}, Node: n}
			n.Interfaces[node.RescueInterface], n.Interfaces[node.InspectInterface] = "agent", "agent"
			rescue, err := c.rescueOperations(task)
			if err != nil {
				t.Fatal(err)
			}
			inspection, err := c.inspectionOperations(task)
			if err != nil {
				t.Fatal(err)
			}
			for flow, operations := range map[string][]runner.Operation{
				"ramdisk":    c.startRamdisk(task, deployFlow, "1"),
				"image":      c.startImage(n),
				"rescue":     rescue,
				"inspection": inspection,
			} {
				names := unskipped(operations)
				changes := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name != off && name != match })
				if flow != "ramdisk" && kept(n) {
					continue // it boots no ramdisk, or another one
				}
				if diff := cmp.Diff(tc.want, changes); diff != "" && len(tc.want)+len(changes) > 0 {
					t.Errorf("%s (-want +got):\n%s", flow, diff)
				}
				boot := slices.IndexFunc(names, func(name string) bool { return name == bootRamdiskName || name == bootInstanceName })
				if last := slices.Index(names, match); last > boot {
					t.Errorf("%s: the mode is changed after what is booted was chosen: %q", flow, names)
				}
			}
		})
	}
}

func TestSecureBootIsOnForTheInstanceAlone(t *testing.T) {
	secure := func(n *node.Node) {
		n.InstanceInfo = node.ObjectOf(map[string]any{"capabilities": map[string]any{"secure_boot": "true"}})
	}
	c, _, n := withRamdisk(t, secure)
	step := node.Step{Interface: node.DeployInterface.String(), Step: node.StepTearDownAgent}
	operations, _ := c.coreOperations(runner.Task{Node: n}, deployFlow, 3, step, runner.Operation{})
	if last := operations[len(operations)-1]; last.Name != "enable secure boot" || last.Skip || operations[len(operations)-2].Name != powerOffName {
		t.Errorf("at the end of a deployment: %+v", operations)
	}
	on := true
	n.SecureBoot = &on
	removal, err := c.undeployOperations(runner.Task{Node: n})
	if names := unskipped(removal); err != nil || names[len(names)-1] != "disable secure boot" {
		t.Errorf("removal: %q, %v", names, err)
	}
	n.InstanceInfo = nil
	removal, err = c.undeployOperations(runner.Task{Node: n})
	if names := unskipped(removal); err != nil || slices.Contains(names, "disable secure boot") {
		t.Errorf("removal of an instance that did not ask for it: %q, %v", names, err)
	}
}

// TestSecureBootIsOffWhileTheRamdiskRuns looks at everything that starts the ramdisk of a machine with an
// instance, and what starts the instance again.
func TestSecureBootIsOffWhileTheRamdiskRuns(t *testing.T) {
	const off, disable, enable = "power off for secure boot", "disable secure boot", "enable secure boot"
	c, _, n := withRamdisk(t, inTheRamdisk, startedBy, func(n *node.Node) {
		n.InstanceInfo = node.ObjectOf(map[string]any{"capabilities": map[string]any{"secure_boot": "true"}})
	})
	task := runner.Task{Work: &store.Work{ID: 7, Kind: workService}, Node: n}
	script := func(operations func(runner.Task) ([]runner.Operation, error)) func() []runner.Operation {
		return func() []runner.Operation {
			list, err := operations(task)
			if err != nil {
				t.Fatal(err)
			}
			return list
		}
	}
	for name, tc := range map[string]struct {
		operations func() []runner.Operation
		want       []string // beside others
	}{
		"deployment or rebuild": {func() []runner.Operation { return c.startRamdisk(task, deployFlow, "1") }, []string{off, disable, bootRamdiskName}},
		"rescue":                {script(c.rescueOperations), []string{off, disable, bootRamdiskName}},
		"end of rescue":         {script(c.unrescueOperations), []string{enable, bootInstanceName}},
		"servicing":             {script(c.serviceOperations), []string{off, disable, bootRamdiskName, enable, bootInstanceName}},
		"servicing that failed": {func() []runner.Operation { return c.cleanUpServicing(task) }, []string{enable, bootInstanceName}},
		"servicing that failed while firmware may be written": {func() []runner.Operation {
			flashing := *n
			flashing.ServiceStep = node.ObjectOf(map[string]any{"interface": "firmware", "step": "update"})
			return c.cleanUpServicing(runner.Task{Work: task.Work, Node: &flashing})
		}, []string{enable}},
	} {
		for _, shown := range []*bool{nil, new(true), new(false)} { // what was read last, which may be old
			n.SecureBoot = shown
			got := slices.DeleteFunc(unskipped(tc.operations()), func(name string) bool {
				return !slices.Contains([]string{off, disable, enable, bootRamdiskName, bootInstanceName}, name)
			})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
}

func TestSecureBootThatCannotBeEnabledIsRefused(t *testing.T) {
	c, _, n := withRamdisk(t, func(n *node.Node) {
		n.InstanceInfo = node.ObjectOf(map[string]any{"capabilities": map[string]any{"secure_boot": "true"}})
		n.Interfaces[node.ManagementInterface] = "noop"
	})
	wantAs[*node.ValidationError](t, c.checkDeployable(n))
}
