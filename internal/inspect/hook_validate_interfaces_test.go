package inspect

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestInterfaceEntriesAreCopiesWithCorrections(t *testing.T) {
	doc := machine(t, `{"vendor_key":{"deep":[1, 2.50]},"name":"eth0","mac_address":"02-00-00-00-00-0A","ipv6_address":"fe80::1%eth0",`+
		`"pxe_enabled":"yes","is_added":1,"lldp":[[1,"04"]],"ipv4_address":null}`, `,"boot":{"pxe_interface":"02:00:00:00:00:0A"}`)
	result := run(t, pipeline(t, nil), Input{Document: doc})
	want := map[string]any{
		"vendor_key": map[string]any{"deep": []any{1.0, 2.5}}, "name": "eth0", "mac_address": "02:00:00:00:00:0a",
		"ipv6_address": "fe80::1", "pxe_enabled": true, "lldp": []any{[]any{1.0, "04"}}, "ipv4_address": nil,
	}
	if diff := cmp.Diff(map[string]any{"eth0": want}, pluginValue(t, result, "all_interfaces")); diff != "" {
		t.Errorf("all_interfaces (-want +got):\n%s", diff)
	}
	want["is_added"] = true
	if diff := cmp.Diff(map[string]any{"eth0": want}, pluginValue(t, result, "valid_interfaces")); diff != "" {
		t.Errorf("valid_interfaces (-want +got):\n%s", diff)
	}
}

func TestUnusableInterfacesAreSkippedWithAReason(t *testing.T) {
	infiniband := strings.Repeat("a0:", 19) + "a0"
	for name, tc := range map[string]struct{ nic, reason string }{
		"no name":                         {`{"mac_address":"02:00:00:00:00:01"}`, `Interface "" with address "02:00:00:00:00:01" has no name`},
		"null name":                       {`{"name":null,"mac_address":"02:00:00:00:00:01"}`, `Interface "" with address "02:00:00:00:00:01" has no name`},
		"loopback":                        {`{"name":"lo","mac_address":"00:00:00:00:00:00"}`, `Interface "lo" with address "00:00:00:00:00:00" is the loopback`},
		"zero MAC":                        {`{"name":"tun0","mac_address":"00:00:00:00:00:00"}`, `Interface "tun0" with address "00:00:00:00:00:00" has no Ethernet address that identifies it`},
		"group MAC":                       {`{"name":"x","mac_address":"01:00:5e:00:00:01"}`, `Interface "x" with address "01:00:5e:00:00:01" has no Ethernet address that identifies it`},
		"InfiniBand":                      {`{"name":"ib0","mac_address":"` + infiniband + `"}`, `Interface "ib0" with address "` + infiniband + `" has no Ethernet address that identifies it`},
		"name twice":                      {nic("good", "01"), `Interface "good" with address "02:00:00:00:00:01" has a name that an earlier one has`},
		"long name of control characters": {`{"name":"` + strings.Repeat("\\u001b", 99) + `","mac_address":"00:00:00:00:00:00"}`, `Interface "` + strings.Repeat(`\x1b`, 64) + `…" with address "00:00:00:00:00:00" has no Ethernet address that identifies it`},
	} {
		t.Run(name, func(t *testing.T) {
			result := run(t, pipeline(t, nil), Input{Document: machine(t, nic("good", "ee")+","+tc.nic, "")})
			if diff := cmp.Diff([]string{tc.reason}, result.Skipped); diff != "" {
				t.Errorf("skipped (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"02:00:00:00:00:ee"}, addresses(result.PortsToCreate)); diff != "" {
				t.Errorf("ports to create (-want +got):\n%s", diff)
			}
			if got := len(pluginValue(t, result, "all_interfaces").(map[string]any)); got != 1 {
				t.Errorf("%d entries in all_interfaces, want the good one only", got)
			}
		})
	}
}

func TestMachineWithoutUsableInterfaceFailsWithReasons(t *testing.T) {
	only := nic("lo", "01")
	for name, tc := range map[string]struct {
		add              AddPorts
		nics, more, want string
	}{
		"nothing usable": {
			AddAll, only + `,{"mac_address":"02:00:00:00:00:02"}`, "",
			`validate-interfaces: no usable network interface in the inventory. Interface "lo" with address "02:00:00:00:00:01" is the loopback. ` +
				`Interface "" with address "02:00:00:00:00:02" has no name`,
		},
		"loopback only": {
			AddAll, nicWith("dummy0", "01", `"ipv4_address":"127.0.0.1"`), "",
			`validate-interfaces: add_ports is all, but each of the 1 usable interfaces has a loopback address`,
		},
		"loopback and nothing active": {
			AddActive, nicWith("dummy0", "01", `"ipv4_address":"127.0.0.1"`) + "," + nic("eth0", "02"), "",
			`validate-interfaces: add_ports is active, but each of the 2 usable interfaces has a loopback address, or has no IP address`,
		},
		"nothing active": {
			AddActive, nic("eth0", "01") + "," + nic("eth1", "02"), "",
			`validate-interfaces: add_ports is active, but each of the 2 usable interfaces has no IP address`,
		},
		"boot interface not listed": {
			AddPXE, nic("eth0", "01"), bootedFrom02,
			`validate-interfaces: add_ports is pxe, but each of the 1 usable interfaces is not the one the ramdisk was booted from`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := pipeline(t, func(c *Config) { c.AddPorts = tc.add }).Run(Input{Document: machine(t, tc.nics, tc.more)})
			if errorText(err) != tc.want {
				t.Errorf("error\n got: %v\nwant: %s", err, tc.want)
			}
		})
	}
}

