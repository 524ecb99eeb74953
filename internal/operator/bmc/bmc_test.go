package bmc_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/bmc"
)

// shape is one way to write the part after the scheme.
type shape struct {
	text     string // what follows the scheme
	host     string // as in driver_info of IPMI
	hostPort string // as in URLs
	port     uint16 // 0 for none
	endpoint string // host of the endpoint
}

var shapes = []shape{
	{text: "192.0.2.7", host: "192.0.2.7", hostPort: "192.0.2.7", endpoint: "192.0.2.7"},
	{text: "192.0.2.7:8443", host: "192.0.2.7", hostPort: "192.0.2.7:8443", port: 8443, endpoint: "192.0.2.7"},
	{text: "BMC-7.example.org", host: "BMC-7.example.org", hostPort: "BMC-7.example.org", endpoint: "bmc-7.example.org"},
	{text: "bmc:1", host: "bmc", hostPort: "bmc:1", port: 1, endpoint: "bmc"},
	{text: "[2001:DB8:0::7]", host: "2001:DB8:0::7", hostPort: "[2001:DB8:0::7]", endpoint: "2001:db8::7"},
	{text: "[2001:db8::7]:65535", host: "2001:db8::7", hostPort: "[2001:db8::7]:65535", port: 65535, endpoint: "2001:db8::7"},
	{text: "[::ffff:192.0.2.7]", host: "::ffff:192.0.2.7", hostPort: "[::ffff:192.0.2.7]", endpoint: "192.0.2.7"},
}

// expectation is what all addresses of a scheme have in common.
type expectation struct {
	scheme, driver string
	family         string
	transport      string
	port           uint16
	interfaces     map[string]string
	fastInspect    string
	abilities      bmc.Abilities
}

func iDRAC(boot string) map[string]string {
	return map[string]string{
		"boot_interface": boot, "bios_interface": "idrac-redfish", "firmware_interface": "redfish", "management_interface": "idrac-redfish",
		"power_interface": "idrac-redfish", "raid_interface": "idrac-redfish", "vendor_interface": "idrac-redfish",
	}
}

// expectations has each scheme, with each transport and under each of its names.
func expectations() map[string]expectation {
	ipmi := map[string]string{"boot_interface": "ipxe", "raid_interface": "no-raid"}
	redfish := func(boot string) map[string]string {
		return map[string]string{"boot_interface": boot, "firmware_interface": "redfish", "raid_interface": "redfish"}
	}
	network := bmc.Abilities{HardwareRAID: true, BIOS: true, Firmware: true, SecureBoot: true}
	http, media := network, network
	http.BootsISO, media.BootsISO, media.VirtualMedia = true, true, true

	all := map[string]expectation{
		"":        {scheme: "ipmi", driver: "ipmi", family: "ipmi", port: 623, interfaces: ipmi},
		"ipmi":    {scheme: "ipmi", driver: "ipmi", family: "ipmi", port: 623, interfaces: ipmi},
		"libvirt": {scheme: "libvirt", driver: "ipmi", family: "ipmi", port: 623, interfaces: ipmi, abilities: bmc.Abilities{NeedsMAC: true}},
	}
	for name, e := range map[string]expectation{
		"redfish":              {scheme: "redfish", driver: "redfish", interfaces: redfish("ipxe"), fastInspect: "redfish", abilities: network},
		"ilo5-redfish":         {scheme: "redfish", driver: "redfish", interfaces: redfish("ipxe"), fastInspect: "redfish", abilities: network},
		"redfish-virtualmedia": {scheme: "redfish-virtualmedia", driver: "redfish", interfaces: redfish("redfish-virtual-media"), fastInspect: "redfish", abilities: media},
		"ilo5-virtualmedia":    {scheme: "redfish-virtualmedia", driver: "redfish", interfaces: redfish("redfish-virtual-media"), fastInspect: "redfish", abilities: media},
		"redfish-uefihttp":     {scheme: "redfish-uefihttp", driver: "redfish", interfaces: redfish("redfish-https"), fastInspect: "redfish", abilities: http},
		"idrac-redfish":        {scheme: "idrac-redfish", driver: "idrac", interfaces: iDRAC("ipxe"), fastInspect: "idrac-redfish", abilities: network},
		"idrac-virtualmedia":   {scheme: "idrac-virtualmedia", driver: "idrac", interfaces: iDRAC("idrac-redfish-virtual-media"), fastInspect: "idrac-redfish", abilities: media},
	} {
		e.family, e.transport, e.port = "redfish", "https", 443
		all[name], all[name+"+https"], all[strings.ToUpper(name)] = e, e, e
		e.transport, e.port = "http", 80
		all[name+"+http"] = e
	}
	return all
}

