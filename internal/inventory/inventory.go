// Package inventory reads what a ramdisk agent found on a machine: the document posted to
// continue_inspection, its hardware inventory and the LLDP frames in it. It fetches, stores and
// logs nothing.
//
// Two rules hold throughout. The bytes that an agent sent never change: a Document keeps them
// beside the typed view. And outside text is never trusted: sizes, counts and nesting are limited,
// and an Error quotes at most 64 characters.
package inventory

import "encoding/json"

// Inventory is the typed view of the hardware inventory as ironic-python-agent defines it. A
// missing or null key leaves the zero value, which always means "not known". Unknown keys are
// ignored here, but stay in the raw document.
type Inventory struct {
	Interfaces   []Interface
	CPU          CPU
	Memory       Memory
	Disks        []Disk
	BMCAddress   string // IPv4 as sent; "0.0.0.0" when the agent found none
	BMCV6Address string // IPv6 as sent; "::/0" when the agent found none
	BMCMAC       string // as sent
	SystemVendor SystemVendor
	Boot         Boot
	Hostname     string
}

// Interface is one network interface.
type Interface struct {
	Name string

	// MACAddress is the Ethernet address in lower case with colons. It is empty when
	// HardwareAddress cannot identify an Ethernet port: an InfiniBand or EUI-64 address, all zeros,
	// or a group address. Such an interface stays in the inventory but never becomes a port or a
	// lookup key.
	MACAddress      string
	HardwareAddress string // mac_address as sent

	IPv4Address string
	IPv6Address string // may carry a scope, "fe80::1%eth0"
	HasCarrier  bool
	Vendor      string // PCI vendor, "0x8086"
	Product     string // PCI device, "0x1533"
	ClientID    string // DHCP client identifier of InfiniBand ports
	BIOSDevName string
	SpeedMbps   int64
	PCIAddress  string
	Driver      string

	// LLDP is the list of received TLVs as sent, for ParseLLDP; nil when the agent sent none.
	LLDP json.RawMessage
	// Raw is the interface's whole object as sent.
	Raw json.RawMessage
}

// CPU describes all processors together.
type CPU struct {
	ModelName    string
	Frequency    string // MHz, a decimal number in text
	Count        int64  // logical processors
	Architecture string // "x86_64", "aarch64"
	Flags        []string
	SocketCount  int64
}

// Memory is the installed and the usable memory.
type Memory struct {
	Total      int64 // bytes that the ramdisk's kernel can use
	PhysicalMB int64 // installed MiB
}

// Disk is one block device.
type Disk struct {
	Name               string // "/dev/sda"
	Model              string
	Size               int64 // bytes
	Rotational         bool
	WWN                string
	Serial             string
	Vendor             string
	WWNWithExtension   string
	WWNVendorExtension string
	HCTL               string // SCSI "host:channel:target:lun"
	ByPath             string // "/dev/disk/by-path/…"
	LogicalSectors     int64  // bytes per logical sector
	PhysicalSectors    int64  // bytes per physical sector
	Transport          string // "sata", "nvme", …

	// Raw is the disk's whole object as sent.
	Raw json.RawMessage
}

// SystemVendor is what the firmware says about the machine.
type SystemVendor struct {
	ProductName  string
	SerialNumber string
	Manufacturer string
	UUID         string // SMBIOS UUID as sent; few agents report it
	Firmware     Firmware
}

// Firmware is the machine's BIOS or UEFI.
type Firmware struct {
	Vendor    string
	Version   string
	BuildDate string
}

// Boot says how the ramdisk was started.
type Boot struct {
	CurrentBootMode string // "uefi" or "bios"
	PXEInterface    string // as sent: "aa:bb:…", or after the hardware type, "01-aa-bb-…"
}
