package httpapi

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/node"
)

func TestCreatedNodeIsCompleteAndMasked(t *testing.T) {
	s := newServer(t)
	got := s.do("POST", "/v1/nodes", "1.84", `{"driver":"fake-hardware","name":"metal3~worker-7","inspect_interface":"agent",
		"driver_info":{"redfish_address":"https://192.0.2.17","redfish_password":"s3cr3t"},
		"properties":{"cpu_arch":"x86_64"},"conductor_group":"Rack-1","automated_clean":null}`).want(201)
	document := got.json()
	uuid := document["uuid"].(string)
	if location := got.header.Get("Location"); location != "http://example.com/v1/nodes/"+uuid {
		t.Errorf("Location: got %q", location)
	}
	want := map[string]any{
		"name": "metal3~worker-7", "driver": "fake-hardware", "provision_state": "enroll", "target_provision_state": nil,
		"power_state": nil, "maintenance": false, "inspect_interface": "agent", "power_interface": "fake",
		"driver_info": map[string]any{"redfish_address": "https://192.0.2.17", "redfish_password": "******"},
		// The group rack-1 has no conductor.
		"properties": map[string]any{"cpu_arch": "x86_64"}, "conductor_group": "rack-1", "conductor": nil,
		"automated_clean": nil, "created_at": "2031-03-04T10:11:12+00:00", "updated_at": nil, "traits": []any{},
		"auto_discovered": false, "reservation": nil,
		"links": []any{
			map[string]any{"rel": "self", "href": "http://example.com/v1/nodes/" + uuid},
			map[string]any{"rel": "bookmark", "href": "http://example.com/nodes/" + uuid},
		},
	}
	for name, value := range want {
		diffJSON(t, name, value, document[name])
	}
	if stored := s.engine.nodes[0].DriverInfo.Text("redfish_password"); stored != "s3cr3t" {
		t.Errorf("stored password: got %q", stored)
	}
}

func TestOldVersionsCreateAvailableNodes(t *testing.T) {
	for version, want := range map[string]node.State{"1.10": node.Available, "1.11": node.Enroll} {
		s := newServer(t)
		s.do("POST", "/v1/nodes", version, `{"driver":"fake-hardware"}`).want(201)
		if got := s.engine.nodes[0].ProvisionState; got != want {
			t.Errorf("at %s: got %q, want %q", version, got, want)
		}
	}
}

func TestNamesFollowTheirVersion(t *testing.T) {
	for _, tt := range []struct {
		version, name string
		status        int
	}{
		{"1.4", "rack-1", 406}, {"1.5", "rack-1.example", 201}, {"1.9", "a_b", 400}, {"1.10", "a_b~c", 201}, {"1.84", "", 201},
	} {
		s := newServer(t)
		s.do("POST", "/v1/nodes", tt.version, `{"driver":"fake-hardware","name":"`+tt.name+`"}`).want(tt.status)
	}
	s := newServer(t)
	s.addNode(uuid1, func(n *node.Node) { n.Name = "rack-1" })
	s.do("GET", "/v1/nodes/rack-1", "1.4", "").want(404)
	s.do("GET", "/v1/nodes/rack-1", "1.5", "").want(200)
}

func TestJSONSuffixIsNotPartOfANameInOldVersions(t *testing.T) {
	s := newServer(t)
	s.addNode(uuid1, func(n *node.Node) { n.Name = "rack-1" })
	s.addNode(uuid2, func(n *node.Node) { n.Name = "rack-2.json" })
	for ident, want := range map[string]string{uuid1 + ".json": uuid1, "rack-1.json": uuid1, "rack-2.json": uuid2} {
		if got := s.do("GET", "/v1/nodes/"+ident, "1.84", "").want(200).json()["uuid"]; got != want {
			t.Errorf("%s: got %v, want %s", ident, got, want)
		}
	}
	s.do("GET", "/v1/nodes/nobody.json", "1.84", "").want(404)
	if maxVersion >= suffixSince {
		s.get("/v1/nodes/rack-1.json").want(404)
		s.get("/v1/nodes/rack-2.json").want(200)
	}
}

func TestListShowsBriefFieldsByDefault(t *testing.T) {
	s := newServer(t)
	s.addNode(uuid1)
	for path, want := range map[string][]string{
		"/v1/nodes":                             {"instance_uuid", "links", "maintenance", "name", "power_state", "provision_state", "uuid"},
		"/v1/nodes?fields=uuid,driver,uuid":     {"driver", "uuid"},
		"/v1/nodes?fields=uuid&fields=driver":   {"driver", "uuid"},
		"/v1/nodes?fields=boot_interface,links": {"boot_interface", "links"},
		"/v1/nodes?detail=no":                   {"instance_uuid", "links", "maintenance", "name", "power_state", "provision_state", "uuid"},
	} {
		item := s.get(path).want(200).json()["nodes"].([]any)[0].(map[string]any)
		diffJSON(t, path, want, sortedKeys(item))
	}
	for _, path := range []string{"/v1/nodes?detail=True", "/v1/nodes/detail"} {
		item := s.get(path).want(200).json()["nodes"].([]any)[0].(map[string]any)
		if len(item) != len(nodeTable.detail[maxVersion]) {
			t.Errorf("%s: got %d fields, want %d", path, len(item), len(nodeTable.detail[maxVersion]))
		}
	}
}

