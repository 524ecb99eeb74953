package httpapi

import (
	"net/http"
	"testing"

	"github.com/ingot-metal/ingot/internal/node"
)

func (s *engineServer) vifs(n string) any {
	s.tb.Helper()
	return s.get(n + "/vifs").want(http.StatusOK).json()["vifs"]
}

func TestNoopNetworkInterfaceAcceptsAndDiscardsVIFs(t *testing.T) {
	s := newEngineServer(t)
	n := "/v1/nodes/" + s.node()
	s.do("POST", n+"/vifs", "latest", `{"id":"a"}`).want(http.StatusNoContent)
	s.do("POST", n+"/vifs", "latest", `{"id":"a"}`).want(http.StatusNoContent)
	diffJSON(t, "vifs", []any{}, s.vifs(n))
	s.do("DELETE", n+"/vifs/a", "latest", "").want(http.StatusNoContent)
	s.get("/v1/nodes/nobody/vifs").want(http.StatusNotFound)
}

func TestVIFsTakeFreePorts(t *testing.T) {
	s := newEngineServer(t)
	uuid := s.node(func(n *node.Node) { n.Interfaces[node.NetworkInterface] = "flat" })
	n := "/v1/nodes/" + uuid
	attach := func(status int, body string) { t.Helper(); s.do("POST", n+"/vifs", "latest", body).want(status) }
	attach(http.StatusBadRequest, `{"id":"a"}`)
	s.create("/v1/ports", `{"node_uuid":"`+uuid+`","address":"52:54:00:00:00:01","pxe_enabled":false}`)
	attach(http.StatusBadRequest, `{"id":"a"}`)
	port := s.create("/v1/ports", `{"node_uuid":"`+uuid+`","address":"52:54:00:00:00:02"}`)["uuid"].(string)
	attach(http.StatusNoContent, `{"id":"a","network":{"free":"form"}}`)
	attach(http.StatusConflict, `{"id":"a"}`)
	attach(http.StatusBadRequest, `{"id":"b"}`)
	group := s.create("/v1/portgroups", `{"node_uuid":"`+uuid+`"}`)["uuid"].(string)
	attach(http.StatusBadRequest, `{"id":"b","port_uuid":"`+port+`"}`)
	attach(http.StatusBadRequest, `{"id":"b","portgroup_uuid":"`+group+`"}`) // it has no ports
	member := s.create("/v1/ports", `{"node_uuid":"`+uuid+`","address":"52:54:00:00:00:03","portgroup_uuid":"`+group+`"}`)["uuid"].(string)
	attach(http.StatusNoContent, `{"id":"b","port_uuid":"`+member+`"}`)
	attach(http.StatusBadRequest, `{"id":"c","portgroup_uuid":"`+group+`"}`) // one of its ports is taken
	s.do("DELETE", n+"/vifs/b", "latest", "").want(http.StatusNoContent)
	attach(http.StatusNoContent, `{"id":"b","portgroup_uuid":"`+group+`"}`)
	attach(http.StatusBadRequest, `{"id":"c","port_uuid":"`+member+`"}`) // its group is taken
	diffJSON(t, "vifs", []any{map[string]any{"id": "b"}, map[string]any{"id": "a"}}, s.vifs(n))
	diffJSON(t, "internal_info", map[string]any{"tenant_vif_port_id": "a"}, s.get("/v1/ports/" + port).json()["internal_info"])
	s.do("DELETE", n+"/vifs/a", "latest", "").want(http.StatusNoContent)
	s.do("DELETE", n+"/vifs/a", "latest", "").want(http.StatusBadRequest)
	diffJSON(t, "vifs", []any{map[string]any{"id": "b"}}, s.vifs(n))
}

func TestInvalidVIFsAreRefused(t *testing.T) {
	s := newEngineServer(t)
	n := "/v1/nodes/" + s.node()
	for _, body := range []string{
		``, `{}`, `{"id":1}`, `{"id":null}`, `{"id":"a","port_uuid":"x"}`,
		`{"id":"a","port_uuid":"` + uuid1 + `","portgroup_uuid":"` + uuid2 + `"}`,
	} {
		s.do("POST", n+"/vifs", "latest", body).want(http.StatusBadRequest)
	}
	place := `{"id":"a","port_uuid":"` + uuid1 + `"}`
	s.do("POST", n+"/vifs", "1.66", place).want(http.StatusNotAcceptable)
	s.do("POST", n+"/vifs", "1.67", place).want(http.StatusNoContent)
}
