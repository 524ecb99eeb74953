package httpapi

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/polltest"
)

// available stores a node that is available for allocations.
func (s *engineServer) available(class string, change ...func(*node.Node)) string {
	s.tb.Helper()
	return s.node(append([]func(*node.Node){func(n *node.Node) {
		n.ProvisionState, n.ResourceClass = node.Available, class
	}}, change...)...)
}

// allocate posts an allocation and waits until the engine has processed it.
func (s *engineServer) allocate(body string) map[string]any {
	s.tb.Helper()
	created := s.create("/v1/allocations", body)
	var shown map[string]any
	polltest.UntilTrue(s.tb, 20*time.Second, "the end of the allocation", func() bool {
		shown = s.get("/v1/allocations/" + created["uuid"].(string)).want(http.StatusOK).json()
		return shown["state"] != "allocating"
	})
	return shown
}

func TestAllocationTakesAMatchingNode(t *testing.T) {
	s := newEngineServer(t)
	fits := s.available("big", func(n *node.Node) { n.Traits = node.WordsOf("CUSTOM_A", "CUSTOM_B") })
	s.available("small", func(n *node.Node) { n.Traits = "CUSTOM_A" })
	s.available("big")
	s.available("big", func(n *node.Node) { n.Traits, n.Maintenance = "CUSTOM_A", true })
	s.available("big", func(n *node.Node) { n.Traits, n.ProvisionState = "CUSTOM_A", node.Manageable })
	a := s.allocate(`{"name":"mine","resource_class":"big","traits":["CUSTOM_A"]}`)
	if a["state"] != "active" || a["node_uuid"] != fits || a["last_error"] != nil {
		t.Fatalf("got %v, want node %s", a, fits)
	}
	n := s.get("/v1/nodes/" + fits).json()
	if n["instance_uuid"] != a["uuid"] || n["allocation_uuid"] != a["uuid"] {
		t.Errorf("node: got instance %v, allocation %v", n["instance_uuid"], n["allocation_uuid"])
	}
	diffJSON(t, "instance_info", map[string]any{"traits": []any{"CUSTOM_A"}}, n["instance_info"])
	diffJSON(t, "by node", a["uuid"], s.get("/v1/nodes/" + fits + "/allocation").want(http.StatusOK).json()["uuid"])
	again := s.allocate(`{"resource_class":"big","traits":["CUSTOM_A"]}`)
	if reason, _ := again["last_error"].(string); again["state"] != "error" || !strings.Contains(reason, "big") {
		t.Errorf("second: got %v, want an error that names the resource class", again)
	}
	for path, want := range map[string][]any{
		"?state=error": {again["uuid"]}, "?state=active": {a["uuid"]}, "?node=" + fits: {a["uuid"]},
		"?resource_class=big": {a["uuid"], again["uuid"]}, "?resource_class=x": {},
	} {
		got := []any{}
		for _, uuid := range s.uuids("/v1/allocations"+path, "allocations") {
			got = append(got, uuid)
		}
		diffJSON(t, path, want, got)
	}
	s.get("/v1/allocations?state=x").want(http.StatusBadRequest)
	s.get("/v1/allocations?node=" + uuid3).want(http.StatusBadRequest)
	s.get("/v1/allocations?node=nobody").want(http.StatusBadRequest)
}

func TestAllocationTakesOnlyCandidatesAndNodesOfItsOwner(t *testing.T) {
	s := newEngineServer(t)
	s.available("x")
	candidate := s.available("x", func(n *node.Node) { n.Name = "rack-1" })
	owned := s.available("x", func(n *node.Node) { n.Owner = "p1" })
	leased := s.available("x", func(n *node.Node) { n.Lessee = "p2" })
	for body, want := range map[string]string{
		`{"resource_class":"x","candidate_nodes":["rack-1"]}`: candidate,
		`{"resource_class":"x","owner":"p1"}`:                 owned,
		`{"resource_class":"x","owner":"p2"}`:                 leased,
	} {
		if got := s.allocate(body); got["node_uuid"] != want {
			t.Errorf("%s: got %v, want node %s", body, got, want)
		}
	}
	s.do("POST", "/v1/allocations", "latest", `{"resource_class":"x","candidate_nodes":["nobody"]}`).want(http.StatusBadRequest)
}

func TestDeletedAllocationReleasesItsNode(t *testing.T) {
	s := newEngineServer(t)
	n := s.available("x")
	first := s.allocate(`{"name":"first","resource_class":"x"}`)
	s.changeNode(n, func(n *node.Node) { n.ProvisionState, n.TargetProvisionState = node.Deploying, node.Active })
	s.do("DELETE", "/v1/allocations/first", "latest", "").want(http.StatusConflict)
	s.changeNode(n, func(n *node.Node) { n.ProvisionState, n.TargetProvisionState = node.Available, "" })
	s.do("DELETE", "/v1/nodes/"+n+"/allocation", "latest", "").want(http.StatusNoContent)
	shown := s.get("/v1/nodes/" + n).json()
	if shown["instance_uuid"] != nil || shown["allocation_uuid"] != nil {
		t.Errorf("node: got %v, %v", shown["instance_uuid"], shown["allocation_uuid"])
	}
	s.get("/v1/nodes/" + n + "/allocation").want(http.StatusNotFound)
	s.get("/v1/allocations/" + first["uuid"].(string)).want(http.StatusNotFound)
	if second := s.allocate(`{"resource_class":"x"}`); second["node_uuid"] != n {
		t.Errorf("second: got %v", second)
	}
	s.patch("/v1/nodes/"+n, `[{"op":"remove","path":"/instance_uuid"}]`).want(http.StatusOK)
	diffJSON(t, "allocations", []string{}, s.uuids("/v1/allocations", "allocations"))
}

