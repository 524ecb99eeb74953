package ramdisk

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// versionKey is the key of driver_internal_info for the versions of the hardware managers
// that listed the steps, as clients of the Bare Metal API know it.
const versionKey = "hardware_manager_version"

// stepsKey is the key of driver_internal_info for the steps of the agent.
func stepsKey(kind driver.StepKind) string { return "agent_cached_" + string(kind) + "_steps" }

// agentStep is a step as the agent lists it.
type agentStep struct {
	Step            string `json:"step"`
	Interface       string `json:"interface"`
	Priority        int    `json:"priority"`
	Abortable       bool   `json:"abortable"`
	RebootRequested bool   `json:"reboot_requested"`
}

// stepList is the result of a command that lists steps.
type stepList struct {
	byManager map[string][]agentStep
	Version   map[string]string `json:"hardware_manager_version"`
}

// decodeSteps reads the result of a command that lists the steps of a kind.
func decodeSteps(raw json.RawMessage, kind driver.StepKind) (stepList, error) {
	var list stepList
	if len(raw) > maxStepList {
		return list, fmt.Errorf("it has %d bytes, more than %d", len(raw), maxStepList)
	}
	var byKind map[string]json.RawMessage
	if err := json.Unmarshal(raw, &byKind); err != nil {
		return list, err
	}
	if err := json.Unmarshal(byKind[string(kind)+"_steps"], &list.byManager); err != nil {
		return list, fmt.Errorf("steps: %w", err)
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return list, fmt.Errorf("versions: %w", err)
	}
	return list, nil
}

// Bounds of what an agent tells, because the node keeps it.
const (
	maxStepList = 1 << 20 // bytes of the answer, before it is taken apart
	maxSteps    = 500     // of one kind
	maxManagers = 100     // whose versions are kept
	maxName     = 255     // bytes of a name or a version
)

// steps returns the steps of all hardware managers, in the order of their names. Agents list a step
// once, with the manager that runs it.
func (l stepList) steps() ([]node.Step, error) {
	var steps []node.Step
	for manager, listed := range l.byManager {
		for _, s := range listed {
			if s.Step == "" || s.Interface == "" || len(s.Step) > maxName || len(s.Interface) > maxName || s.Priority < 0 {
				return nil, fmt.Errorf("the hardware manager %s has a step without name or interface, with one that is too long, or with a negative priority", node.CutText(manager))
			}
			// These names are those of the engine's own steps: such a step would hold the node, for
			// instance.
			if (node.Step{Step: s.Step}).Own() {
				continue
			}
			steps = append(steps, node.Step{
				Interface: s.Interface, Step: s.Step, Priority: s.Priority, Abortable: s.Abortable,
				RebootRequested: s.RebootRequested, RequiresRamdisk: true,
			})
		}
	}
	if len(steps) > maxSteps {
		return nil, fmt.Errorf("it has %d steps, more than %d", len(steps), maxSteps)
	}
	if len(l.Version) > maxManagers {
		return nil, fmt.Errorf("it has %d hardware managers, more than %d", len(l.Version), maxManagers)
	}
	for manager, version := range l.Version {
		if len(manager) > maxName || len(version) > maxName {
			return nil, fmt.Errorf("the hardware manager %s has a name or a version that is too long", node.CutText(manager))
		}
	}
	slices.SortFunc(steps, func(a, b node.Step) int { return cmp.Compare(a.Name(), b.Name()) })
	return steps, nil
}

