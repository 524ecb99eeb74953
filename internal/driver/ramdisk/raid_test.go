package ramdisk

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// mirror is a RAID configuration of which the root volume is known by its WWN.
const mirror = `{"logical_disks":[{"size_gb":9,"raid_level":"5"},{"size_gb":"MAX","raid_level":"1","is_root_volume":true,"root_device_hint":{"wwn":"0x1"}}]}`

// afterRAID plays the turn in which the agent shows a step as succeeded, and returns the node
// after it, which had a volume and hints before.
func afterRAID(t *testing.T, kind driver.StepKind, step, result string) (*node.Node, error) {
	t.Helper()
	n := &node.Node{
		UUID:       "node-1",
		RAIDConfig: node.ObjectOf(map[string]any{"logical_disks": []any{"old"}}),
		Properties: node.ObjectOf(map[string]any{"cpu_arch": "x86_64", "root_device": map[string]any{"wwn": "0x9"}}),
	}
	s := &standIn{commands: []agent.Command{{ID: "c1", Status: agent.CommandSucceeded, Result: json.RawMessage(result)}}}
	turn := driver.Turn{Attempt: driver.Continued, Phase: phaseSent, Handle: "c1"}
	out, err := RAID{driverOf(s, true)}.RunStep(t.Context(), n, kind, node.Step{Interface: "raid", Step: step}, turn)
	if err != nil {
		return n, err
	}
	if !out.Done() {
		t.Fatalf("got %+v, want it done", out)
	}
	if out.Apply != nil {
		out.Apply(n)
	}
	return n, nil
}

func TestNodeHasTheVolumesThatTheAgentMadeOrDeleted(t *testing.T) {
	const plain = `{"logical_disks":[{"size_gb":"MAX","raid_level":"1","is_root_volume":true}]}`
	for name, tc := range map[string]struct {
		kind               driver.StepKind
		step, result       string
		config, properties string
	}{
		"made in cleaning":    {driver.CleanSteps, "create_configuration", `{"clean_result": ` + mirror + `}`, mirror, `{"cpu_arch":"x86_64","root_device":{"wwn":"0x1"}}`},
		"made in deployment":  {driver.DeploySteps, "apply_configuration", `{"deploy_result": ` + mirror + `}`, mirror, `{"cpu_arch":"x86_64","root_device":{"wwn":"0x1"}}`},
		"made in servicing":   {driver.ServiceSteps, "apply_configuration", `{"service_result": ` + mirror + `}`, mirror, `{"cpu_arch":"x86_64","root_device":{"wwn":"0x1"}}`},
		"made without a hint": {driver.CleanSteps, "create_configuration", `{"clean_result": ` + plain + `}`, plain, `{"cpu_arch":"x86_64","root_device":{"wwn":"0x9"}}`},
		"deleted":             {driver.CleanSteps, "delete_configuration", `{"clean_result": null}`, `{}`, `{"cpu_arch":"x86_64"}`},
		"another step":        {driver.CleanSteps, "check_batteries", `{"clean_result": null}`, `{"logical_disks":["old"]}`, `{"cpu_arch":"x86_64","root_device":{"wwn":"0x9"}}`},
	} {
		n, err := afterRAID(t, tc.kind, tc.step, tc.result)
		if err != nil || n.RAIDConfig.String() != tc.config || n.Properties.String() != tc.properties {
			t.Errorf("%s: %v, raid_config %s and properties %s, want %s and %s", name, err, n.RAIDConfig, n.Properties, tc.config, tc.properties)
		}
	}
}

func TestRAIDStepThatMadeNoVolumesHasFailed(t *testing.T) {
	for name, tc := range map[string]struct{ step, result, want string }{
		"no software RAID":       {"create_configuration", `{"clean_result": {}}`, "made no RAID volumes"},
		"none of the argument":   {"apply_configuration", `{"clean_result": {}}`, "made no RAID volumes"},
		"no volumes":             {"create_configuration", `{"clean_result": {"logical_disks": []}}`, "made no RAID volumes"},
		"nothing":                {"create_configuration", `{"clean_result": null}`, "made no RAID volumes"},
		"the result of another":  {"create_configuration", `{"deploy_result": ` + mirror + `}`, "made no RAID volumes"},
		"no result":              {"create_configuration", `null`, "made no RAID volumes"},
		"a text":                 {"create_configuration", `{"clean_result": "done"}`, "cannot be read"},
		"more than can be kept":  {"create_configuration", `{"clean_result": "` + strings.Repeat("x", maxRAIDConfig) + `"}`, "more than 1048576"},
		"a list of other things": {"create_configuration", `{"clean_result": {"logical_disks": [1]}}`, "made no RAID volumes"},
	} {
		var failure *node.DriverError
		if n, err := afterRAID(t, driver.CleanSteps, tc.step, tc.result); !errors.As(err, &failure) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v with raid_config %s, want a failure with %q", name, err, n.RAIDConfig, tc.want)
		}
	}
}

func TestVolumesAreNotMadeWithoutATarget(t *testing.T) {
	create := node.Step{Interface: "raid", Step: "create_configuration"}
	for name, target := range map[string]map[string]any{"no target": nil, "no logical disks": {"logical_disks": []any{}}} {
		s := &standIn{commands: []agent.Command{asked}}
		n := &node.Node{UUID: "node-1", TargetRAIDConfig: node.ObjectOf(target)}
		var invalid *node.ValidationError
		if _, err := (RAID{driverOf(s, true)}).RunStep(t.Context(), n, driver.CleanSteps, create, driver.Turn{}); !errors.As(err, &invalid) || !strings.Contains(err.Error(), "target_raid_config") {
			t.Errorf("%s: %v, want the step refused", name, err)
		}
	}
	// One that was sent is followed to its end.
	s := &standIn{commands: []agent.Command{{ID: "c1", Status: agent.CommandRunning}}}
	sent := driver.Turn{Attempt: driver.Continued, Phase: phaseSent, Handle: "c1"}
	if out, err := (RAID{driverOf(s, true)}).RunStep(t.Context(), machine, driver.CleanSteps, create, sent); err != nil || !out.Callback {
		t.Errorf("while it runs: %+v, %v, want it to wait on", out, err)
	}
}
