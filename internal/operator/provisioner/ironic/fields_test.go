package ironic

import (
	"encoding/json"
	"testing"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

func TestEachHintForTheRootDeviceHasItsKeyAndOperator(t *testing.T) {
	no := false
	for want, hints := range map[string]v1alpha1.RootDeviceHints{
		`{"name":"s== /dev/sda"}`:                   {DeviceName: "/dev/sda"},
		`{"by_path":"s== /dev/disk/by-path/pci-0"}`: {DeviceName: "/dev/disk/by-path/pci-0"},
		`{"hctl":"s== 0:2:0:0"}`:                    {HCTL: "0:2:0:0"},
		`{"model":"\u003cin\u003e Fast"}`:           {Model: "Fast"},
		`{"vendor":"\u003cin\u003e ACME"}`:          {Vendor: "ACME"},
		`{"serial":"s== S1"}`:                       {SerialNumber: "S1"},
		`{"wwn":"s== 0x1"}`:                         {WWN: "0x1"},
		`{"wwn_with_extension":"s== 0x12"}`:         {WWNWithExtension: "0x12"},
		`{"wwn_vendor_extension":"s== 0x2"}`:        {WWNVendorExtension: "0x2"},
		`{"size":"\u003e= 9"}`:                      {MinSizeGigabytes: 9},
		`{"rotational":"false"}`:                    {Rotational: &no},
		`null`:                                      {},
	} {
		got, err := json.Marshal(rootDevice(&hints))
		if err != nil || string(got) != want {
			t.Errorf("%+v: %s, %v; want %s", hints, got, err, want)
		}
	}
}