// TestAllocationKeepsTheOrderOfItsLists has lists whose order a client compares with its own.
func TestAllocationKeepsTheOrderOfItsLists(t *testing.T) {
	s := newEngineServer(t)
	second, first := s.available("x"), s.available("x", func(n *node.Node) { n.Name = "first" })
	traits := []any{"CUSTOM_Z", "CUSTOM_A"}
	a := s.create("/v1/allocations", `{"resource_class":"y","traits":["CUSTOM_Z","CUSTOM_A","CUSTOM_Z"],"candidate_nodes":["first","`+second+`"]}`)
	diffJSON(t, "traits", traits, a["traits"])
	diffJSON(t, "candidates", []any{first, second}, a["candidate_nodes"])
	listed := s.get("/v1/allocations").want(http.StatusOK).json()["allocations"].([]any)[0].(map[string]any)
	diffJSON(t, "traits in a list", traits, listed["traits"])
}

func TestAllocationsOfRunningNodesAreBackfilled(t *testing.T) {
	s := newEngineServer(t)
	running := s.node(func(n *node.Node) { n.ProvisionState, n.InstanceUUID, n.ResourceClass = node.Active, uuid3, "x" })
	body := `{"node":"` + running + `"}`
	s.do("POST", "/v1/allocations", "1.57", body).want(http.StatusNotAcceptable)
	s.do("POST", "/v1/allocations", "latest", `{"node":"nobody"}`).want(http.StatusBadRequest)
	s.available("x", func(n *node.Node) { n.Name = "other" })
	s.do("POST", "/v1/allocations", "latest", `{"node":"other"}`).want(http.StatusConflict)
	s.do("POST", "/v1/allocations", "latest", `{"node":"`+running+`","candidate_nodes":["other"]}`).want(http.StatusConflict)
	s.do("POST", "/v1/allocations", "latest", `{"node":"`+running+`","candidate_nodes":["nobody"]}`).want(http.StatusBadRequest)
	s.do("POST", "/v1/allocations", "latest", `{"node":"`+running+`","resource_class":"y"}`).want(http.StatusConflict)
	s.do("POST", "/v1/allocations", "latest", `{"node":"`+running+`","uuid":"`+uuid1+`"}`).want(http.StatusConflict)
	a := s.create("/v1/allocations", `{"node":"`+running+`","candidate_nodes":["`+running+`","other"]}`)
	if a["uuid"] != uuid3 || a["state"] != "active" || a["node_uuid"] != running || a["resource_class"] != "x" {
		t.Errorf("got %v", a)
	}
	s.do("POST", "/v1/allocations", "latest", body).want(http.StatusConflict)
	if _, shown := a["node"]; shown {
		t.Error("node is shown")
	}
}

func TestAllocationOfANodeInUseEndsWithItsInstanceOnlyInMaintenance(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*node.Node)
		status int
	}{
		"active":       {func(n *node.Node) { n.ProvisionState = node.Active }, http.StatusConflict},
		"failed":       {func(n *node.Node) { n.ProvisionState = node.DeployFailed }, http.StatusConflict},
		"maintenance":  {func(n *node.Node) { n.ProvisionState, n.Maintenance = node.Active, true }, http.StatusOK},
		"manageable":   {func(n *node.Node) { n.ProvisionState = node.Manageable }, http.StatusOK},
		"inspect wait": {func(n *node.Node) { n.ProvisionState = node.InspectWait }, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			s := newEngineServer(t)
			n := s.available("x", func(n *node.Node) { n.Traits = "CUSTOM_A" })
			a := s.allocate(`{"resource_class":"x","traits":["CUSTOM_A"]}`)["uuid"].(string)
			s.changeNode(n, tc.change)
			s.patch("/v1/nodes/"+n, `[{"op":"remove","path":"/instance_uuid"}]`).want(tc.status)
			if tc.status == http.StatusConflict {
				s.get("/v1/allocations/" + a).want(http.StatusOK)
				return
			}
			s.get("/v1/allocations/" + a).want(http.StatusNotFound)
			diffJSON(t, "instance_info", map[string]any{}, s.get("/v1/nodes/" + n).json()["instance_info"])
		})
	}
}

func TestAllocationReplacesTheTraitsOfAnEarlierInstance(t *testing.T) {
	s := newEngineServer(t)
	n := s.available("x", func(n *node.Node) {
		n.Traits, n.InstanceInfo = "CUSTOM_A", n.InstanceInfo.With(map[string]any{"traits": []string{"CUSTOM_A"}})
	})
	s.allocate(`{"resource_class":"x"}`)
	diffJSON(t, "instance_info", map[string]any{"traits": []any{}}, s.get("/v1/nodes/" + n).json()["instance_info"])
}

func TestOnlyNameAndExtraOfAnAllocationCanBePatched(t *testing.T) {
	s := newEngineServer(t)
	a := "/v1/allocations/" + s.create("/v1/allocations", `{"resource_class":"x"}`)["uuid"].(string)
	s.do("PATCH", a, "1.56", `[]`).want(http.StatusMethodNotAllowed)
	s.patch(a, `[{"op":"add","path":"/name","value":"mine"},{"op":"add","path":"/extra/a","value":1}]`).want(http.StatusOK)
	s.get("/v1/allocations/mine").want(http.StatusOK)
	for _, field := range []string{"resource_class", "traits", "node_uuid", "state", "owner"} {
		s.patch(a, `[{"op":"replace","path":"/`+field+`","value":"CUSTOM_A"}]`).want(http.StatusBadRequest)
	}
	s.patch(a, `[{"op":"add","path":"/name","value":"a b"}]`).want(http.StatusBadRequest)
}
