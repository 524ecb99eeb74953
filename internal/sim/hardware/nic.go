package hardware

import (
	"fmt"
	"net/netip"
)

// oui is the part of a MAC address that IEEE assigns to a vendor.
type oui [3]byte

// Vendor prefixes of add-on cards and of machines.
var (
	ouiIntel      = []oui{{0x3c, 0xfd, 0xfe}, {0x68, 0x05, 0xca}, {0xb4, 0x96, 0x91}, {0x40, 0xa6, 0xb7}}
	ouiBroadcom   = []oui{{0x00, 0x0a, 0xf7}, {0xbc, 0x97, 0xe1}, {0x00, 0x62, 0x0b}}
	ouiMellanox   = []oui{{0xec, 0x0d, 0x9a}, {0x98, 0x03, 0x9b}, {0x0c, 0x42, 0xa1}, {0xb8, 0x59, 0x9f}}
	ouiDell       = []oui{{0xb0, 0x7b, 0x25}, {0xf4, 0x02, 0x70}, {0x2c, 0xea, 0x7f}, {0x24, 0x6e, 0x96}}
	ouiHPE        = []oui{{0x94, 0x18, 0x82}, {0x48, 0xdf, 0x37}, {0x98, 0xf2, 0xb3}, {0x20, 0x67, 0x7c}}
	ouiSupermicro = []oui{{0x0c, 0xc4, 0x7a}, {0xac, 0x1f, 0x6b}, {0x3c, 0xec, 0xef}, {0x7c, 0xc2, 0x55}}
	ouiLenovo     = []oui{{0x08, 0x94, 0xef}, {0x7c, 0xd3, 0x0a}, {0x40, 0xf2, 0xe9}}
	ouiFujitsu    = []oui{{0x90, 0x1b, 0x0e}, {0x4c, 0x52, 0x62}, {0x00, 0x19, 0x99}}
	ouiGigabyte   = []oui{{0xb4, 0x2e, 0x99}, {0x18, 0xc0, 0x4d}, {0xd8, 0x5e, 0xd3}}
	ouiAdvantech  = []oui{{0x00, 0xd0, 0xc9}, {0xc4, 0x00, 0xad}}
	ouiElitegroup = []oui{{0x1c, 0x69, 0x7a}, {0x88, 0xae, 0xdd}, {0x94, 0xc6, 0x91}}
	ouiQEMU       = []oui{{0x52, 0x54, 0x00}}
	ouiVMware     = []oui{{0x00, 0x50, 0x56}, {0x00, 0x0c, 0x29}}
)

// nicModel is a model of network controller.
type nicModel struct {
	vendor, product string // PCI identifiers
	speed           int    // Mbit/s; 0 when the driver reports none
	card            []oui  // prefixes of the add-on card; onboard ports use the machine's
	portSuffix      bool   // the driver makes udev append npN to the name
}

var (
	intelI210      = nicModel{"0x8086", "0x1533", 1000, ouiIntel, false}
	intelI350      = nicModel{"0x8086", "0x1521", 1000, ouiIntel, false}
	intelI226      = nicModel{"0x8086", "0x125c", 2500, ouiIntel, false}
	intelX550      = nicModel{"0x8086", "0x1563", 10000, ouiIntel, false}
	intelX710      = nicModel{"0x8086", "0x1572", 10000, ouiIntel, true}
	intelX722      = nicModel{"0x8086", "0x37d3", 10000, ouiIntel, false}
	intelE810      = nicModel{"0x8086", "0x159b", 25000, ouiIntel, true}
	intelE810C     = nicModel{"0x8086", "0x1592", 100000, ouiIntel, true}
	broadcom5720   = nicModel{"0x14e4", "0x165f", 1000, ouiBroadcom, false}
	broadcom57414  = nicModel{"0x14e4", "0x16d7", 25000, ouiBroadcom, true}
	broadcom57416  = nicModel{"0x14e4", "0x16d8", 10000, ouiBroadcom, true}
	broadcom57508  = nicModel{"0x14e4", "0x1750", 100000, ouiBroadcom, true}
	mellanoxCX4Lx  = nicModel{"0x15b3", "0x1015", 25000, ouiMellanox, true}
	mellanoxCX5    = nicModel{"0x15b3", "0x1017", 100000, ouiMellanox, true}
	mellanoxCX6Lx  = nicModel{"0x15b3", "0x101f", 25000, ouiMellanox, true}
	realtekRTL8111 = nicModel{"0x10ec", "0x8168", 1000, nil, false}
	realtekRTL8125 = nicModel{"0x10ec", "0x8125", 2500, nil, false}
	virtioNet      = nicModel{"0x1af4", "0x0001", 0, nil, false}
	vmxnet3        = nicModel{"0x15ad", "0x07b0", 10000, nil, false}
)

