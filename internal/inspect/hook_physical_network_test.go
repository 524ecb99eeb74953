package inspect

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/inventory"
)

// networked is a pipeline with the hook and a map.
func networked(t testing.TB, cidrMap ...string) *Pipeline {
	t.Helper()
	return pipeline(t, func(c *Config) {
		c.Hooks, c.PhysicalNetworkCIDRMap = []string{"$default_hooks", "physical-network"}, cidrMap
	})
}

func TestPhysicalNetworkFollowsTheAddress(t *testing.T) {
	cidrs := []string{"192.0.2.0/25:first", "192.0.2.0/24:second", "2001:db8::/32:six", "fe80::/10:link", "0.0.0.0/0:any"}
	without := func(addr string) string {
		return `No network of inspector.physical_network_cidr_map holds the address of interface "eth0" (` + addr + `)`
	}
	for name, tc := range map[string]struct {
		cidrs                 []string
		members, before, want string
		skipped               string
	}{
		"first that fits":         {cidrs, `"ipv4_address":"192.0.2.1"`, "", "first", ""},
		"order, not length":       {[]string{"192.0.2.0/24:wide", "192.0.2.0/25:narrow"}, `"ipv4_address":"192.0.2.1"`, "", "wide", ""},
		"second":                  {cidrs, `"ipv4_address":"192.0.2.200"`, "", "second", ""},
		"IPv4 before IPv6":        {cidrs, `"ipv6_address":"2001:db8::1","ipv4_address":"192.0.2.1"`, "", "first", ""},
		"IPv6 if IPv4 fits none":  {[]string{"2001:db8::/32:six", "192.0.2.0/24:four"}, `"ipv4_address":"198.51.100.1","ipv6_address":"2001:db8::1"`, "", "six", ""},
		"IPv6 only":               {cidrs, `"ipv6_address":"2001:db8::1"`, "", "six", ""},
		"scope":                   {cidrs, `"ipv6_address":"fe80::1%eth0"`, "", "link", ""},
		"IPv4 in IPv6":            {cidrs, `"ipv6_address":"::ffff:192.0.2.1"`, "", "first", ""},
		"other than set":          {cidrs, `"ipv4_address":"192.0.2.1"`, "old", "first", ""},
		"as before":               {cidrs, `"ipv4_address":"192.0.2.1"`, "first", "", ""},
		"no address":              {cidrs, `"ipv4_address":null,"ipv6_address":null`, "old", "", ""},
		"broken address":          {cidrs, `"ipv4_address":"192.0.2","ipv6_address":""`, "old", "", ""},
		"address with length":     {cidrs, `"ipv4_address":"192.0.2.1/24"`, "old", "", ""},
		"no network":              {cidrs[:3], `"ipv4_address":"198.51.100.1"`, "old", "", without("198.51.100.1")},
		"no network for IPv6":     {cidrs[:2], `"ipv6_address":"2001:db8::1"`, "old", "", without("2001:db8::1")},
		"link-local says nothing": {cidrs[:2], `"ipv6_address":"fe80::1%eth0"`, "old", "", ""},
		"empty map":               {nil, `"ipv4_address":"192.0.2.1"`, "old", "", without("192.0.2.1")},
		"one text with commas":    {[]string{" 198.51.100.0/24:a , 192.0.2.0/24 : b ,"}, `"ipv4_address":"192.0.2.1"`, "", "b", ""},
	} {
		t.Run(name, func(t *testing.T) {
			in := Input{Document: machine(t, nicWith("eth0", "01", tc.members), ""), Ports: []Port{{UUID: "p", Address: "02:00:00:00:00:01", PhysicalNetwork: tc.before}}}
			result := run(t, networked(t, tc.cidrs...), in)
			got := ""
			if len(result.PortsToUpdate) > 0 {
				got = result.PortsToUpdate[0].PhysicalNetwork
			}
			if got != tc.want {
				t.Errorf("physical_network changes to %q, want %q", got, tc.want)
			}
			if skipped := strings.Join(result.Skipped, "; "); skipped != tc.skipped {
				t.Errorf("skipped = %q, want %q", skipped, tc.skipped)
			}
		})
	}
}

