package bmc

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/internal/sim/effect"
)

// ApplyTime is when a RAID controller does what it is asked for, as Redfish spells it
// (Settings.OperationApplyTime).
type ApplyTime string

// The times.
const (
	Immediate ApplyTime = "Immediate"
	OnReset   ApplyTime = "OnReset" // when the machine boots next
)

// RAID is what the RAID controllers of a vendor can do.
type RAID struct {
	// ApplyTimes are the times that requests may choose, the default first.
	ApplyTimes []ApplyTime
	// Tasks says that changes are tasks, and that no change is accepted while another waits for the
	// next boot. Without tasks, clients cannot see a change that is under way: it is done when the
	// request is answered, or at the next boot.
	Tasks bool
	// HiddenInPOST says that the BMC does not know the drives and volumes until the machine has
	// reported them at the end of POST. While the machine is off, the BMC still knows those of
	// before.
	HiddenInPOST bool
}

// Volume is a disk that the RAID controller makes out of drives.
type Volume struct {
	Number   int64  // from 1; the numbers of deleted volumes are used again
	Name     string // may be empty
	RAIDType string // as Redfish spells it, such as RAID1
	Drives   []int  // positions among the disks of the hardware, from 0
	Capacity int64  // bytes; in a request, 0 means all that the drives have left
}

// layout is how a RAID type uses drives.
type layout struct {
	least, most, step int // number of drives; a most of 0 is no limit
	lost              int // how many drives' worth of capacity parity takes
	mirrored          bool
}

// RAIDTypes are the RAID types of the controller, in an order of its own.
var RAIDTypes = []string{"RAID0", "RAID1", "RAID5", "RAID6", "RAID10", "RAID50", "RAID60", "None"}

var layouts = map[string]layout{
	"RAID0": {least: 1, step: 1}, "RAID1": {least: 2, most: 2, step: 1, mirrored: true},
	"RAID5": {least: 3, step: 1, lost: 1}, "RAID6": {least: 4, step: 1, lost: 2},
	"RAID10": {least: 4, step: 2, mirrored: true},
	"RAID50": {least: 6, step: 2, lost: 2}, "RAID60": {least: 8, step: 2, lost: 4},
	"None": {least: 1, most: 1, step: 1},
}

// data returns how many of n drives hold data rather than parity or copies.
func (l layout) data(n int) int64 {
	if l.mirrored {
		return int64(n / 2)
	}
	return int64(n - l.lost)
}

// accepts reports whether a volume may have n drives.
func (l layout) accepts(n int) bool {
	return n >= l.least && (l.most == 0 || n <= l.most) && (n-l.least)%l.step == 0
}

// raidState is what the RAID controller has. pending are the changes without a task that wait for
// the next boot.
type raidState struct {
	volumes []Volume // in the order of their numbers
	pending []volumeChange
}

// volumeChange makes or deletes a volume.
type volumeChange struct {
	made    *Volume // nil if a volume is deleted
	deleted int64
}

// Volumes returns the volumes, in the order of their numbers.
func (b *BMC) Volumes() []Volume {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.actDue()
	return slices.Clone(b.raid.volumes)
}

// KnowsStorage reports whether the BMC knows the drives and volumes.
func (b *BMC) KnowsStorage() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.actDue()
	return !b.config.Profile.RAID.HiddenInPOST || !b.inPOST()
}

// CreateVolume asks for a volume. It returns the volume if that exists at once, and the task if the
// controller works with tasks. An empty time means the default one. The error is a *RefusedError.
func (b *BMC) CreateVolume(c *Call, v Volume, when ApplyTime) (made *Volume, task *Task, err error) {
	err = b.apply(c, change{
		kind: CreateVolume, detail: v.describe(),
		check: func(time.Time) *RefusedError {
			if refused := b.checkVolumeRequest(when); refused != nil {
				return refused
			}
			return b.checkVolume(&v)
		},
		do: func(now time.Time, fate effect.Fate) *Task {
			task = b.changeVolumes(volumeChange{made: &v}, when, now, fate)
			if task == nil && v.Number > 0 {
				done := v
				made = &done
			}
			return task
		},
	})
	return made, task, err
}

// DeleteVolume asks for a volume to be deleted. The volume must exist. It returns the task if the
// controller works with tasks. The error is a *RefusedError.
func (b *BMC) DeleteVolume(c *Call, number int64, when ApplyTime) (task *Task, err error) {
	err = b.apply(c, change{
		kind: DeleteVolume, detail: fmt.Sprintf("volume %d", number),
		check: func(time.Time) *RefusedError {
			if slices.ContainsFunc(b.underWay(), func(o volumeChange) bool { return o.deleted == number }) {
				return &RefusedError{Reason: VolumeBusy}
			}
			return b.checkVolumeRequest(when)
		},
		do: func(now time.Time, fate effect.Fate) *Task {
			task = b.changeVolumes(volumeChange{deleted: number}, when, now, fate)
			return task
		},
	})
	return task, err
}

