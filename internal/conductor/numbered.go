package conductor

import (
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// Before operations had names, releases numbered the operations of a script and stored the number.
// The lists below have the operations in the order of those numbers. They never change, even if the
// scripts do.

// numberedScript lists the numbered operations of one kind of work.
type numberedScript struct {
	flow    *flow    // whose steps follow the planning of steps
	then    []string // operations after the steps
	failing []string // operations that clean up after a failure
}

var numberedScripts = map[store.WorkKind]numberedScript{
	workHooks:      {then: []string{powerOffName}},
	oldInspect:     {then: []string{"resolve BMC addresses", "boot ramdisk", powerOffName, powerOnName, "inspect"}, failing: []string{powerOffName}},
	workClean:      {flow: &cleanFlow, failing: []string{powerOffName}},
	workDeploy:     {flow: &deployFlow, then: []string{powerOnName}, failing: []string{powerOffName}},
	workService:    {flow: &serviceFlow, then: []string{powerOnName}, failing: []string{powerOnName}},
	workUndeploy:   {then: []string{"tear down", powerOffName}},
	workAdopt:      {then: []string{"adopt"}},
	workRescue:     {then: []string{"rescue", powerOnName}},
	workUnrescue:   {then: []string{"unrescue", powerOnName}},
	workPower:      {then: []string{"change power"}},
	workBootMode:   {then: []string{setName}},
	workSecureBoot: {then: []string{setName}},
	workMedia:      {then: []string{setName}},
	workVendor:     {then: []string{setName}},
}

// numberedOperations returns the operations of a kind of work in the order of their numbers.
func numberedOperations(kind store.WorkKind) func(runner.Task, bool) []runner.Ref {
	script := numberedScripts[kind]
	return func(t runner.Task, failing bool) []runner.Ref {
		if failing {
			return named(script.failing)
		}
		if kind == workCleanUp {
			if abortedKind(t.Work) == workService {
				return named([]string{powerOnName})
			}
			return named([]string{powerOffName})
		}
		return append(numberedSteps(t.Node, script.flow), named(script.then)...)
	}
}

// numberedSteps returns the planning of steps, followed by each step. A step that runs on child
// nodes is listed once for each child.
func numberedSteps(n *node.Node, f *flow) []runner.Ref {
	if f == nil {
		return nil
	}
	refs := named([]string{planName})
	for i, step := range f.stored(n) {
		if !step.ExecuteOnChildNodes {
			refs = append(refs, stepRef(i, step, ""))
			continue
		}
		for _, child := range step.LimitChildNodeExecution {
			refs = append(refs, stepRef(i, step, child))
		}
	}
	return refs
}

func named(names []string) []runner.Ref {
	refs := make([]runner.Ref, len(names))
	for i, name := range names {
		refs[i] = runner.Ref{Name: name}
	}
	return refs
}
