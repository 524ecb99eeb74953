package httpapi

import (
	"net/http"
	"testing"

	"github.com/ingot-metal/ingot/internal/node"
)

func TestPortsOfAGroupHaveOneNodeAndOneNetwork(t *testing.T) {
	s := newEngineServer(t)
	n, other := s.node(), s.node()
	group := s.create("/v1/portgroups", `{"node_uuid":"`+n+`","name":"bond0","address":"52-54-00-AA-BB-CC"}`)
	if group["address"] != "52:54:00:aa:bb:cc" || group["mode"] != "active-backup" || group["standalone_ports_supported"] != true {
		t.Errorf("group: got %v", group)
	}
	g := group["uuid"].(string)
	in := func(node, mac, more string) string {
		return `{"node_uuid":"` + node + `","address":"52:54:00:00:00:` + mac + `","portgroup_uuid":"` + g + `"` + more + `}`
	}
	port := s.create("/v1/ports", in(n, "01", `,"physical_network":"left"`))["uuid"].(string)
	s.do("POST", "/v1/ports", "latest", in(other, "02", "")).want(http.StatusBadRequest)
	s.do("POST", "/v1/ports", "latest", in(n, "02", `,"physical_network":"right"`)).want(http.StatusConflict)
	s.do("POST", "/v1/ports", "latest", `{"node_uuid":"`+n+`","address":"52:54:00:00:00:02","portgroup_uuid":"`+uuid3+`"}`).want(http.StatusBadRequest)
	s.patch("/v1/portgroups/bond0", `[{"op":"replace","path":"/standalone_ports_supported","value":false}]`).want(http.StatusConflict)
	s.patch("/v1/ports/"+port, `[{"op":"replace","path":"/pxe_enabled","value":false}]`).want(http.StatusOK)
	s.patch("/v1/portgroups/bond0", `[{"op":"replace","path":"/standalone_ports_supported","value":false}]`).want(http.StatusOK)
	s.patch("/v1/ports/"+port, `[{"op":"replace","path":"/pxe_enabled","value":true}]`).want(http.StatusConflict)
	for _, path := range []string{"/v1/portgroups/bond0/ports", "/v1/portgroups/" + g + "/ports/detail", "/v1/ports?portgroup=bond0", "/v1/ports?portgroup=" + g} {
		diffJSON(t, path, []string{port}, s.uuids(path, "ports"))
	}
	s.get("/v1/portgroups/nobody/ports").want(http.StatusNotFound)
	s.get("/v1/ports?portgroup=nobody").want(http.StatusNotFound)
	s.do("DELETE", "/v1/portgroups/bond0", "latest", "").want(http.StatusBadRequest)
	s.patch("/v1/ports/"+port, `[{"op":"remove","path":"/portgroup_uuid"}]`).want(http.StatusOK)
	s.do("DELETE", "/v1/portgroups/bond0", "latest", "").want(http.StatusNoContent)
}

func TestPortGroupsStayWithTheirNodeAndAreLockedWhileItIsActive(t *testing.T) {
	s := newEngineServer(t)
	n, other := s.node(), s.node()
	g := s.create("/v1/portgroups", `{"node_uuid":"`+n+`","name":"bond0","address":"52:54:00:aa:bb:cc","mode":null}`)["uuid"].(string)
	mine := "/v1/portgroups/" + g
	for body, want := range map[string]int{
		`{"node_uuid":"` + n + `","name":"bond0"}`:                http.StatusConflict,
		`{"node_uuid":"` + n + `","address":"52:54:00:aa:bb:cc"}`: http.StatusConflict,
		`{"node_uuid":"` + n + `","name":"no name"}`:              http.StatusBadRequest,
		`{"node_uuid":"` + n + `","address":"x"}`:                 http.StatusBadRequest,
		`{"name":"bond1"}`: http.StatusBadRequest,
	} {
		s.do("POST", "/v1/portgroups", "latest", body).want(want)
	}
	s.patch(mine, `[{"op":"replace","path":"/node_uuid","value":"`+other+`"}]`).want(http.StatusBadRequest)
	diffJSON(t, "mode", "802.3ad", s.patch(mine, `[{"op":"replace","path":"/mode","value":"802.3ad"}]`).want(http.StatusOK).json()["mode"])
	diffJSON(t, "mode", "active-backup", s.patch(mine, `[{"op":"remove","path":"/mode"}]`).want(http.StatusOK).json()["mode"])
	s.changeNode(n, func(n *node.Node) { n.ProvisionState = node.Active })
	s.patch(mine, `[{"op":"replace","path":"/mode","value":"x"}]`).want(http.StatusConflict)
	s.changeNode(n, func(n *node.Node) { n.Maintenance = true })
	s.patch(mine, `[{"op":"replace","path":"/mode","value":"x"}]`).want(http.StatusOK)
	for path, want := range map[string][]string{
		"/v1/nodes/" + n + "/portgroups":           {g},
		"/v1/nodes/" + n + "/portgroups/detail":    {g},
		"/v1/nodes/" + other + "/portgroups":       {},
		"/v1/portgroups?node=" + n:                 {g},
		"/v1/portgroups/detail?node=" + other:      {},
		"/v1/portgroups?address=52:54:00:AA:BB:CC": {g},
		"/v1/portgroups?address=52:54:00:AA:BB:CD": {},
	} {
		diffJSON(t, path, want, s.uuids(path, "portgroups"))
	}
	s.get("/v1/portgroups?node=" + uuid3).want(http.StatusNotFound)
	s.do("DELETE", "/v1/nodes/"+n, "latest", "").want(http.StatusNoContent)
	s.get(mine).want(http.StatusNotFound)
}

