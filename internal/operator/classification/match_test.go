package classification

import (
	"testing"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// hardware is what the tests classify.
func hardware() *v1alpha1.HardwareDetails {
	const gigabyte = 1_000_000_000
	return &v1alpha1.HardwareDetails{
		CPU:          v1alpha1.CPU{Arch: "x86_64", Count: 16, ClockMegahertz: 2400},
		RAMMebibytes: 65536,
		SystemVendor: v1alpha1.HardwareSystemVendor{Manufacturer: "ACME", ProductName: "Anvil 9000 Pro"},
		Firmware:     v1alpha1.Firmware{BIOS: v1alpha1.BIOS{Vendor: "ACME", Version: "2.10.1"}},
		NICs: []v1alpha1.NIC{
			{Name: "eno1", Model: "0x8086 0x1572", IP: "192.0.2.1"},
			{Name: "eno1", Model: "0x8086 0x1572", IP: "2001:db8::1"},
			{Name: "eno2", Model: "0x15B3 0x1017"},
		},
		Storage: []v1alpha1.Storage{
			{Name: "/dev/sda", HCTL: "0:0:0:0", Rotational: true, SizeBytes: 4000 * gigabyte},
			{Name: "/dev/sdb", HCTL: "0:0:5:0", Type: v1alpha1.DiskHDD, SizeBytes: 8000 * gigabyte},
			{Name: "/dev/sdc", HCTL: "2:0:0:0", Type: v1alpha1.DiskSSD, SizeBytes: 400 * gigabyte},
		},
	}
}

func TestMatches(t *testing.T) {
	type profile = v1alpha1.HardwareCharacteristics
	cpu := func(c v1alpha1.CPUCharacteristics) profile { return profile{CPU: &c} }
	disk := func(c v1alpha1.DiskCharacteristics) profile { return profile{Disk: &c} }
	nic := func(c v1alpha1.NICCharacteristics) profile { return profile{NIC: &c} }
	ram := func(least, largest int) profile {
		return profile{RAM: &v1alpha1.RAMCharacteristics{MinimumSizeGB: least, MaximumSizeGB: largest}}
	}
	vendor := func(maker, model string) profile {
		return profile{SystemVendor: &v1alpha1.SystemVendorCharacteristics{Manufacturer: maker, ProductName: model}}
	}
	bios := func(maker, least, largest string) profile {
		return profile{Firmware: &v1alpha1.FirmwareCharacteristics{BIOS: v1alpha1.BIOSCharacteristics{Vendor: maker, MinorVersion: least, MajorVersion: largest}}}
	}
	spinning := []v1alpha1.DiskSelector{{HCTL: "0:0:N:0", Rotational: true}}
	for name, tt := range map[string]struct {
		profile profile
		want    bool
	}{
		"nothing":                              {profile{}, false},
		"architecture":                         {cpu(v1alpha1.CPUCharacteristics{Architecture: "x86_64"}), true},
		"another architecture":                 {cpu(v1alpha1.CPUCharacteristics{Architecture: "aarch64"}), false},
		"processors, bounds included":          {cpu(v1alpha1.CPUCharacteristics{MinimumCount: 16, MaximumCount: 16}), true},
		"too few processors":                   {cpu(v1alpha1.CPUCharacteristics{MinimumCount: 17}), false},
		"too many processors":                  {cpu(v1alpha1.CPUCharacteristics{MaximumCount: 15}), false},
		"clock, bounds included":               {cpu(v1alpha1.CPUCharacteristics{MinimumSpeedMHz: 2400, MaximumSpeedMHz: 2400}), true},
		"clock too low":                        {cpu(v1alpha1.CPUCharacteristics{MinimumSpeedMHz: 2401}), false},
		"memory, bounds included":              {ram(64, 64), true},
		"too little memory":                    {ram(65, 0), false},
		"too much memory":                      {ram(0, 63), false},
		"maker and a part of the model":        {vendor("ACME", "Anvil 9000"), true},
		"a part of the maker":                  {vendor("ACM", ""), false},
		"another model":                        {vendor("", "Hammer"), false},
		"BIOS between two versions":            {bios("ACME", "2.9", "2.10.1"), true},
		"BIOS too old":                         {bios("", "2.11", "3"), false},
		"BIOS too new":                         {bios("", "1", "2.10"), false},
		"one version alone restricts nothing":  {bios("ACME", "9", ""), true},
		"BIOS of another maker":                {bios("Phoenix", "", ""), false},
		"disks, each within the sizes":         {disk(v1alpha1.DiskCharacteristics{MinimumCount: 3, MaximumCount: 3, MinimumIndividualSizeGB: 400, MaximumIndividualSizeGB: 8000}), true},
		"one disk too small":                   {disk(v1alpha1.DiskCharacteristics{MinimumIndividualSizeGB: 401}), false},
		"one disk too large":                   {disk(v1alpha1.DiskCharacteristics{MaximumIndividualSizeGB: 7999}), false},
		"selected disks only":                  {disk(v1alpha1.DiskCharacteristics{MinimumCount: 2, MaximumCount: 2, MinimumIndividualSizeGB: 4000, DiskSelector: spinning}), true},
		"too few selected disks":               {disk(v1alpha1.DiskCharacteristics{MinimumCount: 3, DiskSelector: spinning}), false},
		"selector without a disk":              {disk(v1alpha1.DiskCharacteristics{DiskSelector: append([]v1alpha1.DiskSelector{{HCTL: "N:N:0:0"}}, spinning...)}), false},
		"selector by address 0:0:0:0":          {disk(v1alpha1.DiskCharacteristics{MinimumCount: 2, DiskSelector: []v1alpha1.DiskSelector{{HCTL: "0:0:0:0", Rotational: true}}}), true},
		"selector of solid state disks":        {disk(v1alpha1.DiskCharacteristics{MaximumCount: 1, MaximumIndividualSizeGB: 400, DiskSelector: []v1alpha1.DiskSelector{{}}}), true},
		"a NIC with two addresses counts once": {nic(v1alpha1.NICCharacteristics{MinimumCount: 2, MaximumCount: 2}), true},
		"too few NICs":                         {nic(v1alpha1.NICCharacteristics{MinimumCount: 3}), false},
		"a NIC of each vendor, in any case":    {nic(v1alpha1.NICCharacteristics{NICSelector: v1alpha1.NICSelector{Vendor: []string{"0x8086", "0x15b3"}}}), true},
		"no NIC of one vendor":                 {nic(v1alpha1.NICCharacteristics{NICSelector: v1alpha1.NICSelector{Vendor: []string{"0x8086", "0x14e4"}}}), false},
		"all have to match":                    {profile{CPU: &v1alpha1.CPUCharacteristics{MinimumCount: 1}, RAM: &v1alpha1.RAMCharacteristics{MinimumSizeGB: 128}}, false},
		"all match":                            {profile{CPU: &v1alpha1.CPUCharacteristics{MinimumCount: 1}, RAM: &v1alpha1.RAMCharacteristics{MinimumSizeGB: 64}}, true},
	} {
		if got := matches(tt.profile, hardware()); got != tt.want {
			t.Errorf("%s: matches = %v, want %v", name, got, tt.want)
		}
		stripped := &v1alpha1.HardwareData{Spec: v1alpha1.HardwareDataSpec{HardwareDetails: hardware()}}
		if _, err := StripHardware(stripped); err != nil {
			t.Fatal(err)
		}
		if got := matches(tt.profile, stripped.Spec.HardwareDetails); got != tt.want {
			t.Errorf("%s: what the cache keeps matches = %v, want %v", name, got, tt.want)
		}
		if matches(tt.profile, nil) {
			t.Errorf("%s: hardware that is not known matches", name)
		}
	}
}

func TestCompareVersions(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"1.2", "1.10", -1}, {"2.0", "2", 1}, {"2.10.1", "2.10.1", 0}, {"U30", "U46", -1}, {"1.2-3", "1.2.3", 0},
	} {
		if got := compareVersions(tt.a, tt.b); got != tt.want {
			t.Errorf("compareVersions(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
