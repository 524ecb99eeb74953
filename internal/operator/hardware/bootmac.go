package hardware

import (
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/internal/inventory"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// virtualName matches names that Linux gives to interfaces on top of others: bonds, teams, bridges,
// VLANs, tunnels.
var virtualName = regexp.MustCompile(`^(lo|bond|team|br|virbr|vlan|veth|docker|dummy|tun|tap|vxlan|ovs)[-0-9_]|^lo$|\.`)

// UsableMACs returns the MAC addresses of the machine's own NICs, each once.
func UsableMACs(inv *provisioner.Inventory) []string {
	var macs []string
	for _, iface := range candidates(inv) {
		macs = append(macs, iface.MACAddress)
	}
	return macs
}

// BootMAC chooses the MAC address that identifies a machine, in lower case. It takes the address of
// the first of these NICs: the one that the ramdisk booted from, the one with the address in
// agentURL, through which the agent calls, or the first one by PCI address. For the latter, NICs
// with a link and a routable address come first, and NICs whose MAC address other machines may have
// come last. The result is empty if the machine has no usable NIC.
func BootMAC(inv *provisioner.Inventory, agentURL string) string {
	nics := candidates(inv)
	if len(nics) == 0 {
		return ""
	}
	bootMAC, callback := inv.Hardware.BootMAC(), hostAddr(agentURL)
	rank := func(i *inventory.Interface) int {
		switch {
		case bootMAC != "" && i.MACAddress == bootMAC:
			return 0
		case inv.PXE[i.Name]:
			return 1
		case callback.IsValid() && hasAddr(i, callback):
			return 2
		case !node.MayBeShared(i.MACAddress) && isConnected(i):
			return 3
		case !node.MayBeShared(i.MACAddress):
			return 4
		case isConnected(i):
			return 5
		default:
			return 6
		}
	}
	best := slices.MinFunc(nics, func(a, b *inventory.Interface) int {
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		return comparePlace(a, b)
	})
	return best.MACAddress
}

// candidates returns the NICs that have a MAC address and are not virtual. If several share an
// address, as those of a bond do, the first by PCI address stands for all.
func candidates(inv *provisioner.Inventory) []*inventory.Interface {
	var nics []*inventory.Interface
	for i := range inv.Hardware.Interfaces {
		iface := &inv.Hardware.Interfaces[i]
		if iface.MACAddress == "" || virtualName.MatchString(iface.Name) {
			continue
		}
		same := slices.IndexFunc(nics, func(o *inventory.Interface) bool { return o.MACAddress == iface.MACAddress })
		switch {
		case same < 0:
			nics = append(nics, iface)
		case comparePlace(iface, nics[same]) < 0:
			nics[same] = iface
		}
	}
	return nics
}

// comparePlace orders interfaces by PCI address and then by name. Interfaces without a PCI address
// come last.
func comparePlace(a, b *inventory.Interface) int {
	if (a.PCIAddress == "") != (b.PCIAddress == "") {
		if a.PCIAddress == "" {
			return 1
		}
		return -1
	}
	if d := strings.Compare(a.PCIAddress, b.PCIAddress); d != 0 {
		return d
	}
	return strings.Compare(a.Name, b.Name)
}

func hostAddr(agentURL string) netip.Addr {
	u, err := url.Parse(agentURL)
	if err != nil {
		return netip.Addr{}
	}
	return parseAddr(u.Hostname())
}

func hasAddr(i *inventory.Interface, addr netip.Addr) bool {
	return parseAddr(i.IPv4Address) == addr || parseAddr(i.IPv6Address) == addr
}

// isConnected reports whether a NIC has a link, and an address that others can reach.
func isConnected(i *inventory.Interface) bool { return i.HasCarrier && globalAddr(i).IsValid() }

func parseAddr(text string) netip.Addr {
	addr, err := netip.ParseAddr(strings.TrimSpace(text))
	if err != nil {
		return netip.Addr{}
	}
	return addr.Unmap().WithZone("")
}

// FirstAddress returns the first address of a NIC that others can reach, in the order of the
// inventory. Link-local addresses do not count. The result is invalid if there is none.
func FirstAddress(inv *provisioner.Inventory) netip.Addr {
	for i := range inv.Hardware.Interfaces {
		if addr := globalAddr(&inv.Hardware.Interfaces[i]); addr.IsValid() {
			return addr
		}
	}
	return netip.Addr{}
}

func globalAddr(i *inventory.Interface) netip.Addr {
	for _, text := range []string{i.IPv4Address, i.IPv6Address} {
		if addr := parseAddr(text); addr.IsGlobalUnicast() {
			return addr
		}
	}
	return netip.Addr{}
}
