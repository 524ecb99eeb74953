package v1alpha1

// RAIDConfig is a wanted RAID configuration. At most one of the two lists may
// have entries, and an empty one beside it counts as null. Null and an empty list
// differ otherwise, so both keys are always written.
type RAIDConfig struct {
	// hardwareRAIDVolumes are volumes of hardware controllers. Null does not
	// change the controllers, an empty list deletes every volume.
	// +optional
	// +nullable
	// +listType=atomic
	HardwareRAIDVolumes []HardwareRAIDVolume `json:"hardwareRAIDVolumes"`

	// softwareRAIDVolumes are volumes of the operating system, at most 2. Null
	// does not change the disks, an empty list deletes the volumes that the
	// machine was given for this host. The first volume is the root unless another is marked or
	// there are rootDeviceHints.
	// +optional
	// +nullable
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2
	SoftwareRAIDVolumes []SoftwareRAIDVolume `json:"softwareRAIDVolumes"`
}

// HardwareRAIDVolume is a volume of a hardware controller.
type HardwareRAIDVolume struct {
	// sizeGibibytes is the volume's size in GiB. Unset or 0 uses all space.
	// +optional
	// +kubebuilder:validation:Minimum=0
	SizeGibibytes *int `json:"sizeGibibytes,omitempty"`
	// level is the RAID level.
	// +required
	// +kubebuilder:validation:Enum="0";"1";"2";"5";"6";"1+0";"5+0";"6+0"
	Level string `json:"level"`
	// name is the volume's name, unique within the list. Unset, the controller
	// chooses.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Name string `json:"name,omitempty"`
	// rotational is true to use spinning disks only, false for solid state
	// only. Unset uses any disk.
	// +optional
	Rotational *bool `json:"rotational,omitempty"`
	// numberOfPhysicalDisks is how many disks to use, at least 1. Unset, the
	// level's minimum.
	// +optional
	// +kubebuilder:validation:Minimum=1
	NumberOfPhysicalDisks *int `json:"numberOfPhysicalDisks,omitempty"`
	// controller is the controller's identifier. It is required with
	// physicalDisks.
	// +optional
	Controller string `json:"controller,omitempty"`
	// physicalDisks are the identifiers of the disks to use. Their number must
	// be numberOfPhysicalDisks when both are set.
	// +optional
	// +listType=atomic
	PhysicalDisks []string `json:"physicalDisks,omitempty"`
}

// SoftwareRAIDVolume is a volume of the operating system.
type SoftwareRAIDVolume struct {
	// sizeGibibytes is the volume's size in GiB. Unset takes the rest of the
	// disks.
	// +optional
	// +kubebuilder:validation:Minimum=0
	SizeGibibytes *int `json:"sizeGibibytes,omitempty"`
	// level is the RAID level.
	// +required
	// +kubebuilder:validation:Enum="0";"1";"1+0"
	Level string `json:"level"`
	// rootVolume marks the volume that images are written to. At most one may
	// be marked, and its level must be 1. The default is false.
	// +optional
	// +kubebuilder:default:=false
	RootVolume bool `json:"rootVolume,omitempty"`
	// physicalDisks select the disks to use, at least 2. Unset uses all.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=2
	PhysicalDisks []RootDeviceHints `json:"physicalDisks,omitempty"`
}
