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
	m, d := newMachine(t, "dell")
	for mode, want := range map[string]bmc.Mode{"": bmc.UEFI, "uefi": bmc.UEFI, "bios": bmc.Legacy} {
		m.node.BootMode = mode
		if _, err := d.SetBootDevice(t.Context(), m.node, node.BootDevice{Device: "pxe"}, fresh); err != nil {
			t.Fatal(err)
		}
		if got := m.Override().Mode; got != want {
			t.Errorf("boot mode %q of the node: the machine boots in %s, want %s", mode, got, want)
		}
	}
}
