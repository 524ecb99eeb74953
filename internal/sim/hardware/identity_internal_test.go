package hardware

import (
	"net/netip"
	"testing"
)

func TestShuffleIsABijection(t *testing.T) {
	for _, size := range []uint64{1, 2, 31, 1000, 31 * 31 * 10, 1 << 15} {
		seen := make([]bool, size)
		for n := range size {
			x := shuffle(99, n, size)
			if x >= size || seen[x] {
				t.Fatalf("shuffle of %d below %d gives %d, which is out of range or taken", n, size, x)
			}
			seen[x] = true
		}
	}
}

func TestSerialPatternsHaveRoomForEveryMachine(t *testing.T) {
	capacity := func(pattern string) uint64 {
		n := uint64(1)
		for _, c := range pattern {
			if a := alphabetOf(c); a != "" {
				if n > 1<<56 {
					t.Fatalf("pattern %q has too many wild cards for 64 bits", pattern)
				}
				n *= uint64(len(a))
			}
		}
		return n
	}
	for _, p := range platforms {
		if n := capacity(p.serial); n > 1 && n < MaxMachines {
			t.Errorf("serial %q of %s has room for %d machines", p.serial, p.manufacturer, n)
		}
		for _, groups := range p.storage {
			for _, g := range groups {
				if n := capacity(g.model.serial); n > 1 && n < MaxMachines<<5 {
					t.Errorf("serial %q of disk %s has room for %d disks", g.model.serial, g.model.model, n)
				}
			}
		}
	}
}

func TestAddressInCountsFromTheFirstHost(t *testing.T) {
	for _, tc := range []struct {
		network string
		index   int
		want    string
	}{
		{"127.64.0.0/10", 0, "127.64.0.1"},
		{"127.64.0.0/10", 254, "127.64.0.255"},
		{"127.64.0.0/10", 255, "127.64.1.0"},
		{"127.64.0.0/10", 65_536, "127.65.0.1"},
		{"127.5.6.0/24", 9, "127.5.6.10"},
	} {
		if got := AddressIn(netip.MustParsePrefix(tc.network), tc.index); got.String() != tc.want {
			t.Errorf("address of machine %d in %s is %s, want %s", tc.index, tc.network, got, tc.want)
		}
	}
}

func TestLLDPEndsWithTheEndMarkerAndNamesThePort(t *testing.T) {
	port := placeOf(1, 45).port(3) // rack 2, slot 5, second port on leaf b
	if port.number != 30 || port.leaf != 1 || port.rack != 2 {
		t.Errorf("interface 3 of machine 45 is on rack %d leaf %d port %d, want 2, 1, 30", port.rack, port.leaf, port.number)
	}
	tlvs := port.lldp()
	if last := tlvs[len(tlvs)-1]; last != (TLV{}) {
		t.Errorf("last element is %+v, want the end marker", last)
	}
	want := tlv(tlvPortID, append([]byte{portInterfaceName}, port.name...))
	if tlvs[1] != want {
		t.Errorf("port element is %+v, want %+v", tlvs[1], want)
	}
}
