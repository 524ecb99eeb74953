package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

func sorted(words []string) []string {
	slices.Sort(words)
	return words
}

// patchNode sends a patch with the newest version.
func (s *server) patchNode(ops string) reply {
	s.tb.Helper()
	return s.do("PATCH", "/v1/nodes/"+uuid1, "latest", ops)
}

func TestPatchChangesScalarsAndKeys(t *testing.T) {
	s := newServer(t)
	n := s.addNode(uuid1, func(n *node.Node) {
		n.Name, n.Extra = "old", node.ObjectOf(map[string]any{"keep": 1, "drop": 2, "list": []int{1, 2}})
	})
	document := s.patchNode(`[
		{"op":"replace","path":"/name","value":"new"},
		{"op":"add","path":"/extra/added","value":{"a":[1]}},
		{"op":"add","path":"/extra/added/b","value":null},
		{"op":"remove","path":"/extra/drop"},
		{"op":"add","path":"/extra/list/-","value":3},
		{"op":"replace","path":"/properties","value":{"cpu_arch":"aarch64"}},
		{"op":"add","path":"/instance_info/image_source","value":"http://192.0.2.2/os.qcow2"},
		{"op":"add","path":"/instance_uuid","value":"7B9C1D0E-1111-4222-8333-444455556666"},
		{"op":"add","path":"/automated_clean","value":"false"}]`).want(200).json()
	for name, want := range map[string]any{
		"name": "new", "properties": map[string]any{"cpu_arch": "aarch64"}, "instance_uuid": uuid2, "automated_clean": false,
		"extra": map[string]any{"keep": 1.0, "list": []any{1.0, 2.0, 3.0}, "added": map[string]any{"a": []any{1.0}, "b": nil}},
	} {
		diffJSON(t, name, want, document[name])
	}
	if n.Name != "new" {
		t.Errorf("stored name: got %q", n.Name)
	}
}

func TestKeysOfAPatchAreEscapedSinceTheirVersion(t *testing.T) {
	for version, escaped := range map[int]bool{84: false, escapesSince - 1: false, escapesSince: true} {
		_, err := parsePatch([]byte(`[{"op":"add","path":"/extra/a~1b","value":1}]`), nodeTable, &call{version: version, role: admin})
		if (err == nil) != escaped {
			t.Errorf("1.%d: got %v, want accepted %v", version, err, escaped)
		}
	}
}

func TestInstanceNameAndDisplayNameMirrorEachOther(t *testing.T) {
	named := node.Object(`{"display_name":"a"}`)
	for _, tt := range []struct {
		what     string
		old, new node.Node
		want     string
	}{
		{"name set", node.Node{}, node.Node{InstanceName: "a"}, "a"},
		{"name changed", node.Node{InstanceName: "a", InstanceInfo: named}, node.Node{InstanceName: "b", InstanceInfo: named}, "b"},
		{"name removed", node.Node{InstanceName: "a", InstanceInfo: named}, node.Node{InstanceInfo: named}, ""},
		{"key set", node.Node{}, node.Node{InstanceInfo: named}, "a"},
		{"key removed", node.Node{InstanceName: "a", InstanceInfo: named}, node.Node{InstanceName: "a"}, ""},
		{"neither", node.Node{InstanceName: "a"}, node.Node{InstanceName: "a"}, "a"},
	} {
		n := tt.new
		mirrorInstanceName(&tt.old, &n)
		if n.InstanceName != tt.want || tt.what != "neither" && n.InstanceInfo.Text("display_name") != tt.want {
			t.Errorf("%s: got %q and %s, want %q", tt.what, n.InstanceName, n.InstanceInfo, tt.want)
		}
	}
}

