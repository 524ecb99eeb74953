package inspect

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/inventory"
)

func TestAllowListRequiresEveryCriterionThatIsSet(t *testing.T) {
	machine := &inventory.Inventory{
		Interfaces:   []inventory.Interface{{MACAddress: "02:00:00:00:00:01"}, {}, {MACAddress: "52:54:00:12:34:56"}},
		SystemVendor: inventory.SystemVendor{SerialNumber: " abc123 "},
	}
	for name, tc := range map[string]struct {
		macs, serials, networks []string
		source                  string
		refuse                  string
	}{
		"nothing set":             {},
		"nothing set, no source":  {source: "-"},
		"vendor of one interface": {macs: []string{"00:00:5e", "52:54:00"}},
		"half an octet":           {macs: []string{"52-54-00-1"}},
		"whole address":           {macs: []string{"5254.0012.3456"}},
		"upper case":              {macs: []string{"02:00:00:00:00:01", "AA:BB"}},
		"other vendor":            {macs: []string{"00:00:5e", "52:54:00:13"}, refuse: "allowed_macs"},
		"serial":                  {serials: []string{"X", "ABC123"}},
		"other serial":            {serials: []string{"ABC1234"}, refuse: "allowed_serials"},
		"network":                 {networks: []string{"198.51.100.0/24", "192.0.2.0/25"}},
		"mapped address":          {networks: []string{"192.0.2.0/25"}, source: "::ffff:192.0.2.7"},
		"IPv6 with a zone":        {networks: []string{"fe80::/10"}, source: "fe80::1%eth0"},
		"other network":           {networks: []string{"192.0.2.128/25"}, refuse: "allowed_networks"},
		"network, no source":      {networks: []string{"0.0.0.0/0", "::/0"}, source: "-", refuse: "allowed_networks"},
		"two of three":            {macs: []string{"52:54:00"}, networks: []string{"192.0.2.0/24"}, serials: []string{"other"}, refuse: "allowed_serials"},
		"all of three":            {macs: []string{"52:54:00"}, networks: []string{"192.0.2.0/24"}, serials: []string{"abc123"}},
	} {
		t.Run(name, func(t *testing.T) {
			list, err := NewAllowList(tc.macs, tc.serials, tc.networks)
			if err != nil {
				t.Fatal(err)
			}
			source := netip.MustParseAddr("192.0.2.7")
			switch tc.source {
			case "":
			case "-":
				source = netip.Addr{}
			default:
				source = netip.MustParseAddr(tc.source)
			}
			if got := list.Refuses(machine, source); (got == "") != (tc.refuse == "") || !strings.Contains(got, tc.refuse) {
				t.Errorf("refused for %q, want %q", got, tc.refuse)
			}
		})
	}
}

func TestMachineWithoutSerialMatchesNoSerialList(t *testing.T) {
	list, err := NewAllowList(nil, []string{"ABC"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if list.Refuses(&inventory.Inventory{}, netip.Addr{}) == "" {
		t.Error("a machine without a serial number is allowed")
	}
}

func TestAllowListErrorNamesTheInvalidEntry(t *testing.T) {
	for want, parts := range map[string][3][]string{
		`allowed_macs: want the first digits of MAC addresses, such as 52:54:00, got "52:5g"`: {{"52:54", "52:5g"}},
		`got "52:54:00:12:34:56:7"`: {{"52:54:00:12:34:56:7"}},
		`got ""`:                    {{""}},
		"allowed_serials":           {nil, {" "}},
		"192.0.2.0":                 {nil, nil, {"192.0.2.0"}},
	} {
		if _, err := NewAllowList(parts[0], parts[1], parts[2]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want %q", err, want)
		}
	}
}
