package hardware

import "strconv"

// Inspection is the body of POST /v1/continue_inspection as ironic-python-agent 9.11 sends it. A
// nil pointer or slice is sent as null.
type Inspection struct {
	Inventory     Inventory     `json:"inventory"`
	RootDisk      *Disk         `json:"root_disk"`
	BootInterface *string       `json:"boot_interface"`
	Configuration Configuration `json:"configuration"`
	Error         *string       `json:"error"`
	// PCIDevices are sent only by agents with the pci-devices collector.
	PCIDevices []PCIDevice `json:"pci_devices,omitempty"`
	// Facts are sent only by agents with the extra-hardware collector.
	Facts []Fact `json:"data,omitempty"`
}

// Inventory is the hardware of one machine.
type Inventory struct {
	Interfaces   []Interface  `json:"interfaces"`
	CPU          CPU          `json:"cpu"`
	Disks        []Disk       `json:"disks"`
	Memory       Memory       `json:"memory"`
	BMCAddress   string       `json:"bmc_address"`   // 0.0.0.0 if there is no BMC
	BMCV6Address string       `json:"bmc_v6address"` // ::/0 if there is none
	SystemVendor SystemVendor `json:"system_vendor"`
	Boot         Boot         `json:"boot"`
	Hostname     string       `json:"hostname"`
}

// Interface is one network interface.
type Interface struct {
	Name        string  `json:"name"`
	MACAddress  string  `json:"mac_address"`
	IPv4Address *string `json:"ipv4_address"`
	IPv6Address *string `json:"ipv6_address"` // a link-local address has a zone
	HasCarrier  bool    `json:"has_carrier"`
	LLDP        []TLV   `json:"lldp"` // null when the agent does not collect LLDP
	Vendor      string  `json:"vendor"`
	Product     string  `json:"product"`
	ClientID    *string `json:"client_id"`
	BIOSDevName *string `json:"biosdevname"`
	SpeedMbps   *int    `json:"speed_mbps"` // null if there is no carrier
}

// TLV is one LLDP element: its type and its value in hexadecimal digits.
type TLV struct {
	Type  int
	Value string
}

// MarshalJSON writes the pair form [type, "hex"] that agents use.
func (t TLV) MarshalJSON() ([]byte, error) {
	b := make([]byte, 0, len(t.Value)+8)
	b = append(b, '[')
	b = strconv.AppendInt(b, int64(t.Type), 10)
	b = append(b, ',', '"')
	b = append(b, t.Value...)
	return append(b, '"', ']'), nil
}

// CPU describes all processors of the machine.
type CPU struct {
	ModelName    string   `json:"model_name"`
	Frequency    *string  `json:"frequency"` // MHz
	Count        int      `json:"count"`     // logical processors
	Architecture string   `json:"architecture"`
	Flags        []string `json:"flags"`
	SocketCount  int      `json:"socket_count"`
}

// Disk is one block device.
type Disk struct {
	Name               string  `json:"name"`
	Model              *string `json:"model"`
	Size               int64   `json:"size"` // bytes
	Rotational         bool    `json:"rotational"`
	WWN                *string `json:"wwn"`
	Serial             *string `json:"serial"`
	Vendor             *string `json:"vendor"`
	WWNWithExtension   *string `json:"wwn_with_extension"`
	WWNVendorExtension *string `json:"wwn_vendor_extension"`
	HCTL               *string `json:"hctl"`
	ByPath             *string `json:"by_path"`
}

// Memory is the main memory.
type Memory struct {
	Total      int64 `json:"total"`       // bytes the kernel can use
	PhysicalMB int   `json:"physical_mb"` // MiB installed
}

// SystemVendor is the product as the firmware reports it.
type SystemVendor struct {
	ProductName  string   `json:"product_name"`
	SerialNumber string   `json:"serial_number"`
	Manufacturer string   `json:"manufacturer"`
	Firmware     Firmware `json:"firmware"`
}

// Firmware is the system firmware (BIOS or UEFI).
type Firmware struct {
	Vendor    string `json:"vendor"`
	Version   string `json:"version"`
	BuildDate string `json:"build_date"` // month/day/year
}

// Boot describes how the ramdisk was booted.
type Boot struct {
	CurrentBootMode string  `json:"current_boot_mode"` // "uefi" or "bios"
	PXEInterface    *string `json:"pxe_interface"`     // MAC address; null after virtual media
}

// Configuration describes how the agent collected the data.
type Configuration struct {
	Collectors []string  `json:"collectors"`
	Managers   []Manager `json:"managers"`
}

// Manager is one hardware manager of the agent.
type Manager struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// PCIDevice is one PCI function; the numbers are hexadecimal without a prefix.
type PCIDevice struct {
	VendorID   string `json:"vendor_id"`
	ProductID  string `json:"product_id"`
	Class      string `json:"class"`
	Revision   string `json:"revision"`
	Bus        string `json:"bus"`
	NUMANodeID string `json:"numa_node_id"`
}

// ref returns a pointer to a copy of v.
func ref[T any](v T) *T { return &v }
