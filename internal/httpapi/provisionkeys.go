package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/internal/node"
)

// Keys of the steps in each kind of list.
var (
	listedStepKeys = []string{"interface", "step", "args", "order", "execute_on_child_nodes", "limit_child_node_execution"}
	deployStepKeys = []string{"interface", "step", "args", "priority"}
)

func readListedSteps(request *node.VerbRequest, raw json.RawMessage) error {
	steps, err := readSteps(raw, listedStepKeys, []string{"interface", "step"})
	request.Steps = steps
	return err
}

func readDeploySteps(request *node.VerbRequest, raw json.RawMessage) error {
	steps, err := readSteps(raw, deployStepKeys, deployStepKeys)
	request.Steps = steps
	return err
}

// readSteps reads a list of steps. An empty list is not nil.
func readSteps(raw json.RawMessage, allowed, required []string) ([]node.Step, error) {
	var items []map[string]json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return nil, fmt.Errorf("want a list of steps, got %s", node.JSONKind(raw))
	}
	steps := make([]node.Step, 0, len(items))
	for i, item := range items {
		for _, key := range slices.Sorted(maps.Keys(item)) {
			if !slices.Contains(allowed, key) {
				return nil, fmt.Errorf("step %d has the unknown key %q; the known keys are %s", i, key, strings.Join(allowed, ", "))
			}
		}
		for _, key := range required {
			if _, ok := item[key]; !ok {
				return nil, fmt.Errorf("step %d lacks the key %q", i, key)
			}
		}
		text, err := json.Marshal(item)
		if err != nil {
			return nil, err
		}
		var step node.Step
		if err := json.Unmarshal(text, &step); err != nil {
			return nil, fmt.Errorf("step %d: want texts for interface and step, an object for args, whole numbers for priority and order, "+
				"true or false for execute_on_child_nodes, a list of texts for limit_child_node_execution", i)
		}
		steps = append(steps, step)
	}
	return steps, nil
}

// configDriveParts are the keys of a config drive in object form.
var configDriveParts = []string{"meta_data", "network_data", "user_data", "vendor_data"}

// readConfigDrive reads a config drive: a text (base64 or URL), or an object from which
// the engine builds one.
func readConfigDrive(request *node.VerbRequest, raw json.RawMessage) error {
	switch raw[0] {
	case '"':
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return errors.New("want a text or an object")
		}
	case '{':
		parts, err := node.ParseObject(raw)
		if err != nil {
			return err
		}
		for key := range parts.Fields() {
			if !slices.Contains(configDriveParts, key) {
				return fmt.Errorf("unknown key %q; the known keys are %s", key, strings.Join(configDriveParts, ", "))
			}
		}
	default:
		return fmt.Errorf("want a text or an object, got %s", node.JSONKind(raw))
	}
	request.ConfigDrive = raw
	return nil
}

func readRescuePassword(request *node.VerbRequest, raw json.RawMessage) (err error) {
	request.RescuePassword, err = readText(raw, maxText)
	return err
}

func readRunbook(request *node.VerbRequest, raw json.RawMessage) (err error) {
	request.Runbook, err = readText(raw, maxText)
	return err
}

func readDisableRamdisk(request *node.VerbRequest, raw json.RawMessage) error {
	flag, err := readFlag(raw)
	request.DisableRamdisk = flag != nil && *flag
	return err
}
