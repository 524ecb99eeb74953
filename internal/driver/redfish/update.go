package redfish

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// updating is one turn of the update of one component.
type updating struct {
	*call
	files  FileOptions
	node   *node.Node
	kind   driver.StepKind
	file   firmwareFile
	last   bool // no component follows
	turn   driver.Turn
	record record
}

// next makes the turn.
func (w updating) next() (driver.Outcome, error) {
	if w.took() > updateWithin {
		return driver.Outcome{}, w.endLate(w.record, w.failed("it did not end within "+updateWithin.String()))
	}
	switch w.turn.Phase {
	case "", fetchPhase, servedPhase, earlierServedPhase:
		return w.begin()
	case sendPhase:
		return w.send()
	case searchPhase, earlierSearchPhase:
		return w.search()
	case followPhase:
		return w.follow()
	case verifyPhase:
		return w.verify()
	}
	return w.restart(w.guarded(), w.kind, w.turn, w.record)
}

func (w updating) failed(reason string) error {
	return &node.DriverError{Op: "update the firmware of " + w.file.component, Reason: node.CutText(reason)}
}

// took returns how long the update of the component has taken.
func (w updating) took() time.Duration {
	return w.turn.Elapsed - time.Duration(w.record.Update.Began*float64(time.Second))
}

// in returns the outcome that goes on with a phase after a pause.
func (w updating) in(phase string) driver.Outcome {
	return w.record.outcome(driver.Outcome{Park: parkFor(w.took()), Phase: phase})
}

// begin notes what was there before, so that the request can be told from earlier ones.
func (w updating) begin() (driver.Outcome, error) {
	service, err := w.updateService()
	if err != nil {
		return driver.Outcome{}, err
	}
	if !hasSimpleUpdate(service) {
		return driver.Outcome{}, &node.DriverError{
			Op: "update the firmware of " + w.file.component, Refused: true, Reason: "the BMC does not update from a URL: its update service has no action SimpleUpdate",
		}
	}
	version, err := w.version(w.file.component)
	if err != nil {
		return driver.Outcome{}, err
	}
	if version == "" {
		return driver.Outcome{}, w.failed("the BMC lists no version of " + w.file.component)
	}
	tasks, err := w.taskPaths()
	if err != nil {
		return driver.Outcome{}, err
	}
	if w.record.Update.Doubted {
		switch shown, err := w.updateProgress(w.unstored(), w.bmc.clock()); {
		case err != nil:
			return driver.Outcome{}, err
		case shown == working: // it may be this update
			w.record.Update.Before = cmp.Or(w.record.Update.Before, version)
			return w.in(servedPhase), nil
		case shown == waiting:
			return driver.Outcome{}, w.unknown()
		}
		w.record.Update.Doubted = false
		if before := w.record.Update.Before; before != "" && version != before { // it was this update
			return w.done()
		}
		w.record.Update.Began = w.turn.Elapsed.Seconds() // the wait does not count
	}
	w.record.Update.Before, w.record.Update.Tasks = version, tasks
	return w.record.from(w.turn).outcome(driver.Outcome{Again: driver.NextTurn, Phase: sendPhase}), nil
}

// send requests the update. A request whose outcome is unknown is looked for first.
func (w updating) send() (driver.Outcome, error) {
	if w.turn.Attempt == driver.Unknown {
		w.record = w.record.from(w.turn)
		return w.search()
	}
	service, err := w.updateService()
	if err != nil {
		return driver.Outcome{}, err
	}
	address, err := w.files.urlFor(w.node, w.file)
	if err != nil {
		return driver.Outcome{}, err
	}
	params := &schemas.UpdateServiceSimpleUpdateParameters{ImageURI: address}
	if w.systemID != "" { // the file is for one of several systems
		paths, err := w.systemPaths()
		if err != nil {
			return driver.Outcome{}, err
		}
		if len(paths) > 1 {
			params.Targets = []string{w.systemID}
		}
	}
	task, err := service.SimpleUpdate(params)
	if refusedFor(err, "TransferProtocol") {
		params.TransferProtocol = transferOf(address)
		task, err = service.SimpleUpdate(params)
	}
	if err != nil {
		return driver.Outcome{}, err
	}
	if task != nil {
		w.record.Update.Task = taskPathOf(task)
	}
	return w.record.from(w.turn).outcome(driver.Outcome{Again: driver.NextTurn, Phase: followPhase}), nil
}

// search looks for a request whose outcome is unknown. A BMC may list its task late, as
// when it fetches the file first, so the request is repeated only after a while.
func (w updating) search() (driver.Outcome, error) {
	found, err := w.find()
	switch {
	case err != nil:
		return driver.Outcome{}, err
	case found:
		return w.record.from(w.turn).outcome(driver.Outcome{Again: driver.NextTurn, Phase: followPhase}), nil
	case w.record.took(w.turn) < searchFor:
		return w.in(searchPhase), nil
	}
	return w.record.from(w.turn).outcome(driver.Outcome{Again: driver.NextTurn, Phase: sendPhase}), nil
}

// find looks for the request in what the BMC shows, and notes what it finds. If the BMC remembers
// all tasks of before and has no other one, the request never came. If it has lost tasks, never
// had any, or has several new ones, nobody can tell.
func (w updating) find() (found bool, err error) {
	tasks, err := w.taskPaths()
	if err != nil {
		return false, err
	}
	known := w.record.Update.Tasks
	added := newTasks(known, tasks)
	switch len(added) {
	case 0:
	case 1:
		w.record.Update.Task, w.record.Update.Found = added[0], true
		return true, nil
	default:
		return false, w.unknown()
	}
	version, err := w.version(w.file.component)
	if err != nil || version != w.record.Update.Before {
		return err == nil, err
	}
	tasksLost := slices.ContainsFunc(known, func(path string) bool { return !slices.Contains(tasks, path) })
	if tasksLost || len(known) == 0 {
		return false, w.unknown()
	}
	return false, nil
}

