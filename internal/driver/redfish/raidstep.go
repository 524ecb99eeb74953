package redfish

import (
	"slices"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// raidWork is how far a RAID step has come.
type raidWork struct {
	Stage   raidStage      `json:"stage,omitempty"`
	Changes []volumeChange `json:"changes,omitempty"` // of the stage
	Item    int            `json:"item,omitempty"`    // position of the change under way
	Tasks   []string       `json:"tasks,omitempty"`   // that the BMC listed before its request
	// Restart: a restart of the machine applies what was requested.
	Restart bool `json:"restart,omitempty"`
}

// raidStage is a part of a RAID step.
type raidStage string

const (
	deleting raidStage = "delete"
	making   raidStage = "make"
)

// volumeChange makes or deletes a volume.
type volumeChange struct {
	Volume *plannedVolume `json:"volume,omitempty"` // that is made
	Path   string         `json:"path,omitempty"`   // of the volume that is deleted
	// Collection is the path of the volumes of its controller, and Apply when that does what it
	// is asked for; empty when it does not tell.
	Collection string                     `json:"collection"`
	Apply      schemas.OperationApplyTime `json:"apply,omitempty"`
	Before     []string                   `json:"before,omitempty"` // volumes that were there before the request
	Task       string                     `json:"task,omitempty"`   // that follows it; empty when the BMC named none
	// Doubt: the outcome of the request is unknown, and the next restart shows it.
	Doubt bool `json:"doubt,omitempty"`
	// Done: the BMC has shown that it is done; Made is then the path of a new volume.
	Done bool   `json:"done,omitempty"`
	Made string `json:"made,omitempty"`
}

// raiding is one turn of a RAID step.
type raiding struct {
	*survey
	node   *node.Node
	kind   driver.StepKind
	wanted raidWanted
	turn   driver.Turn
	record record
}

// next makes the turn.
func (w raiding) next() (driver.Outcome, error) {
	begins := w.turn.Phase == "" || w.turn.Phase == verifyPhase && w.record.RAID.Stage == ""
	switch {
	case w.turn.Elapsed > raidWithin:
		return driver.Outcome{}, w.abandon(w.record, w.failed("it did not end within "+raidWithin.String()))
	case begins:
		return w.begin()
	case w.turn.Phase == sendPhase:
		return w.send()
	case w.turn.Phase == lookPhase:
		return w.look()
	case w.turn.Phase == followPhase:
		return w.follow()
	case w.turn.Phase == verifyPhase:
		return w.verify()
	}
	return w.restart(w.node, w.kind, w.turn, w.record)
}

func (w raiding) failed(reason string) error {
	return &node.DriverError{Op: "change the RAID volumes", Reason: node.CutText(reason)}
}

// in is the outcome that goes on with a phase after a pause.
func (w raiding) in(phase string) driver.Outcome {
	return w.record.outcome(driver.Outcome{Park: parkFor(w.record.took(w.turn)), Phase: phase})
}

// to is the outcome that goes on with a phase at once.
func (w raiding) to(phase string) driver.Outcome {
	return w.record.from(w.turn).outcome(driver.Outcome{Again: nextLeg, Phase: phase})
}

// change is the one under way.
func (w raiding) change() *volumeChange { return &w.record.RAID.Changes[w.record.RAID.Item] }

// begin switches the machine on, because controllers without power neither show nor do
// anything, and then begins with the first stage.
func (w raiding) begin() (driver.Outcome, error) {
	system, err := w.system()
	if err != nil {
		return driver.Outcome{}, err
	}
	if w.turn.Phase == "" && system.PowerState == schemas.OffPowerState {
		return w.beginRestart(w.node, w.kind, w.record, w.turn.Elapsed)
	}
	units, err := w.allStorage()
	if err != nil {
		return driver.Outcome{}, err
	}
	if !showDrives(units) && w.record.WasOff && w.record.took(w.turn) < appearWithin {
		return w.in(verifyPhase), nil
	}
	if err := w.complete(units); err != nil {
		return driver.Outcome{}, err
	}
	if w.wanted.deletes {
		return w.stage(deleting, deletions(units), units)
	}
	return w.make(units)
}

// deletions are the changes that delete all volumes.
func deletions(units []storageUnit) []volumeChange {
	var changes []volumeChange
	for _, unit := range units {
		for _, v := range unit.volumes {
			if v.isRAID() {
				changes = append(changes, volumeChange{Path: v.path, Collection: unit.volumesPath, Apply: applyTime(unit)})
			}
		}
	}
	return changes
}

// applyTime is when a controller is asked to do something: at once, if it can.
func applyTime(unit storageUnit) schemas.OperationApplyTime {
	for _, time := range []schemas.OperationApplyTime{schemas.ImmediateOperationApplyTime, schemas.OnResetOperationApplyTime} {
		if slices.Contains(unit.applyTimes, string(time)) {
			return time
		}
	}
	return ""
}

// make plans the wanted volumes, and begins to make them.
func (w raiding) make(units []storageUnit) (driver.Outcome, error) {
	plan, err := planVolumes(w.wanted.makes, units)
	if err != nil {
		return driver.Outcome{}, err
	}
	changes := make([]volumeChange, len(plan))
	for i := range plan {
		unit := units[slices.IndexFunc(units, func(u storageUnit) bool { return u.path == plan[i].storage })]
		changes[i] = volumeChange{Volume: &plan[i], Collection: unit.volumesPath, Apply: applyTime(unit)}
	}
	return w.stage(making, changes, units)
}

// stage begins a stage.
func (w raiding) stage(stage raidStage, changes []volumeChange, units []storageUnit) (driver.Outcome, error) {
	w.record.RAID = &raidWork{Stage: stage, Changes: changes}
	if len(changes) == 0 {
		return w.end(units)
	}
	return w.await(0)
}

// end goes on behind a stage: with the next one, or with the end of the step, which stores
// the volumes that are there now.
func (w raiding) end(units []storageUnit) (driver.Outcome, error) {
	if w.record.RAID.Stage == deleting && len(w.wanted.makes) > 0 {
		return w.make(units)
	}
	config := configOf(units)
	out := driver.Outcome{Apply: func(n *node.Node) { n.RAIDConfig = config }}
	if w.record.WasOff && !w.node.DisablePowerOff {
		out.Again, out.Phase = nextLeg, switchOffPhase
	}
	return w.record.from(w.turn).outcome(out), nil
}

// await notes what is there before the request of a change.
func (w raiding) await(item int) (driver.Outcome, error) {
	w.record.RAID.Item = item
	volumes, err := w.volumesOf(*w.change())
	if err != nil {
		return driver.Outcome{}, err
	}
	if w.record.RAID.Tasks, err = w.taskPaths(); err != nil {
		return driver.Outcome{}, err
	}
	w.change().Before = nil
	for _, v := range volumes {
		w.change().Before = append(w.change().Before, v.path)
	}
	return w.to(sendPhase), nil
}

// volumesOf reads the volumes of the controller of a change.
func (w raiding) volumesOf(change volumeChange) ([]volume, error) {
	unit := storageUnit{volumesPath: change.Collection}
	before := w.missed
	if err := w.readVolumes(&unit); err != nil {
		return nil, err
	}
	if w.missed > before {
		return nil, w.hidden()
	}
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
		change.Done = !slices.ContainsFunc(volumes, func(v volume) bool { return v.path == change.Path })
		return change.Done, nil
	}
	for _, v := range volumes {
		if w.isNew(v, change) && sameDrives(v.drives(), change.Volume.Drives) {
			change.Done, change.Made = true, v.path
			return true, nil
		}
	}
	return false, nil
}

// isNew reports whether a volume was not there before a change, and is not what another
// change has made.
func (w raiding) isNew(v volume, change *volumeChange) bool {
	return !slices.Contains(change.Before, v.path) &&
		!slices.ContainsFunc(w.record.RAID.Changes, func(other volumeChange) bool { return other.Made == v.path })
}

// sameDrives reports whether a volume has the planned drives. Some BMCs do not tell.
func sameDrives(has, planned []string) bool {
	if len(has) == 0 {
		return true
	}
	return len(has) == len(planned) && !slices.ContainsFunc(planned, func(path string) bool { return !slices.Contains(has, trimmed(path)) })
}
