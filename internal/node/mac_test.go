package node

import (
	"net"
	"slices"
	"strings"
	"testing"
)

func TestParseMACAcceptsEthernetAddressesOnly(t *testing.T) {
	for text, want := range map[string]string{
		"52:54:00:12:34:56":              "52:54:00:12:34:56",
		"AA:BB:CC:DD:EE:0F":              "aa:bb:cc:dd:ee:0f",
		"aA-Bb-cC-dD-eE-0F":              "aa:bb:cc:dd:ee:0f",
		"":                               "",
		"52:54:00:12:34":                 "",
		"52:54:00:12:34:5":               "",
		"52:54:00:12:34:56:":             "",
		"52:54:00:12:34:5g":              "",
		"52-54:00:12:34:56":              "",
		"5254.0012.3456":                 "",
		"525400123456":                   "",
		"01-52-54-00-12-34-56":           "",
		" 52:54:00:12:34:56":             "",
		"52:54:00:12:34:56:78:9a":        "",
		strings.Repeat("a0:", 19) + "a0": "",
	} {
		got, ok := ParseMAC(text)
		if got != want || ok != (want != "") {
			t.Errorf("ParseMAC(%q) = %q, %t, want %q", text, got, ok, want)
		}
	}
}

func TestParseHardwareAddressTellsTheKindsByTheirLength(t *testing.T) {
	for text, want := range map[string]int{
		"52-54-00-AB-CD-EF":              6,
		"52:54:00:ff:fe:ab:cd:ef":        8,
		strings.Repeat("A0-", 19) + "A0": 20,
		"52:54:00:ab:cd:ef:00":           0,
		"eth0":                           0,
	} {
		address, octets := ParseHardwareAddress(text)
		if octets != want || want == 0 && address != "" {
			t.Errorf("ParseHardwareAddress(%q) = %q with %d octets, want %d", text, address, octets, want)
		}
		if normal := strings.ToLower(strings.ReplaceAll(text, "-", ":")); want != 0 && address != normal {
			t.Errorf("ParseHardwareAddress(%q) = %q, want %q", text, address, normal)
		}
	}
}

func TestMachineIsNotKnownByAddressesThatOthersMayHave(t *testing.T) {
	const assigned, local, boot, shared = "3c:ec:ef:00:00:01", "02:00:5e:00:53:ff", "02:00:00:00:00:01", "b0:3a:f2:b6:05:9f"
	for name, tc := range map[string]struct{ macs, want []string }{
		"none":           {},
		"assigned":       {macs: []string{assigned}, want: []string{assigned}},
		"both":           {macs: []string{local, assigned}, want: []string{assigned}},
		"booted from it": {macs: []string{local, boot, assigned}, want: []string{boot, assigned}},
		"virtual":        {macs: []string{local, "52:54:00:12:34:56"}, want: []string{local, "52:54:00:12:34:56"}},
		"known to many":  {macs: []string{shared, assigned, "00:a0:c9:00:00:00"}, want: []string{assigned}},
		"many and local": {macs: []string{shared, local}, want: []string{local}},
		"only many":      {macs: []string{shared}, want: []string{shared}},
	} {
		if got := IdentifyingMACs(tc.macs, boot); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestParseMACPrefixTakesTheFirstDigits(t *testing.T) {
	for text, want := range map[string]string{
		"52:54:00": "525400", "52-54-00-1": "5254001", " 5254.0012.3456 ": "525400123456", "AA:BB": "aabb", "5": "5",
		"": "", "::": "", "52:5g": "", "52:54:00:12:34:56:7": "", "ä": "",
	} {
		if got, ok := ParseMACPrefix(text); got != want || ok != (want != "") {
			t.Errorf("ParseMACPrefix(%q) = %q, %t, want %q", text, got, ok, want)
		}
	}
}

// FuzzParseMAC compares with the parser of the standard library, which knows more
// spellings, and checks that what is returned parses to itself.
func FuzzParseMAC(f *testing.F) {
	for _, text := range []string{"52:54:00:12:34:56", "AA-BB-CC-DD-EE-0F", "5254.0012.3456", "02:00:5e:10:00:00:00:01", strings.Repeat("a0:", 19) + "a0", "ü2:54:00:12:34:5"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		address, octets := ParseHardwareAddress(text)
		standard, err := net.ParseMAC(text)
		separated := len(text) > 2 && (text[2] == ':' || text[2] == '-')
		if (err == nil && separated) != (octets > 0) {
			t.Fatalf("%q has %d octets, net.ParseMAC says %v", text, octets, err)
		}
		if octets > 0 && address != standard.String() {
			t.Fatalf("%q is %q, net.ParseMAC has %q", text, address, standard)
		}
		mac, ok := ParseMAC(text)
		if again, stable := ParseMAC(mac); ok != (octets == ethernetOctets) || ok && (!stable || again != mac) {
			t.Fatalf("ParseMAC(%q) = %q, %t", text, mac, ok)
		}
	})
}
