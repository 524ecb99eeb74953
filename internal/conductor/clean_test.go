package conductor

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// TestErasureHasThePrioritiesOfTheConfiguration has the agent offer what its generic hardware
// manager does, and a vendor's manager another step of one of the names.
func TestErasureHasThePrioritiesOfTheConfiguration(t *testing.T) {
	offered := []node.Step{
		{Interface: "deploy", Step: "erase_devices", Priority: 10, RequiresRamdisk: true},
		{Interface: "deploy", Step: "erase_devices_metadata", Priority: 99, RequiresRamdisk: true},
		{Interface: "deploy", Step: "erase_pstore", RequiresRamdisk: true},
		{Interface: "deploy", Step: "upgrade_firmware", Priority: 50, RequiresRamdisk: true},
		{Interface: "raid", Step: "erase_devices", Priority: 5, RequiresRamdisk: true},
	}
	asked := node.ObjectOf(map[string]any{manualIntent: true, stepsIntent: []node.Step{
		{Interface: "deploy", Step: "erase_devices"}, {Interface: "deploy", Step: "erase_devices_metadata"},
	}})
	for name, tc := range map[string]struct {
		priorities map[string]int
		intent     node.Object
		want       []string
	}{
		"as the agent offers them": {want: []string{"deploy.erase_devices_metadata", "deploy.upgrade_firmware", "deploy.erase_devices", "raid.erase_devices"}},
		"metadata only": {
			priorities: map[string]int{"erase_devices": 0, "erase_devices_metadata": 10},
			want:       []string{"deploy.upgrade_firmware", "deploy.erase_devices_metadata", "raid.erase_devices"},
		},
		"whole disks first": {
			priorities: map[string]int{"erase_devices": 100},
			want:       []string{"deploy.erase_devices", "deploy.erase_devices_metadata", "deploy.upgrade_firmware", "raid.erase_devices"},
		},
		"manual cleaning": {
			priorities: map[string]int{"erase_devices": 0, "erase_devices_metadata": 0}, intent: asked,
			want: []string{"deploy.erase_devices", "deploy.erase_devices_metadata"},
		},
	} {
		on := true
		c, _, n := withRamdisk(t, func(n *node.Node) {
			n.AutomatedClean, n.Interfaces[node.RAIDInterface] = &on, "agent"
			n.DriverInternalInfo = node.ObjectOf(map[string]any{"agent_cached_clean_steps": offered})
		})
		c.cfg.CleanPriorities = tc.priorities
		operations, err := c.cleanOperations(runner.Task{Work: &store.Work{ID: 7, Kind: workClean, Intent: tc.intent}, Node: n})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range operations {
			if o.Name == planName {
				if err := o.Store(nil, n); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
		}
		var got []string
		for _, step := range cleanFlow.stored(n) {
			got = append(got, step.Name())
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