func TestErrorsOfPathsInsideAFieldAreOurOwn(t *testing.T) {
	s := newServer(t)
	s.addNode(uuid1, func(n *node.Node) { n.Extra = node.ObjectOf(map[string]any{"list": []int{1}, "text": "t"}) })
	for patch, want := range map[string]string{
		`{"op":"remove","path":"/extra/x"}`:               "Cannot remove /extra/x: the path does not exist",
		`{"op":"replace","path":"/extra/x","value":1}`:    "Cannot replace /extra/x: the path does not exist",
		`{"op":"add","path":"/extra/x/y","value":1}`:      "Cannot add /extra/x/y: the parent object or array does not exist",
		`{"op":"remove","path":"/extra/list/7"}`:          "Cannot remove /extra/list/7: the path is neither a key of an object nor an index of an array",
		`{"op":"add","path":"/extra/list/a","value":1}`:   "Cannot add /extra/list/a: the path is neither a key of an object nor an index of an array",
		`{"op":"add","path":"/extra/text/a/b","value":1}`: "Cannot add /extra/text/a/b: ",
	} {
		got := s.do("PATCH", "/v1/nodes/"+uuid1, "latest", "["+patch+"]").want(400).fault()["faultstring"].(string)
		if !strings.HasPrefix(got, want) || strings.Contains(got, "nexistent") || strings.Contains(got, "doc is") {
			t.Errorf("%s: got %q, want %q", patch, got, want)
		}
	}
}

func TestPatchIsAllOrNothing(t *testing.T) {
	s := newServer(t)
	n := s.addNode(uuid1)
	s.patchNode(`[{"op":"add","path":"/name","value":"new"},{"op":"remove","path":"/extra/none"}]`).want(400)
	if n.Name != "" {
		t.Errorf("name: got %q, want none", n.Name)
	}
}

func TestPatchResetsARemovedFieldToItsDefault(t *testing.T) {
	yes := true
	s := newServer(t)
	n := s.addNode(uuid1, func(n *node.Node) {
		n.Name, n.Owner, n.AutomatedClean, n.Extra = "x", "me", &yes, node.ObjectOf(map[string]any{"a": 1})
		n.Interfaces[node.DeployInterface] = "direct"
	})
	s.patchNode(`[{"op":"remove","path":"/name"},{"op":"remove","path":"/owner"},{"op":"remove","path":"/automated_clean"},
		{"op":"remove","path":"/extra"},{"op":"remove","path":"/deploy_interface"}]`).want(200)
	if n.Name != "" || n.Owner != "" || n.AutomatedClean != nil || !n.Extra.IsEmpty() || n.Interfaces[node.DeployInterface] != "fake" {
		t.Errorf("got %+v", n)
	}
}

func TestPatchThatEndsMaintenanceClearsReasonAndFault(t *testing.T) {
	for _, value := range []string{`false`, `"false"`, `"False"`} {
		s := newServer(t)
		n := s.addNode(uuid1, func(n *node.Node) { n.Maintenance, n.MaintenanceReason, n.Fault = true, "why", node.FaultPowerFailure })
		s.patchNode(`[{"op":"replace","path":"/maintenance","value":` + value + `}]`).want(200)
		if n.Maintenance || n.MaintenanceReason != "" || n.Fault != "" {
			t.Errorf("%s: got %v %q %q", value, n.Maintenance, n.MaintenanceReason, n.Fault)
		}
	}
}

func TestWritingTheMaskBackKeepsTheSecret(t *testing.T) {
	stored := node.ObjectOf(map[string]any{
		"redfish_address": "https://192.0.2.17", "redfish_password": "s3cr3t",
		"image": "http://user:pw@192.0.2.2/os", "nested": map[string]any{"token": "t0k3n"},
	})
	for name, ops := range map[string]string{
		"whole object": `[{"op":"replace","path":"/driver_info","value":{"redfish_address":"https://192.0.2.17","redfish_password":"******",` +
			`"image":"http://******@192.0.2.2/os","nested":{"token":"******"},"redfish_system_id":"/redfish/v1/Systems/1"}}]`,
		"one key": `[{"op":"add","path":"/driver_info/redfish_system_id","value":"/redfish/v1/Systems/1"},
			{"op":"add","path":"/driver_info/redfish_password","value":"******"}]`,
	} {
		s := newServer(t)
		n := s.addNode(uuid1, func(n *node.Node) { n.DriverInfo = stored })
		s.patchNode(ops).want(200)
		diffJSON(t, name, map[string]any{
			"redfish_address": "https://192.0.2.17", "redfish_password": "s3cr3t",
			"image": "http://user:pw@192.0.2.2/os", "nested": map[string]any{"token": "t0k3n"},
			"redfish_system_id": "/redfish/v1/Systems/1",
		}, n.DriverInfo.Values())
	}
}