func TestFiltersReachTheEngine(t *testing.T) {
	notChild := node.Filter{Field: "parent_node", Op: node.IsSet, Value: false}
	is := func(field string, value any) node.Filter { return node.Filter{Field: field, Value: value} }
	for query, want := range map[string][]node.Filter{
		"":                                      {notChild},
		"provision_state=enroll":                {is("provision_state", "enroll"), notChild},
		"auto_discovered=YES":                   {is("auto_discovered", true), notChild},
		"maintenance=0":                         {is("maintenance", false), notChild},
		"associated=false":                      {{Field: "instance_uuid", Op: node.IsSet, Value: false}, notChild},
		"instance_uuid=" + uuid2:                {is("instance_uuid", uuid2), notChild},
		"conductor_group=":                      {is("conductor_group", ""), notChild},
		"conductor_group=Rack":                  {is("conductor_group", "rack"), notChild},
		"shard=a,b&shard=c":                     {{Field: "shard", Op: node.OneOf, Value: []string{"a", "b", "c"}}, notChild},
		"sharded=true":                          {{Field: "shard", Op: node.IsSet, Value: true}, notChild},
		"description_contains=x":                {{Field: "description", Op: node.Contains, Value: "x"}, notChild},
		"fault=power%20failure":                 {is("fault", "power failure"), notChild},
		"driver=d&owner=o&lessee=l&retired=1":   {is("driver", "d"), is("owner", "o"), is("retired", true), is("lessee", "l"), notChild},
		"parent_node=" + strings.ToUpper(uuid2): {is("parent_node", uuid2)},
		"include_children=true":                 nil,
		"resource_class=rc&conductor=ingot-1":   {is("resource_class", "rc"), notChild, is("conductor_group", "")},
	} {
		s := newServer(t)
		s.get("/v1/nodes?" + query).want(200)
		if diff := cmp.Diff(want, s.engine.query.Filters); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
}

func TestUnknownConductorHasNoNodes(t *testing.T) {
	s := newServer(t)
	s.addNode(uuid1)
	if got := s.get("/v1/nodes?conductor=other").want(200).json()["nodes"].([]any); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

func TestPagesLinkToTheNextPageInBothForms(t *testing.T) {
	s := newServer(t)
	for i := range 5 {
		s.addNode(fmt.Sprintf("00000000-0000-4000-8000-%012d", i))
	}
	path := "/v1/nodes?limit=2&sort_key=created_at&sort_dir=asc&fields=uuid&fields=driver&maintenance=false"
	seen := 0
	for range 10 {
		document := s.get(path).want(200).json()
		seen += len(document["nodes"].([]any))
		next, more := document["next"].(string)
		if !more {
			if document["nodes_links"] != nil {
				t.Errorf("nodes_links without next: %v", document["nodes_links"])
			}
			break
		}
		diffJSON(t, "nodes_links", []any{map[string]any{"rel": "next", "href": next}}, document["nodes_links"])
		u, err := url.Parse(next)
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		if u.Host != "example.com" || u.Path != "/v1/nodes" || q.Get("limit") != "2" || q.Get("maintenance") != "false" || q.Get("sort_key") != "created_at" || len(q["fields"]) != 2 {
			t.Errorf("next: got %s", next)
		}
		path = u.RequestURI()
	}
	if seen != 5 {
		t.Errorf("paging saw %d nodes, want 5", seen)
	}
}

func TestPageSizeIsCappedAndInstanceFilterIgnoresIt(t *testing.T) {
	s := newServer(t)
	for query, want := range map[string]node.Query{
		"":                        {Limit: 1000},
		"limit=5000":              {Limit: 1000},
		"limit=7&sort_dir=desc":   {Limit: 7, Desc: true},
		"marker=" + uuid1:         {Limit: 1000, Marker: uuid1},
		"sort_key=name":           {Limit: 1000, SortKey: "name"},
		"sort_key=id":             {Limit: 1000},
		"sort_key=boot_interface": {Limit: 1000, SortKey: "boot_interface"},
		"limit=1&marker=" + uuid1 + "&instance_uuid=" + uuid2: {},
	} {
		s.addNode(uuid1)
		s.get("/v1/nodes?" + query).want(200)
		s.engine.query.Filters, s.engine.query.Brief, s.engine.query.MaxBytes = nil, false, 0
		if diff := cmp.Diff(want, s.engine.query); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
}

func TestStatesHaveTheStateFields(t *testing.T) {
	s := newServer(t)
	s.addNode(uuid1, func(n *node.Node) { n.PowerState, n.LastError = node.PowerOn, "it broke" })
	document := s.get("/v1/nodes/" + uuid1 + "/states").want(200).json()
	diffJSON(t, "states", map[string]any{
		"console_enabled": false, "last_error": "it broke", "power_state": "power on", "target_power_state": nil,
		"provision_state": "enroll", "target_provision_state": nil, "provision_updated_at": nil,
		"raid_config": map[string]any{}, "target_raid_config": map[string]any{}, "boot_mode": nil, "secure_boot": nil,
	}, document)
}

func TestTextsWithSpecialCharactersAreShown(t *testing.T) {
	for _, text := range []string{"plain", `a "quote" and a \`, "tab\tand\nline", "Grüße ✓", "<&>", "\u2028"} {
		s := newServer(t)
		s.addNode(uuid1, func(n *node.Node) { n.LastError = text })
		if got := s.get("/v1/nodes/" + uuid1).want(200).json()["last_error"]; got != text {
			t.Errorf("got %q, want %q", got, text)
		}
	}
}

func TestReservationIsTheOwnerOfAHeldLease(t *testing.T) {
	s := newServer(t)
	n := s.addNode(uuid1)
	for expires, want := range map[time.Time]any{testTime.Add(time.Second): "ingot-2", testTime: nil} {
		n.Lease = node.Lease{Holder: "ingot-2", Epoch: 1, ExpiresAt: expires}
		if got := s.get("/v1/nodes/" + uuid1).want(200).json()["reservation"]; got != want {
			t.Errorf("lease until %s: got %v, want %v", expires, got, want)
		}
	}
}

func TestInventoryIsShownAsStored(t *testing.T) {
	s := newServer(t)
	s.addNode(uuid1)
	s.engine.inspections[uuid1] = &node.InspectionData{Inventory: []byte(`{"b":1,"a":1.0}`), PluginData: []byte(`{"macs":[]}`)}
	got := s.get("/v1/nodes/" + uuid1 + "/inventory").want(200)
	if want := `{"inventory":{"b":1,"a":1.0},"plugin_data":{"macs":[]}}`; got.body != want {
		t.Errorf("got %s, want %s", got.body, want)
	}
}

func TestChildrenAreListedByUUID(t *testing.T) {
	s := newServer(t)
	s.addNode(uuid1)
	document := s.get("/v1/nodes/" + uuid1 + "/children").want(200).json()
	diffJSON(t, "filters", []node.Filter{{Field: "parent_node", Value: uuid1}}, s.engine.query.Filters)
	diffJSON(t, "children", []any{uuid1}, document["children"]) // the fake engine does not filter
	if !s.engine.query.Brief {
		t.Error("children are read with all of their fields")
	}
}

func TestDeleteOfANodeHasNoBody(t *testing.T) {
	s := newServer(t)
	s.addNode(uuid1)
	if got := s.do("DELETE", "/v1/nodes/"+uuid1, "", "").want(204); got.body != "" {
		t.Errorf("body: got %q", got.body)
	}
	s.get("/v1/nodes/" + uuid1).want(404)
}

func TestMaintenanceTakesAReasonOrNone(t *testing.T) {
	s := newServer(t)
	n := s.addNode(uuid1)
	for body, want := range map[string]string{`{"reason":"fan"}`: "fan", "": "", `{}`: "", `{"reason":null}`: ""} {
		if got := s.do("PUT", "/v1/nodes/"+uuid1+"/maintenance", "", body).want(202); got.body != "" || !n.Maintenance || n.MaintenanceReason != want {
			t.Errorf("%s: got %q, node has %v %q", body, got.body, n.Maintenance, n.MaintenanceReason)
		}
	}
	s.do("DELETE", "/v1/nodes/"+uuid1+"/maintenance", "", "").want(202)
	if n.Maintenance {
		t.Error("maintenance did not end")
	}
}

func TestVerbsReachTheEngine(t *testing.T) {
	s := newServer(t)
	s.addNode(uuid1)
	got := s.do("PUT", "/v1/nodes/"+uuid1+"/states/provision", "1.84", `{"target":"manage","clean_steps":null}`).want(202)
	if got.body != "" || len(s.engine.verbs) != 1 || s.engine.verbs[0] != "manage" {
		t.Errorf("body %q, verbs %q", got.body, s.engine.verbs)
	}
}

func sortedKeys(document map[string]any) []string {
	keys := make([]string, 0, len(document))
	for key := range document {
		keys = append(keys, key)
	}
	return sorted(keys)
}

func TestBootModeOfANewNodeMustBeKnown(t *testing.T) {
	s := newServer(t)
	for mode, status := range map[string]int{`"uefi"`: 201, `"bios"`: 201, `null`: 201, `"floppy"`: 400, `5`: 400} {
		s.do("POST", "/v1/nodes", "latest", `{"driver":"fake-hardware","boot_mode":`+mode+`}`).want(status)
	}
}

func TestErrorsHaveTheRightArticle(t *testing.T) {
	got := newEngineServer(t).do("POST", "/v1/allocations", "latest", `{"colour":1}`).want(400)
	if text := got.fault()["faultstring"]; text != `Unknown field "colour" of an allocation.` {
		t.Errorf("fault %q", text)
	}
}
