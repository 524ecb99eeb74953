package effect

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

// machine is what one machine remembers.
type machine struct {
	name       string
	power      string // "power on" or "power off"
	bootDevice string
	settings   settings
	tasks      []task
	forgetful  bool // the list of tasks is not complete
}

// maxTasks is how many tasks a machine lists; older ones are forgotten.
const maxTasks = 64

// settings are what a machine's BIOS and firmware were changed to, by name.
type settings struct {
	BIOS     map[string]string `json:"bios,omitempty"`
	Firmware map[string]string `json:"firmware,omitempty"`
}

// factoryReset is the detail of an effect after which the BIOS has its values from
// the factory.
const factoryReset = "bios.factory_reset"

// configure changes settings.
func (m *machine) configure(t task) {
	if t.detail == factoryReset {
		m.settings.BIOS = nil
	}
	for _, change := range []struct {
		of *map[string]string
		to map[string]string
	}{{&m.settings.BIOS, t.settings.BIOS}, {&m.settings.Firmware, t.settings.Firmware}} {
		if len(change.to) == 0 {
			continue
		}
		values := maps.Clone(*change.of) // answers may hold the old ones
		if values == nil {
			values = map[string]string{}
		}
		maps.Copy(values, change.to)
		*change.of = values
	}
}

// task is something that a machine was asked to do.
type task struct {
	number   int64
	kind     string
	detail   string
	settings settings
	request  string
	ends     time.Time
	fails    bool
	observed bool // its effect on the machine has been applied
}

// States of a task, as answers have them.
const (
	noTask      = "none"
	taskRunning = "running"
	taskDone    = "done"
	taskFailed  = "failed"
	taskUnknown = "unknown"
)

// taskDocument is a task as answers have it.
type taskDocument struct {
	ID      string `json:"id,omitempty"`
	State   string `json:"state"`
	Kind    string `json:"kind,omitempty"`
	Request string `json:"request,omitempty"`
	Error   string `json:"error,omitempty"`
}

func (t task) id() string { return "task-" + strconv.FormatInt(t.number, 10) }

func (t task) document(now time.Time) taskDocument {
	d := taskDocument{ID: t.id(), State: taskDone, Kind: t.kind, Request: t.request}
	switch {
	case now.Before(t.ends):
		d.State = taskRunning
	case t.fails:
		d.State, d.Error = taskFailed, fmt.Sprintf("%s failed, as this machine was told to fail", t.kind)
	}
	return d
}

// kindTable has every kind of effect on a machine.
var kindTable = map[string]struct {
	slow  bool                 // whether the task time of a machine counts for it
	apply func(*machine, task) // what it changes
}{
	"power on":       {apply: func(m *machine, _ task) { m.power = "power on" }},
	"power off":      {apply: func(m *machine, _ task) { m.power = "power off" }},
	"soft power off": {apply: func(m *machine, _ task) { m.power = "power off" }},
	"boot device":    {apply: func(m *machine, t task) { m.bootDevice = t.detail }},
	"boot ramdisk":   {},
	"attach medium":  {},
	"detach media":   {},
	"nmi":            {},
	"vendor method":  {},
	"wipe":           {slow: true},
	"write":          {slow: true},
	"flash":          {slow: true, apply: (*machine).configure},
	"configure":      {slow: true, apply: (*machine).configure},
	"burn in":        {slow: true},
	"tear down":      {slow: true},
	"rescue":         {slow: true},
	"unrescue":       {slow: true},
}

// begin starts a task.
func (m *machine) begin(t task) {
	if len(m.tasks) >= maxTasks {
		m.tasks, m.forgetful = slices.Delete(m.tasks, 0, len(m.tasks)-maxTasks+1), true
	}
	m.tasks = append(m.tasks, t)
}

// applyEnded applies the tasks that have ended to the machine, in their order. It is called before
// the machine is read, so that nothing has to run in between.
func (m *machine) applyEnded(now time.Time) {
	for i, t := range m.tasks {
		if t.observed || now.Before(t.ends) {
			continue
		}
		m.tasks[i].observed = true
		if apply := kindTable[t.kind].apply; apply != nil && !t.fails {
			apply(m, t)
		}
	}
}

// outcome returns the newest task of a request.
func (m *machine) outcome(request string, now time.Time) taskDocument {
	for _, t := range slices.Backward(m.tasks) {
		if t.request == request {
			return t.document(now)
		}
	}
	if m.forgetful {
		return taskDocument{State: taskUnknown}
	}
	return taskDocument{State: noTask}
}

// forget forgets the list of tasks, as a restart does. Tasks that run go on.
func (m *machine) forget(now time.Time) {
	for i := range m.tasks {
		if now.Before(m.tasks[i].ends) {
			m.tasks[i].request = ""
		}
	}
	m.applyEnded(now)
	m.tasks = slices.DeleteFunc(m.tasks, func(t task) bool { return t.observed })
	m.forgetful = true
}
