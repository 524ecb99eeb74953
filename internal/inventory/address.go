package inventory

import (
	"net/netip"
	"slices"
	"strings"
)

// ethernetOctets is the length of an Ethernet MAC address.
const ethernetOctets = 6

// zeroMAC stands for "no address".
const zeroMAC = "00:00:00:00:00:00"

// NormalizeMAC returns an Ethernet MAC address in lower case with colons. It
// accepts both cases and colons or dashes, not mixed; ok is false for anything
// else, also for the longer addresses of InfiniBand and EUI-64.
func NormalizeMAC(text string) (mac string, ok bool) {
	if hardwareOctets(text) != ethernetOctets {
		return "", false
	}
	if text[2] == '-' {
		text = strings.ReplaceAll(text, "-", ":")
	}
	return strings.ToLower(text), true
}

// hardwareOctets returns how many octets a hardware address has: 6 (Ethernet), 8
// (EUI-64) or 20 (InfiniBand). It returns 0 for text that is no such address.
func hardwareOctets(text string) int {
	octets := (len(text) + 1) / 3
	if len(text)%3 != 2 || octets != ethernetOctets && octets != 8 && octets != 20 {
		return 0
	}
	separator := text[2]
	if separator != ':' && separator != '-' {
		return 0
	}
	for i := range len(text) {
		if i%3 == 2 && text[i] != separator || i%3 != 2 && !isHex(text[i]) {
			return 0
		}
	}
	return octets
}

// identifies reports whether a normalised MAC can belong to exactly one NIC. All
// zeros stands for "none", and the lowest bit of the first octet marks a group
// (IEEE 802, §8.2.2).
func identifies(mac string) bool {
	return mac != zeroMAC && strings.IndexByte("02468ace", mac[1]) >= 0
}

// MACs returns the Ethernet addresses of all interfaces in the order of the
// inventory, each once.
func (inv *Inventory) MACs() []string {
	macs := make([]string, 0, len(inv.Interfaces))
	seen := make(map[string]struct{}, len(inv.Interfaces))
	for i := range inv.Interfaces {
		mac := inv.Interfaces[i].MACAddress
		if _, dup := seen[mac]; mac != "" && !dup {
			seen[mac] = struct{}{}
			macs = append(macs, mac)
		}
	}
	return macs
}

// BootMAC returns the normalised address of the interface the ramdisk was booted
// from, or "" when the inventory does not say. PXELINUX puts the hardware type in
// front of it: 01 for Ethernet.
func (inv *Inventory) BootMAC() string {
	text := inv.Boot.PXEInterface
	if len(text) == len("01-aa-bb-cc-dd-ee-ff") && strings.HasPrefix(text, "01") {
		text = text[len("01-"):]
	}
	mac, ok := NormalizeMAC(text)
	if !ok || !identifies(mac) {
		return ""
	}
	return mac
}

// BMCAddresses returns the addresses under which the machine's BMC can be
// reached, each once, IPv4 first. What agents send for "none" is left out, and so
// are loopback and link-local addresses, which many machines share.
func (inv *Inventory) BMCAddresses() []netip.Addr {
	var addrs []netip.Addr
	for _, text := range [...]string{inv.BMCAddress, inv.BMCV6Address} {
		text, _, _ = strings.Cut(text, "/")
		addr := parseAddr(text)
		if addr.IsGlobalUnicast() && !slices.Contains(addrs, addr) {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}

// Addr returns the interface's IP address, IPv4 before IPv6, without a scope. It
// is the zero Addr when there is none.
func (i *Interface) Addr() netip.Addr {
	v4, v6 := i.Addrs()
	if v4.IsValid() {
		return v4
	}
	return v6
}

// Addrs returns what the interface has as IPv4 and as IPv6 address, without a
// scope. Each is the zero Addr when there is none.
func (i *Interface) Addrs() (v4, v6 netip.Addr) {
	return parseAddr(i.IPv4Address), parseAddr(i.IPv6Address)
}

// parseAddr returns an address in canonical form: no scope, and IPv4 as IPv4.
func parseAddr(text string) netip.Addr {
	addr, err := netip.ParseAddr(strings.TrimSpace(text))
	if err != nil {
		return netip.Addr{}
	}
	return addr.Unmap().WithZone("")
}
