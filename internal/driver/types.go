package driver

import (
	"slices"

	"github.com/ingot-metal/ingot/internal/node"
)

// hardwareType is one row of the table of hardware types.
type hardwareType struct {
	name       string
	attributes node.HardwareAttributes
	bmc        []bmcKey // keys for the address of the BMC; the first that is set counts
	// supported lists the implementations that the type supports, by interface, the
	// preferred one first.
	supported [node.InterfaceCount][]string
}

var deployByAgent = []string{"direct", "ramdisk", "custom-agent"}

// hardwareTypes is the table of all hardware types, with the names of the Bare Metal
// API.
var hardwareTypes = []hardwareType{
	{
		name: "redfish", attributes: node.HardwareAttributes{HasBMC: true, SkipBMCDetect: true}, bmc: []bmcKey{{address: "redfish_address", port: "443", system: "redfish_system_id"}},
		supported: [node.InterfaceCount][]string{
			node.BIOSInterface:       {"redfish", "no-bios"},
			node.BootInterface:       {"redfish-virtual-media", "ipxe", "http-ipxe", "redfish-https", "http", "pxe"},
			node.ConsoleInterface:    {"no-console"},
			node.DeployInterface:     deployByAgent,
			node.FirmwareInterface:   {"redfish", "no-firmware"},
			node.InspectInterface:    {"redfish", "agent", "no-inspect"},
			node.ManagementInterface: {"redfish"},
			node.NetworkInterface:    {"noop", "flat"},
			node.PowerInterface:      {"redfish"},
			node.RAIDInterface:       {"redfish", "agent", "no-raid"},
			node.RescueInterface:     {"agent", "no-rescue"},
			node.StorageInterface:    {"noop"},
			node.VendorInterface:     {"redfish", "no-vendor"},
		},
	},
	{
		name: "ipmi", attributes: node.HardwareAttributes{HasBMC: true}, bmc: []bmcKey{{address: "ipmi_address", portKey: "ipmi_port", port: "623"}},
		supported: [node.InterfaceCount][]string{
			node.BIOSInterface:       {"no-bios"},
			node.BootInterface:       {"ipxe", "pxe"},
			node.ConsoleInterface:    {"ipmitool-socat", "no-console"},
			node.DeployInterface:     deployByAgent,
			node.FirmwareInterface:   {"no-firmware"},
			node.InspectInterface:    {"agent", "no-inspect"},
			node.ManagementInterface: {"ipmitool", "noop"},
			node.NetworkInterface:    {"noop", "flat"},
			node.PowerInterface:      {"ipmitool"},
			node.RAIDInterface:       {"agent", "no-raid"},
			node.RescueInterface:     {"agent", "no-rescue"},
			node.StorageInterface:    {"noop"},
			node.VendorInterface:     {"ipmitool", "no-vendor"},
		},
	},
	{
		name: "fake-hardware", bmc: []bmcKey{{address: "fake_bmc"}, {address: "fake_machine"}},
		supported: [node.InterfaceCount][]string{
			node.BIOSInterface:       {"fake", "no-bios"},
			node.BootInterface:       {"fake", "ipxe"},
			node.ConsoleInterface:    {"fake", "no-console"},
			node.DeployInterface:     {"fake", "direct", "custom-agent"},
			node.FirmwareInterface:   {"fake", "no-firmware"},
			node.InspectInterface:    {"fake", "agent", "no-inspect"},
			node.ManagementInterface: {"fake", "noop"},
			node.NetworkInterface:    {"noop", "flat"},
			node.PowerInterface:      {"fake"},
			node.RAIDInterface:       {"fake", "agent", "no-raid"},
			node.RescueInterface:     {"fake", "no-rescue"},
			node.StorageInterface:    {"noop", "fake"},
			node.VendorInterface:     {"fake", "no-vendor"},
		},
	},
	{
		name: "manual-management", attributes: node.HardwareAttributes{NeedsRamdiskForPower: true},
		supported: [node.InterfaceCount][]string{
			node.BIOSInterface:       {"no-bios"},
			node.BootInterface:       {"ipxe", "pxe"},
			node.ConsoleInterface:    {"no-console"},
			node.DeployInterface:     deployByAgent,
			node.FirmwareInterface:   {"no-firmware"},
			node.InspectInterface:    {"agent", "no-inspect"},
			node.ManagementInterface: {"noop"},
			node.NetworkInterface:    {"noop"},
			node.PowerInterface:      {"agent"},
			node.RAIDInterface:       {"agent", "no-raid"},
			node.RescueInterface:     {"no-rescue"}, // cutting the power is part of rescue
			node.StorageInterface:    {"noop"},
			node.VendorInterface:     {"no-vendor"},
		},
	},
}

// rowOf returns the row of a hardware type, enabled or not.
func rowOf(name string) (hardwareType, bool) {
	i := slices.IndexFunc(hardwareTypes, func(t hardwareType) bool { return t.name == name })
	if i < 0 {
		return hardwareType{}, false
	}
	return hardwareTypes[i], true
}

// Attributes returns the attributes of the node's hardware type, enabled or not. An
// unknown type counts as one with a BMC, as nearly all have one.
func (r *Registry) Attributes(n *node.Node) node.HardwareAttributes {
	row, ok := rowOf(n.Driver)
	if !ok {
		return node.HardwareAttributes{HasBMC: true}
	}
	return row.attributes
}

// HasBMC reports whether the node can be powered without its agent's help.
func (r *Registry) HasBMC(n *node.Node) bool { return r.Attributes(n).HasBMC }