func (v Volume) describe() string {
	return strings.TrimSpace(fmt.Sprintf("%s drives %v, %d bytes %s", v.RAIDType, v.Drives, v.Capacity, v.Name))
}

// checkVolumeRequest refuses a change at a time that cannot be chosen. It also refuses any change
// while a task waits for the next boot.
func (b *BMC) checkVolumeRequest(when ApplyTime) *RefusedError {
	if slices.ContainsFunc(b.tasks, func(t *Task) bool { return t.Kind == VolumeTask && t.State == Scheduled }) {
		return &RefusedError{Reason: PendingVolumeJob}
	}
	if when != "" && !slices.Contains(b.config.Profile.RAID.ApplyTimes, when) {
		return &RefusedError{Reason: UnknownApplyTime, Property: "OperationApplyTime", Value: string(when)}
	}
	return nil
}

// checkVolume refuses a volume for which its drives have no room. It sets the capacity of a volume
// that has none.
func (b *BMC) checkVolume(v *Volume) *RefusedError {
	l, known := layouts[v.RAIDType]
	if !known {
		return &RefusedError{Reason: UnknownRAIDType, Property: "RAIDType", Value: v.RAIDType}
	}
	disks := b.hardware().Inspection.Inventory.Disks
	seen := map[int]bool{}
	for _, drive := range v.Drives {
		if drive < 0 || drive >= len(disks) || seen[drive] {
			return &RefusedError{Reason: BadDrives, Property: "Drives"}
		}
		seen[drive] = true
	}
	if !l.accepts(len(v.Drives)) {
		return &RefusedError{Reason: BadDrives, Property: "Drives"}
	}
	room := disks[v.Drives[0]].Size
	for _, drive := range v.Drives {
		room = min(room, disks[drive].Size-b.occupied(drive))
	}
	most := room * l.data(len(v.Drives))
	switch {
	case room <= 0:
		return &RefusedError{Reason: DriveInUse, Property: "Drives"}
	case v.Capacity > most || v.Capacity < 0:
		return &RefusedError{Reason: BadCapacity, Property: "CapacityBytes", Value: fmt.Sprint(v.Capacity)}
	case v.Capacity == 0:
		v.Capacity = most
	}
	return nil
}

// occupied returns how much of a drive its volumes use, in bytes, including volumes that are being
// made.
func (b *BMC) occupied(drive int) (used int64) {
	volumes := slices.Clone(b.raid.volumes)
	for _, o := range b.underWay() {
		if o.made != nil {
			volumes = append(volumes, *o.made)
		}
	}
	for _, v := range volumes {
		if slices.Contains(v.Drives, drive) {
			data := layouts[v.RAIDType].data(len(v.Drives))
			used += (v.Capacity + data - 1) / data
		}
	}
	return used
}

// underWay lists the changes that are not done yet.
func (b *BMC) underWay() []volumeChange {
	all := slices.Clone(b.raid.pending)
	for _, t := range b.tasks {
		if t.Kind == VolumeTask && !t.Done() {
			all = append(all, t.volume)
		}
	}
	return all
}

// changeVolumes makes a change at the time when. It returns the task of the change, if there is
// one.
func (b *BMC) changeVolumes(o volumeChange, when ApplyTime, now time.Time, fate effect.Fate) *Task {
	raid := b.config.Profile.RAID
	if when == "" {
		when = raid.ApplyTimes[0]
	}
	switch {
	case raid.Tasks:
		t := Task{Kind: VolumeTask, Begun: now, State: Scheduled, fails: fate.FailTask, volume: o}
		if when == Immediate {
			t.State, t.Ended = Running, now.Add(b.config.Times.Volume+fate.TaskTime)
		}
		return b.addTask(t).copied()
	case fate.FailTask:
	case when == OnReset:
		b.raid.pending = append(b.raid.pending, o)
	default:
		b.carryOut(o)
	}
	return nil
}

// carryOut makes or deletes a volume.
func (b *BMC) carryOut(o volumeChange) {
	if o.made == nil {
		b.raid.volumes = slices.DeleteFunc(b.raid.volumes, func(v Volume) bool { return v.Number == o.deleted })
		return
	}
	o.made.Number = 1
	at := 0
	for ; at < len(b.raid.volumes) && b.raid.volumes[at].Number == o.made.Number; at++ {
		o.made.Number++
	}
	b.raid.volumes = slices.Insert(slices.Clone(b.raid.volumes), at, *o.made)
}

// applyVolumes does what the RAID controller does during POST.
func (b *BMC) applyVolumes() {
	for _, o := range b.raid.pending {
		b.carryOut(o)
	}
	b.raid.pending = nil
	for _, t := range b.tasks {
		if t.Kind != VolumeTask || t.State != Scheduled {
			continue
		}
		t.State, t.Ended = Completed, b.Now()
		if t.fails {
			t.State, t.Failure = Failed, TaskWentWrong
			continue
		}
		b.carryOut(t.volume)
	}
}
