package httpapi

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/builtin"
	"github.com/ingot-metal/ingot/internal/node"
)

func contains(text, part string) bool { return strings.Contains(text, part) }

// drivers is the registry that newServer uses.
func (s *server) drivers(tb testing.TB) *driver.Registry {
	tb.Helper()
	r, err := builtin.New(driver.Config{}, builtin.Dependencies{})
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func TestAddressOfANewPortIsNormalized(t *testing.T) {
	s := newServer(t)
	s.addNode(uuid1)
	got := s.do("POST", "/v1/ports", "1.84", `{"node_uuid":"`+uuid1+`","address":"52-54-00-AB-CD-EF","extra":{"a":1}}`).want(201)
	document := got.json()
	if got.header.Get("Location") != "http://example.com/v1/ports/"+document["uuid"].(string) {
		t.Errorf("Location: got %q", got.header.Get("Location"))
	}
	for name, want := range map[string]any{
		"address": "52:54:00:ab:cd:ef", "node_uuid": uuid1, "pxe_enabled": true, "is_smartnic": false,
		"portgroup_uuid": nil, "physical_network": nil, "local_link_connection": map[string]any{},
		"internal_info": map[string]any{}, "extra": map[string]any{"a": 1.0},
	} {
		diffJSON(t, name, want, document[name])
	}
}

func TestPortFiltersReachTheEngine(t *testing.T) {
	s := newServer(t)
	s.addNode(uuid1, func(n *node.Node) { n.Name = "rack-1" })
	byNode := node.Filter{Field: "node_uuid", Value: uuid1}
	byAddress := node.Filter{Field: "address", Value: "52:54:00:ab:cd:ef"}
	for path, want := range map[string][]node.Filter{
		"/v1/ports": nil,
		"/v1/ports?address=52:54:00:AB:CD:EF&fields=node_uuid,uuid,address": {byAddress},
		"/v1/ports?node=rack-1":                                   {byNode},
		"/v1/ports?node_uuid=" + uuid1:                            {byNode},
		"/v1/ports/detail?node=" + uuid1:                          {byNode},
		"/v1/ports?shard=a,b":                                     {{Field: "shard", Op: node.OneOf, Value: []string{"a", "b"}}},
		"/v1/ports?portgroup=" + uuid2:                            {{Field: "portgroup_uuid", Value: uuid2}},
		"/v1/nodes/rack-1/ports":                                  {byNode},
		"/v1/nodes/rack-1/ports/detail?address=52:54:00:ab:cd:ef": {byAddress, byNode},
	} {
		s.get(path).want(200)
		if diff := cmp.Diff(want, s.engine.query.Filters); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
	s.get("/v1/ports?node=nobody").want(404)
	s.get("/v1/ports?node=" + uuid3).want(404)
	s.get("/v1/nodes/nobody/ports").want(404)
	s.get("/v1/ports?shard=a&node=rack-1").want(403)
	s.do("GET", "/v1/ports?shard=a", "1.81", "").want(406)
}

func TestPortListIsBriefAndPaged(t *testing.T) {
	s := newServer(t)
	s.addNode(uuid1)
	s.engine.ports = []*node.Port{{UUID: uuid2, NodeUUID: uuid1, Address: "52:54:00:00:00:01"}, {UUID: uuid3, NodeUUID: uuid1, Address: "52:54:00:00:00:02"}}
	document := s.get("/v1/nodes/" + uuid1 + "/ports?limit=1").want(200).json()
	diffJSON(t, "columns", []string{"address", "links", "uuid"}, sortedKeys(document["ports"].([]any)[0].(map[string]any)))
	next := "http://example.com/v1/nodes/" + uuid1 + "/ports?limit=1&marker=" + uuid2
	diffJSON(t, "next", next, document["next"])
	diffJSON(t, "ports_links", []any{map[string]any{"rel": "next", "href": next}}, document["ports_links"])
}

func TestPortIsPatchedAndDeleted(t *testing.T) {
	s := newServer(t)
	s.addNode(uuid1)
	s.engine.ports = []*node.Port{{UUID: uuid2, NodeUUID: uuid1, Address: "52:54:00:00:00:01"}}
	s.do("PATCH", "/v1/ports/"+uuid2, "1.84", `[{"op":"replace","path":"/pxe_enabled","value":true},
		{"op":"add","path":"/local_link_connection","value":{"switch_id":"0a:1b:2c:3d:4e:5f","port_id":"Eth1"}},
		{"op":"add","path":"/extra/a","value":1}]`).want(200)
	p := s.engine.ports[0]
	if !p.PXEEnabled || p.Extra.String() != `{"a":1}` || p.LocalLinkConnection.Text("port_id") != "Eth1" {
		t.Errorf("got %+v", p)
	}
	s.do("PATCH", "/v1/ports/"+uuid2, "1.84", `[{"op":"remove","path":"/pxe_enabled"}]`).want(200)
	if !p.PXEEnabled {
		t.Error("removing pxe_enabled does not set its default, true")
	}
	s.do("DELETE", "/v1/ports/"+uuid2, "", "").want(204)
	s.get("/v1/ports/" + uuid2).want(404)
}

func TestStateOfTheNodeLimitsPatchesOfItsPorts(t *testing.T) {
	for _, tt := range []struct {
		field       string
		state       node.State
		maintenance bool
		allowed     bool
		instance    string // instance_uuid of the node
	}{
		{"pxe_enabled", node.Enroll, false, true, ""},
		{"pxe_enabled", node.Available, false, false, ""},
		{"pxe_enabled", node.Available, true, true, ""},
		{"physical_network", node.Active, false, false, ""},
		{"portgroup_uuid", node.Active, false, false, ""},
		{"local_link_connection", node.Active, false, true, ""}, // as it was
		{"extra", node.Active, false, true, ""},
		{"address", node.Active, false, false, ""},
		{"address", node.Active, true, true, ""},
		{"address", node.Available, false, true, ""},
		{"address", node.Available, false, false, uuid3},
		{"address", node.Available, true, true, uuid3},
	} {
		value := map[string]string{"portgroup_uuid": `"` + uuid3 + `"`, "local_link_connection": `{"port_id": "1", "switch_id": "0a:1b:2c:3d:4e:5f"}`, "pxe_enabled": "true", "physical_network": `"p"`, "extra": "{}", "address": `"52:54:00:00:00:02"`}[tt.field]
		edits, err := parsePatch([]byte(`[{"op":"add","path":"/`+tt.field+`","value":`+value+`}]`), portTable, &call{version: maxVersion})
		if err != nil {
			t.Fatal(err)
		}
		p := &node.Port{UUID: uuid2, NodeUUID: uuid1, Address: "52:54:00:00:00:01", LocalLinkConnection: node.Object(`{"switch_id":"0a:1b:2c:3d:4e:5f","port_id":"1"}`)}
		err = portPatch{edits, maxVersion}.apply(p, &node.Node{UUID: uuid1, ProvisionState: tt.state, Maintenance: tt.maintenance, InstanceUUID: tt.instance})
		var conflict *node.ConflictError
		if tt.allowed && err != nil || !tt.allowed && !errors.As(err, &conflict) {
			t.Errorf("%s in %q, maintenance %v: got %v, want allowed %v", tt.field, tt.state, tt.maintenance, err, tt.allowed)
		}
	}
}

func TestLocalLinkConnectionMustHaveAKnownForm(t *testing.T) {
	for text, ok := range map[string]bool{
		``: true,
		`{"switch_id":"0a:1b:2c:3d:4e:5f","port_id":"Eth1","switch_info":"sw1"}`: true,
		`{"switch_id":"0123456789abcdef","port_id":"Eth1"}`:                      true,
		`{"switch_id":"sw1","port_id":"Eth1"}`:                                   false,
		`{"switch_id":"0a:1b:2c:3d:4e:5f"}`:                                      false,
		`{"hostname":"h","port_id":"rep0"}`:                                      true,
		`{"hostname":"h"}`:                                                       false,
		`{"network_type":"unmanaged"}`:                                           true,
		`{"network_type":"managed"}`:                                             false,
		`{"colour":"red"}`:                                                       false,
	} {
		if err := checkLocalLink(node.Object(text), 84); (err == nil) != ok {
			t.Errorf("%s: got %v, want accepted %v", text, err, ok)
		}
	}
}

func TestKeysOfALocalLinkConnectionDependOnTheVersion(t *testing.T) {
	for _, tt := range []struct {
		text    string
		version int
		ok      bool
	}{
		{`{"network_type":"unmanaged"}`, 63, false},
		{`{"network_type":"unmanaged"}`, 64, true},
		{`{"vtep-logical-switch":"a","vtep-physical-switch":"b","port_id":"c"}`, 89, false},
		{`{"vtep-logical-switch":"a","vtep-physical-switch":"b","port_id":"c"}`, 90, true},
		{`{"vtep-logical-switch":"a","port_id":"c"}`, 90, false},
		{`{"vtep-logical-switch":"a","vtep-physical-switch":"b","port_id":"c"}`, 104, true},
		{`{"vtep-logical-switch":"a","vtep-physical-switch":"b","port_id":"c"}`, 105, false},
	} {
		if err := checkLocalLink(node.Object(tt.text), tt.version); (err == nil) != tt.ok {
			t.Errorf("%s at 1.%d: got %v, want accepted %v", tt.text, tt.version, err, tt.ok)
		}
	}
	s := newEngineServer(t)
	body := `{"node_uuid":"` + s.node() + `","address":"52:54:00:00:00:01","local_link_connection":{"network_type":"unmanaged"}}`
	s.do("POST", "/v1/ports", "1.63", body).want(406)
	port := s.do("POST", "/v1/ports", "1.64", body).want(201).json()["uuid"].(string)
	s.do("PATCH", "/v1/ports/"+port, "1.63", `[{"op":"add","path":"/extra/a","value":1}]`).want(200)
}