func TestInterfaceWithALoopbackAddressGetsNoPort(t *testing.T) {
	existing := []Port{{UUID: "p", Address: "02:00:00:00:00:01"}}
	for name, tc := range map[string]struct {
		members  string
		networks []string
		port     bool
	}{
		"IPv4":                      {`"ipv4_address":"127.0.0.53"`, nil, false},
		"IPv6":                      {`"ipv6_address":"::1"`, nil, false},
		"IPv6 with a scope":         {`"ipv6_address":"::1%dummy0"`, nil, false},
		"IPv4 in IPv6":              {`"ipv6_address":"::ffff:127.0.0.1"`, nil, false},
		"IPv4 counts before IPv6":   {`"ipv4_address":"192.0.2.1","ipv6_address":"::1"`, nil, true},
		"link-local":                {`"ipv6_address":"fe80::1"`, nil, true},
		"simulated machine":         {`"ipv4_address":"127.64.0.1"`, []string{"127.64.0.0/10,::1/128"}, true},
		"beside simulated machines": {`"ipv4_address":"127.0.0.1"`, []string{"127.64.0.0/10"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := pipeline(t, func(c *Config) { c.LoopbackNetworks, c.KeepPorts = tc.networks, KeepPresent })
			doc := machine(t, nicWith("dummy0", "01", tc.members)+","+nic("eth0", "02"), "")
			result := run(t, p, Input{Document: doc})
			want := []string{"02:00:00:00:00:02"}
			if tc.port {
				want = []string{"02:00:00:00:00:01", "02:00:00:00:00:02"}
			}
			if diff := cmp.Diff(want, addresses(result.PortsToCreate)); diff != "" {
				t.Errorf("ports to create (-want +got):\n%s", diff)
			}
			var reasons []string
			if !tc.port {
				reasons = []string{`Interface "dummy0" has a loopback address`}
			}
			if diff := cmp.Diff(reasons, result.Skipped); diff != "" {
				t.Errorf("skipped (-want +got):\n%s", diff)
			}
			if result = run(t, p, Input{Document: doc, Ports: existing}); result.PortsToDelete != nil {
				t.Errorf("deleted %v, want the port of a present interface kept", result.PortsToDelete)
			}
		})
	}
}

func TestLoopbackNetworksAreChecked(t *testing.T) {
	for entry, want := range map[string]string{
		"127.64.0.0":  `inspector.loopback_networks: want CIDR networks such as 192.0.2.0/24: netip.ParsePrefix("127.64.0.0"): no '/'`,
		"10.0.0.0/8":  "inspector.loopback_networks: want parts of 127.0.0.0/8, or ::1/128, got 10.0.0.0/8",
		"126.0.0.0/7": "inspector.loopback_networks: want parts of 127.0.0.0/8, or ::1/128, got 126.0.0.0/7",
	} {
		cfg := DefaultConfig()
		cfg.LoopbackNetworks = []string{entry}
		if _, err := NewPipeline(cfg); errorText(err) != want {
			t.Errorf("entry %q: error %v, want %s", entry, err, want)
		}
	}
}
