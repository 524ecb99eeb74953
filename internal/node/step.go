package node

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Step is one step of cleaning, deployment or servicing, as drivers offer it, as
// clients request it, and as the API shows the running one.
type Step struct {
	Interface string         `json:"interface"` // one of StepInterfaces
	Step      string         `json:"step"`      // name within the interface
	Args      map[string]any `json:"args,omitempty"`
	// Priority orders the steps of drivers, templates and deploy requests, highest
	// first; a step with priority 0 does not run by itself.
	Priority int `json:"priority"`
	// Order places a step of a runbook or of a user's list; nil keeps its place.
	Order           *int `json:"order,omitempty"`
	Abortable       bool `json:"abortable,omitempty"`        // whether an abort may interrupt it
	RebootRequested bool `json:"reboot_requested,omitempty"` // whether the machine restarts after it
	// RequiresRamdisk says that the step runs inside the ramdisk.
	RequiresRamdisk bool `json:"requires_ramdisk,omitempty"`
	// ExecuteOnChildNodes says that the node's children run the step, one after the
	// other, and not the node itself.
	ExecuteOnChildNodes bool `json:"execute_on_child_nodes,omitempty"`
	// LimitChildNodeExecution lists the children that run the step, by UUID or name; empty means
	// all.
	LimitChildNodeExecution []string `json:"limit_child_node_execution,omitempty"`
	// AbortAfter is set when a client has requested abort during a step that is not abortable: the
	// abort follows when the step ends.
	AbortAfter bool `json:"abort_after,omitempty"`
}

// StepInterfaces are the interfaces that have steps, in the order that breaks
// ties of priority.
var StepInterfaces = []string{"vendor", "power", "management", "firmware", "deploy", "bios", "raid"}

// Steps that the engine runs itself, whatever interface the client names.
const (
	StepReboot   = "reboot"
	StepPowerOn  = "power_on"
	StepPowerOff = "power_off"
	StepHold     = "hold" // until a client sends unhold
	StepWait     = "wait" // for args.seconds, or for the next heartbeat
)

// Core steps of a deployment through the ramdisk, of the interface deploy. In these steps the
// engine does something besides what the ramdisk does.
const (
	StepStartRamdisk  = "deploy"
	StepPrepareBoot   = "prepare_instance_boot"
	StepTearDownAgent = "tear_down_agent"
	StepBootInstance  = "boot_instance"
)

var ownSteps = []string{StepReboot, StepPowerOn, StepPowerOff, StepHold, StepWait}

// maxStepWait is the longest time that a wait step may last.
const maxStepWait = 30 * time.Second

// CutsPower reports whether the engine itself restarts the machine for the step, or switches it
// off, which ends whatever runs on the machine.
func (s Step) CutsPower() bool { return s.Step == StepReboot || s.Step == StepPowerOff }

// Own reports whether the engine runs the step itself.
func (s Step) Own() bool { return slices.Contains(ownSteps, s.Step) }

// Name returns the step as interface.step.
func (s Step) Name() string { return s.Interface + "." + s.Step }

// Object returns the step as the API shows it.
func (s Step) Object() Object {
	text, err := json.Marshal(s)
	if err != nil { // args came from JSON
		return nil
	}
	return text
}

// StepOf returns the step in an object that Step.Object made; ok is false for the empty object.
func StepOf(o Object) (step Step, ok bool) {
	return step, !o.IsEmpty() && json.Unmarshal(o, &step) == nil
}

