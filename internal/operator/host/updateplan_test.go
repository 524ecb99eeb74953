package host

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// comparedAt are the conditions of an object that was compared with the machine.
func comparedAt(generation int64, changed bool) []metav1.Condition {
	status := metav1.ConditionFalse
	if changed {
		status = metav1.ConditionTrue
	}
	return []metav1.Condition{
		{Type: v1alpha1.ValidCondition, Status: metav1.ConditionTrue, ObservedGeneration: generation},
		{Type: v1alpha1.ChangeDetectedCondition, Status: status, ObservedGeneration: generation},
	}
}

func settingsObject(generation int64, changed bool, settings map[string]intstr.IntOrString) *v1alpha1.HostFirmwareSettings {
	o := &v1alpha1.HostFirmwareSettings{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "s1", Generation: generation}}
	o.Spec.Settings, o.Status.Conditions = settings, comparedAt(generation, changed)
	return o
}

func componentsObject(generation int64, begun []v1alpha1.FirmwareUpdate, updates ...v1alpha1.FirmwareUpdate) *v1alpha1.HostFirmwareComponents {
	o := &v1alpha1.HostFirmwareComponents{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "c1", Generation: generation}}
	o.Spec.Updates, o.Status.Updates, o.Status.Conditions = updates, begun, comparedAt(generation, true)
	return o
}