// nicGroup is a group of ports on one controller.
type nicGroup struct {
	model   nicModel
	ports   int
	onboard bool
}

// interfaceRequest has the arguments of platform.interfaces.
type interfaceRequest struct {
	seed    uint64
	index   int
	count   int // 0 means what the model has
	address netip.Addr
	place   place
}

// interfaces generates the network interfaces of a machine. It returns them with the index of the
// interface that the machine booted from.
func (p *platform) interfaces(rnd *random, r interfaceRequest) ([]Interface, int) {
	groups := resize(pick(rnd, p.nics), r.count)
	kernelNames := rnd.percent(25) // net.ifnames=0: eth0, eth1, …
	machineOUI := pick(rnd, p.ouis)
	lldp := p.kind == Server && r.place.collectsLLDP()

	var nics []Interface
	onboard := 0 // ports on the board so far, of all controllers
	for slot, g := range groups {
		prefix := machineOUI
		if !g.onboard && g.model.card != nil {
			prefix = pick(rnd, g.model.card)
		}
		for port := range g.ports {
			n := len(nics)
			name := cardPortName(g, slot, port)
			if g.onboard {
				onboard++
				name = fmt.Sprintf("eno%d", onboard)
			}
			if kernelNames || p.kind == Virtual {
				name = fmt.Sprintf("eth%d", n)
			}
			address := macAddress(prefix, r.seed, r.index, n)
			nic := Interface{
				Name:       name,
				MACAddress: address.String(),
				Vendor:     g.model.vendor,
				Product:    g.model.product,
				HasCarrier: rnd.percent(80),
			}
			if nic.HasCarrier && rnd.percent(50) {
				nic.IPv6Address = ref(address.linkLocal(name))
			}
			nics = append(nics, nic)
		}
	}

	boot := 0
	if first := groups[0].ports; first < len(nics) && rnd.percent(40) {
		boot = first // the first port of the faster add-on card
	}
	nics[boot].HasCarrier = true
	nics[boot].IPv4Address = ref(r.address.String())
	for n := range nics {
		nics[n].plugIn(speedOf(groups, n), lldp, r.place.port(n))
		if n != boot && nics[n].HasCarrier && rnd.percent(25) {
			nics[n].IPv4Address = ref(AddressIn(dataNetwork, r.index*MaxNICs+n).String())
		}
	}
	return nics, boot
}

// plugIn sets what depends on the connection to a switch: the speed and the LLDP data.
func (n *Interface) plugIn(speed int, lldp bool, port switchPort) {
	if n.HasCarrier && speed > 0 {
		n.SpeedMbps = ref(speed)
	}
	switch {
	case !lldp:
	case n.HasCarrier:
		n.LLDP = port.lldp()
	default:
		n.LLDP = []TLV{}
	}
}

// resize returns groups with exactly count ports. It drops ports from the end, or adds ports to the
// last group. With zero, it returns the groups as they are.
func resize(groups []nicGroup, count int) []nicGroup {
	if count <= 0 {
		return groups
	}
	count = min(count, MaxNICs)
	var out []nicGroup
	for _, g := range groups {
		if count == 0 {
			break
		}
		g.ports = min(g.ports, count)
		count -= g.ports
		out = append(out, g)
	}
	out[len(out)-1].ports += count
	return out
}

// speedOf returns the speed of port n, counted over all groups.
func speedOf(groups []nicGroup, n int) int {
	for _, g := range groups {
		if n < g.ports {
			return g.model.speed
		}
		n -= g.ports
	}
	return 0
}

// cardPortName returns the predictable name that udev gives to a port of a card: ens and the slot,
// with the port, and with some drivers the port once more.
func cardPortName(g nicGroup, slot, port int) string {
	name := fmt.Sprintf("ens%df%d", slot, port)
	if g.model.portSuffix {
		name += fmt.Sprintf("np%d", port)
	}
	return name
}
