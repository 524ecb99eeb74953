package httpapi

import (
	"context"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/role"
)

// asRole gives every request one role, and the roles of the routes their meaning.
func asRole(r role.Role) func(*Options) {
	return func(o *Options) { o.Role = func(context.Context) role.Role { return r } }
}

func TestEveryRouteHasARoleOrIsPublic(t *testing.T) {
	public := map[string]bool{
		"GET /": true, "GET /v1": true, "GET /healthcheck": true,
		"GET /v1/lookup": true, "POST /v1/heartbeat/{ident}": true, "POST /v1/continue_inspection": true,
	}
	for _, rt := range sortedRoutes() {
		name := rt.method + " " + rt.pattern
		if rt.public != public[name] || rt.public == (rt.role != role.None) {
			t.Errorf("%s is public: %t, with the role %s", name, rt.public, rt.role)
		}
	}
}

func TestReadersOnlyReadAndOperatorsDeleteNoRecords(t *testing.T) {
	part := regexp.MustCompile("/(maintenance|vmedia|traits|vifs)")
	for _, rt := range sortedRoutes() {
		switch name := rt.method + " " + rt.pattern; {
		case rt.role == role.Reader && rt.method != get:
			t.Errorf("a reader may send %s", name)
		case rt.role == role.Operator && rt.method == remove && !part.MatchString(rt.pattern):
			t.Errorf("an operator may send %s", name)
		}
	}
}

func TestRoleOfEveryRouteIsAsked(t *testing.T) {
	placeholder := regexp.MustCompile(`{\w+}`)
	for _, user := range []role.Role{role.None, role.Reader, role.Operator, role.Admin} {
		s := newServer(t, asRole(user))
		s.addNode(uuid1)
		for _, rt := range sortedRoutes() {
			if rt.since > maxVersion {
				continue
			}
			// What an allowed request does is not the matter here; the fake engine has no
			// answer to many of them.
			got := s.do(rt.method, placeholder.ReplaceAllString(rt.pattern, uuid1), "latest", "")
			refused := got.status == http.StatusForbidden && strings.Contains(got.body, "needs the role "+rt.role.String())
			if want := user < rt.role; refused != want {
				t.Errorf("%s as %s: got %d %s, want it refused: %t", got.what, user, got.status, got.body, want)
			}
		}
	}
}

func TestRefusalNamesTheRoles(t *testing.T) {
	s := newServer(t, asRole(role.Operator))
	s.do("DELETE", "/v1/nodes/"+uuid1, "latest", "").want(403).
		wantFault("DELETE /v1/nodes/{ident} needs the role admin; this user has the role operator, by the file of the setting api.role_file.")
}

func TestDriverInfoIsForAdministrators(t *testing.T) {
	stored := node.ObjectOf(map[string]any{"redfish_address": "https://192.0.2.7", "redfish_password": "hunter2"})
	for _, user := range []role.Role{role.Reader, role.Operator} {
		s := newServer(t, asRole(user))
		s.addNode(uuid1, func(n *node.Node) { n.DriverInfo = stored })
		for _, path := range []string{"/v1/nodes/" + uuid1, "/v1/nodes/detail", "/v1/nodes?fields=driver_info", "/v1/nodes/" + uuid1 + "?fields=driver_info"} {
			if got := s.get(path).want(200); contains(got.body, "192.0.2.7") || !contains(got.body, `"driver_info":{}`) {
				t.Errorf("%s as %s shows %s", path, user, got.body)
			}
		}
	}
	s := newServer(t, asRole(role.Operator))
	s.addNode(uuid1, func(n *node.Node) { n.DriverInfo = stored })
	for _, operation := range []string{
		`{"op":"add","path":"/driver_info/redfish_address","value":"https://198.51.100.9"}`,
		`{"op":"replace","path":"/driver_info","value":{}}`,
		`{"op":"remove","path":"/driver_info"}`,
		`{"op":"remove","path":"/driver_info/redfish_password"}`,
	} {
		s.do("PATCH", "/v1/nodes/"+uuid1, "latest", `[{"op":"add","path":"/extra/a","value":1},`+operation+`]`).want(403).
			wantFault(`The field "driver_info" of a node needs the role admin`)
	}
	s.do("POST", "/v1/nodes", "latest", `{"driver":"fake-hardware","driver_info":{"redfish_address":"https://198.51.100.9"}}`).want(403).
		wantFault(`The field "driver_info" of a node needs the role admin`)
	got := s.do("PATCH", "/v1/nodes/"+uuid1, "latest", `[{"op":"add","path":"/extra/a","value":1}]`).want(200)
	if contains(got.body, "192.0.2.7") {
		t.Errorf("the answer to a patch shows %s", got.body)
	}
	if n := s.engine.nodes[0]; string(n.DriverInfo) != string(stored) || n.Extra.String() != `{"a":1}` {
		t.Errorf("the node has driver_info %s and extra %s", n.DriverInfo, n.Extra)
	}
	s.do("POST", "/v1/nodes", "latest", `{"driver":"fake-hardware","name":"new"}`).want(201)
}

func TestFieldsWithARoleAreObjects(t *testing.T) {
	for _, f := range nodeTable.fields {
		if f.role != role.None && f.text == nil {
			t.Errorf("%s is no object, and {} is shown in its place", f.name)
		}
	}
}