func TestStoredSecretIsNotRestoredForAnotherBMC(t *testing.T) {
	const stored = `{"redfish_address":"https://192.0.2.17","redfish_username":"admin","redfish_password":"s3cr3t","ipmi_password":"t0k3n","note":"******"}`
	const address = `{"op":"replace","path":"/driver_info/redfish_address","value":"https://192.0.2.66"}`
	for name, tt := range map[string]struct {
		ops    string
		status int
	}{
		"whole object": {`{"op":"replace","path":"/driver_info","value":{"redfish_address":"https://192.0.2.66","redfish_username":"admin","redfish_password":"******"}}`, 400},
		"two keys":     {address + `,{"op":"add","path":"/driver_info/redfish_password","value":"******"}`, 400},
		"another port of another type": {`{"op":"add","path":"/driver_info/ipmi_port","value":6230},
			{"op":"add","path":"/driver_info/ipmi_password","value":"******"}`, 400},
		"no address any more": {`{"op":"remove","path":"/driver_info/redfish_address"},{"op":"add","path":"/driver_info/redfish_password","value":"******"}`, 400},
		"address alone":       {address, 200},
		"with the secret":     {address + `,{"op":"add","path":"/driver_info/redfish_password","value":"new"}`, 200},
		"same address": {`{"op":"replace","path":"/driver_info/redfish_address","value":"https://192.0.2.17"},
			{"op":"add","path":"/driver_info/redfish_password","value":"******"}`, 200},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			n := s.addNode(uuid1, func(n *node.Node) { n.Driver, n.DriverInfo = "redfish", node.Object(stored) })
			answer := s.patchNode("[" + tt.ops + "]").want(tt.status)
			if tt.status == 200 {
				return
			}
			answer.wantFault("Give the secrets again when the address of the BMC changes.")
			if string(n.DriverInfo) != stored {
				t.Errorf("stored is %s", n.DriverInfo)
			}
		})
	}
}

func TestPatchOfADriverNeedsInterfacesThatItSupports(t *testing.T) {
	setup := func() (*server, *node.Node) {
		s := newServer(t)
		interfaces, err := s.drivers(t).Resolve("fake-hardware", node.Interfaces{})
		if err != nil {
			t.Fatal(err)
		}
		return s, s.addNode(uuid1, func(n *node.Node) { n.Interfaces = interfaces })
	}
	const change = `[{"op":"replace","path":"/driver","value":"manual-management"}]`
	s, n := setup()
	s.patchNode(change).want(400)
	if n.Driver != "fake-hardware" {
		t.Errorf("driver: got %q", n.Driver)
	}
	s.do("PATCH", "/v1/nodes/"+uuid1+"?reset_interfaces=true", "1.44", change).want(406)
	s.do("PATCH", "/v1/nodes/"+uuid1+"?reset_interfaces=true", "latest", change).want(200)
	if n.Driver != "manual-management" || n.Interfaces[node.PowerInterface] != "agent" {
		t.Errorf("got %q with %q", n.Driver, n.Interfaces)
	}
	s.do("PATCH", "/v1/nodes/"+uuid1+"?reset_interfaces=true", "latest",
		`[{"op":"replace","path":"/driver","value":"manual-management"},{"op":"add","path":"/boot_interface","value":"pxe"}]`).want(200)
	s.do("PATCH", "/v1/nodes/"+uuid1+"?reset_interfaces=true", "latest", change).want(200)
	if n.Interfaces[node.BootInterface] != "pxe" {
		t.Errorf("boot interface after a reset with the same driver: got %q, want pxe", n.Interfaces[node.BootInterface])
	}
	s, n = setup()
	s.do("PATCH", "/v1/nodes/"+uuid1+"?reset_interfaces=true", "latest",
		`[{"op":"replace","path":"/driver","value":"manual-management"},{"op":"add","path":"/boot_interface","value":"pxe"}]`).want(200)
	if n.Interfaces[node.BootInterface] != "pxe" {
		t.Errorf("boot interface: got %q, want pxe", n.Interfaces[node.BootInterface])
	}
}

