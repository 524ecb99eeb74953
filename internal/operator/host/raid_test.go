package host

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// volumes are configurations of one list or two; nil is null.
func volumes(hardware []v1alpha1.HardwareRAIDVolume, software []v1alpha1.SoftwareRAIDVolume) *v1alpha1.RAIDConfig {
	return &v1alpha1.RAIDConfig{HardwareRAIDVolumes: hardware, SoftwareRAIDVolumes: software}
}

var (
	hardwareVolume, noHardware = []v1alpha1.HardwareRAIDVolume{{Level: "1"}}, []v1alpha1.HardwareRAIDVolume{}
	softwareVolume, noSoftware = []v1alpha1.SoftwareRAIDVolume{{Level: "1"}}, []v1alpha1.SoftwareRAIDVolume{}
)

// TestVolumesAreMadeAgainAfterARequestForOthersHasNotGoneWell asks again for the volumes that the
// status shows, or for none, after a request for others has not succeeded.
func TestVolumesAreMadeAgainAfterARequestForOthersHasNotGoneWell(t *testing.T) {
	other := []v1alpha1.SoftwareRAIDVolume{{Level: "1"}, {Level: "0"}}
	for name, tt := range map[string]struct {
		wanted, effective, requested, want *v1alpha1.RAIDConfig
	}{
		"volumes of before":          {volumes(hardwareVolume, nil), volumes(hardwareVolume, nil), volumes(noHardware, nil), volumes(hardwareVolume, nil)},
		"software volumes of before": {volumes(nil, softwareVolume), volumes(nil, softwareVolume), volumes(nil, other), volumes(nil, softwareVolume)},
		"none, as before":            {volumes(nil, noSoftware), nil, volumes(nil, softwareVolume), volumes(nil, noSoftware)},
		"none is asked for":          {nil, volumes(hardwareVolume, nil), volumes(noHardware, nil), nil},
	} {
		h := testHost(func(h *v1alpha1.BareMetalHost) {
			h.Spec.RAID, h.Status.Provisioning.RAID, h.Status.Operation.RAID = tt.wanted, tt.effective, tt.requested
		})
		if diff := cmp.Diff(tt.want, missingRAID(h)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestVolumesOfTheOperatingSystemThatTheStatusDoesNotShowAreDeletedWhereTheHostHadSome(t *testing.T) {
	for name, tt := range map[string]struct {
		wanted, effective, requested, want *v1alpha1.RAIDConfig
	}{
		"none":                         {volumes(nil, noSoftware), nil, nil, volumes(nil, noSoftware)},
		"none, instead of hardware":    {volumes(nil, noSoftware), volumes(hardwareVolume, nil), nil, volumes(nil, noSoftware)},
		"none, after a failure":        {volumes(nil, noSoftware), nil, volumes(nil, noSoftware), volumes(nil, noSoftware)},
		"others":                       {volumes(nil, softwareVolume), nil, nil, volumes(nil, softwareVolume)},
		"nothing is asked for":         {nil, nil, nil, nil},
		"both kinds are left alone":    {volumes(nil, nil), nil, nil, nil},
		"hardware, and software stays": {volumes(hardwareVolume, nil), volumes(hardwareVolume, nil), nil, nil},
	} {
		h := testHost(func(h *v1alpha1.BareMetalHost) {
			h.Spec.RAID, h.Status.Provisioning.RAID, h.Status.Operation.RAID = tt.wanted, tt.effective, tt.requested
			h.Status.Provisioning.SoftwareRAID = true
		})
		if diff := cmp.Diff(tt.want, missingRAID(h)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestListWithVolumesDecidesAndSoftwareVolumesAreDeletedOnlyWhereTheHostHasSome(t *testing.T) {
	for name, tt := range map[string]struct {
		wanted, effective, want *v1alpha1.RAIDConfig
	}{
		"nothing is asked for":                       {nil, volumes(hardwareVolume, nil), nil},
		"both kinds are left alone":                  {volumes(nil, nil), nil, nil},
		"hardware, and an empty list":                {volumes(hardwareVolume, noSoftware), nil, volumes(hardwareVolume, nil)},
		"hardware that is there, and an empty list":  {volumes(hardwareVolume, noSoftware), volumes(hardwareVolume, nil), nil},
		"software, and an empty list":                {volumes(noHardware, softwareVolume), nil, volumes(nil, softwareVolume)},
		"software that is there, and an empty list":  {volumes(noHardware, softwareVolume), volumes(nil, softwareVolume), nil},
		"software that an earlier version has noted": {volumes(noHardware, softwareVolume), volumes(noHardware, softwareVolume), nil},
		"no software, which never was":               {volumes(nil, noSoftware), nil, nil},
		"no software, instead of hardware":           {volumes(nil, noSoftware), volumes(hardwareVolume, nil), nil},
		"no software":                                {volumes(nil, noSoftware), volumes(nil, softwareVolume), volumes(nil, noSoftware)},
		"no software, as before":                     {volumes(nil, noSoftware), volumes(nil, noSoftware), nil},
		"no hardware after software":                 {volumes(noHardware, nil), volumes(noHardware, softwareVolume), volumes(noHardware, nil)},
		"neither, and software is there":             {volumes(noHardware, noSoftware), volumes(nil, softwareVolume), volumes(nil, noSoftware)},
		"neither, and software is gone":              {volumes(noHardware, noSoftware), volumes(nil, noSoftware), volumes(noHardware, nil)},
		"neither, and both are gone":                 {volumes(noHardware, noSoftware), volumes(noHardware, nil), nil},
		"neither, and both were gone before":         {volumes(noHardware, noSoftware), volumes(noHardware, noSoftware), nil},
	} {
		h := testHost(func(h *v1alpha1.BareMetalHost) { h.Spec.RAID, h.Status.Provisioning.RAID = tt.wanted, tt.effective })
		if diff := cmp.Diff(tt.want, missingRAID(h)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestHostWhoseVolumesAreInDoubtStillKnowsThatItHadSomeOfTheOperatingSystem(t *testing.T) {
	s := newScope(testHost(func(h *v1alpha1.BareMetalHost) {
		h.Status.Provisioning.RAID, h.Status.ErrorType = volumes(nil, softwareVolume), v1alpha1.ErrorPreparation
	}), testNow, 0)
	s.node = &provisioner.Node{State: node.Manageable}
	doubtVolumes(s)
	if status := s.host.Status; status.Provisioning.RAID != nil || !status.Provisioning.SoftwareRAID || status.Operation.RAID == nil {
		t.Errorf("in effect %+v, requested %+v; want the volumes requested and those of the operating system remembered",
			status.Provisioning, status.Operation.RAID)
	}
}
