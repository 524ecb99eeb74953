package hardware

import (
	"math/bits"
	"net/netip"
	"strings"
)

// DefaultNetwork is the network of the boot addresses of simulated machines. It is a part of the
// loopback network: Linux accepts all of 127.0.0.0/8, so that every machine can listen on its own
// address without configuration.
var DefaultNetwork = netip.MustParsePrefix("127.64.0.0/10")

// LocalBMCNetwork is a network of BMC addresses on which this computer can listen. It is another
// part of the loopback network than [DefaultNetwork].
var LocalBMCNetwork = netip.MustParsePrefix("127.32.0.0/11")

// bmcNetwork has the BMC addresses of machines without Options.BMCNetwork. It is reserved for
// benchmarks of network devices (RFC 2544), so that no production network routes it.
var bmcNetwork = netip.MustParsePrefix("198.18.0.0/15")

// dataNetwork has the addresses of interfaces that the machine did not boot from. It is shared
// address space (RFC 6598).
var dataNetwork = netip.MustParsePrefix("100.64.0.0/10")

// AddressIn returns the address of machine index in an IPv4 network: the network's address plus
// index plus one. It wraps around at the end of the network, so callers that need unique addresses
// must check the size of the network first.
func AddressIn(network netip.Prefix, index int) netip.Addr {
	base := network.Masked().Addr().As4()
	host := uint32(uint64(index+1) % (1 << (32 - network.Bits())))
	n := uint32(base[0])<<24 | uint32(base[1])<<16 | uint32(base[2])<<8 | uint32(base[3])
	n += host
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}

// mac is an Ethernet address.
type mac [6]byte

// macAddress returns the address of one interface: the vendor's prefix, 21
// bits that number the machine and 3 bits that number the interface. Ports of
// one card therefore have consecutive addresses, as on real cards, and no two
// interfaces of one seed are equal, whatever their prefixes.
func macAddress(prefix oui, seed uint64, index, nic int) mac {
	n := shuffle(seed, uint64(index), MaxMachines)<<3 | uint64(nic)
	return mac{prefix[0], prefix[1], prefix[2], byte(n >> 16), byte(n >> 8), byte(n)}
}

// String returns the lower-case form with colons.
func (m mac) String() string {
	const digits = "0123456789abcdef"
	b := make([]byte, 0, 17)
	for i, octet := range m {
		if i > 0 {
			b = append(b, ':')
		}
		b = append(b, digits[octet>>4], digits[octet&15])
	}
	return string(b)
}

// Alphabets of serial numbers. As with real vendors, the letters have no vowels: I and O look like
// digits.
const (
	serialDigits  = "0123456789"
	serialLetters = "BCDFGHJKLMNPQRSTVWXYZ"
	serialMixed   = serialDigits + serialLetters
	serialHex     = "0123456789ABCDEF"
)

// alphabetOf returns the alphabet of a wild card in the pattern of a serial number. It returns ""
// for every other character, which stands for itself.
func alphabetOf(c rune) string {
	switch c {
	case '#':
		return serialDigits
	case '?':
		return serialLetters
	case '*':
		return serialMixed
	case '%':
		return serialHex
	default:
		return ""
	}
}

// serial fills a pattern with the number n of the seed. Two numbers below the capacity of the
// pattern never give the same text.
func serial(pattern string, seed, n uint64) string {
	capacity := uint64(1)
	for _, c := range pattern {
		if a := alphabetOf(c); a != "" {
			capacity *= uint64(len(a))
		}
	}
	x := shuffle(seed, n, capacity)
	var b strings.Builder
	b.Grow(len(pattern))
	for _, c := range pattern {
		a := alphabetOf(c)
		if a == "" {
			b.WriteRune(c)
			continue
		}
		b.WriteByte(a[x%uint64(len(a))])
		x /= uint64(len(a))
	}
	return b.String()
}

// shuffle maps n to another number below size, such that different numbers stay different. It
// multiplies by a prime that is larger than any factor of the alphabets' sizes, and adds an offset
// from the seed. size must be at least 1 and must not be a multiple of the prime.
func shuffle(seed, n, size uint64) uint64 {
	const prime = 2654435789 // near 2^32 / golden ratio: neighbouring numbers become distant
	hi, lo := bits.Mul64(n%size, prime)
	_, product := bits.Div64(hi%size, lo, size)
	offset := mix(seed) % size
	if product >= size-offset {
		return product - (size - offset)
	}
	return product + offset
}

// linkLocal returns the IPv6 address that the kernel derives from a MAC address
// (RFC 4291, appendix A), with the interface as its zone.
func (m mac) linkLocal(zone string) string {
	addr := netip.AddrFrom16([16]byte{
		0: 0xfe, 1: 0x80,
		8: m[0] ^ 2, 9: m[1], 10: m[2], 11: 0xff, 12: 0xfe, 13: m[3], 14: m[4], 15: m[5],
	})
	return addr.WithZone(zone).String()
}
