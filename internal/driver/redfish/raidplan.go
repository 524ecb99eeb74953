package redfish

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/internal/node"
)

// plannedVolume is a volume that is to be made.
type plannedVolume struct {
	RAIDType string   `json:"raid_type"`
	Drives   []string `json:"drives"`          // paths
	Bytes    int64    `json:"bytes,omitempty"` // 0 means all there is
	Name     string   `json:"name,omitempty"`
	// Shared: the drives may have other volumes.
	Shared bool `json:"shared,omitempty"`

	storage string // path of its storage
	root    bool
}

// slot is a drive as the planner sees it.
type slot struct {
	drive
	unit *storageUnit
	free int64 // bytes
	// used: an earlier volume of the plan has the drive to itself. shared: earlier volumes share
	// it.
	used, shared bool
}

// allows reports whether a logical disk may use the drive.
func (s *slot) allows(d logicalDisk) bool {
	kinds := map[string]string{"hdd": "HDD", "ssd": "SSD"}
	switch {
	case s.used, s.free <= 0, s.shared && !d.Shared:
		return false
	case s.unit.tells && !slices.Contains(s.unit.raidTypes, string(raidLevels[d.Level].raidType)):
		return false
	case d.Controller != "" && !slices.Contains(s.unit.names, d.Controller):
		return false
	case d.DiskType != "" && s.MediaType != kinds[d.DiskType]:
		return false
	}
	return d.Interface == "" || strings.EqualFold(s.Protocol, d.Interface)
}

// named reports whether a name means the drive.
func (s *slot) named(name string) bool {
	return slices.Contains([]string{s.ID, s.Name, s.SerialNumber, s.path}, name)
}

// freeDrives lists the drives that volumes can be made of: healthy ones of controllers
// that make volumes, without a volume on them.
func freeDrives(units []storageUnit) []*slot {
	var slots []*slot
	for i := range units {
		unit := &units[i]
		if unit.volumesPath == "" || unit.incomplete {
			continue
		}
		taken := map[string]bool{}
		for _, v := range unit.volumes {
			for _, path := range v.drives() {
				taken[path] = taken[path] || v.isRAID()
			}
		}
		for _, d := range unit.drives {
			if !taken[trimmed(d.path)] && d.Status.Health != "Critical" {
				slots = append(slots, &slot{drive: d, unit: unit, free: d.CapacityBytes})
			}
		}
	}
	return slots
}

// planVolumes decides on which drives the wanted disks are made. Those that name their
// drives choose first, those that take what is left choose last. The plan begins with the
// root volume. The error is a final *node.DriverError, which says what was done before.
func planVolumes(disks []logicalDisk, units []storageUnit, before string) ([]plannedVolume, error) {
	slots := freeDrives(units)
	order := make([]int, len(disks))
	for i := range order {
		order[i] = i
	}
	rank := func(d logicalDisk) int {
		switch {
		case len(d.Drives) > 0:
			return 0
		case d.Bytes > 0:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rank(disks[a]), rank(disks[b])) })
	plan := make([]plannedVolume, len(disks))
	for _, i := range order {
		chosen, reason := choose(disks[i], slots)
		if reason != "" {
			return nil, &node.DriverError{Op: "plan the RAID volumes", Refused: true, Reason: node.CutText(
				before + ": " + disks[i].describe(i) + " " + reason)}
		}
		plan[i] = occupy(disks[i], chosen)
	}
	slices.SortStableFunc(plan, func(a, b plannedVolume) int {
		switch {
		case a.root == b.root:
			return 0
		case a.root:
			return -1
		}
		return 1
	})
	return plan, nil
}

// occupy takes the drives of a volume and returns the planned volume.
func occupy(d logicalDisk, chosen []*slot) plannedVolume {
	level := raidLevels[d.Level]
	v := plannedVolume{
		RAIDType: string(level.raidType), Bytes: d.Bytes, Name: d.Name, Shared: d.Shared, storage: chosen[0].unit.path, root: d.Root,
	}
	part := share(d, len(chosen))
	for _, s := range chosen {
		v.Drives = append(v.Drives, s.path)
		s.used, s.shared = !d.Shared, d.Shared
		if s.free -= part; d.Bytes == 0 {
			s.free = 0
		}
	}
	return v
}

// share returns what a volume needs of each of n drives, in bytes.
func share(d logicalDisk, n int) int64 {
	data := raidLevels[d.Level].data(n)
	return (d.Bytes + data - 1) / data
}

