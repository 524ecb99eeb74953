package redfish

import (
	"errors"
	"net/http"
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
	// Seen are the paths of the controllers and drives that the BMC showed last, while a
	// machine that may be starting is watched for them.
	Seen []string `json:"seen,omitempty"`
	// ShownAll: the BMC has shown all of them.
	ShownAll bool `json:"settled,omitempty"`
	// Most is how many RAID volumes there may be after new ones were made; 0 means any number.
	Most int `json:"most,omitempty"`
	// Progress is how long the step had taken when the last change was shown to be done, in
	// seconds.
	Progress float64 `json:"progress,omitempty"`
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
	// Collection is the path of the volumes of its controller. Apply is when the controller does
	// what it is asked for; empty when it does not tell.
	Collection string                     `json:"collection"`
	Apply      schemas.OperationApplyTime `json:"apply,omitempty"`
	// Before are the paths of the volumes that were there before the request.
	Before []string `json:"before,omitempty"`
	// Task is the path of the task that follows the change; empty when the BMC named none.
	Task string `json:"task,omitempty"`
	// Sent: the change was requested, or is requested now.
	Sent bool `json:"sent,omitempty"`
	// Found: the task was found after the outcome of the request was lost, and may be that of
	// somebody else, such as of another system of the BMC.
	Found bool `json:"found,omitempty"`
	// Doubt: the outcome of the request is unknown, and the next restart shows it.
	Doubt bool `json:"doubt,omitempty"`
	// Done: the BMC has shown that it is done; Made is then the path of a new volume.
	Done bool   `json:"done,omitempty"`
	Made string `json:"made,omitempty"`
}

// toSend returns the position of the change to request next. It returns -1 when there is none, or
// none before a restart: a controller takes no second job while one waits.
func (r *raidWork) toSend() int {
	return slices.IndexFunc(r.Changes, func(c volumeChange) bool {
		return !c.Sent && !c.Done && !(r.Restart && slices.ContainsFunc(r.Changes, func(other volumeChange) bool {
			return other.Collection == c.Collection && other.Sent && !other.Done && (other.Task != "" || other.Doubt)
		}))
	})
}

// noteSent completes the record of an earlier release, which requested the changes in their order
// and noted only the position.
func (r *raidWork) noteSent() {
	if slices.ContainsFunc(r.Changes, func(c volumeChange) bool { return c.Sent }) {
		return
	}
	for i := range r.Changes {
		r.Changes[i].Sent = i <= r.Item
	}
}

// raiding is one turn of a RAID step.
type raiding struct {
	*survey
	node   *node.Node
	kind   driver.StepKind
	wanted raidWanted
	turn   driver.Turn
	record record
	listed map[string][]volume // what was read in this turn, by the path of its collection
}

// next makes the turn.
func (w raiding) next() (driver.Outcome, error) {
	begins := w.turn.Phase == "" || w.turn.Phase == verifyPhase && w.record.RAID.Stage == ""
	switch {
	case w.turn.Elapsed.Seconds()-w.record.RAID.Progress > raidWithin.Seconds():
		return driver.Outcome{}, w.endLate(w.record, w.failed("it came no further within "+raidWithin.String()))
	case begins:
		return w.begin()
	case w.turn.Phase == sendPhase:
		return w.send()
	case w.turn.Phase == searchPhase, w.turn.Phase == earlierSearchPhase:
		return w.search()
	case w.turn.Phase == followPhase:
		return w.follow()
	case w.turn.Phase == verifyPhase:
		out, err := w.verify()
		before, unread := recordOf(w.turn) // the next turn does the same
		if isUnready(err) && w.record.took(w.turn) < startWithin && unread == nil {
			before.Silent, before.Doubt = 0, false
			return before.outcome(driver.Outcome{Park: settleFor, Phase: verifyPhase}), nil
		}
		return out, err
	}
	return w.restart(w.node, w.kind, w.turn, w.record)
}

// isUnready reports whether a BMC could not show something for now, such as while its machine
// starts.
func isUnready(err error) bool {
	var failure *node.DriverError
	if errors.As(err, &failure) {
		return failure.Retryable
	}
	status := statusOf(err)
	return status == http.StatusNotFound || status >= http.StatusInternalServerError || temporary(err)
}

