package driver_test

import (
	"testing"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

func TestNodesBehindOneBMCHaveOneKey(t *testing.T) {
	r := newRegistry(t, driver.Config{})
	for _, tt := range []struct {
		driver string
		info   map[string]any
		want   string
	}{
		{"redfish", map[string]any{"redfish_address": "192.0.2.7"}, "192.0.2.7:443"},
		{"redfish", map[string]any{"redfish_address": "https://192.0.2.7/redfish/v1"}, "192.0.2.7:443"},
		{"redfish", map[string]any{"redfish_address": "https://BMC.example:8443/"}, "bmc.example:8443"},
		{"redfish", map[string]any{"redfish_address": "http://bmc.example"}, "bmc.example:80"},
		{"redfish", map[string]any{"redfish_address": "bmc.example:8443"}, "bmc.example:8443"},
		{"redfish", map[string]any{"redfish_address": "fd00::0007"}, "[fd00::7]:443"},
		{"redfish", map[string]any{"redfish_address": "https://[fd00::7]"}, "[fd00::7]:443"},
		{"redfish", map[string]any{"redfish_address": "http://%zz"}, "http://%zz"},
		{"redfish", nil, "node u"},
		{"ipmi", map[string]any{"ipmi_address": "192.0.2.7"}, "192.0.2.7:623"},
		{"ipmi", map[string]any{"ipmi_address": "192.0.2.7", "ipmi_port": 6230}, "192.0.2.7:6230"},
		{"ipmi", map[string]any{"ipmi_address": "192.0.2.7", "ipmi_port": "6230"}, "192.0.2.7:6230"},
		{"ipmi", map[string]any{"redfish_address": "192.0.2.7"}, "node u"},
		{"fake-hardware", map[string]any{"fake_machine": "http://127.0.0.1:8099/machines/m1"}, "127.0.0.1:8099"},
		{"fake-hardware", map[string]any{"fake_machine": "http://127.0.0.1:8099/machines/m1", "fake_bmc": "Chassis-1"}, "chassis-1"},
		{"fake-hardware", nil, "node u"},
		{"manual-management", nil, "node u"},
		{"nobody knows", nil, "node u"},
	} {
		n := &node.Node{UUID: "u", Driver: tt.driver, DriverInfo: node.ObjectOf(tt.info)}
		if got := r.BMC(n); got != tt.want {
			t.Errorf("%s %v: got %q, want %q", tt.driver, tt.info, got, tt.want)
		}
	}
}

func TestAddressOfABMCIsTheSameOnlyWithAllItsKeys(t *testing.T) {
	const stored = `{"redfish_address":"https://192.0.2.7","redfish_system_id":"/redfish/v1/Systems/1","ipmi_port":623}`
	for changed, want := range map[string]bool{
		stored: true,
		`{"redfish_system_id":"/redfish/v1/Systems/2","redfish_address":"https://192.0.2.7","ipmi_port": 623,"a":"b"}`: true,
		`{"redfish_address":"https://192.0.2.8","ipmi_port":623}`:                                                      false,
		`{"redfish_address":"http://192.0.2.7","ipmi_port":623}`:                                                       false,
		`{"redfish_address":"https://192.0.2.7","ipmi_port":624}`:                                                      false,
		`{"redfish_address":"https://192.0.2.7","ipmi_port":623,"ipmi_address":"192.0.2.8"}`:                           false,
		`{"ipmi_port":623}`: false,
		`{}`:                false,
	} {
		if got := driver.SameAddress(node.Object(stored), node.Object(changed)); got != want {
			t.Errorf("%s: got %t, want %t", changed, got, want)
		}
	}
}

func TestAttributesHoldForEveryTypeEnabledOrNot(t *testing.T) {
	r := newRegistry(t, driver.Config{EnabledHardwareTypes: []string{"fake-hardware"}})
	for name, want := range map[string]node.HardwareAttributes{
		"redfish":           {HasBMC: true, SkipBMCDetect: true},
		"ipmi":              {HasBMC: true},
		"fake-hardware":     {},
		"manual-management": {NeedsRamdiskForPower: true},
		"nobody knows":      {HasBMC: true},
	} {
		n := &node.Node{Driver: name}
		if got := r.Attributes(n); got != want || r.HasBMC(n) != want.HasBMC {
			t.Errorf("%s: got %+v and HasBMC %v, want %+v", name, got, r.HasBMC(n), want)
		}
	}
}