// WaitSeconds returns how long a wait step lasts; 0 means until the next
// heartbeat.
func (s Step) WaitSeconds() (time.Duration, error) {
	raw, ok := s.Args["seconds"]
	if !ok {
		return 0, nil
	}
	var seconds float64
	text, err := json.Marshal(raw)
	if err == nil {
		err = json.Unmarshal(text, &seconds)
	}
	if limit := maxStepWait.Seconds(); err != nil || seconds < 0 || seconds > limit {
		return 0, Invalid("The wait step takes seconds from 0 to %g, got %s.", limit, CutText(fmt.Sprint(raw)))
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// CheckSteps returns a *ValidationError for the first step of a client's list
// that cannot exist with any driver.
func CheckSteps(steps []Step) error {
	for i, s := range steps {
		switch {
		case s.Step == "":
			return Invalid("Step %d has no name: every step needs interface and step.", i)
		case !slices.Contains(StepInterfaces, s.Interface):
			return Invalid("Step %d (%s) has the unknown interface %q; the interfaces with steps are %s.", i, CutText(s.Step), CutText(s.Interface), Choices(StepInterfaces))
		case s.Priority < 0:
			return Invalid("Step %d (%s) has the negative priority %d.", i, CutText(s.Name()), s.Priority)
		}
		if err := s.checkChildren(i); err != nil {
			return err
		}
		if s.Step == StepWait {
			if _, err := s.WaitSeconds(); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkChildren checks the rules for steps that child nodes run.
func (s Step) checkChildren(i int) error {
	switch {
	case len(s.LimitChildNodeExecution) > 0 && !s.ExecuteOnChildNodes:
		return Invalid("Step %d (%s) has limit_child_node_execution, but the node itself runs it: set execute_on_child_nodes.", i, CutText(s.Name()))
	case s.ExecuteOnChildNodes && (s.Step == StepHold || s.Step == StepWait):
		return Invalid("Step %d (%s) cannot run on child nodes: the engine runs it for the node itself.", i, CutText(s.Name()))
	}
	return nil
}

// KnownSteps returns the requested steps that the drivers offer or that run elsewhere, see
// Elsewhere.
func KnownSteps(asked, offered []Step) []Step {
	return slices.DeleteFunc(slices.Clone(asked), func(s Step) bool {
		_, known := findStep(offered, s)
		return !known && !s.Elsewhere()
	})
}

// StepsBehind returns the steps of a new plan that have not run yet, given the steps that have run
// of an earlier plan.
func StepsBehind(run, planned []Step) []Step {
	return slices.DeleteFunc(slices.Clone(planned), func(s Step) bool {
		_, ran := findStep(run, s)
		return ran
	})
}

// OutOfBand reports whether every step of a client's list is known to run without the ramdisk.
func OutOfBand(asked, offered []Step) bool {
	return !slices.ContainsFunc(asked, func(s Step) bool {
		known, ok := findStep(offered, s)
		return !s.Elsewhere() && (!ok || known.RequiresRamdisk) || s.AwaitsAgent()
	})
}

// InRamdisk returns the first step of a client's list that is known to run inside the ramdisk or to
// wait for its heartbeat; ok is false when there is none.
func InRamdisk(asked, offered []Step) (step Step, ok bool) {
	i := slices.IndexFunc(asked, func(s Step) bool {
		known, _ := findStep(offered, s)
		return !s.Elsewhere() && known.RequiresRamdisk || s.AwaitsAgent()
	})
	if i < 0 {
		return Step{}, false
	}
	return asked[i], true
}

// WithoutRamdisk returns the steps that do not run inside the ramdisk.
func WithoutRamdisk(steps []Step) []Step {
	return slices.DeleteFunc(slices.Clone(steps), func(s Step) bool { return s.RequiresRamdisk })
}

// Elsewhere reports whether a step does not run in the drivers of the node: the engine runs it
// itself, or the node's children run it.
func (s Step) Elsewhere() bool { return s.Own() || s.ExecuteOnChildNodes }

// AwaitsAgent reports whether the step waits for the next heartbeat.
func (s Step) AwaitsAgent() bool { return s.Step == StepWait && s.Args["seconds"] == nil }

// SortSteps orders steps by descending priority, then by interface, then by name,
// and leaves out those of priority 0.
func SortSteps(steps []Step) []Step {
	sorted := slices.DeleteFunc(slices.Clone(steps), func(s Step) bool { return s.Priority <= 0 })
	slices.SortStableFunc(sorted, func(a, b Step) int {
		return cmp.Or(
			cmp.Compare(b.Priority, a.Priority),
			cmp.Compare(slices.Index(StepInterfaces, a.Interface), slices.Index(StepInterfaces, b.Interface)),
			cmp.Compare(a.Step, b.Step),
		)
	})
	return sorted
}

// orderedSteps sorts steps by their order; a missing order counts as 0, and steps of
// the same order keep their place.
func orderedSteps(steps []Step) []Step {
	order := func(s Step) int {
		if s.Order == nil {
			return 0
		}
		return *s.Order
	}
	sorted := slices.Clone(steps)
	slices.SortStableFunc(sorted, func(a, b Step) int { return cmp.Compare(order(a), order(b)) })
	return sorted
}

// runbookPriority is above the priorities of drivers and templates.
const runbookPriority = 100_000

// RunbookDeploySteps returns the steps of a runbook for a deployment request. Their priorities make
// them run before all other steps, in the runbook's order.
func RunbookDeploySteps(runbook []Step) []Step {
	steps := orderedSteps(runbook)
	for i := range steps {
		steps[i].Order, steps[i].Priority = nil, runbookPriority-i
	}
	return steps
}

// ListedSteps completes a client's list of steps from the drivers' descriptions.
// Steps with an order are sorted by it; without any, the list keeps its order. A step
// that no driver offers is a *ValidationError; steps for child nodes are not checked.
func ListedSteps(asked, offered []Step) ([]Step, error) {
	steps := make([]Step, 0, len(asked))
	for _, s := range asked {
		switch {
		case s.Own():
			s.Abortable = true
		case !s.ExecuteOnChildNodes:
			known, ok := findStep(offered, s)
			if !ok {
				return nil, unknownStep(s, offered)
			}
			known.Args, known.Order = s.Args, s.Order
			s = known
		}
		steps = append(steps, s)
	}
	return orderedSteps(steps), nil
}

// DeploySteps merges the steps of drivers with those of templates and of the request; later lists
// win. A core step is a driver's step of the interface deploy with a priority above 0. Templates
// and requests cannot change a core step, not even its arguments; they can only leave it out, with
// priority 0.
func DeploySteps(offered, templates, asked []Step) ([]Step, error) {
	merged := slices.Clone(offered)
	for _, s := range slices.Concat(templates, asked) {
		if s.Own() {
			s.Abortable = true
			merged = append(merged, s)
			continue
		}
		i := slices.IndexFunc(merged, s.same)
		if i < 0 {
			return nil, unknownStep(s, offered)
		}
		core := s.Interface == "deploy" && offeredPriority(offered, s) > 0
		if core && s.Priority > 0 {
			return nil, Invalid("The step %s belongs to every deployment and cannot be changed; give it priority 0 to leave it out.", s.Name())
		}
		merged[i].Args, merged[i].Priority = s.Args, s.Priority
	}
	return SortSteps(merged), nil
}

func (s Step) same(other Step) bool { return s.Interface == other.Interface && s.Step == other.Step }

func findStep(steps []Step, like Step) (Step, bool) {
	if i := slices.IndexFunc(steps, like.same); i >= 0 {
		return steps[i], true
	}
	return Step{}, false
}

func offeredPriority(offered []Step, like Step) int {
	s, _ := findStep(offered, like)
	return s.Priority
}

func unknownStep(s Step, offered []Step) error {
	names := make([]string, 0, len(offered))
	for _, o := range offered {
		if o.Interface == s.Interface {
			names = append(names, o.Step)
		}
	}
	slices.Sort(names)
	return Invalid("There is no step %s; the interface %s of this node has the steps %s.", CutText(s.Name()), s.Interface, Choices(names))
}
