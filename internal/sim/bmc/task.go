package bmc

import (
	"slices"
	"time"
)

// maxTasks is how many tasks a BMC lists. Those that have ended are pruned, the oldest
// first.
const maxTasks = 64

// TaskKind is what a task does.
type TaskKind int

// The kinds of tasks.
const (
	FlashTask  TaskKind = iota // updates firmware
	BIOSTask                   // changes BIOS attributes at the next boot
	VolumeTask                 // makes or deletes a volume
)

// TaskState is how far a task is.
type TaskState int

// The states of tasks.
const (
	Running   TaskState = iota
	Scheduled           // waits for the machine to boot
	Completed
	Failed // Failure says why
)

// Failure is why a task failed.
type Failure int

// The failures.
const (
	NoFailure     Failure = iota
	FetchFailed           // the file could not be fetched
	ImageInvalid          // the file is no firmware of this machine
	TaskWentWrong         // a fault
)

// Task is something that a BMC does over some time.
type Task struct {
	Number    int64 // from 1, for each BMC
	Kind      TaskKind
	Component string // see Component.ID
	Version   string // version that an update installs
	State     TaskState
	Failure   Failure
	Begun     time.Time
	Ended     time.Time // for a task that runs, when it will end

	fails  bool // it fails when it ends
	lasts  time.Duration
	hidden bool // forgotten before it ended
	volume volumeChange
}

// Done reports whether the task has ended.
func (t Task) Done() bool { return t.State == Completed || t.State == Failed }

// copied returns a copy for callers, because tasks change.
func (t *Task) copied() *Task {
	c := *t
	return &c
}

// Tasks returns the tasks, the oldest first.
func (b *BMC) Tasks() []Task {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.actDue()
	var tasks []Task
	for _, t := range b.tasks {
		if !t.hidden {
			tasks = append(tasks, *t)
		}
	}
	return tasks
}

// EndTasks makes the running tasks end at once. Tasks that wait for a boot go on waiting.
func (b *BMC) EndTasks() {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.actDue()
	for _, t := range b.tasks {
		if t.State == Running {
			t.Ended = now
		}
	}
	b.actDue()
}

// ForgetTasks makes the BMC forget its list of tasks. Tasks that have not ended go on unseen.
func (b *BMC) ForgetTasks() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.actDue()
	b.tasks = slices.DeleteFunc(b.tasks, func(t *Task) bool { return t.Done() })
	for _, t := range b.tasks {
		t.hidden = true
	}
}

// addTask stores a task.
func (b *BMC) addTask(t Task) *Task {
	b.newest++
	t.Number = b.newest
	if len(b.tasks) >= maxTasks {
		if i := slices.IndexFunc(b.tasks, func(t *Task) bool { return t.Done() }); i >= 0 {
			b.tasks = slices.Delete(b.tasks, i, i+1)
		}
	}
	b.tasks = append(b.tasks, &t)
	return &t
}

// endDueTasks ends the tasks whose time is over.
func (b *BMC) endDueTasks(now time.Time) {
	for _, t := range b.tasks {
		if t.State != Running || now.Before(t.Ended) {
			continue
		}
		switch {
		case t.Failure != NoFailure:
			t.State = Failed
		case t.fails:
			t.State, t.Failure = Failed, TaskWentWrong
		default:
			t.State = Completed
			b.finishFlash(t)
			if t.Kind == VolumeTask {
				b.carryOut(t.volume)
			}
		}
	}
	b.tasks = slices.DeleteFunc(b.tasks, func(t *Task) bool { return t.hidden && t.Done() })
}

// endBIOSTask ends the job that changes BIOS attributes, if there is one. It reports whether the
// job fails.
func (b *BMC) endBIOSTask() (fails bool) {
	for _, t := range b.tasks {
		if t.Kind != BIOSTask || t.State != Scheduled {
			continue
		}
		t.State, t.Ended = Completed, b.Now()
		if t.fails {
			t.State, t.Failure = Failed, TaskWentWrong
		}
		fails = fails || t.fails
	}
	return fails
}
