package inspect

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/inventory"
	"github.com/ingot-metal/ingot/internal/node"
)

func disksWithSerials(serials ...string) string {
	disks := make([]string, len(serials))
	for i, serial := range serials {
		encoded, _ := json.Marshal(serial) // a string always encodes
		disks[i] = fmt.Sprintf(`{"name":"/dev/sd%d","serial":%s}`, i, encoded)
	}
	return "[" + strings.Join(disks, ",") + "]"
}

func TestNewDiskBecomesTheRootDevice(t *testing.T) {
	const (
		none = "No disk has a serial number that the earlier inventory lacks"
		many = "2 disks have serial numbers that the earlier inventory lacks, so none of them is taken for the RAID volume"
	)
	for name, tc := range map[string]struct {
		before, now string // lists of disks; no earlier inventory at all if empty
		properties  string
		serial      string // of the root device that is set
		reason      string
	}{
		"one new":             {before: disksWithSerials("a", "b"), now: disksWithSerials("a", "b", "RAID 1"), serial: "RAID 1"},
		"others replaced":     {before: disksWithSerials("a", "b"), now: disksWithSerials("volume"), serial: "volume"},
		"two paths to it":     {before: disksWithSerials("a"), now: disksWithSerials("x", "a", " x "), reason: many},
		"two new":             {before: disksWithSerials("a"), now: disksWithSerials("a", "x", "y"), reason: many},
		"nothing new":         {before: disksWithSerials("a", "b"), now: disksWithSerials("b"), reason: none},
		"no disks now":        {before: disksWithSerials("a"), now: `[]`, reason: none},
		"null disks now":      {before: disksWithSerials("a"), now: `null`, reason: none},
		"no serials now":      {before: `[]`, now: `[{"serial":null},{"serial":" "},{}]`, reason: none},
		"no disks before":     {before: `null`, now: disksWithSerials("x"), serial: "x"},
		"no serials before":   {before: `[{"name":"/dev/sda"},{"name":"/dev/sdb","serial":null,"size":-1}]`, now: disksWithSerials("x"), serial: "x"},
		"never inspected":     {now: disksWithSerials("x"), reason: "There is no earlier inventory to find a new disk with; inspect before the RAID volume is made, and again after it, or set root_device"},
		"root device is set":  {before: `[]`, now: disksWithSerials("x"), properties: `{"root_device":{"name":"/dev/sda"}}`},
		"root device is text": {before: `[]`, now: disksWithSerials("x"), properties: `{"root_device":"/dev/sda"}`},
		"root device is null": {before: `[]`, now: disksWithSerials("x"), properties: `{"root_device":null}`},
		"root device is {}":   {before: `[]`, now: disksWithSerials("x"), properties: `{"root_device":{}}`},
		"serial is a hint": {
			before: `[]`, now: disksWithSerials(">= 5"),
			reason: `The new disk "/dev/sd0" cannot be the root device: its serial number ">= 5" reads as a hint expression`,
		},
		"serial is half a hint": {
			before: `[]`, now: disksWithSerials("<in>"),
			reason: `The new disk "/dev/sd0" cannot be the root device: serial: there is no value behind <in> in "<in>"`,
		},
		"overlong serial": {
			before: `[]`, now: disksWithSerials(strings.Repeat("x", 1000)),
			reason: `The new disk "/dev/sd0" cannot be the root device: its serial number has 1000 bytes, want at most 256`,
		},
		"quotes in the serial": {before: `[]`, now: disksWithSerials("a\"b\n\u00e9"), serial: "a\"b\n\u00e9"},
	} {
		t.Run(name, func(t *testing.T) {
			in := Input{Document: withDisks(t, tc.now, ""), Properties: node.Object(tc.properties)}
			if tc.before != "" {
				in.Previous = &withDisks(t, tc.before, "").Hardware
			}
			result := run(t, pipeline(t, only("raid-device")), in)
			var want map[string]any
			if tc.serial != "" {
				want = map[string]any{"root_device": map[string]string{"serial": tc.serial}}
			}
			if diff := cmp.Diff(want, result.Properties); diff != "" {
				t.Errorf("properties (-want +got):\n%s", diff)
			}
			if got := strings.Join(result.Skipped, "; "); got != tc.reason {
				t.Errorf("skipped\n got: %s\nwant: %s", got, tc.reason)
			}
		})
	}
}

func TestDiskThatABMCDidNotShowIsNoNewRAIDVolume(t *testing.T) {
	p := pipeline(t, only("raid-device"))
	for name, disks := range map[string]string{"others": `,"disks":[{"name":"RAID1","serial":"S1"}]`, "none": ""} {
		t.Run(name, func(t *testing.T) {
			previous := shown(t, `{"inventory":{"interfaces":[`+nic("1", "01")+`]`+disks+`}}`)
			in := Input{Document: withDisks(t, disksWithSerials("x"), ""), Previous: &previous.Document.Hardware}
			result := run(t, p, in)
			if _, set := result.Properties["root_device"]; set {
				t.Errorf("properties = %v, want no root device", result.Properties)
			}
			if got := strings.Join(result.Skipped, "; "); !strings.Contains(got, "is what the BMC showed") {
				t.Errorf("skipped %q, want the reason", got)
			}
		})
	}
}

func TestRAIDVolumeIsTheRootDiskOfTheSameInspection(t *testing.T) {
	p := pipeline(t, func(c *Config) { c.Hooks = []string{"raid-device", "root-device"} })
	if !p.ReadsPrevious() {
		t.Error("the pipeline does not ask for the earlier inventory")
	}
	previous := &inventory.Inventory{Disks: []inventory.Disk{{Name: "/dev/sda", Serial: "S10"}, {Name: "/dev/sdb", Serial: "S100"}}}
	result := run(t, p, Input{Document: withDisks(t, threeDisks, `,"root_disk":{"size":10737418240}`), Previous: previous})
	want := map[string]any{"root_device": map[string]string{"serial": "S400"}, "local_gb": "399"}
	if diff := cmp.Diff(want, result.Properties); diff != "" {
		t.Errorf("properties (-want +got):\n%s", diff)
	}
}
