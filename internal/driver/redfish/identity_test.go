package redfish_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBMCTellsWhatTheRamdiskFinds(t *testing.T) {
	eachVendor(t, func(t *testing.T, vendor string) {
		t.Helper()
		m, d := newMachine(t, vendor)
		got, err := d.MachineFacts(t.Context(), m.node)
		if err != nil {
			t.Fatal(err)
		}
		want := m.Hardware().Inspection.Inventory
		var macs []string
		for _, nic := range want.Interfaces {
			macs = append(macs, nic.MACAddress)
		}
		slices.Sort(macs)
		if diff := cmp.Diff(macs, got.MACAddresses); diff != "" {
			t.Errorf("addresses (-want +got):\n%s", diff)
		}
		if got.SerialNumber != want.SystemVendor.SerialNumber || got.UUID == "" {
			t.Errorf("facts = %+v, want a UUID and the serial number %s", got, want.SystemVendor.SerialNumber)
		}
		if effects := m.Effects(); len(effects) != 0 {
			t.Errorf("reading changed the machine: %v", effects)
		}
	})
}

func TestAddressesWithGapsAreNotTold(t *testing.T) {
	m, d := newMachine(t, "dell")
	m.without("/EthernetInterfaces/", http.StatusNotFound, `{}`)
	got, err := d.MachineFacts(t.Context(), m.node)
	if err != nil || got.SerialNumber == "" || len(got.MACAddresses) != 0 {
		t.Errorf("facts = %+v, %v; want a serial number and no addresses", got, err)
	}
}

func TestNetworkInterfacesThatCanBeReadAreShown(t *testing.T) {
	m, d := newMachine(t, "dell")
	want := m.Hardware().Inspection.Inventory.Interfaces
	m.without("/EthernetInterfaces/"+want[0].Name, http.StatusInternalServerError, `{}`)
	got, err := d.NetworkAddresses(t.Context(), m.node)
	if err != nil || len(got) == 0 || len(got) > len(want) {
		t.Errorf("addresses = %v, %v; want those of interfaces that can be read", got, err)
	}
	m.without("/EthernetInterfaces/", http.StatusInternalServerError, `{}`)
	if got, err := d.NetworkAddresses(t.Context(), m.node); err == nil {
		t.Errorf("addresses = %v without an error, though none can be read", got)
	}
}