func TestInterfaceThatAPatchRemovesOfADiscoveredNodePretendsNothing(t *testing.T) {
	s := newServer(t)
	n := s.addNode(uuid1, func(n *node.Node) { n.AutoDiscovered, n.Interfaces[node.DeployInterface] = true, "custom-agent" })
	s.patchNode(`[{"op":"remove","path":"/deploy_interface"}]`).want(200)
	if n.Interfaces[node.DeployInterface] != "direct" {
		t.Errorf("deploy interface: got %q, want direct", n.Interfaces[node.DeployInterface])
	}
}

func TestPatchOfALockedNodeIsAConflict(t *testing.T) {
	s := newServer(t)
	s.addNode(uuid1, func(n *node.Node) {
		n.Lease = node.Lease{Holder: "ingot-2", Epoch: 1, ExpiresAt: testTime.Add(time.Minute)}
	})
	got := s.patchNode(`[{"op":"add","path":"/name","value":"x"}]`).want(409)
	if !strings.Contains(got.body, "is locked by host ingot-2") {
		t.Errorf("got %s", got.body)
	}
}

func TestStateOfANodeLimitsItsPatches(t *testing.T) {
	edits := func(paths ...string) []edit[node.Node] {
		var all []edit[node.Node]
		for _, path := range paths {
			op, name, _ := strings.Cut(path, " ")
			all = append(all, edit[node.Node]{op: patchOp{Op: op}, field: nodeTable.byName[name]})
		}
		return all
	}
	name := edits("add name")
	tests := []struct {
		what          string
		state, target node.State
		maintenance   bool
		edits         []edit[node.Node]
		version       int
		allowed       bool
	}{
		{"quiet", node.Manageable, "", false, name, 84, true},
		{"working", node.Cleaning, node.Available, false, name, 84, false},
		{"working in maintenance", node.Cleaning, node.Available, true, name, 84, false},
		{"instance leaves in maintenance", node.Cleaning, node.Available, true, edits("remove instance_uuid"), 84, true},
		{"instance leaves with more", node.Cleaning, node.Available, true, edits("remove instance_uuid", "add name"), 84, false},
		{"instance leaves without maintenance", node.Cleaning, node.Available, false, edits("remove instance_uuid"), 84, false},
		{"verifying", node.Verifying, node.Manageable, false, name, 84, true},
		{"waiting for inspection", node.InspectWait, node.Manageable, false, name, 84, true},
		{"inspecting", node.Inspecting, node.Manageable, false, name, 39, false},
		{"inspecting before 1.39", node.Inspecting, node.Manageable, false, name, 38, true},
		{"waiting for a ramdisk", node.CleanWait, node.Available, false, name, 84, false},
		{"failed", node.DeployFailed, node.Active, false, name, 84, true},
		{"on hold", node.ServiceHold, node.Active, false, name, 84, true},
		{"clean hold", node.CleanHold, node.Available, false, name, 84, false},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			n := &node.Node{UUID: uuid1, ProvisionState: tt.state, TargetProvisionState: tt.target, Maintenance: tt.maintenance}
			err := checkPatch(n, tt.edits, tt.version)
			var conflict *node.ConflictError
			if tt.allowed && err != nil || !tt.allowed && !errors.As(err, &conflict) {
				t.Errorf("got %v, want allowed %v", err, tt.allowed)
			}
		})
	}
}

