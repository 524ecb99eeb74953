package inventory

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOnlyIdentifyingMACsAreReportedEachOnce(t *testing.T) {
	var nics []string
	for _, mac := range []string{
		"AA:BB:CC:00:00:01",
		"aa-bb-cc-00-00-01",              // the same NIC, as a VLAN interface shows it
		"00:00:00:00:00:00",              // none
		"ff:ff:ff:ff:ff:ff",              // broadcast
		"01:00:5e:00:00:01",              // group
		strings.Repeat("a0:", 19) + "a0", // InfiniBand
		"02:00:00:ff:fe:00:00:03",        // EUI-64
		"aa:bb:cc:00:00:02",
	} {
		nics = append(nics, `{"mac_address":"`+mac+`"}`)
	}
	doc := mustParse(t, `{"inventory":{"interfaces":[`+strings.Join(nics, ",")+`]}}`)
	want := []string{"aa:bb:cc:00:00:01", "aa:bb:cc:00:00:02"}
	if diff := cmp.Diff(want, doc.Hardware.MACs()); diff != "" {
		t.Errorf("MACs (-want +got):\n%s", diff)
	}
	if got := doc.Hardware.Interfaces[5]; got.HardwareAddress == "" || got.MACAddress != "" {
		t.Errorf("InfiniBand interface = %+v, want it kept with its address as sent", got)
	}
}

func TestBootMAC(t *testing.T) {
	for pxe, want := range map[string]string{
		"52:54:00:12:34:5A":    "52:54:00:12:34:5a",
		"01-52-54-00-12-34-5A": "52:54:00:12:34:5a",
		"01:52:54:00:12:34:5a": "52:54:00:12:34:5a",
		"20-52-54-00-12-34-5a": "52:54:00:12:34:5a", // a port with a client identifier (InfiniBand)
		"2g-52-54-00-12-34-5a": "",
		"20:52-54-00-12-34-5a": "",
		"eth0":                 "",
		"00:00:00:00:00:00":    "",
		"":                     "",
	} {
		inv := Inventory{Boot: Boot{PXEInterface: pxe}}
		if got := inv.BootMAC(); got != want {
			t.Errorf("boot MAC of %q = %q, want %q", pxe, got, want)
		}
	}
}

func TestBMCAddressesLeaveOutPlaceholders(t *testing.T) {
	for _, tc := range []struct{ v4, v6, want string }{
		{"192.0.2.17", "::/0", "192.0.2.17"},
		{"0.0.0.0", "2001:DB8::0:17", "2001:db8::17"},
		{"192.0.2.17", "2001:db8::17/64", "192.0.2.17 2001:db8::17"},
		{"192.0.2.17", "::ffff:192.0.2.17", "192.0.2.17"},
		{" 192.0.2.17 ", "2001:db8::17%eth0", "192.0.2.17 2001:db8::17"},
		{"0.0.0.0", "::", ""},
		{"127.0.0.1", "::1", ""},
		{"169.254.3.1", "fe80::1", ""},
		{"224.0.0.1", "ff02::1", ""},
		{"", "", ""},
		{"bmc.example.net", "none", ""},
		{"192.0.2.300", "2001:db8:::1", ""},
	} {
		inv := Inventory{BMCAddress: tc.v4, BMCV6Address: tc.v6}
		var got []string
		for _, addr := range inv.BMCAddresses() {
			got = append(got, addr.String())
		}
		if !slices.Equal(got, strings.Fields(tc.want)) {
			t.Errorf("BMC addresses of %q and %q = %v, want [%s]", tc.v4, tc.v6, got, tc.want)
		}
	}
}

func TestInterfaceAddressPrefersIPv4AndDropsTheScope(t *testing.T) {
	for _, tc := range []struct{ v4, v6, want string }{
		{"192.0.2.2", "2001:db8::2", "192.0.2.2"},
		{"", "fe80::2%eth0", "fe80::2"},
		{"bad", "2001:db8::2", "2001:db8::2"},
		{"", "", "invalid IP"},
	} {
		nic := Interface{IPv4Address: tc.v4, IPv6Address: tc.v6}
		if got := nic.Addr(); got.String() != tc.want || got.Zone() != "" || got == (netip.Addr{}) != (tc.want == "invalid IP") {
			t.Errorf("address of %q and %q = %v, want %s", tc.v4, tc.v6, got, tc.want)
		}
	}
}
