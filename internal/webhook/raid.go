package webhook

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/bmc"
)

// rootLevel is the RAID level from which machines can boot without a RAID controller.
const rootLevel = "1"

func checkRAID(h *v1alpha1.BareMetalHost, access *bmc.Access, f *Findings) {
	raid := h.Spec.RAID
	if raid == nil {
		return
	}
	path := spec.Child("raid")
	hardware, software := path.Child("hardwareRAIDVolumes"), path.Child("softwareRAIDVolumes")
	if len(raid.HardwareRAIDVolumes) > 0 && len(raid.SoftwareRAIDVolumes) > 0 {
		f.forbid(software, "a host has either hardware or software RAID volumes; remove one of the lists")
	}
	if len(raid.HardwareRAIDVolumes) > 0 && access != nil && !access.Abilities.HardwareRAID {
		f.forbid(hardware, "a BMC of the scheme %s cannot configure RAID controllers; use softwareRAIDVolumes, or an address of Redfish", access.Scheme)
	}
	const both = "an empty list counts as null beside a list with volumes; to delete these volumes, remove the other list"
	switch {
	case raid.HardwareRAIDVolumes != nil && len(raid.HardwareRAIDVolumes) == 0 && len(raid.SoftwareRAIDVolumes) > 0:
		f.warn(hardware, both)
	case raid.SoftwareRAIDVolumes != nil && len(raid.SoftwareRAIDVolumes) == 0 && len(raid.HardwareRAIDVolumes) > 0:
		f.warn(software, both)
	}
	checkHardwareVolumes(hardware, raid.HardwareRAIDVolumes, f)
	checkSoftwareVolumes(software, raid.SoftwareRAIDVolumes, h.Spec.RootDeviceHints, f)
}

func checkHardwareVolumes(path *field.Path, volumes []v1alpha1.HardwareRAIDVolume, f *Findings) {
	names := map[string]bool{}
	for i, v := range volumes {
		at := path.Index(i)
		if len(v.PhysicalDisks) > 0 && v.Controller == "" {
			f.require(at.Child("controller"), "disks are named within a controller; set the controller of physicalDisks")
		}
		if n := v.NumberOfPhysicalDisks; n != nil && len(v.PhysicalDisks) > 0 && *n != len(v.PhysicalDisks) {
			f.refuse(at.Child("numberOfPhysicalDisks"), *n, "is not the number of physicalDisks, which is %d; leave one of them out", len(v.PhysicalDisks))
		}
		if v.Name != "" && names[v.Name] {
			f.Errors = append(f.Errors, field.Duplicate(at.Child("name"), v.Name))
		}
		names[v.Name] = true
	}
}

func checkSoftwareVolumes(path *field.Path, volumes []v1alpha1.SoftwareRAIDVolume, hints *v1alpha1.RootDeviceHints, f *Findings) {
	root := -1
	for i, v := range volumes {
		if !v.RootVolume {
			continue
		}
		at := path.Index(i)
		if root >= 0 {
			f.forbid(at.Child("rootVolume"), "volume %d is the root volume already; mark one of them", root)
			continue
		}
		root = i
		if v.Level != rootLevel {
			f.refuse(at.Child("level"), v.Level, "the root volume must have level %s, because machines boot from it without a RAID controller", rootLevel)
		}
		if hints != nil {
			f.forbid(at.Child("rootVolume"), "the root volume is the root device, so there can be no rootDeviceHints; remove one of them")
		}
	}
	if root < 0 && hints == nil && len(volumes) > 0 && volumes[0].Level != rootLevel {
		f.warn(path.Index(0).Child("level"), "this is the root volume, as none is marked, and the engine needs level %s for that", rootLevel)
	}
}
