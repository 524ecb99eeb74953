package bmc

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// scheme is one row of the table of schemes.
type scheme struct {
	name        string
	family      *family
	driver      string
	interfaces  map[string]string
	fastInspect string // see [Access]
	abilities   Abilities
	generic     string // scheme to use with engines without the vendor's driver
}

// Abilities of the schemes that speak Redfish, by how the ramdisk gets into the machine.
var (
	overNetwork = Abilities{HardwareRAID: true, BIOS: true, Firmware: true, SecureBoot: true}
	overMedia   = Abilities{HardwareRAID: true, BIOS: true, Firmware: true, SecureBoot: true, BootsISO: true, VirtualMedia: true}
	overHTTP    = Abilities{HardwareRAID: true, BIOS: true, Firmware: true, SecureBoot: true, BootsISO: true}
)

// schemes is the table of all schemes that addresses can have, by name.
var schemes = map[string]scheme{
	"ipmi":    {name: "ipmi", family: ipmiFamily, driver: "ipmi", interfaces: ipmiInterfaces},
	"libvirt": {name: "libvirt", family: ipmiFamily, driver: "ipmi", interfaces: ipmiInterfaces, abilities: Abilities{NeedsMAC: true}},

	"redfish":              {name: "redfish", family: redfishFamily, driver: "redfish", interfaces: redfishInterfaces("ipxe"), fastInspect: "redfish", abilities: overNetwork},
	"redfish-virtualmedia": {name: "redfish-virtualmedia", family: redfishFamily, driver: "redfish", interfaces: redfishInterfaces("redfish-virtual-media"), fastInspect: "redfish", abilities: overMedia},
	"redfish-uefihttp":     {name: "redfish-uefihttp", family: redfishFamily, driver: "redfish", interfaces: redfishInterfaces("redfish-https"), fastInspect: "redfish", abilities: overHTTP},

	"idrac-redfish":      {name: "idrac-redfish", family: redfishFamily, driver: "idrac", interfaces: idracInterfaces("ipxe"), fastInspect: "idrac-redfish", abilities: overNetwork, generic: "redfish"},
	"idrac-virtualmedia": {name: "idrac-virtualmedia", family: redfishFamily, driver: "idrac", interfaces: idracInterfaces("idrac-redfish-virtual-media"), fastInspect: "idrac-redfish", abilities: overMedia, generic: "redfish-virtualmedia"},
}

// aliases are other names of schemes.
var aliases = map[string]string{
	"ilo5-redfish":      "redfish",
	"ilo5-virtualmedia": "redfish-virtualmedia",
}

// removedSchemes are schemes of drivers that engines no longer have, with their replacements.
var removedSchemes = map[string]string{
	"irmc":              "redfish:// or redfish-virtualmedia://",
	"ibmc":              "redfish:// or redfish-virtualmedia://",
	"ilo4":              "redfish:// or redfish-virtualmedia://",
	"ilo4-virtualmedia": "redfish-virtualmedia://",
	"ilo5":              "ilo5-redfish:// or ilo5-virtualmedia://, which are Redfish",
	"idrac":             "idrac-redfish:// or idrac-virtualmedia://, which are Redfish",
}

var ipmiInterfaces = map[string]string{"boot_interface": "ipxe", "raid_interface": "no-raid"}

func redfishInterfaces(boot string) map[string]string {
	return map[string]string{"boot_interface": boot, "firmware_interface": "redfish", "raid_interface": "redfish"}
}

func idracInterfaces(boot string) map[string]string {
	return map[string]string{
		"bios_interface": "idrac-redfish", "boot_interface": boot, "firmware_interface": "redfish",
		"management_interface": "idrac-redfish", "power_interface": "idrac-redfish",
		"raid_interface": "idrac-redfish", "vendor_interface": "idrac-redfish",
	}
}

// findScheme returns the row of a scheme, with or without a transport such as redfish+http, and the
// transport. Without a transport in the text, that is the default of the family.
func findScheme(text string) (scheme, string, error) {
	name, transport, given := strings.Cut(text, "+")
	if instead, removed := removedSchemes[name]; removed {
		return scheme{}, "", fmt.Errorf("the scheme %s is of a driver that no longer exists; use %s", name, instead)
	}
	s, ok := lookUp(name)
	if !ok {
		return scheme{}, "", unknownScheme(text)
	}
	if !given {
		return s, s.family.transport, nil
	}
	if _, ok := s.family.ports[transport]; !ok || s.family.transport == "" {
		return scheme{}, "", unknownScheme(text)
	}
	return s, transport, nil
}

func lookUp(name string) (scheme, bool) {
	if canonical, ok := aliases[name]; ok {
		name = canonical
	}
	s, ok := schemes[name]
	return s, ok
}

// isScheme reports whether a text is a scheme that exists or used to exist.
func isScheme(text string) bool {
	name, _, _ := strings.Cut(strings.ToLower(text), "+")
	_, ok := lookUp(name)
	_, removed := removedSchemes[name]
	return ok || removed
}

// maxSchemeText bounds how much of an unknown scheme is repeated in an error, in bytes.
const maxSchemeText = 40

func unknownScheme(text string) error {
	if text == "http" || text == "https" {
		return fmt.Errorf("%s is no scheme of a BMC; for Redfish use redfish+%[1]s:// or redfish-virtualmedia+%[1]s://", text)
	}
	if len(text) > maxSchemeText {
		text = text[:maxSchemeText]
	}
	names := slices.Sorted(maps.Keys(schemes))
	return fmt.Errorf("there is no scheme %q; there are %s, and those of Redfish may end with +http or +https", text, strings.Join(names, ", "))
}
