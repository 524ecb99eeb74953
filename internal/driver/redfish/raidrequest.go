package redfish

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// send requests a change. After a request whose outcome is unknown, it looks for that request
// first.
func (w raiding) send() (driver.Outcome, error) {
	if w.turn.Attempt == driver.Unknown {
		w.record = w.record.from(w.turn)
		return w.search()
	}
	change := w.change()
	request := w.requestVolume
	if change.Volume == nil {
		request = w.requestDeletion
	}
	task, err := request(change)
	if err != nil {
		return driver.Outcome{}, err
	}
	if task != nil {
		change.Task = taskPathOf(task)
	}
	return w.to(followPhase), nil
}

// requestVolume asks for a volume (DSP2046, VolumeCollection).
func (w raiding) requestVolume(change *volumeChange) (*schemas.TaskMonitorInfo, error) {
	v := change.Volume
	links := make([]map[string]string, len(v.Drives))
	for i, path := range v.Drives {
		links[i] = map[string]string{"@odata.id": path}
	}
	body := map[string]any{"RAIDType": v.RAIDType, "Links": map[string]any{"Drives": links}}
	if v.Name != "" {
		body["Name"] = v.Name
	}
	if v.Bytes > 0 {
		body["CapacityBytes"] = v.Bytes
	}
	if change.Apply != "" {
		body[operationApplyTime] = change.Apply
	}
	answer, task, err := schemas.PostWithTask(w.api, change.Collection, body, nil, false)
	if answer != nil {
		discard(answer)
	}
	return task, err
}

// requestDeletion asks for the deletion of a volume. A volume that is not there counts as deleted.
func (w raiding) requestDeletion(change *volumeChange) (*schemas.TaskMonitorInfo, error) {
	task, err := w.delete(change.Path, change.Apply)
	if change.Apply != "" && refusedFor(err, "OperationApplyTime") { // this BMC takes none here
		if change.Apply == schemas.ImmediateOperationApplyTime { // nobody knows when it deletes
			change.Apply = ""
		}
		task, err = w.delete(change.Path, "")
	}
	if statusOf(err) == http.StatusNotFound {
		return nil, nil
	}
	return task, err
}

// delete sends a DELETE. Its body names the time of the deletion; without a time it has none. The
// DELETE of the library drops the body of the answer, which may have the task.
func (w raiding) delete(path string, when schemas.OperationApplyTime) (*schemas.TaskMonitorInfo, error) {
	var body io.ReadSeeker
	kind := ""
	if when != "" {
		body, kind = strings.NewReader(fmt.Sprintf(`{%q: %q}`, operationApplyTime, when)), "application/json"
	}
	answer, err := w.api.RunRawRequestWithHeaders(http.MethodDelete, path, body, kind, nil)
	if err != nil {
		return nil, err
	}
	defer discard(answer)
	if answer.StatusCode == http.StatusAccepted {
		return schemas.ParseTaskMonitorInfo(w.api, answer), nil
	}
	return nil, nil
}

// operationApplyTime is the property of a request that says when it is to be done (DSP0266,
// Operation apply time).
const operationApplyTime = "@Redfish.OperationApplyTime"

// search looks for a request whose outcome is unknown. A change that waits for a restart may show
// nowhere, so in that case the machine is restarted first.
func (w raiding) search() (driver.Outcome, error) {
	change := w.change()
	done, err := w.shown(change)
	if err != nil {
		return driver.Outcome{}, err
	}
	if done {
		return w.advance()
	}
	tasks, err := w.taskPaths()
	if err != nil {
		return driver.Outcome{}, err
	}
	known := w.record.RAID.Tasks
	added := newTasks(known, tasks)
	tasksLost := slices.ContainsFunc(known, func(path string) bool { return !slices.Contains(tasks, path) })
	switch {
	case len(added) == 1:
		change.Task, change.Found = added[0], true
		return w.to(followPhase), nil
	case len(added) > 1:
		return driver.Outcome{}, w.unknown()
	case change.Apply == schemas.OnResetOperationApplyTime:
		change.Doubt, w.record.RAID.Restart = true, true
		return w.advance()
	case w.record.took(w.turn) < searchFor:
		return w.in(searchPhase), nil
	case change.Volume != nil && (change.Volume.leavesRoom() || tasksLost || len(known) == 0):
		return driver.Outcome{}, w.unknown()
	}
	return w.to(sendPhase), nil
}

