package redfish

import (
	"slices"
	"time"
)

// volumesOf reads the volumes of the controller of a change, once in a turn.
func (w raiding) volumesOf(change volumeChange) ([]volume, error) {
	if volumes, ok := w.listed[change.Collection]; ok {
		return volumes, nil
	}
	unit := storageUnit{volumesPath: change.Collection}
	before := w.missed
	if err := w.readVolumes(&unit); err != nil {
		return nil, err
	}
	if w.missed > before {
		return nil, w.hidden()
	}
	w.listed[change.Collection] = unit.volumes
	return unit.volumes, nil
}

// shown reports whether the BMC shows that a change is done, and notes that.
func (w raiding) shown(change *volumeChange) (bool, error) {
	if change.Done {
		return true, nil
	}
	volumes, err := w.volumesOf(*change)
	if err != nil {
		return false, err
	}
	if change.Volume == nil {
		if !slices.ContainsFunc(volumes, func(v volume) bool { return v.path == change.Path }) {
			w.done(change)
		}
		return change.Done, nil
	}
	for _, v := range volumes {
		if w.isNew(v, change) && v.isAs(change.Volume) {
			change.Made = v.path
			w.done(change)
			return true, nil
		}
	}
	return false, nil
}

// done notes that the BMC has shown that a change is done.
func (w raiding) done(change *volumeChange) {
	change.Done, w.record.RAID.Progress = true, w.turn.Elapsed.Seconds()
}

// isNew reports whether a volume was not there before a change, and is not what another
// change has made.
func (w raiding) isNew(v volume, change *volumeChange) bool {
	return !slices.Contains(change.Before, v.path) &&
		!slices.ContainsFunc(w.record.RAID.Changes, func(other volumeChange) bool { return other.Made == v.path })
}

// isAs reports whether a volume is what was planned, as far as the BMC tells. A drive without RAID
// does not count, although some BMCs show it as a volume.
func (v volume) isAs(planned *plannedVolume) bool {
	return v.isRAID() && (v.RAIDType == "" || v.RAIDType == planned.RAIDType) && sameDrives(v.drives(), planned.Drives)
}

// sameDrives reports whether a volume has the planned drives. Some BMCs do not tell.
func sameDrives(has, planned []string) bool {
	if len(has) == 0 {
		return true
	}
	return len(has) == len(planned) && !slices.ContainsFunc(planned, func(path string) bool { return !slices.Contains(has, trimmed(path)) })
}

// raidVolumes counts the volumes that controllers made on request.
func raidVolumes(units []storageUnit) (count int) {
	for _, unit := range units {
		for _, v := range unit.volumes {
			if v.isRAID() {
				count++
			}
		}
	}
	return count
}

// expectedVolumes returns how many RAID volumes there are once the changes have made theirs.
func expectedVolumes(units []storageUnit, changes []volumeChange) int {
	count := raidVolumes(units)
	for _, change := range changes {
		if change.Volume != nil {
			count++
		}
	}
	return count
}

// showsAll reports whether a machine that starts shows all of its storage, and the same as in the
// turn before. It notes what the machine shows. Until it shows all, a list that misses something
// proves nothing. When the time within is over, storage that is hidden or without drives
// is an error.
func (w raiding) showsAll(units []storageUnit, within time.Duration) (bool, error) {
	before := w.record.RAID.Seen
	w.record.RAID.Seen = appearance(units)
	hidden := w.complete(units)
	same := slices.Equal(w.record.RAID.Seen, before) && w.showsChanged(units)
	switch {
	case w.record.took(w.turn) < within && (hidden != nil || !showDrives(units) || !same):
		return false, nil
	case hidden != nil:
		return false, hidden
	case !showDrives(units):
		return false, w.failed("the machine is on, and its BMC has shown no drives for " + within.String())
	}
	w.record.RAID.ShownAll = true
	return true, nil
}

// showsChanged reports whether the given controllers include those of all changes.
func (w raiding) showsChanged(units []storageUnit) bool {
	return !slices.ContainsFunc(w.record.RAID.Changes, func(c volumeChange) bool {
		return !slices.ContainsFunc(units, func(u storageUnit) bool { return u.volumesPath == c.Collection })
	})
}

// appearance lists the controllers and drives that a BMC shows.
func appearance(units []storageUnit) []string {
	var paths []string
	for _, unit := range units {
		paths = append(paths, unit.path)
		for _, d := range unit.drives {
			paths = append(paths, d.path)
		}
	}
	slices.Sort(paths)
	return paths
}
