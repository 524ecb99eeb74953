package inspect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/internal/inventory"
)

// raidDeviceHook finds the root disk by two inspections, one before and one after the creation of a
// RAID volume. If exactly one disk has a serial number that was not there before, that disk becomes
// the property root_device. The hook does not change a root_device that is set, even an empty one.
// It belongs before root-device.
var raidDeviceHook = Hook{Name: "raid-device", ReadsPrevious: true, Process: setRAIDDevice}

func setRAIDDevice(ctx *Context) error {
	if ctx.Properties.Has(rootDeviceKey) {
		return nil
	}
	if ctx.OutOfBand {
		ctx.Skip("The BMC shows drives that an operating system may not find, so none of them is taken for the RAID volume")
		return nil
	}
	if ctx.Previous == nil {
		ctx.Skip("There is no earlier inventory to find a new disk with; inspect before the RAID volume is made, and again after it, or set root_device")
		return nil
	}
	if !ctx.Previous.DisksFromRamdisk() {
		ctx.Skip("The earlier inventory is what the BMC showed, which may lack disks that an operating system finds; inspect through the ramdisk before the RAID volume is made, and again after it, or set root_device")
		return nil
	}
	added := newDisks(ctx.Previous.Disks, ctx.Inventory.Disks)
	switch len(added) {
	case 0:
		ctx.Skip("No disk has a serial number that the earlier inventory lacks")
		return nil
	case 1:
	default:
		ctx.Skip("%d disks have serial numbers that the earlier inventory lacks, so none of them is taken for the RAID volume", len(added))
		return nil
	}
	disk := added[0]
	serial := serialOf(disk)
	if err := checkSerialHint(serial, disk); err != nil {
		ctx.Skip("The new disk %s cannot be the root device: %v", inventory.Quote(disk.Name), err)
		return nil
	}
	ctx.Properties.Set(rootDeviceKey, map[string]string{"serial": serial})
	return nil
}

// newDisks returns the disks whose serial numbers were not there before. It counts two paths to one
// disk as two disks, because the serial number would not tell the agent which path to write to.
func newDisks(before, now []inventory.Disk) []*inventory.Disk {
	known := make(map[string]bool, len(before))
	for i := range before {
		known[serialOf(&before[i])] = true
	}
	var added []*inventory.Disk
	for i := range now {
		if serial := serialOf(&now[i]); serial != "" && !known[serial] {
			added = append(added, &now[i])
		}
	}
	return added
}

func serialOf(disk *inventory.Disk) string { return strings.TrimSpace(disk.Serial) }

// maxSerialHint is the longest serial number, in bytes, that is written to properties. Serial
// numbers have a few dozen characters.
const maxSerialHint = 256

// checkSerialHint makes sure that the serial number, read as a hint, matches the disk. The text
// comes from the disk and might look like a hint operator.
func checkSerialHint(serial string, disk *inventory.Disk) error {
	if len(serial) > maxSerialHint {
		return fmt.Errorf("its serial number has %d bytes, want at most %d", len(serial), maxSerialHint)
	}
	hints, err := inventory.ParseHints(slices.Concat([]byte(`{"serial":`), inventory.AppendString(nil, serial), []byte(`}`)))
	if err != nil {
		return err
	}
	if match, err := hints.Match(disk); err != nil || !match {
		return fmt.Errorf("its serial number %s reads as a hint expression", inventory.Quote(serial))
	}
	return nil
}
