package redfish

import (
	"net/http"
	"time"

	"github.com/ingot-metal/ingot/internal/sim/bmc"
)

func (s *Service) taskService(*request) answer {
	return resource(s.shape.document("/TaskService", "TaskService.v1_1_4.TaskService", object{
		"Id": "TaskService", "Name": "Task Service", "ServiceEnabled": true, "Status": ok(),
		"DateTime": s.bmc.Now().UTC().Format(time.RFC3339), "CompletedTaskOverWritePolicy": "Oldest",
		"Tasks": s.shape.link("/TaskService/Tasks"),
	}))
}

func (s *Service) listTasks(*request) answer {
	var all []string
	for _, one := range s.group.services {
		for _, t := range one.bmc.Tasks() {
			all = append(all, one.shape.taskPath(t.Number))
		}
	}
	return resource(s.shape.collection("/TaskService/Tasks", "TaskCollection.TaskCollection", "Tasks", all))
}

// task returns the task that a request names.
func (s *Service) task(q *request) (bmc.Task, bool) {
	for _, t := range s.bmc.Tasks() {
		if s.shape.taskID(t.Number) == q.PathValue("id") {
			return t, true
		}
	}
	return bmc.Task{}, false
}

func (s *Service) showTask(q *request) answer {
	t, found := s.task(q)
	if !found {
		return s.missing(q.Request)
	}
	return resource(s.taskDocument(t))
}

// showMonitor answers 202 until a task has ended.
func (s *Service) showMonitor(q *request) answer {
	t, found := s.task(q)
	if !found {
		return s.missing(q.Request)
	}
	out := resource(s.taskDocument(t))
	if !t.Done() {
		out.status, out.location = http.StatusAccepted, s.shape.id(s.shape.monitorPath(t.Number))
	}
	return out
}

// healths has the health for each state of a task.
var healths = map[bmc.TaskState]string{
	bmc.Running: "OK", bmc.Scheduled: "OK", bmc.Completed: "OK", bmc.Failed: "Critical",
}

// percents has how much of a task is done, by its state.
var percents = map[bmc.TaskState]int{bmc.Running: 50, bmc.Completed: 100, bmc.Failed: 100}

func taskName(t bmc.Task) string {
	switch t.Kind {
	case bmc.BIOSTask:
		return "Configure: BIOS"
	case bmc.VolumeTask:
		return "Configure: RAID"
	}
	return "Firmware Update: " + t.Component
}

func (s *Service) taskDocument(t bmc.Task) object {
	x := s.shape
	document := x.document(x.taskPath(t.Number), "Task.v1_4_3.Task", object{
		"Id": x.taskID(t.Number), "Name": taskName(t), "TaskState": x.taskStates[t.State],
		"TaskStatus": healths[t.State], "PercentComplete": percents[t.State],
		"StartTime": t.Begun.UTC().Format(time.RFC3339), "Messages": []object{},
		"TaskMonitor": x.id(x.monitorPath(t.Number)),
	})
	if t.Done() {
		document["EndTime"] = t.Ended.UTC().Format(time.RFC3339)
	}
	if message, failed := x.failures[t.Failure]; failed {
		document["Messages"] = []object{x.render(message, "", "")}
	}
	if x.extendTask != nil {
		x.extendTask(s, t, document)
	}
	return document
}

// accepted returns the answer with the monitor of a task that has begun (DSP0266, "Asynchronous
// operations").
func (s *Service) accepted(t *bmc.Task) answer {
	return answer{status: http.StatusAccepted, location: s.shape.id(s.shape.monitorPath(t.Number))}
}
