package v1alpha1

const (
	// ClassificationLabelPrefix begins the key of the label of hosts that match a
	// HardwareClassification; the name of the classification follows.
	ClassificationLabelPrefix = "hardwareclassification.metal3.io/"
	// ClassificationLabelValue is the value of that label, unless the
	// classification has a label with the same key, whose value is used then.
	ClassificationLabelValue = "matches"
	// ClassificationFinalizer keeps a deleted HardwareClassification until its
	// label is removed from all hosts.
	ClassificationFinalizer = "hardwareclassification.metal3.io"
)

// HardwareClassificationSpec says which hosts match. Written by users.
type HardwareClassificationSpec struct {
	// hardwareCharacteristics are what a host must have. A host has to match all
	// that are set; with none set, it is an error.
	// +optional
	HardwareCharacteristics HardwareCharacteristics `json:"hardwareCharacteristics,omitzero"`
}

// HardwareCharacteristics are properties of hosts. Bounds are inclusive, and one
// that is unset or 0 does not restrict.
type HardwareCharacteristics struct {
	// cpu restricts the processors.
	// +optional
	CPU *CPUCharacteristics `json:"cpu,omitempty"`
	// disk restricts the disks.
	// +optional
	Disk *DiskCharacteristics `json:"disk,omitempty"`
	// nic restricts the network interfaces.
	// +optional
	NIC *NICCharacteristics `json:"nic,omitempty"`
	// ram restricts the memory.
	// +optional
	RAM *RAMCharacteristics `json:"ram,omitempty"`
	// systemVendor restricts the manufacturer and the model.
	// +optional
	SystemVendor *SystemVendorCharacteristics `json:"systemVendor,omitempty"`
	// firmware restricts the firmware.
	// +optional
	Firmware *FirmwareCharacteristics `json:"firmware,omitempty"`
}

// CPUCharacteristics are properties of processors.
type CPUCharacteristics struct {
	// architecture is the architecture as in the hardware details, for instance
	// x86_64.
	// +optional
	Architecture string `json:"architecture,omitempty"`
	// minimumCount is the least number of logical processors.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MinimumCount int `json:"minimumCount,omitempty"`
	// maximumCount is the largest number of logical processors.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MaximumCount int `json:"maximumCount,omitempty"`
	// minimumSpeedMHz is the lowest clock in MHz.
	// +optional
	// +kubebuilder:validation:Minimum=1000
	MinimumSpeedMHz int32 `json:"minimumSpeedMHz,omitempty"`
	// maximumSpeedMHz is the highest clock in MHz.
	// +optional
	// +kubebuilder:validation:Minimum=1000
	MaximumSpeedMHz int32 `json:"maximumSpeedMHz,omitempty"`
}

// DiskCharacteristics are properties of disks.
type DiskCharacteristics struct {
	// minimumCount is the least number of disks.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MinimumCount int `json:"minimumCount,omitempty"`
	// maximumCount is the largest number of disks.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MaximumCount int `json:"maximumCount,omitempty"`
	// minimumIndividualSizeGB is the least size of each disk in GB (10^9 bytes).
	// +optional
	// +kubebuilder:validation:Minimum=1
	MinimumIndividualSizeGB int64 `json:"minimumIndividualSizeGB,omitempty"`
	// maximumIndividualSizeGB is the largest size of each disk in GB (10^9 bytes).
	// +optional
	// +kubebuilder:validation:Minimum=1
	MaximumIndividualSizeGB int64 `json:"maximumIndividualSizeGB,omitempty"`
	// diskSelector selects the disks that are counted and measured; each entry must
	// select at least one. Unset selects all.
	// +optional
	// +listType=atomic
	DiskSelector []DiskSelector `json:"diskSelector,omitempty"`
}

// DiskSelector selects disks. A disk has to match both fields.
type DiskSelector struct {
	// hctl is the SCSI address with "N" for every part that is not 0, for instance
	// 0:0:N:0. The address 0:0:0:0 means the same as 0:0:N:0.
	// +optional
	HCTL string `json:"hctl,omitempty"`
	// rotational is true for spinning disks. The default, false, selects solid
	// state disks only.
	// +optional
	Rotational bool `json:"rotational,omitempty"`
}

// NICCharacteristics are properties of network interfaces.
type NICCharacteristics struct {
	// nicSelector says which vendors must be there.
	// +optional
	NICSelector NICSelector `json:"nicSelector,omitzero"`
	// minimumCount is the least number of NICs. One with several addresses counts
	// once.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MinimumCount int `json:"minimumCount,omitempty"`
	// maximumCount is the largest number of NICs.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MaximumCount int `json:"maximumCount,omitempty"`
}

// NICSelector says which network interfaces must be there.
type NICSelector struct {
	// vendor are PCI vendors in hexadecimal as in the model of a NIC, for instance
	// 0x8086. The host must have a NIC of each.
	// +optional
	// +listType=atomic
	Vendor []string `json:"vendor,omitempty"`
}

// RAMCharacteristics are properties of the memory.
type RAMCharacteristics struct {
	// minimumSizeGB is the least size in GB (2^30 bytes).
	// +optional
	// +kubebuilder:validation:Minimum=1
	MinimumSizeGB int `json:"minimumSizeGB,omitempty"`
	// maximumSizeGB is the largest size in GB (2^30 bytes).
	// +optional
	// +kubebuilder:validation:Minimum=1
	MaximumSizeGB int `json:"maximumSizeGB,omitempty"`
}

// SystemVendorCharacteristics are the manufacturer and the model.
type SystemVendorCharacteristics struct {
	// manufacturer must be the maker's name exactly.
	// +optional
	Manufacturer string `json:"manufacturer,omitempty"`
	// productName must occur in the model.
	// +optional
	ProductName string `json:"productName,omitempty"`
}

// FirmwareCharacteristics are properties of the firmware.
type FirmwareCharacteristics struct {
	// bios restricts the BIOS or UEFI firmware.
	// +optional
	BIOS BIOSCharacteristics `json:"bios,omitzero"`
}

// BIOSCharacteristics are properties of the BIOS or UEFI firmware.
type BIOSCharacteristics struct {
	// vendor must be the maker's name exactly.
	// +optional
	Vendor string `json:"vendor,omitempty"`
	// minorVersion is the lowest version. It has an effect together with
	// majorVersion only.
	// +optional
	MinorVersion string `json:"minorVersion,omitempty"`
	// majorVersion is the highest version. It has an effect together with
	// minorVersion only.
	// +optional
	MajorVersion string `json:"majorVersion,omitempty"`
}
