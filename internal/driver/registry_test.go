package driver_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/builtin"
	"github.com/ingot-metal/ingot/internal/driver/fake"
	"github.com/ingot-metal/ingot/internal/node"
)

func newRegistry(t *testing.T, config driver.Config) *driver.Registry {
	t.Helper()
	r, err := builtin.New(config, builtin.Dependencies{})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return r
}

func TestTypesWithoutBMCAreEnabledByDefault(t *testing.T) {
	r := newRegistry(t, driver.Config{})
	if diff := cmp.Diff([]string{"fake-hardware", "manual-management"}, r.Names()); diff != "" {
		t.Error(diff)
	}
	if _, ok := r.Type("redfish"); ok {
		t.Error("redfish is enabled by default")
	}
}

func TestResolveFillsWhatWasNotAsked(t *testing.T) {
	r := newRegistry(t, driver.Config{})
	tests := []struct {
		driver string
		asked  node.Interfaces
		want   node.Interfaces
	}{
		{driver: "manual-management", want: node.Interfaces{
			node.BIOSInterface: "no-bios", node.BootInterface: "ipxe", node.ConsoleInterface: "no-console",
			node.DeployInterface: "direct", node.FirmwareInterface: "no-firmware", node.InspectInterface: "agent",
			node.ManagementInterface: "noop", node.NetworkInterface: "noop", node.PowerInterface: "agent",
			node.RAIDInterface: "agent", node.RescueInterface: "no-rescue", node.StorageInterface: "noop",
			node.VendorInterface: "no-vendor",
		}},
		{driver: "fake-hardware", asked: node.Interfaces{node.InspectInterface: "agent", node.DeployInterface: "direct"}, want: node.Interfaces{
			node.BIOSInterface: "fake", node.BootInterface: "fake", node.ConsoleInterface: "fake",
			node.DeployInterface: "direct", node.FirmwareInterface: "fake", node.InspectInterface: "agent",
			node.ManagementInterface: "fake", node.NetworkInterface: "noop", node.PowerInterface: "fake",
			node.RAIDInterface: "fake", node.RescueInterface: "fake", node.StorageInterface: "noop",
			node.VendorInterface: "fake",
		}},
	}
	for _, tt := range tests {
		got, err := r.Resolve(tt.driver, tt.asked)
		if err != nil {
			t.Errorf("Resolve(%s): %v", tt.driver, err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("Resolve(%s) (-want +got):\n%s", tt.driver, diff)
		}
	}
}

func TestNothingIsPretendedOfADiscoveredMachineButItsPower(t *testing.T) {
	r := newRegistry(t, driver.Config{EnabledHardwareTypes: []string{"fake-hardware", "redfish"}})
	got, err := r.InterfacesOf(&node.Node{Driver: "fake-hardware", AutoDiscovered: true, Interfaces: node.Interfaces{node.RAIDInterface: "fake"}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(node.Interfaces{
		node.BIOSInterface: "no-bios", node.BootInterface: "ipxe", node.ConsoleInterface: "no-console",
		node.DeployInterface: "direct", node.FirmwareInterface: "no-firmware", node.InspectInterface: "agent",
		node.ManagementInterface: "noop", node.NetworkInterface: "noop", node.PowerInterface: "fake",
		node.RAIDInterface:   "fake", // which was asked for
		node.RescueInterface: "no-rescue", node.StorageInterface: "noop", node.VendorInterface: "no-vendor",
	}, got); diff != "" {
		t.Errorf("discovered fake hardware (-want +got):\n%s", diff)
	}
	for _, n := range []*node.Node{{Driver: "fake-hardware"}, {Driver: "redfish", AutoDiscovered: true}} {
		want, _ := r.Resolve(n.Driver, n.Interfaces)
		if got, err := r.InterfacesOf(n); err != nil || got != want {
			t.Errorf("%s, discovered: %t: got %q, %v; want the defaults of the type", n.Driver, n.AutoDiscovered, got, err)
		}
	}
}

func TestResolveRefusesWithTheNamesToUse(t *testing.T) {
	r := newRegistry(t, driver.Config{})
	tests := []struct {
		name, driver string
		asked        node.Interfaces
		want         string // in the message
	}{
		{"unknown driver", "nosuch", node.Interfaces{}, "fake-hardware, manual-management"},
		{"known but not enabled driver", "redfish", node.Interfaces{}, "not enabled"},
		{"interface of another type", "manual-management", node.Interfaces{node.PowerInterface: "fake"}, "power_interface"},
		{"unknown interface", "fake-hardware", node.Interfaces{node.BootInterface: "floppy"}, "fake, ipxe"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := r.Resolve(tt.driver, tt.asked)
			var invalid *node.ValidationError
			if !errors.As(err, &invalid) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want a ValidationError with %q", err, tt.want)
			}
		})
	}
}

func TestConfigurationNarrowsAndPrefers(t *testing.T) {
	r := newRegistry(t, driver.Config{
		EnabledHardwareTypes: []string{"manual-management", "manual-management"},
		EnabledInterfaces:    map[node.InterfaceKind][]string{node.DeployInterface: {"custom-agent", "direct"}},
		DefaultInterfaces:    map[node.InterfaceKind]string{node.DeployInterface: "custom-agent", node.BootInterface: "pxe"},
	})
	if got := r.Names(); len(got) != 1 {
		t.Errorf("names: got %q, want one", got)
	}
	manual, _ := r.Type("manual-management")
	if diff := cmp.Diff([]string{"direct", "custom-agent"}, manual.Enabled[node.DeployInterface]); diff != "" {
		t.Error(diff)
	}
	if got := manual.Default[node.DeployInterface] + " " + manual.Default[node.BootInterface]; got != "custom-agent pxe" {
		t.Errorf("defaults: got %q", got)
	}
}

func TestDefaultThatATypeLacksLeavesItsOwn(t *testing.T) {
	r := newRegistry(t, driver.Config{DefaultInterfaces: map[node.InterfaceKind]string{node.PowerInterface: "fake"}})
	manual, _ := r.Type("manual-management")
	if got := manual.Default[node.PowerInterface]; got != "agent" {
		t.Errorf("power interface of manual-management: got %q, want agent", got)
	}
}

func TestConfigurationThatCannotWorkIsRefused(t *testing.T) {
	tests := []struct {
		name   string
		config driver.Config
		want   string
	}{
		{"unknown type", driver.Config{EnabledHardwareTypes: []string{"toaster"}}, `"toaster"`},
		{"unknown interface", driver.Config{EnabledInterfaces: map[node.InterfaceKind][]string{node.BootInterface: {"floppy"}}}, "floppy"},
		{"unknown default", driver.Config{DefaultInterfaces: map[node.InterfaceKind]string{node.BootInterface: "floppy"}}, "floppy"},
		{"nothing left", driver.Config{EnabledInterfaces: map[node.InterfaceKind][]string{node.PowerInterface: {"fake"}}}, "manual-management: no power interface"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := builtin.New(tt.config, builtin.Dependencies{}); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func TestPowerOfAnUnbuiltTypeFailsWithOneSentence(t *testing.T) {
	r := newRegistry(t, driver.Config{EnabledHardwareTypes: []string{"redfish", "ipmi"}})
	for _, name := range r.Names() {
		interfaces, err := r.Resolve(name, node.Interfaces{})
		if err != nil {
			t.Fatalf("Resolve(%s): %v", name, err)
		}
		_, err = r.Power(&node.Node{UUID: "u", Driver: name, Interfaces: interfaces})
		var invalid *node.ValidationError
		if !errors.As(err, &invalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("power of %s: got %v, want a ValidationError that names it", name, err)
		}
	}
}

func TestPowerIsTheOneThatTheNodeChose(t *testing.T) {
	r := newRegistry(t, driver.Config{})
	for name, want := range map[string][]node.PowerState{
		"fake-hardware":     fake.Hardware{}.Supported(),
		"manual-management": nil,
	} {
		interfaces, err := r.Resolve(name, node.Interfaces{})
		if err != nil {
			t.Fatalf("Resolve(%s): %v", name, err)
		}
		p, err := r.Power(&node.Node{Driver: name, Interfaces: interfaces})
		if err != nil || !slices.Equal(p.Supported(), want) {
			t.Errorf("power of %s: got %v, %v", name, p, err)
		}
	}
}

func TestPropertiesDescribeEnabledTypesOnly(t *testing.T) {
	r := newRegistry(t, driver.Config{EnabledHardwareTypes: []string{"redfish"}})
	if got := r.Properties("redfish"); got["redfish_address"] == "" || got["deploy_kernel"] == "" {
		t.Errorf("properties of redfish: got %v", got)
	}
	if got := r.Properties("ipmi"); got != nil {
		t.Errorf("properties of a type that is not enabled: got %v", got)
	}
}
