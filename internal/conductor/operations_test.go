package conductor

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"testing"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

var update = flag.Bool("update", false, "add new operations to "+storedOperations)

// storedOperations has the names of the operations of each kind of work that this release or an
// earlier one stores in rows.
const storedOperations = "testdata/operations.json"

// TestNoOperationLosesItsName has every script list its operations for nodes of all sorts. A row
// that waits at an operation whose name is gone would be left alone for ever, see runner.Ref.
func TestNoOperationLosesItsName(t *testing.T) {
	text, err := os.ReadFile(storedOperations)
	if err != nil {
		t.Fatal(err)
	}
	var stored map[store.WorkKind][]string
	if err := json.Unmarshal(text, &stored); err != nil {
		t.Fatal(err)
	}
	listed := operationNames(t)
	for kind, names := range stored {
		for _, name := range names {
			if !slices.Contains(listed[kind], name) {
				t.Errorf("no script of the work %q lists the operation %q any more, and rows that wait at it would never go on. "+
					"Keep the name, even if the code has a better one; or keep the operation under its old name behind the new one, skipped unless it is in progress; "+
					"or migrate the rows. If this test merely lacks a node for which it is listed, add that node.", kind, name)
			}
		}
	}
	added := false
	for kind, names := range listed {
		for _, name := range names {
			if slices.Contains(stored[kind], name) {
				continue
			}
			added, stored[kind] = true, append(stored[kind], name)
			if !*update {
				t.Errorf("the operation %q of the work %q is new: add it with go test ./internal/conductor -run %s -update", name, kind, t.Name())
			}
		}
		slices.Sort(stored[kind])
	}
	if !*update || !added {
		return
	}
	var written bytes.Buffer
	encoder := json.NewEncoder(&written)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(stored); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(storedOperations, written.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// operationNames returns the names of the operations of each kind of work, each name once.
func operationNames(t *testing.T) map[store.WorkKind][]string {
	t.Helper()
	c, _, _ := withRamdisk(t)
	names := map[store.WorkKind][]string{}
	for _, kind := range c.Kinds() {
		script, _ := c.Script(kind)
		for _, n := range nodesOfAllSorts(t, c) {
			for _, intent := range intentsOfAllSorts {
				task := runner.Task{Work: &store.Work{ID: 7, Kind: kind, Intent: node.ObjectOf(intent)}, Node: n}
				operations, err := script.Operations(task)
				if err != nil {
					continue // the node does not support the work
				}
				if script.CleanUp != nil {
					task.Failing = "it failed"
					operations = append(operations, script.CleanUp(task)...)
				}
				for _, o := range operations {
					if !slices.Contains(names[kind], o.Name) {
						names[kind] = append(names[kind], o.Name)
					}
				}
			}
		}
	}
	return names
}

// intentsOfAllSorts are intents of work on which its operations depend.
var intentsOfAllSorts = []map[string]any{
	{}, {"manual": true}, {"served": true}, {"target": "rebooting"}, {"aborted": "inspection"}, {"aborted": "service"}, {"aborted": "deploy"},
}

// nodesOfAllSorts returns nodes on which the operations of work depend: with and without a BMC, a
// ramdisk and an instance that is an image, and with steps that restart the machine.
func nodesOfAllSorts(t *testing.T, c *Conductor) (nodes []*node.Node) {
	t.Helper()
	for _, chosen := range []map[node.InterfaceKind]string{
		{node.DeployInterface: "direct", node.RescueInterface: "agent"},
		{node.DeployInterface: "direct", node.InspectInterface: "redfish", node.BootInterface: "redfish-virtual-media"},
		{node.DeployInterface: "direct", node.PowerInterface: "agent", node.ManagementInterface: "noop", node.InspectInterface: "agent"},
		{node.DeployInterface: "ramdisk"},
		{},
	} {
		n := &node.Node{UUID: "u", Driver: "fake-hardware", PowerState: node.PowerOn, DriverInfo: node.ObjectOf(map[string]any{"fake_bmc": "192.0.2.1"})}
		for kind := range node.InterfaceCount {
			n.Interfaces[kind] = "fake"
		}
		for kind, name := range chosen {
			n.Interfaces[kind] = name
		}
		lists := map[string]any{}
		for _, kind := range []driver.StepKind{driver.CleanSteps, driver.DeploySteps, driver.ServiceSteps} {
			steps := []node.Step{{Interface: "deploy", Step: "hold"}, {Interface: "deploy", Step: "erase_devices", ExecuteOnChildNodes: true, LimitChildNodeExecution: []string{"child"}}}
			for _, offered := range c.drivers.Steps(n, kind) {
				steps = append(steps, node.Step{Interface: "bios", Step: "apply_configuration"}, offered)
			}
			lists[string(kind)+"_steps"] = append(steps, node.Step{Interface: "deploy", Step: "erase_devices", RequiresRamdisk: true})
		}
		n.DriverInternalInfo = node.ObjectOf(lists)
		nodes = append(nodes, n)
	}
	return nodes
}