func TestStepsHaveOnlyWhatTheMachineLacks(t *testing.T) {
	const old, fresh = "https://images/bmc-1", "https://images/bmc-2"
	bmc := func(url string) v1alpha1.FirmwareUpdate { return v1alpha1.FirmwareUpdate{Component: "bmc", URL: url} }
	nic := v1alpha1.FirmwareUpdate{Component: "nic:1", URL: "https://images/nic"}
	bios := func(settings ...map[string]any) node.Step {
		return node.Step{Interface: "bios", Step: "apply_configuration", Args: map[string]any{"settings": settings}}
	}
	firmware := func(updates ...v1alpha1.FirmwareUpdate) node.Step {
		var settings []map[string]any
		for _, u := range updates {
			settings = append(settings, map[string]any{"component": u.Component, "url": u.URL})
		}
		return node.Step{Interface: "firmware", Step: "update", Args: map[string]any{"settings": settings}}
	}
	timeout := settingsObject(2, true, map[string]intstr.IntOrString{"BootTimeout": intstr.FromInt32(9), "NetworkStack": intstr.FromString("true")})
	has := []provisioner.Setting{
		{Name: "BootTimeout", Value: "5", Schema: v1alpha1.SettingSchema{AttributeType: v1alpha1.AttributeInteger}},
		{Name: "NetworkStack", Value: "true", Schema: v1alpha1.SettingSchema{AttributeType: v1alpha1.AttributeBoolean}},
	}
	written := func(url, version string) []v1alpha1.WrittenFirmware {
		return []v1alpha1.WrittenFirmware{{FirmwareUpdate: bmc(url), Version: version}}
	}
	shows := func(version string) []provisioner.Component {
		return []provisioner.Component{{Name: "bmc", CurrentVersion: version}}
	}
	open := v1alpha1.UpdateRecord{UID: "c1", Requested: 4}
	for _, tt := range []struct {
		name    string
		objects updateObjects
		status  v1alpha1.UpdateStatus
		read    reading
		want    []node.Step
	}{
		{name: "no objects"},
		{
			name: "one setting differs", objects: updateObjects{settings: timeout}, read: reading{settings: has},
			want: []node.Step{bios(map[string]any{"name": "BootTimeout", "value": 9})},
		},
		{
			name:    "all settings are there",
			objects: updateObjects{settings: settingsObject(2, true, map[string]intstr.IntOrString{"BootTimeout": intstr.FromInt32(5)})},
			read:    reading{settings: has},
		},
		{
			name: "settings before firmware", objects: updateObjects{settings: timeout, components: componentsObject(4, nil, bmc(fresh), nic)}, read: reading{settings: has},
			want: []node.Step{bios(map[string]any{"name": "BootTimeout", "value": 9}), firmware(bmc(fresh), nic)},
		},
		{
			name:    "another operator wrote a part of it",
			objects: updateObjects{components: componentsObject(4, []v1alpha1.FirmwareUpdate{nic}, bmc(fresh), nic)},
			want:    []node.Step{firmware(bmc(fresh))},
		},
		{
			name:    "the attempt before failed after it had begun",
			objects: updateObjects{components: componentsObject(4, []v1alpha1.FirmwareUpdate{bmc(fresh), nic}, bmc(fresh), nic)},
			status:  v1alpha1.UpdateStatus{Components: open},
			want:    []node.Step{firmware(bmc(fresh), nic)},
		},
		{
			name:    "reverted to what was written, and still there",
			objects: updateObjects{components: componentsObject(4, nil, bmc(old))},
			status:  v1alpha1.UpdateStatus{Written: written(old, "1.0")}, read: reading{components: shows("1.0")},
		},
		{
			name:    "reverted to what was written, and replaced since",
			objects: updateObjects{components: componentsObject(4, nil, bmc(old))},
			status:  v1alpha1.UpdateStatus{Written: written(old, "1.0")}, read: reading{components: shows("2.0")},
			want: []node.Step{firmware(bmc(old))},
		},
		{
			name:    "written with a version that nobody could read",
			objects: updateObjects{components: componentsObject(4, nil, bmc(old))},
			status:  v1alpha1.UpdateStatus{Written: written(old, "")}, read: reading{components: shows("2.0")},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := testHost(func(h *v1alpha1.BareMetalHost) { h.Status.Updates = tt.status })
			got := updateSteps(changesOf(tt.objects, h), tt.status.Written, tt.read)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRecordOfAppliedSettingsIsKeptForAMove has a host come from another cluster, where its machine
// was given what HostFirmwareSettings asks for, or changes what is asked for before it leaves.
func TestRecordOfAppliedSettingsIsKeptForAMove(t *testing.T) {
	wanted := map[string]intstr.IntOrString{"BootTimeout": intstr.FromInt32(9)}
	digest := fingerprint(settingsObject(1, true, wanted).Spec.Settings)
	for name, tt := range map[string]struct {
		object       *v1alpha1.HostFirmwareSettings
		before, want v1alpha1.UpdateRecord
	}{
		"arrived": {
			settingsObject(7, true, wanted),
			v1alpha1.UpdateRecord{AppliedDigest: digest},
			v1alpha1.UpdateRecord{UID: "s1", Applied: 7, AppliedDigest: digest},
		},
		"arrived, and other settings are wanted": {
			settingsObject(7, true, wanted),
			v1alpha1.UpdateRecord{AppliedDigest: "other"},
			v1alpha1.UpdateRecord{},
		},
		"applied": {
			settingsObject(7, true, wanted),
			v1alpha1.UpdateRecord{UID: "s1", Applied: 7, AppliedDigest: digest},
			v1alpha1.UpdateRecord{UID: "s1", Applied: 7, AppliedDigest: digest},
		},
		"the same settings are wanted once more": {
			settingsObject(9, true, wanted),
			v1alpha1.UpdateRecord{UID: "s1", Applied: 7, AppliedDigest: digest},
			v1alpha1.UpdateRecord{UID: "s1", Applied: 7},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := testHost(func(h *v1alpha1.BareMetalHost) { h.Status.Updates.Settings = tt.before })
			changesOf(updateObjects{settings: tt.object}, h).settings.keepRecord(&h.Status.Updates.Settings)
			if diff := cmp.Diff(tt.want, h.Status.Updates.Settings); diff != "" {
				t.Errorf("record (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSettingsOfWhichTheMachineMayHaveAPartDoNotCountAsApplied(t *testing.T) {
	s := passOver(v1alpha1.StateProvisioned, func(s *scope) {
		s.host.Status.Updates.Settings = v1alpha1.UpdateRecord{UID: "s1", Applied: 1, AppliedDigest: "first", Requested: 2, RequestedDigest: "second"}
		s.host.Status.Updates.Components = v1alpha1.UpdateRecord{UID: "c1", Applied: 1, AppliedDigest: "first"}
	})
	if err := (updater{}).withdrawn(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	want := []v1alpha1.UpdateRecord{{UID: "s1", Applied: 1}, {UID: "c1", Applied: 1, AppliedDigest: "first"}}
	got := []v1alpha1.UpdateRecord{s.host.Status.Updates.Settings, s.host.Status.Updates.Components}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records after the request was withdrawn (-want +got):\n%s", diff)
	}
}
