package redfish

import (
	"encoding/json"
	"fmt"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/ingot-metal/ingot/internal/node"
)

// bytesPerGiB is the unit of sizes in RAID configurations.
const bytesPerGiB = 1 << 30

// logicalDisk is a wanted volume, as target_raid_config has it.
type logicalDisk struct {
	Bytes     int64 // 0 means all there is
	Level     string
	Root      bool
	Name      string
	DiskType  string // hdd or ssd; empty means any
	Interface string // sata, sas or scsi; empty means any
	// Controller and Drives name what is to be used; empty means any.
	Controller string
	Drives     []string
	Count      int  // number of drives; 0 means as many as are needed
	Shared     bool // the drives may have other volumes
}

// logicalDisksOf reads a RAID configuration. The error is a *node.ValidationError.
func logicalDisksOf(n *node.Node, config node.Object) ([]logicalDisk, error) {
	var list []struct {
		Size       json.RawMessage `json:"size_gb"`
		Level      string          `json:"raid_level"`
		Root       bool            `json:"is_root_volume"`
		Name       string          `json:"volume_name"`
		DiskType   string          `json:"disk_type"`
		Interface  string          `json:"interface_type"`
		Controller string          `json:"controller"`
		Drives     []any           `json:"physical_disks"`
		Count      int             `json:"number_of_physical_disks"`
		Shared     bool            `json:"share_physical_disks"`
	}
	if !config.Get("logical_disks", &list) {
		return nil, node.Invalid("The RAID configuration of node %s has no list of logical_disks.", n.UUID)
	}
	disks := make([]logicalDisk, 0, len(list))
	for i, entry := range list {
		d := logicalDisk{
			Level: entry.Level, Root: entry.Root, Name: entry.Name, DiskType: entry.DiskType, Interface: entry.Interface,
			Controller: entry.Controller, Count: entry.Count, Shared: entry.Shared,
		}
		var size int64
		switch {
		case string(entry.Size) == `"MAX"`:
		case json.Unmarshal(entry.Size, &size) == nil && size > 0 && size < 1<<30:
			d.Bytes = size * bytesPerGiB
		default:
			return nil, node.Invalid("Logical disk %d of node %s needs size_gb, a whole number of at least 1 or MAX.", i, n.UUID)
		}
		if d.Level == "JBOD" {
			return nil, node.Invalid("Logical disk %d of node %s has the RAID level JBOD. Drives without RAID are no volumes: leave them out, or choose 0 for a volume of one drive.", i, n.UUID)
		}
		if _, known := raidLevels[d.Level]; !known {
			return nil, node.Invalid("Logical disk %d of node %s has the RAID level %q; through Redfish there are %s.", i, n.UUID, node.CutText(d.Level), levelNames)
		}
		if d.Controller == "software" {
			return nil, node.Invalid("Logical disk %d of node %s is software RAID, which the ramdisk makes: set raid_interface to agent.", i, n.UUID)
		}
		for _, drive := range entry.Drives {
			name, ok := drive.(string)
			if !ok {
				return nil, node.Invalid("Logical disk %d of node %s has hints as physical_disks; through Redfish drives have names, such as Disk.Bay.0.", i, n.UUID)
			}
			d.Drives = append(d.Drives, name)
		}
		disks = append(disks, d)
	}
	return disks, nil
}

// levelNames lists the RAID levels for messages.
const levelNames = "0, 1, 5, 6, 1+0, 5+0 and 6+0"

// raidLevel is what a RAID level does with drives.
type raidLevel struct {
	raidType          schemas.RAIDType
	least, most, step int // number of drives; a most of 0 is no limit
	lost              int // drives' worth of capacity that goes to parity
	mirrored          bool
}

// raidLevels are the levels by their names in the Bare Metal API.
var raidLevels = map[string]raidLevel{
	"0":   {raidType: schemas.RAID0RAIDType, least: 1, step: 1},
	"1":   {raidType: schemas.RAID1RAIDType, least: 2, most: 2, step: 1, mirrored: true},
	"5":   {raidType: schemas.RAID5RAIDType, least: 3, step: 1, lost: 1},
	"6":   {raidType: schemas.RAID6RAIDType, least: 4, step: 1, lost: 2},
	"1+0": {raidType: schemas.RAID10RAIDType, least: 4, step: 2, mirrored: true},
	"5+0": {raidType: schemas.RAID50RAIDType, least: 6, step: 2, lost: 2},
	"6+0": {raidType: schemas.RAID60RAIDType, least: 8, step: 2, lost: 4},
}

// accepts reports whether a volume of the level may have n drives.
func (l raidLevel) accepts(n int) bool {
	return n >= l.least && (l.most == 0 || n <= l.most) && (n-l.least)%l.step == 0
}

// data returns how many of n drives hold data rather than parity and copies.
func (l raidLevel) data(n int) int64 {
	if l.mirrored {
		return int64(n / 2)
	}
	return int64(n - l.lost)
}

// levelOf returns the RAID level of a volume. Old BMCs tell only a type that several levels have;
// then it is the usual level.
func levelOf(v volume) string {
	for name, level := range raidLevels {
		if v.RAIDType == string(level.raidType) {
			return name
		}
	}
	if v.RAIDType != "" {
		return told(v.RAIDType)
	}
	return map[string]string{
		"NonRedundant": "0", "Mirrored": "1", "StripedWithParity": "5", "SpannedMirrors": "1+0", "SpannedStripesWithParity": "5+0",
	}[v.VolumeType]
}

// configOf returns the RAID configuration that a BMC shows, in the form of raid_config. It is empty
// when there are no volumes.
func configOf(units []storageUnit) node.Object {
	var disks []map[string]any
	for _, unit := range units {
		names := map[string]string{}
		for _, d := range unit.drives {
			names[trimmed(d.path)] = told(d.ID)
		}
		for _, v := range unit.volumes {
			if !v.isRAID() {
				continue
			}
			drives := []string{}
			for _, path := range v.drives() {
				if name, ok := names[path]; ok {
					drives = append(drives, name)
				}
			}
			disks = append(disks, map[string]any{
				"id": told(v.ID), "volume_name": told(v.Name), "controller": told(unit.id), "raid_level": levelOf(v),
				"size_gb": v.CapacityBytes / bytesPerGiB, "physical_disks": drives,
			})
		}
	}
	if disks == nil {
		return nil
	}
	return node.ObjectOf(map[string]any{"logical_disks": disks})
}

// describe names a logical disk in a message.
func (d logicalDisk) describe(position int) string {
	size := "MAX"
	if d.Bytes > 0 {
		size = fmt.Sprintf("%d GiB", d.Bytes/bytesPerGiB)
	}
	return fmt.Sprintf("logical disk %d (RAID %s, %s)", position, d.Level, size)
}
