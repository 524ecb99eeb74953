package driver

import "github.com/ingot-metal/ingot/internal/node"

// hardwareType is one row of the table of hardware types.
type hardwareType struct {
	name string
	// supported lists per interface what the type can work with, the preferred
	// implementation first.
	supported [node.InterfaceCount][]string
}

var deployByAgent = []string{"direct", "ramdisk", "custom-agent"}

// hardwareTypes is every hardware type there is, as the Bare Metal API names
// them.
var hardwareTypes = []hardwareType{
	{name: "redfish", supported: [node.InterfaceCount][]string{
		node.BIOSInterface:       {"redfish", "no-bios"},
		node.BootInterface:       {"redfish-virtual-media", "ipxe", "http-ipxe", "redfish-https", "pxe"},
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
	}},
	{name: "ipmi", supported: [node.InterfaceCount][]string{
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
	}},
	{name: "fake-hardware", supported: [node.InterfaceCount][]string{
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
	}},
	{name: "manual-management", supported: [node.InterfaceCount][]string{
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
	}},
}