func TestHardwareOfANodeInUseStaysAndMayBeRepeated(t *testing.T) {
	driver := `{"op":"replace","path":"/driver","value":"ipmi"}`
	wiring := `{"op":"add","path":"/power_interface","value":"fake"}`
	class := `{"op":"add","path":"/resource_class","value":"new"}`
	for _, tt := range []struct {
		what        string
		state       node.State
		maintenance bool
		class       string // of the node before
		patch       string
		allowed     bool
	}{
		{"interface in enroll", node.Enroll, false, "", wiring, true},
		{"interface while active", node.Active, false, "", wiring, false},
		{"interface while active in maintenance", node.Active, true, "", wiring, true},
		{"interface after a failure", node.DeployFailed, false, "", wiring, false},
		{"driver while active", node.Active, false, "", driver, false},
		{"first resource class while active", node.Active, false, "", class, true},
		{"other resource class while active", node.Active, false, "old", class, false},
		{"other resource class while active in maintenance", node.Active, true, "old", class, false},
		{"other resource class while available", node.Available, false, "old", class, true},
		{"chassis while active", node.Active, false, "", `{"op":"add","path":"/chassis_uuid","value":"` + uuid3 + `"}`, true},
		{"the same again", node.Active, false, "old", `{"op":"add","path":"/driver","value":"fake-hardware"},{"op":"add","path":"/driver_info/a","value":1},
			{"op":"add","path":"/power_interface","value":"redfish"},{"op":"replace","path":"/resource_class","value":"old"}`, true},
	} {
		edits, err := parsePatch([]byte("["+tt.patch+"]"), nodeTable, &call{version: maxVersion, role: admin})
		if err != nil {
			t.Fatal(err)
		}
		n := &node.Node{UUID: uuid1, Driver: "fake-hardware", ProvisionState: tt.state, Maintenance: tt.maintenance, ResourceClass: tt.class}
		n.Interfaces[node.PowerInterface] = "redfish"
		err = nodePatch{edits: edits, version: maxVersion, drivers: anyInterfaces{}}.apply(n)
		var conflict *node.ConflictError
		if tt.allowed && err != nil || !tt.allowed && !errors.As(err, &conflict) {
			t.Errorf("%s: got %v, want allowed %v", tt.what, err, tt.allowed)
		}
	}
}

func TestPatchReadsEachFieldOnce(t *testing.T) {
	reads := map[string]int{}
	counted := func(name string, at func(*node.Chassis) *node.Object) field[node.Chassis] {
		v := objectOf(at)
		text := v.text
		v.text = func(c *node.Chassis) string { reads[name]++; return text(c) }
		return field[node.Chassis]{name: name, access: patchable, value: v}
	}
	var other node.Object
	table := newTable("chassis", []field[node.Chassis]{
		counted("extra", func(c *node.Chassis) *node.Object { return &c.Extra }),
		counted("other", func(*node.Chassis) *node.Object { return &other }),
	})
	var ops []string
	for i := range maxPatchOps / 2 {
		ops = append(ops, fmt.Sprintf(`{"op":"add","path":"/extra/k%d","value":%d},{"op":"add","path":"/other/k","value":%d}`, i, i, i))
	}
	edits, err := parsePatch([]byte("["+strings.Join(ops, ",")+"]"), table, &call{version: maxVersion, role: admin})
	if err != nil {
		t.Fatal(err)
	}
	var c node.Chassis
	if err := applyAll(edits, &c); err != nil {
		t.Fatal(err)
	}
	if reads["extra"] != 1 || reads["other"] != 1 {
		t.Errorf("read %v times, want each field once", reads)
	}
	if got := len(c.Extra.Values()); got != maxPatchOps/2 || other.String() != fmt.Sprintf(`{"k":%d}`, maxPatchOps/2-1) {
		t.Errorf("%d keys and %s, want all edits in their order", got, other)
	}
}

