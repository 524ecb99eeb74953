package hardware

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

func TestNICsAreThoseWithAnAddressOfTheirOwn(t *testing.T) {
	details := &v1alpha1.HardwareDetails{NICs: []v1alpha1.NIC{
		{Name: "eno1", MAC: "00:00:5E:00:53:01", IP: "192.0.2.1"},
		{Name: "eno1", MAC: "00:00:5e:00:53:01", IP: "2001:db8::1", PXE: true},
		{Name: "eno2", MAC: "00:00:5e:00:53:02"},
		{Name: "bond0", MAC: "00:00:5e:00:53:03"},
		{Name: "usb0", MAC: "02:00:5e:00:53:04"},
		{Name: "eth1", MAC: "B0:3A:F2:B6:05:9F"},
		{Name: "ens3", MAC: "52:54:00:00:53:05", PXE: true},
		{Name: "ib0", MAC: "00:00:5e:00:53:06:00:01"},
		{Name: "eno3"},
	}}
	want := []provisioner.NIC{
		{MAC: "00:00:5e:00:53:01", PXE: true}, {MAC: "00:00:5e:00:53:02"}, {MAC: "52:54:00:00:53:05", PXE: true},
	}
	if diff := cmp.Diff(want, NICs(details)); diff != "" {
		t.Errorf("NICs differ (-want +got):\n%s", diff)
	}
}
