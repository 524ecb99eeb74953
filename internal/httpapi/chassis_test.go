package httpapi

import (
	"net/http"
	"testing"
)

func TestChassisOfANodeMustExist(t *testing.T) {
	s := newEngineServer(t)
	chassis := s.create("/v1/chassis", `{"description":"left"}`)["uuid"].(string)
	n := s.create("/v1/nodes", `{"driver":"fake-hardware","chassis_uuid":"`+chassis+`"}`)["uuid"].(string)
	other := s.node()
	s.do("POST", "/v1/nodes", "latest", `{"driver":"fake-hardware","chassis_uuid":"`+uuid3+`"}`).want(http.StatusBadRequest)
	s.patch("/v1/nodes/"+other, `[{"op":"add","path":"/chassis_uuid","value":"`+uuid3+`"}]`).want(http.StatusBadRequest)
	for path, want := range map[string][]string{
		"/v1/chassis/" + chassis + "/nodes":                 {n},
		"/v1/chassis/" + chassis + "/nodes/detail":          {n},
		"/v1/chassis/" + chassis + "/nodes?associated=true": {},
		"/v1/nodes?chassis_uuid=" + chassis:                 {n},
		"/v1/nodes?chassis_uuid=" + uuid3:                   {},
	} {
		diffJSON(t, path, want, s.uuids(path, "nodes"))
	}
	s.get("/v1/chassis/" + uuid3 + "/nodes").want(http.StatusNotFound)
	s.do("DELETE", "/v1/chassis/"+chassis, "latest", "").want(http.StatusBadRequest)
	remove := `[{"op":"remove","path":"/chassis_uuid"}]`
	s.do("PATCH", "/v1/nodes/"+n, "1.24", remove).want(http.StatusNotAcceptable)
	s.do("PATCH", "/v1/nodes/"+n, "1.25", remove).want(http.StatusOK)
	s.do("DELETE", "/v1/chassis/"+chassis, "latest", "").want(http.StatusNoContent)
}

func TestNodesAreListedByProject(t *testing.T) {
	s := newEngineServer(t)
	owned := s.create("/v1/nodes", `{"driver":"fake-hardware","owner":"p1"}`)["uuid"].(string)
	leased := s.create("/v1/nodes", `{"driver":"fake-hardware","lessee":"p1"}`)["uuid"].(string)
	s.create("/v1/nodes", `{"driver":"fake-hardware","owner":"p2"}`)
	diffJSON(t, "project", []string{owned, leased}, s.uuids("/v1/nodes?project=p1", "nodes"))
}