func (e expectation) settings(s shape) map[string]any {
	if e.family == "redfish" {
		return map[string]any{"redfish_address": e.transport + "://" + s.hostPort}
	}
	port := s.port
	if port == 0 {
		port = e.port
	}
	return map[string]any{"ipmi_address": s.host, "ipmi_port": fmt.Sprint(port), "ipmi_priv_level": "ADMINISTRATOR"}
}

func TestEverySchemeIsReadWithEveryFormOfHostAndPort(t *testing.T) {
	t.Parallel()
	for name, e := range expectations() {
		for _, s := range shapes {
			address := s.text
			if name != "" {
				address = name + "://" + s.text
			}
			want := bmc.Access{
				Address: address, Scheme: e.scheme, Driver: e.driver, Interfaces: e.interfaces, FastInspectInterface: e.fastInspect, Abilities: e.abilities,
				Settings: e.settings(s), Endpoint: bmc.Endpoint{Family: e.family, Host: s.endpoint, Port: s.port},
			}
			if s.port == 0 {
				want.Endpoint.Port = e.port
			}
			got, err := bmc.Parse(v1alpha1.BMCDetails{Address: address})
			if err != nil {
				t.Errorf("%s: %v", address, err)
				continue
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", address, diff)
			}
			if name == "" {
				continue
			}
			short, err := bmc.Parse(v1alpha1.BMCDetails{Address: name + ":" + s.text})
			short.Address = address
			if diff := cmp.Diff(want, short); diff != "" || err != nil {
				t.Errorf("%s without slashes: %v (-want +got):\n%s", address, err, diff)
			}
		}
	}
}

func TestPathAndQueryBecomeSettingsAndEndpoint(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ address, key, value, system string }{
		{"redfish://bmc/redfish/v1/Systems/1", "redfish_system_id", "/redfish/v1/Systems/1", "/redfish/v1/Systems/1"},
		{"redfish://bmc/redfish/v1/Systems/1/", "redfish_system_id", "/redfish/v1/Systems/1/", "/redfish/v1/Systems/1"},
		{"idrac-virtualmedia+http://bmc/foo/bar", "redfish_system_id", "/foo/bar", "/foo/bar"},
		{"redfish://bmc", "redfish_system_id", "", ""},
		{"redfish://bmc/", "redfish_system_id", "", ""},
		{"redfish-virtualmedia://bmc/redfish/v1", "redfish_system_id", "", ""},
		{"redfish-uefihttp://bmc//redfish/v1/", "redfish_system_id", "", ""},
		{"ipmi://bmc/ignored", "ipmi_priv_level", "ADMINISTRATOR", ""},
		{"ipmi://bmc?privilegelevel=OPERATOR", "ipmi_priv_level", "OPERATOR", ""},
		{"bmc?privilegelevel=user", "ipmi_priv_level", "USER", ""},
		{"libvirt://bmc:6233/?abc=def", "ipmi_port", "6233", ""},
		{"libvirt://bmc/?domain=vm-1", "ipmi_port", "623", "vm-1"},
		{"libvirt://bmc/vm-2", "ipmi_port", "623", "vm-2"},
	} {
		got, err := bmc.Parse(v1alpha1.BMCDetails{Address: tc.address})
		if err != nil {
			t.Errorf("%s: %v", tc.address, err)
			continue
		}
		value, _ := got.Settings[tc.key].(string)
		if value != tc.value || got.Endpoint.System != tc.system {
			t.Errorf("%s: %s = %q and system %q, want %q and %q", tc.address, tc.key, value, got.Endpoint.System, tc.value, tc.system)
		}
	}
}

