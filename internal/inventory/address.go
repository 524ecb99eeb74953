package inventory

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/internal/node"
)

// zeroMAC means "no address".
const zeroMAC = "00:00:00:00:00:00"

// Identifies reports whether a normalised MAC can belong to exactly one NIC. All
// zeros means "none", and the lowest bit of the first octet marks a group
// (IEEE 802, §8.2.2).
func Identifies(mac string) bool {
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

// IdentifyingMACs returns those of MACs that tell the machine from others, see
// node.IdentifyingMACs.
func (inv *Inventory) IdentifyingMACs() []string {
	return node.IdentifyingMACs(inv.MACs(), inv.BootMAC())
}

// BootMAC returns the normalised address of the interface from which the ramdisk was booted, or ""
// when the inventory does not say. PXELINUX puts the hardware type (RFC 1700, "hardware type")
// before the address, in hexadecimal: 01 for Ethernet, 20 for InfiniBand.
func (inv *Inventory) BootMAC() string {
	mac, ok := node.ParseMAC(withoutHardwareType(inv.Boot.PXEInterface))
	if !ok || !Identifies(mac) {
		return ""
	}
	return mac
}

// withoutHardwareType returns the address in the name of a PXELINUX configuration file. It returns
// any other text unchanged.
func withoutHardwareType(text string) string {
	const form = "01-aa-bb-cc-dd-ee-ff"
	if len(text) == len(form) && isHex(text[0]) && isHex(text[1]) && text[2] == text[len("01-aa")] {
		return text[len("01-"):]
	}
	return text
}

// BMCAddresses returns the addresses at which the machine's BMC can be reached, each once, IPv4
// first. It leaves out the values that agents send for "none", and loopback and link-local
// addresses, which many machines share.
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

// Addr returns the interface's IP address without a scope, IPv4 before IPv6. It is the zero Addr
// when there is none.
func (i *Interface) Addr() netip.Addr {
	v4, v6 := i.Addrs()
	if v4.IsValid() {
		return v4
	}
	return v6
}

// Addrs returns the interface's IPv4 and IPv6 addresses without a scope. Each is the zero Addr when
// there is none.
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
