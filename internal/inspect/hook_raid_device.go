package inspect

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/internal/inventory"
)

// raidDeviceHook learns the root disk from two inspections, one before and one
// after a RAID volume is made: the only disk with a serial number that was not
// there before becomes the property root_device. It leaves a root_device alone
// that is set, and belongs in front of root-device.
var raidDeviceHook = Hook{Name: "raid-device", ReadsPrevious: true, Process: setRAIDDevice}

func setRAIDDevice(ctx *Context) error {
	var hints json.RawMessage
	if ctx.Properties.Get(rootDeviceKey, &hints) && !empty(hints) {
		return nil
	}
	if ctx.Previous == nil {
		ctx.Skip("There is no earlier inventory to find a new disk with; inspect again after the RAID volume is made")
		return nil
	}
	known := disksBySerial(ctx.Previous.Disks)
	added := disksBySerial(ctx.Inventory.Disks)
	for serial := range known {
		delete(added, serial)
	}
	switch len(added) {
	case 0:
		ctx.Skip("No disk has a serial number that the earlier inventory lacks")
		return nil
	case 1:
	default:
		ctx.Skip("%d disks have serial numbers that the earlier inventory lacks, so none of them is taken for the RAID volume", len(added))
		return nil
	}
	for serial, disk := range added {
		if err := checkSerialHint(serial, disk); err != nil {
			ctx.Skip("The new disk %s cannot be the root device: %v", inventory.Quote(disk.Name), err)
			continue
		}
		ctx.Properties.Set(rootDeviceKey, map[string]string{"serial": serial})
	}
	return nil
}

// disksBySerial returns a disk for each serial number. Several paths to one disk
// share its serial number.
func disksBySerial(disks []inventory.Disk) map[string]*inventory.Disk {
	found := make(map[string]*inventory.Disk, len(disks))
	for i := range disks {
		if serial := strings.TrimSpace(disks[i].Serial); serial != "" {
			found[serial] = &disks[i]
		}
	}
	return found
}

// maxSerialHint bounds in bytes what goes to properties; serial numbers have a few
// dozen characters.
const maxSerialHint = 256

// checkSerialHint makes sure that the serial number, read as a hint, means the
// disk: it comes from the disk and might look like an operator.
func checkSerialHint(serial string, disk *inventory.Disk) error {
	if len(serial) > maxSerialHint {
		return fmt.Errorf("its serial number has %d bytes, want at most %d", len(serial), maxSerialHint)
	}
	hints, err := inventory.ParseHints(slices.Concat([]byte(`{"serial":`), inventory.AppendString(nil, serial), []byte(`}`)))
	if err == nil && !hints.Match(disk) {
		err = fmt.Errorf("its serial number %s is an expression to hints", inventory.Quote(serial))
	}
	return err
}