func TestVerificationIsTurnedOffByTheKeyOfTheFamily(t *testing.T) {
	t.Parallel()
	for address, key := range map[string]string{
		"ipmi://bmc": "ipmi_verify_ca", "libvirt://bmc": "ipmi_verify_ca",
		"redfish://bmc": "redfish_verify_ca", "idrac-virtualmedia://bmc": "redfish_verify_ca",
	} {
		for _, disabled := range []bool{false, true} {
			got, err := bmc.Parse(v1alpha1.BMCDetails{Address: address, DisableCertificateVerification: disabled})
			if err != nil {
				t.Fatal(err)
			}
			value, set := got.Settings[key]
			if set != disabled || (set && value != false) {
				t.Errorf("%s, disabled %v: %s = %v", address, disabled, key, value)
			}
		}
	}
}

func TestDifferentSpellingsOfABMCHaveOneEndpoint(t *testing.T) {
	t.Parallel()
	for _, same := range [][]string{
		{"192.0.2.7", "192.0.2.7:623", "ipmi://192.0.2.7", "ipmi:192.0.2.7:623", "IPMI://192.0.2.7/", "ipmi://192.0.2.7?privilegelevel=USER", "libvirt://192.0.2.7", "[::ffff:192.0.2.7]:623"},
		{"redfish://bmc.example.org", "redfish+https://BMC.example.org:443/redfish/v1/", "ilo5-virtualmedia://bmc.example.org", "idrac-redfish://bmc.example.org:443"},
		{"redfish+http://[2001:db8::7]/redfish/v1/Systems/1", "redfish-virtualmedia+http://[2001:0DB8::0007]:80/redfish/v1/Systems/1/"},
	} {
		endpoints := map[bmc.Endpoint][]string{}
		for _, address := range same {
			got, err := bmc.Parse(v1alpha1.BMCDetails{Address: address})
			if err != nil {
				t.Errorf("%s: %v", address, err)
			}
			endpoints[got.Endpoint] = append(endpoints[got.Endpoint], address)
		}
		if len(endpoints) != 1 {
			t.Errorf("endpoints = %v, want one", endpoints)
		}
	}
}

func TestDifferentMachinesHaveDifferentEndpoints(t *testing.T) {
	t.Parallel()
	seen := map[bmc.Endpoint]string{}
	for _, address := range []string{
		"192.0.2.7", "192.0.2.8", "192.0.2.7:6230", "redfish://192.0.2.7", "redfish://192.0.2.7:8443", "redfish+http://192.0.2.7",
		"redfish://192.0.2.7/redfish/v1/Systems/1", "redfish://192.0.2.7/redfish/v1/Systems/2", "libvirt://192.0.2.7/vm-1", "libvirt://192.0.2.7/?domain=vm-2",
	} {
		got, err := bmc.Parse(v1alpha1.BMCDetails{Address: address})
		if err != nil {
			t.Fatal(err)
		}
		if other, taken := seen[got.Endpoint]; taken {
			t.Errorf("%s and %s have the endpoint %s", address, other, got.Endpoint)
		}
		seen[got.Endpoint] = address
	}
}

func TestWrongAddressesAreRefusedWithWhatToWrite(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"":                           "is empty",
		"irmc://192.0.2.7":           "use redfish://",
		"ibmc+https://192.0.2.7":     "use redfish://",
		"ilo4://192.0.2.7":           "use redfish://",
		"ilo4-virtualmedia://bmc":    "use redfish-virtualmedia://",
		"ilo5:192.0.2.7":             "use ilo5-redfish:// or ilo5-virtualmedia://",
		"idrac://192.0.2.7":          "use idrac-redfish:// or idrac-virtualmedia://",
		"idrac+http://192.0.2.7":     "use idrac-redfish://",
		"http://192.0.2.7":           "use redfish+http://",
		"https://192.0.2.7":          "use redfish+https://",
		"ipmi+http://192.0.2.7":      `no scheme "ipmi+http"`,
		"ipmi+://192.0.2.7":          `no scheme "ipmi+"`,
		"redfish+ftp://192.0.2.7":    `no scheme "redfish+ftp"`,
		"redfish+://192.0.2.7":       `no scheme "redfish+"`,
		"refish://192.0.2.7":         "there are idrac-redfish",
		"refish:bmc":                 `no scheme "refish"`,
		"//192.0.2.7":                "has no host",
		"ipmi://":                    "has no host",
		"redfish:///redfish/v1":      "has no host",
		"2001:db8::7":                "in brackets",
		"redfish://2001:db8::7":      "in brackets",
		"redfish://fe80::1:8443":     "in brackets",
		"[fe80::8xff]:6223":          "",
		"[fe80::1%25eth0]":           "has a zone",
		"192.0.2.777":                "not a valid IP address",
		"my-.example.org":            "neither an IP address nor a DNS name",
		"my_bmc":                     "neither an IP address nor a DNS name",
		"redfish://bmc:0":            "between 1 and 65535",
		"redfish://bmc:65536":        "between 1 and 65535",
		"redfish://bmc:seven":        "not of the form",
		"redfish://bmc/../etc":       "the path",
		"redfish://bmc/a%3Fb":        "the path",
		"redfish://bmc#1":            "contains #",
		"redfish://root:calvin@bmc":  "Secret",
		" redfish://bmc":             "white space",
		"redfish://bmc\n":            "white space",
		"bmc?privilegelevel=ROOT":    "ADMINISTRATOR, OPERATOR",
		"bmc?privilegelevel=%zz":     "key=value",
		strings.Repeat("a", 2049):    "longer than",
		strings.Repeat("a.", 130):    "neither",
		"ipmi://root:calvin@bm c":    "white space",
		"ipmi://root:cal/vin@bmc:xy": "",
	} {
		_, err := bmc.Parse(v1alpha1.BMCDetails{Address: address})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", address, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "cal") {
			t.Errorf("%s: the error repeats the password: %v", address, err)
		}
	}
}

