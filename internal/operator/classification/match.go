package classification

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// restricts reports whether a profile sets any characteristic.
func restricts(c v1alpha1.HardwareCharacteristics) bool {
	return !equality.Semantic.DeepEqual(c, v1alpha1.HardwareCharacteristics{})
}

// matches reports whether hardware has all characteristics. Unknown hardware matches no profile,
// and a profile without characteristics matches no hardware.
func matches(c v1alpha1.HardwareCharacteristics, d *v1alpha1.HardwareDetails) bool {
	return d != nil && restricts(c) &&
		matchesCPU(c.CPU, d.CPU) && matchesDisks(c.Disk, d.Storage) && matchesNICs(c.NIC, d.NICs) &&
		matchesRAM(c.RAM, d.RAMMebibytes) && matchesVendor(c.SystemVendor, d.SystemVendor) && matchesFirmware(c.Firmware, d.Firmware.BIOS)
}

// within reports whether a value is within bounds. A bound of 0 does not count.
func within[N cmp.Ordered](value, least, largest N) bool {
	var none N
	return (least == none || value >= least) && (largest == none || value <= largest)
}

func matchesCPU(c *v1alpha1.CPUCharacteristics, cpu v1alpha1.CPU) bool {
	return c == nil || (c.Architecture == "" || c.Architecture == cpu.Arch) &&
		within(cpu.Count, c.MinimumCount, c.MaximumCount) &&
		within(float64(cpu.ClockMegahertz), float64(c.MinimumSpeedMHz), float64(c.MaximumSpeedMHz))
}

func matchesRAM(c *v1alpha1.RAMCharacteristics, mebibytes int) bool {
	return c == nil || within(mebibytes, c.MinimumSizeGB*1024, c.MaximumSizeGB*1024)
}

func matchesVendor(c *v1alpha1.SystemVendorCharacteristics, vendor v1alpha1.HardwareSystemVendor) bool {
	return c == nil || (c.Manufacturer == "" || c.Manufacturer == vendor.Manufacturer) && strings.Contains(vendor.ProductName, c.ProductName)
}

func matchesFirmware(c *v1alpha1.FirmwareCharacteristics, bios v1alpha1.BIOS) bool {
	if c == nil {
		return true
	}
	least, largest := c.BIOS.MinorVersion, c.BIOS.MajorVersion
	return (c.BIOS.Vendor == "" || c.BIOS.Vendor == bios.Vendor) &&
		(least == "" || largest == "" || compareVersions(least, bios.Version) <= 0 && compareVersions(bios.Version, largest) <= 0)
}

// matchesDisks checks number and sizes of the selected disks.
func matchesDisks(c *v1alpha1.DiskCharacteristics, disks []v1alpha1.Storage) bool {
	if c == nil {
		return true
	}
	var selected []v1alpha1.Storage
	chosen := make([]bool, len(c.DiskSelector))
	for _, disk := range disks {
		used := len(c.DiskSelector) == 0
		for i, selector := range c.DiskSelector {
			if selects(selector, disk) {
				used, chosen[i] = true, true
			}
		}
		if used {
			selected = append(selected, disk)
		}
	}
	const gigabyte = 1e9
	wrongSize := func(disk v1alpha1.Storage) bool {
		return !within(int64(disk.SizeBytes), c.MinimumIndividualSizeGB*gigabyte, c.MaximumIndividualSizeGB*gigabyte)
	}
	return !slices.Contains(chosen, false) && within(len(selected), c.MinimumCount, c.MaximumCount) && !slices.ContainsFunc(selected, wrongSize)
}

func selects(s v1alpha1.DiskSelector, disk v1alpha1.Storage) bool {
	rotational := disk.Rotational || disk.Type == v1alpha1.DiskHDD
	return rotational == s.Rotational && (s.HCTL == "" || addressPattern(s.HCTL) == addressPattern(disk.HCTL))
}

// addressPattern replaces each part of a SCSI address that is not 0 by N.
func addressPattern(address string) string {
	parts := strings.Split(address, ":")
	for i, part := range parts {
		if part != "0" {
			parts[i] = "N"
		}
	}
	if pattern := strings.Join(parts, ":"); pattern != "0:0:0:0" {
		return pattern
	}
	return "0:0:N:0"
}

// matchesNICs checks the number of NICs and their vendors. A NIC with several addresses has several
// entries, but counts once.
func matchesNICs(c *v1alpha1.NICCharacteristics, nics []v1alpha1.NIC) bool {
	if c == nil {
		return true
	}
	distinct, vendors := map[string]bool{}, map[string]bool{}
	for _, nic := range nics {
		distinct[cmp.Or(nic.Name, nic.MAC)] = true
		vendor, _, _ := strings.Cut(strings.TrimSpace(nic.Model), " ")
		vendors[strings.ToLower(vendor)] = true
	}
	for _, vendor := range c.NICSelector.Vendor {
		if !vendors[strings.ToLower(vendor)] {
			return false
		}
	}
	return within(len(distinct), c.MinimumCount, c.MaximumCount)
}

// compareVersions compares versions part by part. Parts that are numbers are compared as numbers.
func compareVersions(a, b string) int {
	separates := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	return slices.CompareFunc(strings.FieldsFunc(a, separates), strings.FieldsFunc(b, separates), func(a, b string) int {
		first, errA := strconv.ParseUint(a, 10, 64)
		second, errB := strconv.ParseUint(b, 10, 64)
		if errA == nil && errB == nil {
			return cmp.Compare(first, second)
		}
		return strings.Compare(a, b)
	})
}
