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

// locallyAdministered is the bit of the first octet of a MAC address that
// IEEE has not assigned (IEEE 802, §8.2.2).
const locallyAdministered = 0x02

// IsLocallyAdministered reports whether a MAC address was chosen locally instead of
// assigned, so that it need not be unique. Virtual machines and USB links of BMCs have such
// addresses, the latter often the same one in every machine of a kind.
func IsLocallyAdministered(mac string) bool {
	if len(mac) < 2 {
		return false
	}
	octet, err := strconv.ParseUint(mac[:2], 16, 8)
	return err == nil && octet&locallyAdministered != 0
}

// IdentifyingMACs returns those of a machine's MAC addresses that tell it from other
// machines. A machine that has assigned addresses is not known by locally administered ones,
// except the one that it was booted from, if that is known. A machine with no others, as
// virtual ones are, is known by all.
func IdentifyingMACs(macs []string, bootMAC string) []string {
	if !slices.ContainsFunc(macs, func(mac string) bool { return !IsLocallyAdministered(mac) }) {
		return macs
	}
	return slices.DeleteFunc(slices.Clone(macs), func(mac string) bool { return IsLocallyAdministered(mac) && mac != bootMAC })
}

// ParseMACPrefix returns the first hexadecimal digits of MAC addresses, at most
// 12, in lower case without separators. It accepts any of the separators ":", "-"
// and "." anywhere, and space around the text. With a whole address it returns
// all its digits.
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