func (w raiding) failed(reason string) error {
	return &node.DriverError{Op: "change the RAID volumes", Reason: node.CutText(reason)}
}

// in returns the outcome that goes on with a phase after a pause.
func (w raiding) in(phase string) driver.Outcome {
	return w.record.outcome(driver.Outcome{Park: parkFor(w.record.took(w.turn)), Phase: phase})
}

// works returns the outcome that goes on with a phase after a pause in which the BMC works. The
// time that the BMC has to show what it did begins after the pause.
func (w raiding) works(phase string) driver.Outcome {
	return w.record.from(w.turn).outcome(driver.Outcome{Park: parkFor(w.turn.Elapsed), Phase: phase})
}

// to returns the outcome that goes on with a phase at once.
func (w raiding) to(phase string) driver.Outcome {
	return w.record.from(w.turn).outcome(driver.Outcome{Again: driver.NextTurn, Phase: phase})
}

// change returns the change under way.
func (w raiding) change() *volumeChange { return &w.record.RAID.Changes[w.record.RAID.Item] }

// begin switches the machine on, because controllers without power neither show nor do anything. It
// begins with the first stage when the machine has shown the same storage twice. That holds for a
// machine that is on, too: it may have been restarted just before, for other settings.
func (w raiding) begin() (driver.Outcome, error) {
	system, err := w.system()
	if err != nil {
		return driver.Outcome{}, err
	}
	if w.turn.Phase == "" && system.PowerState == schemas.OffPowerState {
		return w.beginRestart(w.node, w.kind, w.record, w.turn.Elapsed)
	}
	appears := w.record.took(w.turn) < appearWithin
	units, err := w.allStorage()
	switch {
	case appears && isUnready(err):
		return w.record.outcome(driver.Outcome{Park: settleFor, Phase: verifyPhase}), nil
	case err != nil:
		return driver.Outcome{}, err
	}
	if all, err := w.showsAll(units, appearWithin); err != nil || !all {
		return w.record.outcome(driver.Outcome{Park: settleFor, Phase: verifyPhase}), err
	}
	if err := w.complete(units); err != nil {
		return driver.Outcome{}, err
	}
	if !w.wanted.deletes {
		return w.make(units)
	}
	if len(w.wanted.makes) > 0 { // they must fit before anything is deleted
		if _, err := planVolumes(w.wanted.makes, withoutRAID(units), nothingChanged); err != nil {
			return driver.Outcome{}, err
		}
	}
	return w.stage(deleting, deletions(units), units)
}

// What was done before a plan failed.
const (
	nothingChanged = "nothing was changed"
	allDeleted     = "the volumes that were there are deleted, and nothing else was changed"
)

// withoutRAID returns the controllers as they are when all RAID volumes are deleted.
func withoutRAID(units []storageUnit) []storageUnit {
	units = slices.Clone(units)
	for i := range units {
		units[i].volumes = slices.DeleteFunc(slices.Clone(units[i].volumes), volume.isRAID)
	}
	return units
}

// deletions returns the changes that delete all RAID volumes.
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

// applyTime returns when a controller is asked to do something: at once, if it can.
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
	before := nothingChanged
	if w.record.RAID.Stage == deleting {
		before = allDeleted
	}
	plan, err := planVolumes(w.wanted.makes, units, before)
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
	w.record.RAID = &raidWork{Stage: stage, Changes: changes, Progress: w.record.RAID.Progress}
	if stage == making {
		w.record.RAID.Most = expectedVolumes(units, changes)
	}
	if len(changes) == 0 {
		return w.end(units)
	}
	return w.await(0)
}

// end ends a stage. It stores the volumes that are there now, and goes on with the next stage or
// ends the step.
func (w raiding) end(units []storageUnit) (driver.Outcome, error) {
	config := configOf(units)
	store := func(n *node.Node) { n.RAIDConfig = config }
	if w.record.RAID.Stage == deleting && len(w.wanted.makes) > 0 {
		out, err := w.make(units)
		out.Apply = store
		return out, err
	}
	return w.record.from(w.turn).ends(w.node, driver.Outcome{Apply: store}), nil
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
	w.change().Sent, w.change().Before = true, nil
	for _, v := range volumes {
		w.change().Before = append(w.change().Before, v.path)
	}
	return w.to(sendPhase), nil
}
