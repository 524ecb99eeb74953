package ipmi_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/driver/drivertest"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
)

func TestPowerIsThatOfTheInterface(t *testing.T) {
	for _, vendor := range vendors {
		t.Run(vendor, func(t *testing.T) {
			m, d := newMachine(t, vendor)
			gone := *m.node
			gone.DriverInfo = gone.DriverInfo.With(map[string]any{"ipmi_port": 1})
			drivertest.Power(t, drivertest.PowerCase{Power: d, Reachable: m.node, Unreachable: &gone})
		})
	}
}

func TestMachineTellsItsBootDevice(t *testing.T) {
	yes, no := true, false
	for _, vendor := range vendors {
		t.Run(vendor, func(t *testing.T) {
			m, d := newMachine(t, vendor)
			if got, err := d.BootDevice(t.Context(), m.node); err != nil || got.Device != "" || got.Persistent != nil {
				t.Errorf("without boot flags: %+v, %v, want that it is unknown", got, err)
			}
			for _, name := range d.BootDevices(m.node) {
				want := node.BootDevice{Device: name, Persistent: &no}
				if _, err := d.SetBootDevice(t.Context(), m.node, want, fresh); err != nil {
					t.Fatal(err)
				}
				got, err := d.BootDevice(t.Context(), m.node)
				if diff := cmp.Diff(want, got); err != nil || diff != "" {
					t.Errorf("%s: %v, (-want +got):\n%s", name, err, diff)
				}
			}
			want := node.BootDevice{Device: "disk", Persistent: &yes}
			if _, err := d.SetBootDevice(t.Context(), m.node, want, fresh); err != nil {
				t.Fatal(err)
			}
			if got, err := d.BootDevice(t.Context(), m.node); err != nil || !cmp.Equal(want, got) {
				t.Errorf("disk for good: %+v, %v", got, err)
			}
			var invalid *node.ValidationError
			if _, err := d.SetBootDevice(t.Context(), m.node, node.BootDevice{Device: "tape"}, fresh); !errors.As(err, &invalid) {
				t.Errorf("an unknown device: %v, want a ValidationError", err)
			}
		})
	}
}

func TestBootDeviceIsForTheModeOfTheNode(t *testing.T) {
	asks := func(mode string) node.Object {
		return node.ObjectOf(map[string]any{"capabilities": "a:b,boot_mode:" + mode})
	}
	for name, test := range map[string]struct {
		change func(*node.Node)
		want   bmc.Mode
	}{
		"nothing said":             {func(*node.Node) {}, bmc.UEFI},
		"uefi":                     {func(n *node.Node) { n.BootMode = "uefi" }, bmc.UEFI},
		"bios":                     {func(n *node.Node) { n.BootMode = "bios" }, bmc.Legacy},
		"machine bios":             {func(n *node.Node) { n.Properties = asks("bios") }, bmc.Legacy},
		"instance bios":            {func(n *node.Node) { n.InstanceInfo = asks("bios") }, bmc.Legacy},
		"instance of a machine":    {func(n *node.Node) { n.InstanceInfo, n.Properties = asks("uefi"), asks("bios") }, bmc.UEFI},
		"mode before capabilities": {func(n *node.Node) { n.BootMode, n.Properties = "uefi", asks("bios") }, bmc.UEFI},
		"empty capability":         {func(n *node.Node) { n.Properties = asks("") }, bmc.UEFI},
	} {
		m, d := newMachine(t, "dell")
		test.change(m.node)
		if _, err := d.SetBootDevice(t.Context(), m.node, node.BootDevice{Device: "pxe"}, fresh); err != nil {
			t.Fatal(err)
		}
		if got := m.Override().Mode; got != test.want {
			t.Errorf("%s: the machine boots in %s, want %s", name, got, test.want)
		}
	}
}