func TestPatchNamesTheOperationThatFails(t *testing.T) {
	const before = `{"op":"add","path":"/extra/a","value":[]},{"op":"add","path":"/name","value":"n"},{"op":"add","path":"/extra/a/0","value":1}`
	const after = `{"op":"remove","path":"/extra/a"},{"op":"replace","path":"/extra","value":{}},{"op":"add","path":"/extra/z","value":2}`
	s := newServer(t)
	s.addNode(uuid1)
	for operation, want := range map[string]string{
		`{"op":"remove","path":"/extra/b"}`:              "Cannot remove /extra/b: the path does not exist",
		`{"op":"add","path":"/extra/b/c","value":1}`:     "Cannot add /extra/b/c: the parent",
		`{"op":"replace","path":"/extra/a/9","value":1}`: "Cannot replace /extra/a/9: the path",
		`{"op":"add","path":"/extra/a/x","value":1}`:     "Cannot add /extra/a/x: the path is neither",
	} {
		s.do("PATCH", oneNode, "latest", "["+before+","+operation+","+after+"]").want(400).wantFault(want)
	}
	got := s.do("PATCH", oneNode, "latest", "["+before+","+after+"]").want(200).json()
	diffJSON(t, "extra", map[string]any{"z": 2.0}, got["extra"])
}

func TestPatchHasABoundedNumberOfOperations(t *testing.T) {
	s := newServer(t)
	s.addNode(uuid1)
	ops := strings.Repeat(`{"op":"add","path":"/extra/a","value":1},`, 20_000)
	s.do("PATCH", oneNode, "latest", "["+strings.TrimSuffix(ops, ",")+"]").want(400).wantFault("20000 operations")
}

// anyInterfaces takes every choice of interfaces.
type anyInterfaces struct{}

func (anyInterfaces) InterfacesOf(n *node.Node) (node.Interfaces, error) {
	return n.Interfaces, nil
}

