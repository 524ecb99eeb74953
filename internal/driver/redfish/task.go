package redfish

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/stmcginnis/gofish/schemas"
)

// taskPaths lists the tasks that the BMC remembers. It reads none of them: some BMCs
// remember hundreds.
func (c *call) taskPaths() ([]string, error) {
	service, err := c.api.Service.Tasks()
	if err != nil || service == nil {
		return nil, err
	}
	var known struct{ Tasks schemas.Link }
	if err := c.read(service.ODataID, &known); err != nil || known.Tasks == "" {
		return nil, err
	}
	return c.members(known.Tasks.String())
}

// newTasks returns the tasks of now that are not among the known ones.
func newTasks(known, now []string) []string {
	return slices.DeleteFunc(slices.Clone(now), func(path string) bool { return slices.Contains(known, path) })
}

// taskPathOf returns the path at which a task is followed: that of the task itself, which stays
// after its end, or else that of its monitor.
func taskPathOf(task *schemas.TaskMonitorInfo) string {
	if task.Task != nil && task.Task.ODataID != "" {
		return task.Task.ODataID
	}
	return pathOf(task.TaskMonitor)
}

// progress is how far the BMC says that it is with a change that it was asked for.
type progress string

const (
	working progress = "working"
	waiting progress = "waits for a restart of the machine"
	ended   progress = "ended"
	broken  progress = "failed"
	untold  progress = "untold" // the BMC has no task for it, or not any more
)

// taskStates are the states of tasks that mean something else than working.
var taskStates = map[schemas.TaskState]progress{
	schemas.PendingTaskState:   waiting,
	schemas.SuspendedTaskState: waiting,
	schemas.CompletedTaskState: ended,
	schemas.KilledTaskState:    broken,
	schemas.ExceptionTaskState: broken,
	schemas.CancelledTaskState: broken,
}

// taskDocument is what the driver reads of a task (DSP0268, Task). The library takes no task that
// has a property of another type.
type taskDocument struct {
	TaskState  schemas.TaskState
	TaskStatus schemas.Health
	Messages   []struct{ Message string }
	OEM        json.RawMessage `json:"Oem"`
}

// taskProgress reads a task, and returns how far it is and what the BMC says about a failure. A
// task that is followed at its monitor has ended when the BMC answers with something else than a
// task. The path may have an address, because earlier releases stored paths with one.
func (c *call) taskProgress(path string) (progress, string, error) {
	answer, err := c.api.Get(pathOf(path))
	if status := statusOf(err); status == http.StatusNotFound || status == http.StatusGone {
		return untold, "", nil
	}
	if err != nil {
		return "", "", err
	}
	defer answer.Body.Close()
	var task taskDocument
	err = json.NewDecoder(answer.Body).Decode(&task)
	var mistyped *json.UnmarshalTypeError
	switch {
	case err == nil, errors.Is(err, io.EOF): // the answer of a monitor may have no body (DSP0266)
	case errors.As(err, &mistyped) && mistyped.Field != "TaskState": // the other properties are there
	default:
		return "", "", fmt.Errorf("read the task: %w", err)
	}
	said := "the BMC says: " + string(task.TaskState)
	for _, message := range task.Messages[:min(len(task.Messages), maxMessages)] {
		said += " " + message.Message
	}
	now, ok := taskStates[task.TaskState]
	switch {
	case jobStateOf(task.OEM) == "Scheduled":
		now = waiting
	case task.TaskState == "" && answer.StatusCode != http.StatusAccepted:
		now = ended
	case !ok:
		now = working
	case now == ended && task.TaskStatus == schemas.CriticalHealth:
		now = broken
	}
	return now, said, nil
}

// jobStateOf returns the state of an iDRAC's job. The task of a job says Starting while the job
// waits for a restart.
func jobStateOf(oem []byte) string {
	var of struct{ Dell struct{ JobState string } }
	if json.Unmarshal(oem, &of) != nil {
		return ""
	}
	return of.Dell.JobState
}
