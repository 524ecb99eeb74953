package provisioner

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
)

func names(steps []node.Step) []string {
	var all []string
	for _, s := range steps {
		all = append(all, s.Name())
	}
	return all
}

func TestRAIDStepsDistinguishNullFromEmptyLists(t *testing.T) {
	hardware := []v1alpha1.HardwareRAIDVolume{{Level: "1"}}
	software := []v1alpha1.SoftwareRAIDVolume{{Level: "1"}}
	for name, tt := range map[string]struct {
		raid *v1alpha1.RAIDConfig
		want []string
	}{
		"nothing":         {nil, nil},
		"both null":       {&v1alpha1.RAIDConfig{}, nil},
		"delete hardware": {&v1alpha1.RAIDConfig{HardwareRAIDVolumes: hardware[:0]}, []string{"raid.delete_configuration"}},
		"hardware":        {&v1alpha1.RAIDConfig{HardwareRAIDVolumes: hardware}, []string{"raid.delete_configuration", "raid.create_configuration"}},
		"delete software": {&v1alpha1.RAIDConfig{SoftwareRAIDVolumes: software[:0]}, []string{"raid.delete_configuration", "deploy.erase_devices_metadata"}},
		"software":        {&v1alpha1.RAIDConfig{SoftwareRAIDVolumes: software}, []string{"raid.delete_configuration", "deploy.erase_devices_metadata", "raid.create_configuration"}},
	} {
		if diff := cmp.Diff(tt.want, names(RAIDSteps(tt.raid))); diff != "" {
			t.Errorf("%s: steps differ (-want +got):\n%s", name, diff)
		}
	}
}

func TestSettingStepsHaveOnlyWhatDiffersInTheTypeOfTheSchema(t *testing.T) {
	current := []Setting{
		{Name: "Boot", Value: "5", Schema: v1alpha1.SettingSchema{AttributeType: v1alpha1.AttributeInteger}},
		{Name: "Link", Value: "True", Schema: v1alpha1.SettingSchema{AttributeType: v1alpha1.AttributeBoolean}},
		{Name: "Net", Value: "true", Schema: v1alpha1.SettingSchema{AttributeType: v1alpha1.AttributeBoolean}},
		{Name: "Same", Value: "x"},
		{Name: "Virt", Value: "Enabled"},
	}
	got := SettingSteps(current, map[string]string{"Virt": "Disabled", "Boot": "7", "Link": "true", "Net": "false", "Same": "x", "New": "1"})
	want := []node.Step{{Interface: "bios", Step: "apply_configuration", Args: map[string]any{"settings": []map[string]any{
		{"name": "Boot", "value": 7},
		{"name": "Net", "value": false},
		{"name": "New", "value": "1"},
		{"name": "Virt", "value": "Disabled"},
	}}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("steps differ (-want +got):\n%s", diff)
	}
	if got := SettingSteps(current, map[string]string{"Same": "x"}); got != nil {
		t.Errorf("steps for no change: %v", got)
	}
}

func TestFirmwareIsWrittenInTheOrderOfTheList(t *testing.T) {
	got := FirmwareSteps([]FirmwareUpdate{{"bmc", "http://h/b"}, {"bios", "http://h/a"}})
	want := []node.Step{{Interface: "firmware", Step: "update", Args: map[string]any{"settings": []map[string]any{
		{"component": "bmc", "url": "http://h/b"},
		{"component": "bios", "url": "http://h/a"},
	}}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("steps differ (-want +got):\n%s", diff)
	}
	if got := FirmwareSteps(nil); got != nil {
		t.Errorf("steps for no update: %v", got)
	}
}

func TestVerbCountsAsAcceptedWhenTheNodeShowsIt(t *testing.T) {
	for _, tt := range []struct {
		verb node.Trigger
		n    Node
		want bool
	}{
		{node.OnManage, Node{State: node.Verifying}, true},
		{node.OnManage, Node{State: node.Active}, false},
		{node.OnProvide, Node{State: node.CleanWait, TargetState: node.Available}, true},
		{node.OnProvide, Node{State: node.CleanWait, TargetState: node.Manageable}, false},
		{node.OnClean, Node{State: node.CleanWait, TargetState: node.Available}, false},
		{node.OnClean, Node{State: node.Cleaning, TargetState: node.Manageable}, true},
		{node.OnDelete, Node{State: node.Cleaning, TargetState: node.Available}, true},
		{node.OnDelete, Node{State: node.ErrorState}, false},
		{node.OnService, Node{State: node.Active}, false},
	} {
		if got := tt.n.Accepted(tt.verb); got != tt.want {
			t.Errorf("%s in state %q for %q: %v, want %v", tt.verb, tt.n.State, tt.n.TargetState, got, tt.want)
		}
	}
}
