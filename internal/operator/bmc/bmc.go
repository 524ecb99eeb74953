// Package bmc knows the addresses of BMCs that hosts have in spec.bmc.address: the schemes, what
// each scheme can do, and which driver of the engine with which settings serves it. The package
// sends nothing to a BMC.
//
// The schemes and the values for the engine are those of Metal3's baremetal-operator, so that hosts
// mean the same to either operator.
package bmc

import (
	"maps"
	"net/url"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// Access says how to reach a BMC, according to the address of a host.
type Access struct {
	// Address is the address as the host has it.
	Address string
	// Scheme is the canonical scheme without transport, such as redfish-virtualmedia.
	Scheme string
	// Driver is the engine's hardware type: ipmi, redfish or idrac. An engine without idrac serves
	// the same BMC with what [Access.Generic] returns.
	Driver string
	// Interfaces are the interfaces of the driver that differ from its defaults, by field of the
	// node, such as boot_interface. Software RAID needs another raid_interface. The
	// inspect_interface is missing, because it depends on the host's inspection mode.
	Interfaces map[string]string
	// FastInspectInterface is the inspect_interface that reads the inventory from the BMC without a
	// ramdisk; "" if there is none.
	FastInspectInterface string
	// Settings are the keys of driver_info that locate the BMC. They contain no credentials.
	Settings map[string]any
	// Abilities say what the scheme can do.
	Abilities Abilities
	// Endpoint says which machine is behind the address, so that two hosts with the same machine
	// are found.
	Endpoint Endpoint
}

// Abilities are what a scheme can do.
type Abilities struct {
	// NeedsMAC says that a host needs a boot MAC address. With any scheme, a host needs one if its
	// inspection is disabled.
	NeedsMAC bool
	// VirtualMedia says that the ramdisk boots from a virtual drive.
	VirtualMedia bool
	// BootsISO says that the ramdisk is an ISO image that the BMC or the machine's firmware fetches
	// by URL, so that no provisioning network is needed. Otherwise the ramdisk is a kernel and an
	// initrd that the machine loads with iPXE.
	BootsISO bool
	// HardwareRAID, BIOS and Firmware say what the engine can configure through the BMC.
	HardwareRAID, BIOS, Firmware bool
	// SecureBoot says that secure boot can be switched on and off.
	SecureBoot bool
}

// Parse reads the address of a BMC: [scheme[+http|+https]://]host[:port][/path][?query]. Without a
// scheme, the address means IPMI. scheme:host without slashes is allowed, too. The error says what
// is wrong and what to write instead. It does not repeat the address, which might contain a
// password.
func Parse(details v1alpha1.BMCDetails) (Access, error) {
	u, err := parseURL(details.Address)
	if err != nil {
		return Access{}, err
	}
	s, transport, err := findScheme(u.Scheme)
	if err != nil {
		return Access{}, err
	}
	endpoint, err := endpointOf(u, s, transport)
	if err != nil {
		return Access{}, err
	}
	settings, err := s.family.settings(u, transport)
	if err != nil {
		return Access{}, err
	}
	if details.DisableCertificateVerification {
		settings[s.family.verifyKey] = false
	}
	return Access{
		Address: details.Address, Scheme: s.name, Driver: s.driver, Interfaces: maps.Clone(s.interfaces), FastInspectInterface: s.fastInspect,
		Settings: settings, Abilities: s.abilities, Endpoint: endpoint,
	}, nil
}

// Generic returns how to reach the same BMC with the driver redfish instead of the vendor's driver,
// for engines without the latter.
func (a Access) Generic() Access {
	s, ok := schemes[a.Scheme]
	if !ok || s.generic == "" {
		return a
	}
	generic := schemes[s.generic]
	a.Driver, a.Interfaces, a.FastInspectInterface = generic.driver, maps.Clone(generic.interfaces), generic.fastInspect
	return a
}

// family is a protocol of BMCs.
type family struct {
	name      string
	verifyKey string // key of driver_info that turns the verification of certificates off
	ports     map[string]uint16
	transport string // default for schemes without a transport
	// settings returns the keys of driver_info that locate the BMC.
	settings func(u *url.URL, transport string) (map[string]any, error)
}