func TestBadPhysicalNetworksAreRefusedAtStart(t *testing.T) {
	for entry, want := range map[string]string{
		"192.0.2.0/24":                          "want NETWORK:NAME, such as 192.0.2.0/24:provisioning",
		"2001:db8::/32":                         "want NETWORK:NAME, such as 192.0.2.0/24:provisioning",
		"192.0.2.0/24:":                         "the name of the physical network is empty",
		"192.0.2.0/24: \t":                      "the name of the physical network is empty",
		":name":                                 `want a network such as 192.0.2.0/24 or 2001:db8::/64 in front of the name, got ""`,
		"192.0.2.1:name":                        `want a network such as 192.0.2.0/24 or 2001:db8::/64 in front of the name, got "192.0.2.1"`,
		"192.0.2.0/33:name":                     `want a network such as 192.0.2.0/24 or 2001:db8::/64 in front of the name, got "192.0.2.0/33"`,
		"fe80::%eth0/10:name":                   `want a network such as 192.0.2.0/24 or 2001:db8::/64 in front of the name, got "fe80::%eth0/10"`,
		"192.0.2.1/24:name":                     "192.0.2.1/24 is an address in a network; write the network, 192.0.2.0/24",
		"2001:db8::1/32:name":                   "2001:db8::1/32 is an address in a network; write the network, 2001:db8::/32",
		"10.0.0.0/8:" + strings.Repeat("ü", 65): "the name of the physical network has more than 64 characters",
	} {
		cfg := DefaultConfig()
		cfg.Hooks, cfg.PhysicalNetworkCIDRMap = []string{"validate-interfaces,physical-network"}, []string{"198.51.100.0/24:good", entry}
		_, err := NewPipeline(cfg)
		full := fmt.Sprintf("inspector.physical_network_cidr_map: entry %q: %s", strings.TrimSpace(entry), want)
		if errorText(err) != full {
			t.Errorf("NewPipeline\n got: %v\nwant: %s", err, full)
		}
	}
	cfg := DefaultConfig()
	cfg.Hooks, cfg.PhysicalNetworkCIDRMap = []string{"validate-interfaces,physical-network"}, []string{"10.0.0.0/8:a", "10.0.0.0/8:b"}
	if _, err := NewPipeline(cfg); errorText(err) != `inspector.physical_network_cidr_map: entry "10.0.0.0/8:b": the network 10.0.0.0/8 comes twice` {
		t.Errorf("NewPipeline of a network twice = %v", err)
	}
}

func TestPhysicalNetworkOfNewPortsIsMatchedByAddress(t *testing.T) {
	infiniband := strings.Repeat("a0:", 19) + "a0"
	doc := machine(t, strings.Join([]string{
		nic("eth0", "01"),
		nicWith("eth0.100", "01", `"ipv4_address":"192.0.2.1"`), // shares its address
		nicWith("eth1", "02", `"ipv4_address":"192.0.2.2"`),     // belongs to another node
		`{"name":"ib0","mac_address":"` + infiniband + `","ipv4_address":"192.0.2.3"}`,
		nicWith("eth3", "04", `"ipv4_address":"192.0.2.4"`),
	}, ","), "")
	result := run(t, networked(t, "192.0.2.0/24:net"), Input{Document: doc, Taken: map[string]string{"02:00:00:00:00:02": "other-node"}})
	got := map[string]string{}
	for _, port := range result.PortsToCreate {
		got[port.Address] = port.PhysicalNetwork
	}
	if diff := cmp.Diff(map[string]string{"02:00:00:00:00:01": "net", "02:00:00:00:00:04": "net"}, got); diff != "" {
		t.Errorf("physical networks (-want +got):\n%s", diff)
	}
}

func TestPortsOfAGroupShareOnePhysicalNetwork(t *testing.T) {
	for name, tc := range map[string]struct {
		second  string // members of the second interface
		want    map[string]string
		skipped []string
	}{
		"one has an address": {`"ipv4_address":null`, map[string]string{"a": "net", "b": "net"}, nil},
		"both in one":        {`"ipv4_address":"192.0.2.2"`, map[string]string{"a": "net", "b": "net"}, nil},
		"both in different ones": {`"ipv4_address":"198.51.100.2"`, map[string]string{}, []string{
			"The ports of port group g keep their physical network: port 02:00:00:00:00:01 is in net, port 02:00:00:00:00:02 in other",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			doc := machine(t, nicWith("eth0", "01", `"ipv4_address":"192.0.2.1"`)+","+nicWith("eth1", "02", tc.second), "")
			result := run(t, networked(t, "192.0.2.0/24:net", "198.51.100.0/24:other"), Input{Document: doc, Ports: []Port{
				{UUID: "a", Address: "02:00:00:00:00:01", PortgroupUUID: "g", PhysicalNetwork: "old"},
				{UUID: "b", Address: "02:00:00:00:00:02", PortgroupUUID: "g", PhysicalNetwork: "old"},
				{UUID: "c", Address: "02:00:00:00:00:03", PortgroupUUID: "h", PhysicalNetwork: "old"},
			}})
			got := map[string]string{}
			for _, port := range result.PortsToUpdate {
				got[port.UUID] = port.PhysicalNetwork
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("changed physical networks (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.skipped, result.Skipped); diff != "" {
				t.Errorf("skipped (-want +got):\n%s", diff)
			}
		})
	}
}

func TestThousandsOfInterfacesGetAPhysicalNetwork(t *testing.T) {
	var nics []string
	for i := range inventory.MaxInterfaces {
		nics = append(nics, fmt.Sprintf(`{"name":"eth%d","mac_address":"02:00:00:00:%02x:%02x","ipv4_address":"10.0.%d.%d"}`, i, i>>8, i&0xff, i>>8, i&0xff))
	}
	result := run(t, networked(t, "192.0.2.0/24:a", "10.0.0.0/16:b"), Input{Document: machine(t, strings.Join(nics, ","), "")})
	for _, port := range result.PortsToCreate {
		if port.PhysicalNetwork != "b" {
			t.Fatalf("port %s is in %q, want b", port.Address, port.PhysicalNetwork)
		}
	}
}