// follow waits until a change is done, or waits for a restart of the machine.
func (w raiding) follow() (driver.Outcome, error) {
	change := w.change()
	if change.Task != "" {
		now, said, err := w.taskProgress(change.Task)
		switch {
		case err != nil:
			return driver.Outcome{}, err
		case now == broken:
			return driver.Outcome{}, w.failedChange(change, said)
		case now == working:
			return w.works(followPhase), nil
		case now == waiting:
			w.record.RAID.Restart = true
			return w.advance()
		}
	}
	done, err := w.shown(change)
	switch {
	case err != nil:
		return driver.Outcome{}, err
	case done:
		return w.advance()
	case change.Task == "" && change.Apply == schemas.OnResetOperationApplyTime:
		w.record.RAID.Restart = true
		return w.advance()
	case w.record.took(w.turn) < showWithin:
		return w.in(followPhase), nil
	case change.Task == "" && change.Apply == "": // a restart may apply it
		w.record.RAID.Restart = true
		return w.advance()
	}
	return driver.Outcome{}, w.failedChange(change, "the BMC accepted "+change.describe()+" and does not show it")
}

// advance goes on with the next change, or restarts the machine for changes that wait for that.
func (w raiding) advance() (driver.Outcome, error) {
	if next := w.record.RAID.toSend(); next >= 0 {
		return w.await(next)
	}
	if w.record.RAID.Restart {
		w.record.RAID.Restart, w.record.RAID.Seen, w.record.RAID.ShownAll = false, nil, false
		return w.beginRestart(w.node, w.kind, w.record, w.turn.Elapsed)
	}
	return w.leave()
}

// leave ends the stage with the volumes that are there now. It fails when the machine shows too
// many volumes, because a request may have come twice.
func (w raiding) leave() (driver.Outcome, error) {
	units, err := w.allStorage()
	if err != nil {
		return driver.Outcome{}, err
	}
	if err := w.complete(units); err != nil {
		return driver.Outcome{}, err
	}
	if most, count := w.record.RAID.Most, raidVolumes(units); most > 0 && count > most {
		return driver.Outcome{}, w.failed(fmt.Sprintf(
			"the machine shows %d RAID volumes, where the step was to leave %d: look at them on the BMC, and delete what should not be there", count, most))
	}
	return w.end(units)
}

// verify waits until the restarted machine shows its storage and all changes that were requested,
// and until their tasks have ended: a volume may be shown, or be gone, before its controller has
// done all of its work. A request in doubt that the machine does not show then never came.
func (w raiding) verify() (driver.Outcome, error) {
	if !w.record.RAID.ShownAll {
		units, err := w.allStorage()
		if err != nil {
			return driver.Outcome{}, err
		}
		if all, err := w.showsAll(units, startWithin); err != nil || !all {
			return w.record.outcome(driver.Outcome{Park: settleFor, Phase: verifyPhase}), err
		}
	}
	var missing []int
	works, waits := false, false
	for i := range w.record.RAID.Changes {
		change := &w.record.RAID.Changes[i]
		if !change.Sent {
			continue
		}
		done, err := w.shown(change)
		if err != nil {
			return driver.Outcome{}, err
		}
		if !done {
			missing = append(missing, i)
		}
		if change.Task == "" {
			continue
		}
		now, said, err := w.taskProgress(change.Task)
		switch {
		case err != nil:
			return driver.Outcome{}, err
		case now == broken:
			return driver.Outcome{}, w.failedChange(change, said)
		}
		works, waits = works || now == working, waits || now == waiting
	}
	switch {
	case works:
		return w.works(verifyPhase), nil
	case (waits || len(missing) > 0) && w.record.took(w.turn) < startWithin:
		return w.in(verifyPhase), nil
	case len(missing) == 0:
		return w.advance()
	}
	return w.repeat(missing)
}

// repeat requests those changes again that were in doubt and that the restarted machine does not
// show. A missing change that was not in doubt has failed.
func (w raiding) repeat(missing []int) (driver.Outcome, error) {
	for _, i := range missing {
		change := &w.record.RAID.Changes[i]
		if !change.Doubt {
			return driver.Outcome{}, w.failedChange(change, "after a restart the machine does not show "+change.describe())
		}
		change.Doubt, change.Sent = false, false
	}
	return w.advance()
}

// failedChange returns the error of a change that failed. If its task was found after the outcome
// of the request was lost, the outcome is unknown: the task may be somebody else's.
func (w raiding) failedChange(change *volumeChange, reason string) error {
	if change.Found {
		return w.unknown()
	}
	return w.failed(reason)
}

func (w raiding) unknown() error { return driver.OutcomeUnknown("change the RAID volumes") }

// leavesRoom reports whether the drives of a volume have room for a second one, so that a
// request that comes twice makes two.
func (v *plannedVolume) leavesRoom() bool { return v.Shared || v.Bytes > 0 }

// describe names a change in a message.
func (c *volumeChange) describe() string {
	if c.Volume == nil {
		return "that the volume " + node.CutText(c.Path) + " is deleted"
	}
	return "the new volume of the type " + c.Volume.RAIDType
}
