package v1alpha1

// HardwareDetails is the result of a machine's inspection. The operator
// writes all of it from the engine's inventory; missing facts stay empty.
type HardwareDetails struct {
	// systemVendor describes the manufacturer and the model.
	// +optional
	SystemVendor HardwareSystemVendor `json:"systemVendor,omitzero"`
	// firmware describes the machine's firmware.
	// +optional
	Firmware Firmware `json:"firmware,omitzero"`
	// ramMebibytes is the size of the memory in MiB.
	// +optional
	RAMMebibytes int `json:"ramMebibytes,omitempty"`
	// nics has one entry per address of each NIC: a NIC with an IPv4 and an
	// IPv6 address appears twice with the same mac, one without address once.
	// +optional
	// +listType=atomic
	NICs []NIC `json:"nics,omitempty"`
	// storage are the disks.
	// +optional
	// +listType=atomic
	Storage []Storage `json:"storage,omitempty"`
	// cpu describes the processors.
	// +optional
	CPU CPU `json:"cpu,omitzero"`
	// hostname is the host name of the ramdisk.
	// +optional
	Hostname string `json:"hostname,omitempty"`
	// accelerators are devices that compute for the processors, such as GPUs.
	// +optional
	// +listType=atomic
	Accelerators []Accelerator `json:"accelerators,omitempty"`
	// bmcAddresses are the IP addresses of the machine's BMC, as its ramdisk told them. A host
	// that is registered with one of them is the same machine, unless its BMC tells
	// otherwise.
	// +optional
	// +listType=atomic
	BMCAddresses []string `json:"bmcAddresses,omitempty"`
}

// Accelerator is a PCI device that computes for the processors.
type Accelerator struct {
	// type is the kind of device, for instance GPU.
	// +optional
	Type string `json:"type,omitempty"`
	// vendorID is the PCI vendor in hexadecimal, for instance 10de.
	// +optional
	VendorID string `json:"vendorID,omitempty"`
	// deviceID is the PCI device in hexadecimal.
	// +optional
	DeviceID string `json:"deviceID,omitempty"`
	// deviceInfo describes the device for people.
	// +optional
	DeviceInfo string `json:"deviceInfo,omitempty"`
	// pciAddress is the place on the PCI bus, for instance 0000:3b:00.0.
	// +optional
	PCIAddress string `json:"pciAddress,omitempty"`
}

// HardwareSystemVendor describes the manufacturer and the model of a machine.
type HardwareSystemVendor struct {
	// manufacturer is the maker's name.
	// +optional
	Manufacturer string `json:"manufacturer,omitempty"`
	// productName is the model.
	// +optional
	ProductName string `json:"productName,omitempty"`
	// serialNumber is the serial number of the chassis.
	// +optional
	SerialNumber string `json:"serialNumber,omitempty"`
}

// Firmware describes a machine's firmware.
type Firmware struct {
	// bios describes the BIOS or UEFI firmware.
	// +optional
	BIOS BIOS `json:"bios,omitzero"`
}

// BIOS describes a BIOS or UEFI firmware.
type BIOS struct {
	// date is the build date as the firmware states it.
	// +optional
	Date string `json:"date,omitempty"`
	// vendor is the firmware's maker.
	// +optional
	Vendor string `json:"vendor,omitempty"`
	// version is the firmware's version.
	// +optional
	Version string `json:"version,omitempty"`
}

// CPU describes the processors of a machine.
type CPU struct {
	// arch is the architecture, for instance x86_64.
	// +optional
	Arch string `json:"arch,omitempty"`
	// model is the maker's name of the processor.
	// +optional
	Model string `json:"model,omitempty"`
	// clockMegahertz is the clock in MHz, a number with a fraction.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=number
	// +kubebuilder:validation:Format=double
	ClockMegahertz ClockSpeed `json:"clockMegahertz,omitempty"`
	// flags are the feature flags, sorted.
	// +optional
	// +listType=atomic
	Flags []string `json:"flags,omitempty"`
	// count is the number of logical processors.
	// +optional
	Count int `json:"count,omitempty"`
}

// ClockSpeed is a frequency in MHz. Schemas avoid floating point; this one is
// wire format of long standing.
type ClockSpeed float64

