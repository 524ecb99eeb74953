// Package bmc knows the addresses of BMCs as hosts write them in spec.bmc.address: the
// schemes, what each can do, and which driver of the engine with which settings serves
// them. It is pure: it sends nothing to a BMC.
package bmc

// Access is how to reach a BMC, as an address of a host says it.
type Access struct {
	// Address is the address as the host has it.
	Address string
	// Scheme is the canonical scheme without transport, such as redfish-virtualmedia.
	Scheme string
	// Driver is the engine's hardware type: ipmi, redfish or idrac.
	Driver string
	// Interfaces are the interfaces of the driver that differ from its defaults, by
	// the field of the node, such as boot_interface.
	Interfaces map[string]string
	// Settings are the keys of driver_info that locate the BMC. They have no
	// credentials.
	Settings map[string]any
	// Abilities say what the scheme can do.
	Abilities Abilities
}

// Abilities are what a scheme can do.
type Abilities struct {
	// NeedsMAC says that a host needs a boot MAC address.
	NeedsMAC bool
	// VirtualMedia says that the ramdisk boots from a virtual drive, so that no
	// provisioning network is needed.
	VirtualMedia bool
	// HardwareRAID, BIOS and Firmware say that the engine can configure them through
	// the BMC.
	HardwareRAID, BIOS, Firmware bool
	// SecureBoot says that secure boot can be switched.
	SecureBoot bool
	// FastInspection says that the BMC tells the inventory without a ramdisk.
	FastInspection bool
}

// Credentials are those of a BMC.
type Credentials struct {
	Username, Password string
}
