package inspect

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/ingot-metal/ingot/internal/inventory"
)

// rootDeviceHook decides which disk the operating system goes to. If the property root_device has
// hints, the first disk of the inventory that matches them replaces the plugin data root_disk.
// Without hints, the agent's choice stays. The hook sets local_gb, in plugin data and, as text, in
// properties, to the size of the disk in whole GiB less Config.DiskPartitioningSpacing; 0 for a
// machine without a root disk. A BMC names disks in its own way. If the data comes from a BMC and
// no disk matches, everything stays as it is.
var rootDeviceHook = Hook{Name: "root-device", Prepare: checkSpacing, Process: setRootDevice}

const (
	rootDeviceKey = "root_device"        // property with hints
	skipDisksKey  = "skip_block_devices" // property with a list of hints
	rootDiskKey   = "root_disk"          // plugin data
)

// bytesPerGiB is the unit of local_gb.
const bytesPerGiB = 1 << 30

func checkSpacing(c *Config) error {
	if c.DiskPartitioningSpacing < 0 {
		return fmt.Errorf("inspector.disk_partitioning_spacing: want 0 or more GiB, got %d", c.DiskPartitioningSpacing)
	}
	return nil
}

func setRootDevice(ctx *Context) error {
	if err := chooseRootDisk(ctx); err != nil {
		return ctx.unknown("which disk is the root device", err)
	}
	if ctx.OutOfBand && empty(ctx.PluginData[rootDiskKey]) {
		return ctx.unknown("any disk that is large enough", nil)
	}
	gib := localGB(ctx)
	ctx.SetPluginData("local_gb", gib)
	ctx.Properties.Set("local_gb", strconv.FormatInt(gib, 10))
	return nil
}

// chooseRootDisk writes the disk that matches the hints to the plugin data root_disk.
func chooseRootDisk(ctx *Context) error {
	var raw json.RawMessage
	if !ctx.Properties.Get(rootDeviceKey, &raw) {
		return nil
	}
	hints, err := inventory.ParseHints(raw)
	if err != nil {
		return fmt.Errorf("the property %s holds no valid hints: %w", rootDeviceKey, err)
	}
	if hints.IsEmpty() {
		return nil
	}
	excluded, err := excludedDisks(ctx)
	if err != nil {
		return err
	}
	disks := ctx.Inventory.Disks
	disk, err := hints.Find(disks, excluded.has)
	if err != nil {
		return fmt.Errorf("the hints in the property %s cannot be compared with the disks; the agent would fail as well: %w", rootDeviceKey, err)
	}
	if disk == nil {
		return fmt.Errorf("no disk matches the hints in the property %s: %s. The inventory has %s", rootDeviceKey, hints, excluded.describe(disks))
	}
	ctx.PluginData[rootDiskKey] = disk.Raw
	return nil
}

// localGB returns local_gb for the root disk in plugin data.
func localGB(ctx *Context) int64 {
	raw := ctx.PluginData[rootDiskKey]
	if empty(raw) {
		ctx.Skip("The machine has no root disk, so local_gb is 0")
		return 0
	}
	size, err := inventory.DiskSize(raw)
	if err != nil {
		ctx.Skip("The plugin data %s is no disk, so local_gb is 0: %v", rootDiskKey, err)
		return 0
	}
	gib := size/bytesPerGiB - int64(ctx.Config.DiskPartitioningSpacing)
	switch {
	case size < bytesPerGiB:
		ctx.Skip("The root disk has %d bytes, less than 1 GiB, so local_gb is 0", size)
		return 0
	case gib < 0:
		ctx.Skip("The root disk of %d bytes is smaller than inspector.disk_partitioning_spacing, so local_gb is 0", size)
		return 0
	}
	return gib
}

// empty reports whether a value is missing, null, or an empty object or list.
func empty(raw json.RawMessage) bool {
	switch string(raw) { // this conversion copies nothing
	case "", "null", "{}", "[]":
		return true
	default:
		return false
	}
}

// exclusions are the disks of a node that must not be written to.
type exclusions map[*inventory.Disk]bool

// excludedDisks returns the disks that match the property skip_block_devices. Any fault in the
// property is an error, because ignoring it might select a disk with data.
func excludedDisks(ctx *Context) (exclusions, error) {
	var raw json.RawMessage
	if !ctx.Properties.Get(skipDisksKey, &raw) || empty(raw) {
		return nil, nil
	}
	var entries []json.RawMessage
	var sets []map[string]json.RawMessage
	if json.Unmarshal(raw, &entries) != nil || json.Unmarshal(raw, &sets) != nil {
		return nil, fmt.Errorf("the property %s is no list of hints such as [{\"name\": \"/dev/sda\"}]", skipDisksKey)
	}
	excluded := exclusions{}
	for i, entry := range entries {
		if _, ofRAID := sets[i]["volume_name"]; ofRAID {
			ctx.Skip("Entry %d of the property %s names a software RAID volume, which the inventory does not show", i, skipDisksKey)
			continue
		}
		hints, err := inventory.ParseHints(entry)
		if err != nil {
			return nil, fmt.Errorf("entry %d of the property %s holds no valid hints: %w", i, skipDisksKey, err)
		}
		if hints.IsEmpty() {
			continue
		}
		if err := excluded.add(hints, ctx.Inventory.Disks); err != nil {
			return nil, fmt.Errorf("entry %d of the property %s cannot be compared with the disks; the agent would fail as well: %w", i, skipDisksKey, err)
		}
	}
	return excluded, nil
}

// add excludes the disks that match.
func (e exclusions) add(hints inventory.Hints, disks []inventory.Disk) error {
	for i := range disks {
		match, err := hints.Match(&disks[i])
		if err != nil {
			return err
		}
		if match {
			e[&disks[i]] = true
		}
	}
	return nil
}

func (e exclusions) has(disk *inventory.Disk) bool { return e[disk] }

// maxDescribed is how many disks an error names.
const maxDescribed = 4

// describe lists the disks of the inventory for an error.
func (e exclusions) describe(disks []inventory.Disk) string {
	if len(disks) == 0 {
		return "no disks"
	}
	var names []string
	for i := range disks[:min(len(disks), maxDescribed)] {
		disk := &disks[i]
		text := fmt.Sprintf("%s of %.1f GiB", inventory.Quote(disk.Name), float64(disk.Size)/bytesPerGiB)
		if e.has(disk) {
			text += " (excluded by " + skipDisksKey + ")"
		}
		names = append(names, text)
	}
	if more := len(disks) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}