// AskSteps asks the agent for its steps of a kind.
func (d Driver) AskSteps(ctx context.Context, n *node.Node, kind driver.StepKind) (driver.Outcome, error) {
	params, err := d.params(ctx, n)
	if err != nil {
		return driver.Outcome{}, err
	}
	name := fmt.Sprintf("%s.get_%s_steps", kind, kind)
	command, err := d.options.Agents.Execute(ctx, n, name, params, true)
	if err != nil {
		return driver.Outcome{}, err
	}
	unusable := func(reason string) error {
		return &node.DriverError{Op: "ask the ramdisk of node " + n.UUID + " for its steps", Refused: true, Reason: node.CutText(reason)}
	}
	if command.Status != agent.CommandSucceeded {
		return driver.Outcome{}, unusable(command.Reason())
	}
	list, err := decodeSteps(command.Result, kind)
	if err != nil {
		return driver.Outcome{}, unusable("its answer cannot be read: " + err.Error())
	}
	steps, err := list.steps()
	if err != nil {
		return driver.Outcome{}, unusable(err.Error())
	}
	return driver.Outcome{Apply: func(n *node.Node) {
		n.DriverInternalInfo = n.DriverInternalInfo.With(map[string]any{stepsKey(kind): steps, versionKey: list.Version})
	}}, nil
}

// askedSteps returns the steps of an interface that the agent has reported.
func askedSteps(n *node.Node, kind driver.StepKind, of string) []node.Step {
	var steps []node.Step
	n.DriverInternalInfo.Get(stepsKey(kind), &steps)
	return slices.DeleteFunc(steps, func(s node.Step) bool { return s.Interface != of })
}

// params returns the parameters of every command that concerns steps.
func (d Driver) params(ctx context.Context, n *node.Node) (map[string]any, error) {
	ports, err := d.options.Ports(ctx, n)
	if err != nil {
		return nil, fmt.Errorf("read the ports of node %s: %w", n.UUID, err)
	}
	return map[string]any{"node": agent.Document(n, d.options.LookupKeys), "ports": agent.PortDocuments(ports)}, nil
}

// runAgentStep makes a turn of a step that the agent runs.
func (d Driver) runAgentStep(ctx context.Context, n *node.Node, kind driver.StepKind, step node.Step, turn driver.Turn) (driver.Outcome, error) {
	return d.run(ctx, n, d.stepOrder(n, kind, step), turn)
}

// stepOrder returns the command that runs a step.
func (d Driver) stepOrder(n *node.Node, kind driver.StepKind, step node.Step) order {
	return order{
		name: fmt.Sprintf("%s.execute_%s_step", kind, kind),
		params: func(ctx context.Context) (map[string]any, error) {
			params, err := d.params(ctx, n)
			if err != nil {
				return nil, err
			}
			// The step that writes the image has the image and the config drive as its arguments.
			if kind == driver.DeploySteps && step.Step != writeImage.Step {
				params["node"] = agent.DeploymentDocument(n, d.options.LookupKeys)
			}
			sent := map[string]any{"interface": step.Interface, "step": step.Step, "priority": step.Priority, "args": step.Args}
			if step.Args == nil {
				sent["args"] = struct{}{}
			}
			var version map[string]string
			n.DriverInternalInfo.Get(versionKey, &version)
			params["step"], params[string(kind)+"_version"] = sent, version
			return params, nil
		},
		names: func(result json.RawMessage) bool { return namesStep(result, kind, step) },
	}
}

// namesStep reports whether the result of a step is that of this step. The step that writes the
// image is not compared by its arguments: they are the engine's own, and there is only one such
// step.
func namesStep(result json.RawMessage, kind driver.StepKind, step node.Step) bool {
	var named map[string]json.RawMessage
	var ran node.Step
	if json.Unmarshal(result, &named) != nil || json.Unmarshal(named[string(kind)+"_step"], &ran) != nil {
		return false
	}
	same := ran.Interface == step.Interface && ran.Step == step.Step
	return same && (step.Step == writeImage.Step || len(ran.Args)+len(step.Args) == 0 || equalJSON(ran.Args, step.Args))
}

// equalJSON reports whether two values are the same document.
func equalJSON(a, b any) bool {
	first, err := json.Marshal(a)
	second, other := json.Marshal(b)
	return err == nil && other == nil && bytes.Equal(first, second)
}