func TestPortsAreListedByTheShardOfTheirNode(t *testing.T) {
	s := newEngineServer(t)
	n := s.create("/v1/nodes", `{"driver":"fake-hardware","shard":"left"}`)["uuid"].(string)
	p := s.create("/v1/ports", `{"node_uuid":"`+n+`","address":"52:54:00:00:00:01"}`)["uuid"].(string)
	s.create("/v1/ports", `{"node_uuid":"`+s.node()+`","address":"52:54:00:00:00:02"}`)
	diffJSON(t, "ports", []string{p}, s.uuids("/v1/ports?shard=left,right", "ports"))
	diffJSON(t, "shards", []any{map[string]any{"name": nil, "count": 1.0}, map[string]any{"name": "left", "count": 1.0}},
		s.get("/v1/shards").want(http.StatusOK).json()["shards"])
	s.get("/v1/shards?name=left").want(http.StatusBadRequest)
}

func TestPortsAreCreatedByNodeName(t *testing.T) {
	s := newEngineServer(t)
	n := s.create("/v1/nodes", `{"driver":"fake-hardware","name":"rack-1"}`)["uuid"].(string)
	port := s.create("/v1/ports", `{"node_ident":"rack-1","address":"52:54:00:00:00:01"}`)
	diffJSON(t, "node", n, port["node_uuid"])
	if _, shown := port["node_ident"]; shown {
		t.Error("node_ident is shown")
	}
	s.get("/v1/ports?fields=node_ident").want(http.StatusBadRequest)
	s.do("POST", "/v1/ports", "latest", `{"node_ident":"nobody","address":"52:54:00:00:00:02"}`).want(http.StatusBadRequest)
	s.do("POST", "/v1/ports", "latest", `{"node_ident":"rack-1","node_uuid":"`+n+`","address":"52:54:00:00:00:02"}`).want(http.StatusBadRequest)
}

func TestPortsAreAddressedByName(t *testing.T) {
	s := newEngineServer(t)
	n := s.node()
	port := s.create("/v1/ports", `{"node_uuid":"`+n+`","address":"52:54:00:00:00:01","name":"left"}`)["uuid"]
	diffJSON(t, "port", port, s.get("/v1/ports/left").want(http.StatusOK).json()["uuid"])
	s.do("GET", "/v1/ports/left", "1.87", "").want(http.StatusBadRequest)
	s.get("/v1/ports/52:54:00:00:00:01").want(http.StatusBadRequest)
	s.get("/v1/ports/right").want(http.StatusNotFound)
	for _, name := range []string{"a b", uuid1} {
		s.do("POST", "/v1/ports", "latest", `{"node_uuid":"`+n+`","address":"52:54:00:00:00:02","name":"`+name+`"}`).want(http.StatusBadRequest)
		s.patch("/v1/ports/left", `[{"op":"replace","path":"/name","value":"`+name+`"}]`).want(http.StatusBadRequest)
	}
	s.patch("/v1/ports/left", `[{"op":"replace","path":"/name","value":"right"}]`).want(http.StatusOK)
	s.do("DELETE", "/v1/ports/right", "latest", "").want(http.StatusNoContent)
}

func TestPortGroupListOfANodeRefusesTheNodeFilter(t *testing.T) {
	s := newEngineServer(t)
	n := "/v1/nodes/" + s.node()
	for _, part := range []string{"/portgroups", "/portgroups/detail"} {
		s.get(n + part + "?address=52:54:00:00:00:01").want(http.StatusOK)
		s.get(n + part + "?node=x").want(http.StatusBadRequest)
	}
}

func TestOldPatchesChangeModeAndPropertiesOfAPortGroupAfterTheirFirstOperation(t *testing.T) {
	s := newEngineServer(t)
	group := "/v1/portgroups/" + s.create("/v1/portgroups", `{"node_uuid":"`+s.node()+`"}`)["uuid"].(string)
	extra := `{"op":"add","path":"/extra/a","value":1}`
	for _, field := range []string{
		`{"op":"add","path":"/properties","value":{"b":2}}`, `{"op":"add","path":"/properties/b","value":2}`,
		`{"op":"replace","path":"/mode","value":"802.3ad"}`,
	} {
		s.do("PATCH", group, "1.25", `[`+field+`]`).want(http.StatusNotAcceptable)
		s.do("PATCH", group, "1.25", `[`+field+`,`+extra+`]`).want(http.StatusNotAcceptable)
		shown := s.do("PATCH", group, "1.25", `[`+extra+`,`+field+`]`).want(http.StatusOK).json()
		for _, hidden := range []string{"mode", "properties"} {
			if _, ok := shown[hidden]; ok {
				t.Errorf("%s: got %q in the answer at 1.25", field, hidden)
			}
		}
		s.do("PATCH", group, "1.26", `[`+field+`]`).want(http.StatusOK)
	}
	s.do("PATCH", group, "1.25", `[`+extra+`,{"op":"add","path":"/physical_network","value":"a"}]`).want(http.StatusNotAcceptable)
	s.do("PATCH", group, "1.25", `[`+extra+`,{"op":"add","path":"/colour","value":"a"}]`).want(http.StatusBadRequest)
	stored := s.get(group).want(http.StatusOK).json()
	diffJSON(t, "properties", map[string]any{"b": 2.0}, stored["properties"])
	diffJSON(t, "mode", "802.3ad", stored["mode"])
}
