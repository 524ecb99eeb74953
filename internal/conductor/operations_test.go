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

// storedOperations has the operations of each kind of work that this release or an earlier one
// stores in rows: each name, with the items that distinguish operations of that name.
const storedOperations = "testdata/operations.json"

// TestNoOperationLosesItsName has every script list its operations for nodes of all sorts. A row
// that waits at an operation whose name or item is gone would be left alone for ever, see
// runner.Ref.
func TestNoOperationLosesItsName(t *testing.T) {
	text, err := os.ReadFile(storedOperations)
	if err != nil {
		t.Fatal(err)
	}
	var stored operationList
	if err := json.Unmarshal(text, &stored); err != nil {
		t.Fatal(err)
	}
	listed := listOperations(t)
	for kind, names := range stored {
		for name, items := range names {
			for _, item := range append(items, anyItem) {
				if !slices.Contains(listed[kind][name], item) {
					t.Errorf("no script of the work %q lists the operation %q with the item %q any more, and rows that wait at it would never go on. "+
						"Keep the name, even if the code has a better one; or keep the operation under its old name behind the new one, skipped unless it is in progress; "+
						"or migrate the rows. If this test merely lacks a node for which it is listed, add that node.", kind, name, item)
				}
			}
		}
	}
	added := false
	for kind, names := range listed {
		for name, items := range names {
			for _, item := range items {
				if item == anyItem || !stored.add(kind, name, item) {
					continue
				}
				if added = true; !*update {
					t.Errorf("the operation %q of the work %q is new, or its item %q: add it with go test ./internal/conductor -run %s -update", name, kind, item, t.Name())
				}
			}
			slices.Sort(stored[kind][name])
		}
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

// operationList has the items of the operations of each name and kind of work. The item of an
// operation without one is "".
type operationList map[store.WorkKind]map[string][]string

// anyItem says in a list that there is the operation, with whatever item.
const anyItem = "any"

// add adds an operation and reports whether it was not in the list.
func (l operationList) add(kind store.WorkKind, name, item string) (added bool) {
	if slices.Contains(l[kind][name], item) {
		return false
	}
	if l[kind] == nil {
		l[kind] = map[string][]string{}
	}
	l[kind][name] = append(l[kind][name], item)
	return true
}

// listOperations returns the operations that the scripts list. Their items are those for nodes
// without the steps that drivers offer, because another step would change the numbers in them.
func listOperations(t *testing.T) operationList {
	t.Helper()
	c, _, _ := withRamdisk(t)
	list := operationList{}
	for _, kind := range c.Kinds() {
		for _, offered := range []bool{true, false} {
			for _, o := range operationsOfAllSorts(t, c, kind, offered) {
				list.add(kind, o.Name, anyItem)
				if !offered {
					list.add(kind, o.Name, o.Item)
				}
			}
		}
	}
	return list
}

// operationsOfAllSorts returns the operations of a kind of work for all nodes and intents.
func operationsOfAllSorts(t *testing.T, c *Conductor, kind store.WorkKind, offered bool) (all []runner.Operation) {
	t.Helper()
	script, _ := c.Script(kind)
	for _, n := range nodesOfAllSorts(t, c, offered) {
		for _, intent := range intentsOfAllSorts {
			task := runner.Task{Work: &store.Work{ID: 7, Kind: kind, Intent: node.ObjectOf(intent)}, Node: n}
			operations, err := script.Operations(task)
			if err != nil {
				continue // the node does not support the work
			}
			all = append(all, operations...)
			if script.CleanUp != nil {
				task.Failing = "it failed"
				all = append(all, script.CleanUp(task)...)
			}
		}
	}
	return all
}

// intentsOfAllSorts are intents of work on which its operations depend.
var intentsOfAllSorts = []map[string]any{
	{}, {"manual": true}, {"served": true}, {"target": "rebooting"}, {"aborted": "inspection"}, {"aborted": "service"}, {"aborted": "deploy"},
}

// nodesOfAllSorts returns nodes on which the operations of work depend: with and without a BMC, a
// ramdisk and an instance that is an image, and with steps that restart the machine. They have the
// steps that drivers offer if offered is set.
func nodesOfAllSorts(t *testing.T, c *Conductor, offered bool) (nodes []*node.Node) {
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
			for _, step := range c.drivers.Steps(n, kind) {
				if offered {
					steps = append(steps, node.Step{Interface: "bios", Step: "apply_configuration"}, step)
				}
			}
			lists[string(kind)+"_steps"] = append(steps, node.Step{Interface: "deploy", Step: "erase_devices", RequiresRamdisk: true})
		}
		n.DriverInternalInfo = node.ObjectOf(lists)
		nodes = append(nodes, n)
	}
	return nodes
}
