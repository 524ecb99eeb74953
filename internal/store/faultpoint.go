//go:build fault

package store

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// Environment of a program that was built with the tag fault.
const (
	// faultLogVariable names a file that gets one line of JSON for every commit that changes nodes
	// or work.
	faultLogVariable = "INGOT_FAULT_LOG"
	// faultAtVariable says where the process kills itself. Each line names a commit:
	// "before 17 clean: ended" is just before the first commit of the name "clean: ended" from this
	// process's seventeenth commit on, "after 17 clean: ended" just after it.
	faultAtVariable = "INGOT_FAULT_AT"
)

// faultPoints counts the commits of a process that change nodes or work, and kills the
// process at one of them.
type faultPoints struct {
	log    *os.File // nil without a log
	points []faultPoint

	mu     sync.Mutex
	number int // number of the last commit
}

// faultPoint is a commit.
type faultPoint struct {
	when   string // "before" or "after" the commit
	number int    // 0 for a commit without a name
	name   string
}

// newFaultPoints reads the environment. It panics on a value that it does not understand, because a
// test has set the value.
func newFaultPoints() *faultPoints {
	f := &faultPoints{}
	if path := os.Getenv(faultLogVariable); path != "" {
		log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			panic(err)
		}
		f.log = log
	}
	for line := range strings.SplitSeq(os.Getenv(faultAtVariable), "\n") {
		var p faultPoint
		if line == "" {
			continue
		}
		words := strings.SplitN(line, " ", 3)
		if _, err := fmt.Sscan(line, &p.when, &p.number); err != nil || len(words) < 3 || p.when != "before" && p.when != "after" {
			panic(faultAtVariable + ": want before or after, a number and a name, got " + line)
		}
		p.name = words[2]
		f.points = append(f.points, p)
	}
	return f
}

// before is called when a commit is ready, and returns the fault point to give to after.
func (f *faultPoints) before(note commitNote) faultPoint {
	here := faultPoint{name: note.name()}
	if here.name == "" {
		return here
	}
	f.mu.Lock()
	f.number++
	here.number = f.number
	f.mu.Unlock()
	f.write(here)
	here.when = "before"
	f.kill(here)
	return here
}

// after is called when a commit is on disk, before anybody has been told.
func (f *faultPoints) after(here faultPoint) {
	here.when = "after"
	f.kill(here)
}

func (f *faultPoints) kill(here faultPoint) {
	meant := func(p faultPoint) bool { return p.when == here.when && p.name == here.name && p.number <= here.number }
	if here.number == 0 || !slices.ContainsFunc(f.points, meant) {
		return
	}
	f.write(here)
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // until the signal arrives
}

// write adds a line to the log, which says whether the process is killed there, before the commit
// or after it.
func (f *faultPoints) write(here faultPoint) {
	if f.log == nil {
		return
	}
	line, err := json.Marshal(map[string]any{"commit": here.number, "name": here.name, "killed": here.when, "time": time.Now()})
	if err == nil {
		_, err = f.log.Write(append(line, '\n'))
	}
	if err != nil {
		panic(err)
	}
}

// commitNote collects what a commit stores. The commit gets its name from that. The zero value is
// empty.
type commitNote struct {
	works   []string // what happens to work
	states  []string // provision states that nodes enter
	columns []string // columns of nodes that keep their state
}

// added notes work that is stored.
func (c *commitNote) added(w *Work) { c.works = append(c.works, string(w.Kind)+": requested") }

// claimed notes work that a process takes up.
func (c *commitNote) claimed(w *Work) { c.works = append(c.works, string(w.Kind)+": claimed") }

// finished notes work that is removed.
func (c *commitNote) finished(w *Work) { c.works = append(c.works, string(w.Kind)+": ended") }

// reached notes a checkpoint. It reads only the fields that checkpoints of all versions have in
// common.
func (c *commitNote) reached(w *Work) {
	var at struct {
		Done, Operation  struct{ Name, Item string }
		Phase            string
		Callback, Called bool
		Failing          string
	}
	if w.Checkpoint != "" && json.Unmarshal([]byte(w.Checkpoint), &at) != nil {
		at.Operation.Name = "a checkpoint that cannot be read"
	}
	var text string
	switch {
	case at.Operation.Name == "" && at.Done.Name == "":
		text = "begins"
	case at.Operation.Name == "":
		text = ref(at.Done.Name, at.Done.Item) + " is done"
	case at.Called:
		text = ref(at.Operation.Name, at.Operation.Item) + " is called by the agent"
	case at.Phase != "":
		text = ref(at.Operation.Name, at.Operation.Item) + " is in phase " + at.Phase
	case at.Callback:
		text = ref(at.Operation.Name, at.Operation.Item) + " waits for the agent"
	default:
		text = ref(at.Operation.Name, at.Operation.Item) + " begins"
	}
	if at.Failing != "" {
		text += ", after a failure"
	}
	c.works = append(c.works, string(w.Kind)+": "+text)
}

func ref(name, item string) string { return strings.TrimSpace(name + " " + item) }

// created notes a node that is stored.
func (c *commitNote) created(*node.Node) { c.columns = append(c.columns, "everything") }

// updated notes the changes of a node.
func (c *commitNote) updated(before, after *node.Node) {
	if before.ProvisionState != after.ProvisionState {
		c.states = append(c.states, string(after.ProvisionState))
		return
	}
	for _, column := range nodeTable.columns {
		if column.name != "updated_at" && !column.same(before, after) {
			c.columns = append(c.columns, column.name)
		}
	}
}

// add adds everything that other has.
func (c *commitNote) add(other commitNote) {
	c.works = append(c.works, other.works...)
	c.states = append(c.states, other.states...)
	c.columns = append(c.columns, other.columns...)
}

// name returns the name of the commit, "" for a commit that changes neither nodes nor work.
func (c commitNote) name() string {
	parts := slices.Clone(c.works)
	for _, state := range c.states {
		parts = append(parts, "the node enters "+state)
	}
	if len(parts) == 0 && len(c.columns) > 0 {
		parts = []string{"the node gets " + strings.Join(c.columns, ", ")}
	}
	return strings.Join(slices.Compact(parts), "; ")
}
