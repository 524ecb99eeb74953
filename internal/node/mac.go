package node

import (
	"slices"
	"strconv"
	"strings"
)

// Octets of the hardware addresses that machines report.
const (
	ethernetOctets   = 6
	eui64Octets      = 8
	infinibandOctets = 20
)

// ParseMAC returns an Ethernet MAC address in the form that is stored: lower
// case, octets separated by colons. It accepts both cases, and colons or hyphens
// but not a mixture; ok is false for anything else, also for the longer
// addresses of InfiniBand and EUI-64.
func ParseMAC(text string) (mac string, ok bool) {
	address, octets := ParseHardwareAddress(text)
	if octets != ethernetOctets {
		return "", false
	}
	return address, true
}

// ParseHardwareAddress returns an address of 6 (Ethernet), 8 (EUI-64) or 20
// octets (InfiniBand) in lower case with colons, and the number of its octets.
// Text that is no such address gives "" and 0. The spellings are those of
// ParseMAC.
func ParseHardwareAddress(text string) (address string, octets int) {
	octets = (len(text) + 1) / 3
	if len(text)%3 != 2 || octets != ethernetOctets && octets != eui64Octets && octets != infinibandOctets {
		return "", 0
	}
	separator := text[2]
	if separator != ':' && separator != '-' {
		return "", 0
	}
	for i := range len(text) {
		if i%3 == 2 && text[i] != separator || i%3 != 2 && !isHexDigit(text[i]) {
			return "", 0
		}
	}
	if separator == '-' {
		text = strings.ReplaceAll(text, "-", ":")
	}
	return strings.ToLower(text), octets
}

// locallyAdministered is the bit in the first octet of a MAC address that IEEE has not assigned
// (IEEE 802, §8.2.2).
const locallyAdministered = 0x02

// sharedMACs are addresses that many machines are known to have.
var sharedMACs = []string{
	"00:00:00:00:00:00", // BMCs report it for interfaces without an address
	"00:a0:c9:00:00:00", // Intel I225 and I226 whose vendor has set no address
	"b0:3a:f2:b6:05:9f", // USB link to a BMC with Insyde firmware, as on Supermicro's X12 and H12
	"be:3a:f2:b6:05:9f", // the same
}

// IsShared reports whether a MAC address is one that many machines are known to have.
func IsShared(mac string) bool { return slices.Contains(sharedMACs, mac) }

// MayBeShared reports whether other machines may have the same MAC address: it is known to be
// shared, or was chosen locally instead of assigned. Virtual machines and the USB links of BMCs
// have locally chosen addresses; USB links often have the same one in every machine of a model.
func MayBeShared(mac string) bool {
	if len(mac) < 2 {
		return false
	}
	octet, err := strconv.ParseUint(mac[:2], 16, 8)
	return err == nil && octet&locallyAdministered != 0 || IsShared(mac)
}

// IdentifyingMACs returns those of a machine's MAC addresses that tell it from other machines. It
// leaves out addresses that may be shared, except bootMAC, the address that the machine booted from
// ("" when unknown). If all addresses may be shared, as on virtual machines, it leaves out only
// those that are known to be shared. If all are known to be shared, it returns them all.
func IdentifyingMACs(macs []string, bootMAC string) []string {
	for _, shared := range []func(mac string) bool{MayBeShared, IsShared} {
		if slices.ContainsFunc(macs, func(mac string) bool { return !shared(mac) }) {
			return slices.DeleteFunc(slices.Clone(macs), func(mac string) bool { return shared(mac) && mac != bootMAC })
		}
	}
	return macs
}

// ParseMACPrefix returns the hexadecimal digits at the beginning of a MAC address, at most 12, in
// lower case without separators. It accepts any of the separators ":", "-" and "." anywhere, and
// space around the text. It returns all digits of a whole address.
func ParseMACPrefix(text string) (digits string, ok bool) {
	digits = strings.NewReplacer(":", "", "-", "", ".", "").Replace(strings.ToLower(strings.TrimSpace(text)))
	if digits == "" || len(digits) > 2*ethernetOctets {
		return "", false
	}
	for i := range len(digits) {
		if !isHexDigit(digits[i]) {
			return "", false
		}
	}
	return digits, true
}

func isHexDigit(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}
