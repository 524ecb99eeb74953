package conductor

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/drivertest"
	"github.com/ingot-metal/ingot/internal/driver/fake"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// ramdiskStarts are all lists of operations that start the ramdisk of a machine.
var ramdiskStarts = map[string]func(*testing.T, *Conductor, *node.Node) []runner.Operation{
	"cleaning": func(_ *testing.T, c *Conductor, n *node.Node) []runner.Operation {
		return c.startRamdisk(runner.Task{Work: &store.Work{ID: 7, Kind: workClean}, Node: n}, cleanFlow, beforeSteps)
	},
	"between steps": func(_ *testing.T, c *Conductor, n *node.Node) []runner.Operation {
		return c.restartRamdisk(n, cleanFlow, "1 deploy.erase_devices")
	},
	"rescue": func(t *testing.T, c *Conductor, n *node.Node) []runner.Operation {
		t.Helper()
		operations, err := c.rescueOperations(runner.Task{Work: &store.Work{ID: 7, Kind: workRescue}, Node: n})
		if err != nil {
			t.Fatal(err)
		}
		return operations
	},
	"inspection": func(t *testing.T, c *Conductor, n *node.Node) []runner.Operation {
		t.Helper()
		operations, err := c.inspectionOperations(runner.Task{Work: &store.Work{ID: 7, Kind: oldInspect}, Node: n})
		if err != nil {
			t.Fatal(err)
		}
		return operations
	},
}

// inMachine makes what operations do with the power and the boot of a machine.
func inMachine(t *testing.T, n *node.Node, operations []runner.Operation) {
	t.Helper()
	for _, o := range operations {
		if o.Skip || !slices.Contains([]string{offForRamdiskName, bootRamdiskName, powerOffName, powerOnName}, o.Name) {
			continue
		}
		out := driver.Outcome{Again: driver.NextTurn}
		for turn := (driver.Turn{}); !out.Done(); turn = drivertest.After(turn, out) {
			var err error
			if out, err = o.Change(t.Context(), n, turn); err != nil {
				t.Fatalf("%s: %v", o.Name, err)
			}
			if out.Apply != nil {
				out.Apply(n)
			}
		}
	}
}

func inspectsInRamdisk(n *node.Node) {
	n.Interfaces[node.RescueInterface], n.Interfaces[node.InspectInterface] = "agent", "agent"
}

func TestMachineIsOffWhenItIsToldToBootTheRamdisk(t *testing.T) {
	for name, operations := range ramdiskStarts {
		for never, want := range map[bool][]fake.Kind{
			false: {fake.PowerOff, fake.BootRamdisk, fake.PowerOn},
			true:  {fake.BootRamdisk, fake.PowerOff, fake.PowerOn}, // a restart, which fake machines do like this
		} {
			c, m, n := withRamdisk(t, inspectsInRamdisk, func(n *node.Node) { n.DisablePowerOff = never })
			inMachine(t, n, operations(t, c, n))
			if diff := cmp.Diff(want, m.kinds()); diff != "" {
				t.Errorf("%s, never off: %v (-want +got):\n%s", name, never, diff)
			}
		}
	}
}

// TestMachineThatWasSwitchedOnSinceIsRestarted after it was told what to boot: by somebody, or because
// the release that stored the row told it so before it switched it off.
func TestMachineThatWasSwitchedOnSinceIsRestarted(t *testing.T) {
	for name, operations := range ramdiskStarts {
		c, m, n := withRamdisk(t, inspectsInRamdisk)
		list := operations(t, c, n)
		boot := slices.IndexFunc(list, func(o runner.Operation) bool { return o.Name == bootRamdiskName })
		inMachine(t, n, list[boot:])
		if diff := cmp.Diff([]fake.Kind{fake.BootRamdisk, fake.PowerOff, fake.PowerOn}, m.kinds()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