// NIC is a network interface with at most one address.
type NIC struct {
	// name is the operating system's name, for instance eno1.
	// +optional
	Name string `json:"name,omitempty"`
	// model is the PCI vendor and product in hexadecimal, "0x8086 0x1533".
	// +optional
	Model string `json:"model,omitempty"`
	// mac is the MAC address in lower case.
	// +optional
	// +kubebuilder:validation:Pattern=`[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}`
	MAC string `json:"mac,omitempty"`
	// pciAddress is the place on the PCI bus, for instance 0000:17:00.0.
	// +optional
	PCIAddress string `json:"pciAddress,omitempty"`
	// ip is one address of the NIC, IPv4 or IPv6.
	// +optional
	IP string `json:"ip,omitempty"`
	// speedGbps is the speed of the link in Gbit/s, 0 when unknown or slower.
	// +optional
	SpeedGbps int `json:"speedGbps,omitempty"`
	// vlans are the VLANs that the switch announces on the port.
	// +optional
	// +listType=atomic
	VLANs []VLAN `json:"vlans,omitempty"`
	// vlanId is the untagged VLAN of the port.
	// +optional
	VLANID VLANID `json:"vlanId,omitempty"`
	// pxe is true for the NIC that the ramdisk booted from.
	// +optional
	PXE bool `json:"pxe,omitempty"`
	// lldp is the LLDP data of the switch.
	// +optional
	LLDP *LLDP `json:"lldp,omitempty"`
}

// LLDP is what a switch announces over the Link Layer Discovery Protocol
// (IEEE 802.1AB).
type LLDP struct {
	// switchID is the chassis identifier.
	// +optional
	SwitchID string `json:"switchID,omitempty"`
	// portID is the port identifier.
	// +optional
	PortID string `json:"portID,omitempty"`
	// switchSystemName is the name of the switch.
	// +optional
	SwitchSystemName string `json:"switchSystemName,omitempty"`
}

// VLANID is the number of an IEEE 802.1Q VLAN.
// +kubebuilder:validation:Type=integer
// +kubebuilder:validation:Minimum=0
// +kubebuilder:validation:Maximum=4094
type VLANID int32

// VLAN is a VLAN that a switch announces.
type VLAN struct {
	// id is the VLAN's number.
	// +optional
	ID VLANID `json:"id,omitempty"`
	// name is the VLAN's name.
	// +optional
	Name string `json:"name,omitempty"`
}

// DiskType is the technology of a disk.
// +kubebuilder:validation:Enum=HDD;SSD;NVME
type DiskType string

// Disk technologies.
const (
	// DiskHDD is a spinning disk.
	DiskHDD DiskType = "HDD"
	// DiskSSD is a solid state disk behind SATA or SAS.
	DiskSSD DiskType = "SSD"
	// DiskNVMe is a solid state disk on PCI Express.
	DiskNVMe DiskType = "NVME"
)

// Storage is a disk.
type Storage struct {
	// name is a device path, the most stable one that is known.
	// +optional
	Name string `json:"name,omitempty"`
	// alternateNames are all known device paths.
	// +optional
	// +listType=atomic
	AlternateNames []string `json:"alternateNames,omitempty"`
	// rotational is true for spinning disks. Use type instead. Deprecated.
	// +optional
	Rotational bool `json:"rotational,omitempty"`
	// type is the technology.
	// +optional
	Type DiskType `json:"type,omitempty"`
	// sizeBytes is the size in bytes.
	// +optional
	SizeBytes Capacity `json:"sizeBytes,omitempty"`
	// vendor is the maker's name.
	// +optional
	Vendor string `json:"vendor,omitempty"`
	// model is the maker's model.
	// +optional
	Model string `json:"model,omitempty"`
	// serialNumber is the maker's serial number.
	// +optional
	SerialNumber string `json:"serialNumber,omitempty"`
	// wwn is the World Wide Name.
	// +optional
	WWN string `json:"wwn,omitempty"`
	// wwnVendorExtension is the vendor's extension of the World Wide Name.
	// +optional
	WWNVendorExtension string `json:"wwnVendorExtension,omitempty"`
	// wwnWithExtension is the World Wide Name with the vendor's extension.
	// +optional
	WWNWithExtension string `json:"wwnWithExtension,omitempty"`
	// hctl is the SCSI address.
	// +optional
	HCTL string `json:"hctl,omitempty"`
}

// Capacity is a disk size in bytes.
type Capacity int64