// choose picks the drives of a volume, or says why there are none.
func choose(d logicalDisk, slots []*slot) (chosen []*slot, reason string) {
	if d.Count > 0 && !raidLevels[d.Level].accepts(d.Count) {
		return nil, fmt.Sprintf("cannot have %d drives", d.Count)
	}
	if len(d.Drives) > 0 {
		return chooseNamed(d, slots)
	}
	groups := groupsOf(d, slots)
	best := choice{}
	for _, group := range groups {
		for n := 1; n <= len(group); n++ {
			if !raidLevels[d.Level].accepts(n) || d.Count > 0 && n != d.Count {
				continue
			}
			if found, ok := window(d, group, n); ok && (best.drives == nil || found.better(best, d)) {
				best = found
			}
		}
	}
	if best.drives == nil {
		return nil, "does not fit: " + describeGroups(d, groups)
	}
	return best.drives, ""
}

// chooseNamed picks the drives that a logical disk names.
func chooseNamed(d logicalDisk, slots []*slot) (chosen []*slot, reason string) {
	for _, name := range d.Drives {
		i := slices.IndexFunc(slots, func(s *slot) bool { return s.named(name) && s.allows(d) })
		switch {
		case i < 0:
			return nil, fmt.Sprintf("names the drive %q, which is not there, not free or not of the wanted kind", name)
		case slices.Contains(chosen, slots[i]):
			return nil, fmt.Sprintf("names the drive %q twice", name)
		case len(chosen) > 0 && slots[i].unit != chosen[0].unit:
			return nil, "names drives of several controllers"
		}
		chosen = append(chosen, slots[i])
	}
	if !raidLevels[d.Level].accepts(len(chosen)) || d.Count > 0 && d.Count != len(chosen) {
		return nil, fmt.Sprintf("cannot have the %d drives that it names", len(chosen))
	}
	part := share(d, len(chosen))
	if slices.ContainsFunc(chosen, func(s *slot) bool { return s.free < part }) {
		return nil, "is larger than the drives that it names"
	}
	return chosen, ""
}

// groupsOf lists the drives that a logical disk may use, by controller and kind, the
// smallest first in each group: a volume has drives of one kind.
func groupsOf(d logicalDisk, slots []*slot) [][]*slot {
	var groups [][]*slot
	for _, s := range slots {
		if !s.allows(d) {
			continue
		}
		i := slices.IndexFunc(groups, func(group []*slot) bool {
			other := group[0]
			return other.unit == s.unit && other.MediaType == s.MediaType && other.Protocol == s.Protocol
		})
		if i < 0 {
			groups = append(groups, nil)
			i = len(groups) - 1
		}
		groups[i] = append(groups[i], s)
	}
	for _, group := range groups {
		slices.SortStableFunc(group, func(a, b *slot) int { return cmp.Compare(a.free, b.free) })
	}
	return groups
}

// choice is one way to make a volume.
type choice struct {
	drives   []*slot // the smallest first
	capacity int64   // bytes, if it takes all there is
}

// better reports whether a choice is better than another one: a volume of a given size
// takes few and small drives, one that takes all there is becomes as large as possible.
func (c choice) better(other choice, d logicalDisk) bool {
	if d.Bytes == 0 {
		return c.capacity > other.capacity
	}
	return cmp.Or(cmp.Compare(len(c.drives), len(other.drives)), cmp.Compare(c.drives[0].free, other.drives[0].free)) < 0
}

// window picks n drives of a group that are next to each other in size: the smallest that
// are large enough, or the largest for a volume that takes all there is.
func window(d logicalDisk, group []*slot, n int) (choice, bool) {
	first := len(group) - n
	if d.Bytes > 0 {
		part := share(d, n)
		first = slices.IndexFunc(group, func(s *slot) bool { return s.free >= part })
		if first < 0 || first+n > len(group) {
			return choice{}, false
		}
	}
	drives := group[first : first+n]
	return choice{drives: drives, capacity: drives[0].free * raidLevels[d.Level].data(n)}, true
}

// maxGroups bounds how many groups of drives a message describes.
const maxGroups = 4

// describeGroups says what a logical disk needs, and which drives are free for it.
func describeGroups(d logicalDisk, groups [][]*slot) string {
	level := raidLevels[d.Level]
	least := level.least
	if d.Count > 0 {
		least = d.Count
	}
	var found []string
	for _, group := range groups[:min(len(groups), maxGroups)] {
		s := group[len(group)-1]
		found = append(found, fmt.Sprintf("%d %s %s of up to %d GiB at %s", len(group), s.Protocol, s.MediaType, s.free/bytesPerGiB, s.unit.id))
	}
	if found == nil {
		found = []string{"none that may be used"}
	}
	return fmt.Sprintf("it needs at least %d free drives of one kind at one controller, with room for it; free are %s", least, strings.Join(found, ", "))
}