func TestRulesThatInvolveSeveralFields(t *testing.T) {
	tests := []struct {
		what     string
		old      node.Node
		change   func(*node.Node)
		conflict bool // 409, else 400
		allowed  bool
	}{
		{"protect an active node", node.Node{ProvisionState: node.Active}, func(n *node.Node) { n.Protected, n.ProtectedReason = true, "x" }, false, true},
		{"protect an enrolled node", node.Node{ProvisionState: node.Enroll}, func(n *node.Node) { n.Protected = true }, true, false},
		{"reason without protection", node.Node{ProvisionState: node.Active}, func(n *node.Node) { n.ProtectedReason = "x" }, false, false},
		{"retire a manageable node", node.Node{ProvisionState: node.Manageable}, func(n *node.Node) { n.Retired = true }, false, true},
		{"retire an available node", node.Node{ProvisionState: node.Available}, func(n *node.Node) { n.Retired = true }, true, false},
		{"reason without retirement", node.Node{}, func(n *node.Node) { n.RetiredReason = "x" }, false, false},
		{"other instance", node.Node{InstanceUUID: uuid1}, func(n *node.Node) { n.InstanceUUID = uuid2 }, true, false},
		{"no instance", node.Node{InstanceUUID: uuid1}, func(n *node.Node) { n.InstanceUUID = "" }, false, true},
		{"driver with console", node.Node{Driver: "a", ConsoleEnabled: true}, func(n *node.Node) { n.Driver = "b" }, true, false},
		{"capabilities as text", node.Node{}, func(n *node.Node) { n.Properties = node.Object(`{"capabilities":"a:b"}`) }, false, true},
		{"capabilities as object", node.Node{}, func(n *node.Node) { n.Properties = node.Object(`{"capabilities":{"a":"b"}}`) }, false, false},
		{"capabilities as they were", node.Node{Properties: node.Object(`{"capabilities":{"a":"b"}}`)}, func(n *node.Node) { n.Name = "a" }, false, true},
		{"capabilities of the instance", node.Node{}, func(n *node.Node) { n.InstanceInfo = node.Object(`{"capabilities":{"a":"b"}}`) }, false, true},
		{"own parent", node.Node{}, func(n *node.Node) { n.ParentNode = n.UUID }, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			tt.old.UUID = uuid3
			n := tt.old
			tt.change(&n)
			err := checkConsistent(&tt.old, &n)
			var conflict *node.ConflictError
			if (err == nil) != tt.allowed || err != nil && errors.As(err, &conflict) != tt.conflict {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestEndOfProtectionClearsItsReason(t *testing.T) {
	s := newServer(t)
	n := s.addNode(uuid1, func(n *node.Node) {
		n.ProvisionState, n.Protected, n.ProtectedReason, n.Retired, n.RetiredReason = node.Active, true, "x", true, "y"
	})
	s.patchNode(`[{"op":"replace","path":"/protected","value":false},{"op":"remove","path":"/retired"}]`).want(200)
	if n.ProtectedReason != "" || n.RetiredReason != "" {
		t.Errorf("got %q, %q", n.ProtectedReason, n.RetiredReason)
	}
}

func FuzzPatch(f *testing.F) {
	for _, seed := range []string{
		`[]`, `[{"op":"add","path":"/extra/a/-","value":[1]}]`, `[{"op":"replace","path":"/name","value":null}]`,
		`[{"op":"remove","path":"/extra/list/0"}]`, `[{"op":"add","path":"/extra/list/-1","value":{}}]`, `[{"op":"add","path":"/driver_info/a","value":"******"}]`,
		`{"op":1}`, `[{"op":"add","path":"/extra/~2","value":1}]`,
	} {
		f.Add([]byte(seed))
	}
	s := newServer(f)
	drivers := s.drivers(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		edits, err := parsePatch(body, nodeTable, &call{version: maxVersion, role: admin})
		if err != nil {
			wantStatus(t, err, 400, 406)
			return
		}
		n := &node.Node{UUID: uuid1, Driver: "fake-hardware", ProvisionState: node.Enroll, Extra: node.Object(`{"list":[1,2]}`)}
		if err := (nodePatch{edits: edits, version: maxVersion, drivers: drivers}).apply(n); err != nil {
			wantStatus(t, err, 400, 409)
			return
		}
		// The result is still the JSON of a node.
		text := appendItem(nil, &view{version: maxVersion, role: admin, links: newLinkBase("http://h")}, n, nodeTable.detail[maxVersion])
		reply{tb: t, body: string(text)}.json()
	})
}

func wantStatus(t *testing.T, err error, allowed ...int) {
	t.Helper()
	if got := statusOf(err).status; !slices.Contains(allowed, got) {
		t.Errorf("%v becomes %d, want one of %d", err, got, allowed)
	}
}

func FuzzQuery(f *testing.F) {
	for _, seed := range []string{"limit=1&marker=" + uuid1, "fields=uuid,name&sort_key=driver", "provision_state=enroll&auto_discovered=1", "shard=a,,b&detail=maybe", "%zz"} {
		f.Add(seed)
	}
	s := newServer(f)
	a := &api{engine: s.engine}
	args := nodeListArgs()
	f.Fuzz(func(t *testing.T, raw string) {
		c := &call{version: maxVersion}
		if err := c.parseQuery(raw, args); err != nil {
			wantStatus(t, err, 400)
			return
		}
		if _, err := parsePage(c, nodeTable); err != nil {
			wantStatus(t, err, 400, 406)
		}
		if _, err := listFields(c, nodeTable, false, detailSince); err != nil {
			wantStatus(t, err, 400, 406)
		}
		r := httptest.NewRequestWithContext(context.WithValue(t.Context(), callKey{}, c), http.MethodGet, "/v1/nodes", http.NoBody)
		if _, err := a.nodeConditions(r); err != nil {
			wantStatus(t, err, 400, 406)
		}
		if _, err := a.nodesOfConductor(r); err != nil {
			wantStatus(t, err, 406)
		}
	})
}