func TestGenericAccessNeedsNoDriverOfAVendor(t *testing.T) {
	t.Parallel()
	for address, same := range map[string]string{
		"idrac-virtualmedia://bmc/redfish/v1/Systems/System.Embedded.1": "redfish-virtualmedia://bmc/redfish/v1/Systems/System.Embedded.1",
		"idrac-redfish+http://bmc":                                      "redfish+http://bmc",
		"redfish://bmc":                                                 "redfish://bmc",
		"bmc":                                                           "ipmi://bmc",
	} {
		vendor, err := bmc.Parse(v1alpha1.BMCDetails{Address: address})
		if err != nil {
			t.Fatal(err)
		}
		want, err := bmc.Parse(v1alpha1.BMCDetails{Address: same})
		if err != nil {
			t.Fatal(err)
		}
		want.Address, want.Scheme = vendor.Address, vendor.Scheme
		if diff := cmp.Diff(want, vendor.Generic()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", address, diff)
		}
	}
}

func TestChangingAResultDoesNotChangeTheTable(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"ipmi://bmc", "redfish://bmc", "idrac-redfish://bmc"} {
		first, err := bmc.Parse(v1alpha1.BMCDetails{Address: address})
		if err != nil {
			t.Fatal(err)
		}
		generic := first.Generic()
		for _, key := range slices.Collect(maps.Keys(first.Interfaces)) {
			first.Interfaces[key], generic.Interfaces[key] = "changed", "changed"
		}
		second, err := bmc.Parse(v1alpha1.BMCDetails{Address: address})
		if err != nil || second.Interfaces["boot_interface"] != "ipxe" || second.Generic().Interfaces["boot_interface"] != "ipxe" {
			t.Errorf("%s: interfaces = %v, generic %v, error %v", address, second.Interfaces, second.Generic().Interfaces, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for name := range expectations() {
		f.Add(name + "://192.0.2.7:8443/redfish/v1/Systems/1?privilegelevel=USER")
	}
	for _, s := range shapes {
		f.Add(s.text)
	}
	f.Fuzz(func(t *testing.T, address string) {
		got, err := bmc.Parse(v1alpha1.BMCDetails{Address: address})
		if err != nil {
			if len(err.Error()) > 400 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
			return
		}
		if got.Endpoint.Host == "" || got.Endpoint.Port == 0 || got.Driver == "" || got.Address != address {
			t.Errorf("access = %+v", got)
		}
		host := got.Endpoint.Host
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		again, err := bmc.Parse(v1alpha1.BMCDetails{Address: fmt.Sprintf("ipmi://%s:%d", host, got.Endpoint.Port)})
		if err != nil || again.Endpoint.Host != got.Endpoint.Host || again.Endpoint.Port != got.Endpoint.Port {
			t.Errorf("endpoint %+v read again is %+v, error %v", got.Endpoint, again.Endpoint, err)
		}
	})
}
