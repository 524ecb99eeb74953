package agent

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// hardwareManagers are the hardware managers and their versions. An agent must not execute steps
// that another version listed.
var hardwareManagers = map[string]string{"generic_hardware_manager": "1.2"}

// stepCommands returns the two commands of a kind of steps: one lists the steps, the other executes
// a step.
func stepCommands(k stepKind) map[string]command {
	execute := "execute_" + k.name + "_step"
	return map[string]command{
		"get_" + k.name + "_steps": {
			method:   k.class + ".get_" + k.name + "_steps",
			required: []string{"node", "ports"},
			run:      k.list,
		},
		execute: {
			method:   k.class + "." + execute,
			required: []string{"step", "node", "ports"},
			async:    true,
			duration: k.duration,
			run:      k.execute,
		},
	}
}

func (k stepKind) list(x *execution, p params) (any, *commandError) {
	x.remember(nodeOf(p))
	return map[string]any{
		k.name + "_steps":          k.managers,
		"hardware_manager_version": hardwareManagers,
	}, nil
}

// stepArgument is the step of an execute command.
type stepArgument struct {
	Step string `json:"step"`
	Args params `json:"args"`
}

func (k stepKind) execute(x *execution, p params) (any, *commandError) {
	x.remember(nodeOf(p))
	if failure := checkVersions(p[k.name+"_version"]); failure != nil {
		return nil, failure
	}
	var step stepArgument
	if err := json.Unmarshal(p["step"], &step); err != nil {
		return nil, executionError(fmt.Sprintf("read the step: %v", err))
	}
	if !k.knows(step.Step) {
		return nil, methodNotFound(step.Step)
	}
	outcome, failure := x.runStep(step, p["node"])
	if failure != nil {
		return nil, failure
	}
	return map[string]any{k.name + "_result": outcome, k.name + "_step": p["step"]}, nil
}

func (k stepKind) duration(p params) span {
	var step stepArgument
	if json.Unmarshal(p["step"], &step) != nil {
		return span{}
	}
	if s, known := stepDurations[step.Step]; known {
		return s
	}
	return defaultStepDuration
}

// knows reports whether any hardware manager has the step.
func (k stepKind) knows(name string) bool {
	for _, steps := range k.managers {
		if slices.ContainsFunc(steps, func(s stepInfo) bool { return s.Step == name }) {
			return true
		}
	}
	return false
}

// createConfigurationStep makes the volumes in the target_raid_config of the node.
const createConfigurationStep = "create_configuration"

// runStep carries out a step on a node. Only steps that write an image or make volumes have a
// result.
func (x *execution) runStep(step stepArgument, node json.RawMessage) (any, *commandError) {
	switch {
	case erasingSteps[step.Step]:
		return nil, x.erase(step.Step)
	case step.Step == installCoreOS.Step:
		return nil, x.installCoreOS(node)
	case step.Step == createConfigurationStep:
		var n struct {
			Target json.RawMessage `json:"target_raid_config"`
		}
		_ = json.Unmarshal(node, &n) // what is not a node has no target
		return volumesMade(n.Target), nil
	case step.Step == applyConfiguration.Step:
		return volumesMade(step.Args["raid_config"]), nil
	case step.Step != writeImageStep:
		return nil, nil
	}
	if f := checkImageInfo(step.Args); f != nil {
		return nil, &commandError{
			"InvalidCommandParamsError", f.status, "Invalid command parameters",
			strings.TrimPrefix(f.String, "Invalid command parameters: "),
		}
	}
	return prepareImage(x, step.Args)
}

// volumesMade returns the result of making the volumes of a RAID configuration: that configuration.
// Like the generic hardware manager, it makes software RAID only. An empty result means that no
// volume was made.
func volumesMade(config json.RawMessage) any {
	var wanted struct {
		Disks []struct {
			Controller string `json:"controller"`
		} `json:"logical_disks"`
	}
	_ = json.Unmarshal(config, &wanted) // other text describes no volumes
	for _, d := range wanted.Disks {
		if d.Controller == "software" {
			return config
		}
	}
	return struct{}{}
}

// checkVersions compares the versions of hardware managers in a request with those of this agent. A
// request without versions passes.
func checkVersions(raw json.RawMessage) *commandError {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	var wanted map[string]string
	if err := json.Unmarshal(raw, &wanted); err != nil {
		return executionError(fmt.Sprintf("read the hardware manager versions: %v", err))
	}
	if maps.Equal(wanted, hardwareManagers) {
		return nil
	}
	return versionMismatch(pythonDict(hardwareManagers), pythonDict(wanted))
}

// pythonDict writes a dictionary as Python prints it, with sorted keys.
func pythonDict(m map[string]string) string {
	items := make([]string, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		items = append(items, fmt.Sprintf("'%s': '%s'", key, m[key]))
	}
	return "{" + strings.Join(items, ", ") + "}"
}