func (w updating) unknown() error {
	return driver.OutcomeUnknown("update the firmware of " + w.file.component)
}

// progress asks the BMC how far the update is, and returns what it says about a failure.
func (w updating) progress() (progress, string, error) {
	if w.record.Update.Ended {
		return ended, "", nil
	}
	if w.record.Update.Task == "" {
		return w.serviceProgress(w.record.Update.Seen)
	}
	return w.taskProgress(w.record.Update.Task)
}

// updateService reads the update service. A BMC that starts may not show it yet.
func (c *call) updateService() (*schemas.UpdateService, error) {
	service, err := c.api.Service.UpdateService()
	if err == nil && service == nil {
		err = &node.DriverError{Op: "update firmware", Retryable: true, Refused: true, Reason: "the BMC shows no update service"}
	}
	return service, err
}

// hasSimpleUpdate reports whether an update service has the action that the update needs.
func hasSimpleUpdate(service *schemas.UpdateService) bool {
	var offered struct {
		Actions struct {
			SimpleUpdate struct{ Target string } `json:"#UpdateService.SimpleUpdate"`
		}
	}
	return json.Unmarshal(service.RawData, &offered) == nil && offered.Actions.SimpleUpdate.Target != ""
}

// serviceProgress reads the state of the update service, where an iLO shows the state of its last
// update. seen says that the BMC has shown before that it works on the update.
func (c *call) serviceProgress(seen bool) (progress, string, error) {
	service, err := c.updateService()
	if err != nil {
		return "", "", err
	}
	var oem struct {
		HPE struct {
			State  string
			Result struct{ MessageID string }
		} `json:"Hpe"`
	}
	if json.Unmarshal(service.OEM, &oem) != nil || oem.HPE.State == "" {
		return untold, "", nil
	}
	switch {
	case oem.HPE.State == "Complete", oem.HPE.State == "Idle" && seen:
		return ended, "", nil
	case oem.HPE.State == "Idle":
		return untold, "", nil
	case oem.HPE.State == "Error":
		return broken, "the BMC says: " + oem.HPE.Result.MessageID, nil
	}
	return working, "", nil
}

// follow waits until the BMC has done what it can do without a restart of the machine.
func (w updating) follow() (driver.Outcome, error) {
	now, said, err := w.progress()
	if err != nil {
		return driver.Outcome{}, err
	}
	w.record.Update.Seen = w.record.Update.Seen || now == working
	switch {
	case w.record.Update.Task == "" && !w.record.Update.Seen && w.record.took(w.turn) < unseenFor(now):
		return w.in(followPhase), nil
	case now == broken:
		return driver.Outcome{}, w.failed(said)
	case now == working, now == waiting && w.file.component == "bmc":
		return w.in(followPhase), nil
	case w.file.component == "bmc":
		w.record.Update.Ended = now == ended
		w.record = w.record.from(w.turn)
		return w.in(verifyPhase), nil
	}
	w.record.Update.Restarted = true
	return w.beginRestart(w.node, w.kind, w.record, w.turn.Elapsed)
}

// unseenFor returns how long an update without a task counts as under way although the BMC shows no
// sign of it. What the BMC says may be about an earlier update, and a restart would interrupt this
// one.
func unseenFor(now progress) time.Duration {
	if now == untold {
		return blindFor
	}
	return staleFor
}

// verify waits until the BMC works no more and the machine shows another version. A BMC
// that has said that the update succeeded is believed: the file may have had the version
// that was there.
func (w updating) verify() (driver.Outcome, error) {
	now, said, err := w.progress()
	if err != nil {
		return driver.Outcome{}, err
	}
	switch now {
	case broken:
		return driver.Outcome{}, w.failed(said)
	case working: // a version that is shown early is not the end
		w.record = w.record.from(w.turn)
		return w.in(verifyPhase), nil
	}
	version, err := w.version(w.file.component)
	if err != nil {
		return driver.Outcome{}, err
	}
	late := w.record.took(w.turn) > showWithin && (now == ended || now == untold)
	switch {
	case version != "" && version != w.record.Update.Before, late && now == ended && !w.record.Update.Found:
		return w.done()
	case late && w.record.Update.Found: // the task may be that of somebody else
		return driver.Outcome{}, w.unknown()
	case late:
		return driver.Outcome{}, w.failed("the machine still shows version " + version)
	}
	return w.in(verifyPhase), nil
}

// done goes on with the next component, or ends the step with the machine as it was.
func (w updating) done() (driver.Outcome, error) {
	if w.last {
		return w.record.ends(w.node, driver.Outcome{Apply: node.WithdrawFirmwareFile}), nil
	}
	r := record{WasOff: w.record.WasOff, Update: &update{Item: w.record.Update.Item + 1, Began: w.turn.Elapsed.Seconds()}}
	if w.record.Update.Doubted {
		r.Update.Doubted, r.Update.Tasks = true, w.unstored().EarlierTasks
	}
	return r.from(w.turn).outcome(driver.Outcome{Again: driver.NextTurn, Apply: node.WithdrawFirmwareFile}), nil
}
