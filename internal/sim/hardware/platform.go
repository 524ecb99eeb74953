package hardware

import (
	"fmt"
	"net/netip"
	"strings"
)

// platform is a family of machines of one vendor. Each machine has one element of each slice.
type platform struct {
	kind         Kind
	weight       int // relative frequency
	manufacturer string
	// firmwareVendor is the vendor of the BIOS, often not the manufacturer.
	firmwareVendor string
	products       []product
	serial         string // pattern, see serial; without wild cards, all machines have the same one
	architecture   string
	ouis           []oui // prefixes of onboard interfaces
	memoryGiB      []int
	nics           [][]nicGroup
	storage        [][]diskGroup
	accelerators   []PCIDevice // possible add-ons
	bmcPercent     int         // percentage of machines with a BMC
	biosPercent    int         // percentage of machines in BIOS mode; the others are in UEFI mode
}

// product is one model of a platform.
type product struct {
	name     string // as the firmware reports it, with the part number that lshw adds
	sockets  []int
	cpus     []cpuModel
	releases []release
}

// release is one firmware version and the day it was built.
type release struct{ version, date string }

// allows reports whether machines may belong to a platform.
func (o Options) allows(p platform) bool {
	return (o.Kind == "" || p.kind == o.Kind) && (o.Manufacturer == "" || p.manufacturer == o.Manufacturer)
}

// pickPlatform chooses one of the allowed platforms at random, by weight.
func (o Options) pickPlatform(rnd *random) *platform {
	total := 0
	for i := range platforms {
		if o.allows(platforms[i]) {
			total += platforms[i].weight
		}
	}
	if total == 0 {
		panic(fmt.Sprintf("unknown kind of machine %q by %q", o.Kind, o.Manufacturer))
	}
	n := rnd.intN(total)
	for i := range platforms {
		p := &platforms[i]
		if !o.allows(*p) {
			continue
		}
		if n < p.weight {
			return p
		}
		n -= p.weight
	}
	panic("weights of platforms changed while picking")
}

// serialNumber returns a serial number that is unique for the platform, unless its pattern is a
// placeholder.
func (p *platform) serialNumber(seed uint64, index int) string {
	return serial(p.serial, seed, uint64(index))
}

// Addresses that an agent reports if there is no BMC.
const (
	noBMCv4 = "0.0.0.0"
	noBMCv6 = "::/0"
)

// bmcAddresses returns the IPv4 and the IPv6 address of the BMC. Most BMCs are reached by IPv4
// only, some by both, a few by IPv6 only.
func (p *platform) bmcAddresses(rnd *random, index int) (v4, v6 string) {
	if !rnd.percent(p.bmcPercent) {
		return noBMCv4, noBMCv6
	}
	v4 = AddressIn(bmcNetwork, index).String()
	drawn := rnd.intN(100)
	if drawn >= 20 {
		return v4, noBMCv6
	}
	n := index + 1
	v6 = netip.AddrFrom16([16]byte{
		0: 0xfd, 1: 0x00, 2: 0x01, 3: 0x98,
		12: byte(n >> 24), 13: byte(n >> 16), 14: byte(n >> 8), 15: byte(n),
	}).String()
	if drawn < 4 {
		v4 = noBMCv4
	}
	return v4, v6
}

// bootMode returns the mode in which the firmware booted the ramdisk.
func (p *platform) bootMode(rnd *random) string {
	if rnd.percent(p.biosPercent) {
		return "bios"
	}
	return "uefi"
}

// pxeInterface returns the boot parameter BOOTIF. iPXE passes the plain address, PXELINUX puts the
// hardware type before it, and virtual media pass nothing.
func (p *platform) pxeInterface(rnd *random, mac string) *string {
	switch drawn := rnd.intN(100); {
	case drawn < 70:
		return ref(mac)
	case drawn < 85:
		return ref("01-" + strings.ReplaceAll(mac, ":", "-"))
	default:
		return nil
	}
}

// hostname returns the host name of the ramdisk. It is a default one unless DHCP provides a name.
func (p *platform) hostname(rnd *random, at place, index int) string {
	switch drawn := rnd.intN(100); {
	case drawn < 55:
		return "localhost.localdomain"
	case drawn < 85:
		return fmt.Sprintf("%s-%s-u%02d", p.kind, at.rackName(), at.slot*2+1)
	default:
		return fmt.Sprintf("node-%05d.dc1.example", index)
	}
}
