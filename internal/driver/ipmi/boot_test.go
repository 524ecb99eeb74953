package ipmi_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

// computer remembers how it has booted.
type computer struct {
	boots []bmc.Boot
	on    bool
}

func (c *computer) PowerOn(b bmc.Boot) { c.boots, c.on = append(c.boots, b), true }
func (c *computer) PowerOff()          { c.on = false }
func (*computer) Shutdown() bool       { return true }
func (c *computer) On() bool           { return c.on }

// boots switches the machine on and off again, and returns what it booted from.
func (m *machine) boots(c *computer) bmc.Source {
	m.t.Helper()
	for _, kind := range []bmc.ResetType{bmc.ResetOn, bmc.ResetForceOff} {
		if err := m.Reset(&bmc.Call{}, kind); err != nil {
			m.t.Fatal(err)
		}
	}
	return c.boots[len(c.boots)-1].Source
}

func TestFirmwareBootsFromTheDeviceOfEachRequest(t *testing.T) {
	yes, no := true, false
	for _, vendor := range vendors {
		t.Run(vendor, func(t *testing.T) {
			c := &computer{}
			m, d := newMachine(t, vendor, redfishtest.Options{Computer: c})
			for _, persistent := range []*bool{&no, &no, &yes, &yes} {
				if _, err := d.SetBootDevice(t.Context(), m.node, node.BootDevice{Device: "disk", Persistent: persistent}, fresh); err != nil {
					t.Fatal(err)
				}
				if got := m.boots(c); got != bmc.FromDisk {
					t.Errorf("for good %t: it boots from %s, want disk", *persistent, got)
				}
				want := bmc.FromNetwork // which is the first of its boot order
				if *persistent {
					want = bmc.FromDisk
				}
				if got := m.boots(c); got != want {
					t.Errorf("for good %t: it then boots from %s, want %s", *persistent, got, want)
				}
			}
		})
	}
}

func TestBootFlagsForOneBootAreSentAlthoughTheBMCShowsThem(t *testing.T) {
	for _, persistent := range []bool{false, true} {
		m, d := newMachine(t, "dell")
		want := []string{"boot device"}
		if !persistent {
			want = append(want, "boot device")
		}
		for range 2 {
			m.HandleBootFlags(false)
			if _, err := d.SetBootDevice(t.Context(), m.node, node.BootDevice{Device: "pxe", Persistent: &persistent}, fresh); err != nil {
				t.Fatal(err)
			}
			if !m.HandlesBootFlags() {
				t.Errorf("for good %t: the firmware is not to handle the flags", persistent)
			}
		}
		if got := m.Effects(); !slices.Equal(got, want) {
			t.Errorf("for good %t: effects %q, want %q", persistent, got, want)
		}
	}
}

func TestBMCMayShowNothingOfTheBootFlagsButTheDevice(t *testing.T) {
	for _, persistent := range []bool{false, true} {
		m, d := newMachine(t, "dell")
		m.IPMI.ShowDeviceOnly()
		want := bmc.Once
		if persistent {
			want = bmc.Continuous
		}
		for range 2 { // it cannot be seen whether it has them already
			if _, err := d.SetBootDevice(t.Context(), m.node, node.BootDevice{Device: "disk", Persistent: &persistent}, fresh); err != nil {
				t.Errorf("for good %t: %v", persistent, err)
			}
		}
		if got := m.Override(); got.Target != bmc.TargetDisk || got.Enabled != want || len(m.Effects()) != 2 {
			t.Errorf("for good %t: boot settings %+v after %q, want %s after two requests", persistent, got, m.Effects(), want)
		}
	}
}

func TestBMCMayLackTheAcknowledgeOfBootFlags(t *testing.T) {
	const acknowledge = 4
	for code, lacks := range map[uint8]bool{0x80: true, 0x82: true, 0xC9: true, 0xCC: true, 0xD6: true, 0x81: false, 0xC0: false, 0xD4: false, 0xFF: false} {
		m, d := newMachine(t, "dell")
		m.IPMI.Lack(acknowledge, code)
		_, err := d.SetBootDevice(t.Context(), m.node, node.BootDevice{Device: "pxe"}, fresh)
		var failure *node.DriverError
		if lacks && err != nil || !lacks && !errors.As(err, &failure) {
			t.Errorf("code %#02x: %v, want that it fails: %t", code, err, !lacks)
		}
		if set := len(m.Effects()) == 1; set != lacks {
			t.Errorf("code %#02x: the boot device is set: %t, want %t", code, set, lacks)
		}
	}
}
