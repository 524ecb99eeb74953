package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

func TestVolumesChangeOnlyWhileTheirNodeIsOff(t *testing.T) {
	s := newEngineServer(t)
	n := s.node(func(n *node.Node) { n.PowerState = node.PowerOn })
	connector := s.create("/v1/volume/connectors", `{"node_uuid":"`+n+`","type":"iqn","connector_id":"a"}`)["uuid"].(string)
	target := s.create("/v1/volume/targets", `{"node_uuid":"`+n+`","volume_type":"iscsi","volume_id":"a","boot_index":0,"properties":{"auth_password":"x"}}`)
	diffJSON(t, "properties", map[string]any{"auth_password": mask}, target["properties"])
	for kind, item := range map[string]string{
		"volume connector": "/v1/volume/connectors/" + connector, "volume target": "/v1/volume/targets/" + target["uuid"].(string),
	} {
		change := `[{"op":"add","path":"/extra/a","value":1}]`
		s.changeNode(n, func(n *node.Node) { n.PowerState = node.PowerOn })
		refused := fmt.Sprintf("The requested action \"%s %%s\" can not be performed on node %q", kind, n)
		s.patch(item, change).want(http.StatusBadRequest).wantFault(fmt.Sprintf(refused, "update"))
		s.do("DELETE", item, "latest", "").want(http.StatusBadRequest).wantFault(fmt.Sprintf(refused, "deletion"))
		s.changeNode(n, func(n *node.Node) { n.PowerState = node.PowerOff })
		s.patch(item, change).want(http.StatusOK)
		s.patch(item, `[{"op":"replace","path":"/node_uuid","value":"`+uuid3+`"}]`).want(http.StatusBadRequest)
		s.patch(item, `[{"op":"remove","path":"/node_uuid"}]`).want(http.StatusBadRequest)
	}
	for path, want := range map[string]int{
		"/v1/nodes/" + n + "/volume/connectors": 1, "/v1/volume/connectors?node=" + n: 1, "/v1/nodes/" + s.node() + "/volume/connectors": 0,
	} {
		if got := s.uuids(path, "connectors"); len(got) != want {
			t.Errorf("%s: got %q, want %d", path, got, want)
		}
	}
	s.get("/v1/volume/connectors?node=" + uuid3).want(http.StatusNotFound)
	s.get("/v1/volume/targets?node=" + uuid3).want(http.StatusNotFound)
}

func TestWritingTheMaskOfAVolumeBackKeepsItsSecret(t *testing.T) {
	s := newEngineServer(t)
	n := s.node(func(n *node.Node) { n.PowerState = node.PowerOff })
	body := `{"node_uuid":"` + n + `","volume_type":"iscsi","volume_id":"a","boot_index":0,"properties":{"auth_password":"%"}}`
	s.do("POST", "/v1/volume/targets", "latest", strings.Replace(body, "%", mask, 1)).want(http.StatusBadRequest)
	uuid := s.create("/v1/volume/targets", strings.Replace(body, "%", "s3cr3t", 1))["uuid"].(string)
	s.patch("/v1/volume/targets/"+uuid, `[{"op":"replace","path":"/properties","value":{"auth_password":"`+mask+`","portal":"x"}}]`).want(http.StatusOK)
	var stored *node.VolumeTarget
	if err := s.db.Read(t.Context(), func(tx *store.Tx) (err error) {
		stored, err = store.VolumeTargets.Get(tx, uuid)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	diffJSON(t, "properties", map[string]any{"auth_password": "s3cr3t", "portal": "x"}, stored.Properties.Values())
}

func TestVolumesTakeDetailInTheirFirstVersion(t *testing.T) {
	s := newEngineServer(t)
	n := s.node()
	s.create("/v1/volume/connectors", `{"node_uuid":"`+n+`","type":"iqn","connector_id":"a"}`)
	s.create("/v1/volume/targets", `{"node_uuid":"`+n+`","volume_type":"iscsi","volume_id":"a","boot_index":0}`)
	for _, path := range []string{"/v1/volume/connectors", "/v1/volume/targets", "/v1/nodes/" + n + "/volume/connectors"} {
		if got := s.do("GET", path+"?detail=True", "1.32", "").want(http.StatusOK); !strings.Contains(got.body, `"extra"`) {
			t.Errorf("%s: got %s, want all fields", path, got.body)
		}
	}
}

func TestVolumesAreUnique(t *testing.T) {
	s := newEngineServer(t)
	n, other := s.node(), s.node()
	connector := `{"node_uuid":"` + n + `","type":"iqn","connector_id":"a"}`
	target := `{"node_uuid":"` + n + `","volume_type":"iscsi","volume_id":"a","boot_index":0}`
	s.create("/v1/volume/connectors", connector)
	s.create("/v1/volume/targets", target)
	s.do("POST", "/v1/volume/connectors", "latest", strings.Replace(connector, n, other, 1)).want(http.StatusConflict).wantFault("A volume connector ", "already exists")
	s.do("POST", "/v1/volume/targets", "latest", target).want(http.StatusConflict).wantFault("A volume target ", "already exists")
	s.create("/v1/volume/targets", strings.Replace(target, n, other, 1))
	second := s.create("/v1/volume/targets", strings.Replace(target, `"boot_index":0`, `"boot_index":1`, 1))["uuid"].(string)
	s.changeNode(n, func(n *node.Node) { n.PowerState = node.PowerOff })
	s.patch("/v1/volume/targets/"+second, `[{"op":"replace","path":"/boot_index","value":0}]`).want(http.StatusConflict).wantFault("A volume target ", "already exists")
	s.do("POST", "/v1/volume/targets", "latest", strings.Replace(target, `"boot_index":0`, `"boot_index":"x"`, 1)).want(http.StatusBadRequest)
	s.do("POST", "/v1/volume/targets", "latest", strings.Replace(target, `,"boot_index":0`, "", 1)).want(http.StatusBadRequest)
}

func TestVolumeRootsLinkToBothKinds(t *testing.T) {
	s := newEngineServer(t)
	n := s.node()
	for path, base := range map[string]string{"/v1/volume": "/volume", "/v1/nodes/" + n + "/volume": "/nodes/" + n + "/volume"} {
		document := s.get(path).want(http.StatusOK).json()
		diffJSON(t, path, []any{
			map[string]any{"href": "http://example.com/v1" + base + "/targets", "rel": "self"},
			map[string]any{"href": "http://example.com" + base + "/targets", "rel": "bookmark"},
		}, document["targets"])
		diffJSON(t, path, []string{"connectors", "links", "targets"}, sortedKeys(document))
	}
	s.get("/v1/nodes/nobody/volume").want(http.StatusNotFound)
}

func TestEventsOfANetworkServiceAreChecked(t *testing.T) {
	s := newEngineServer(t)
	good := `{"event":"network.bind_port","port_id":"a","mac_address":"52:54:00:00:00:01","status":"ACTIVE","binding:host_id":"h"}`
	s.do("POST", "/v1/events", "latest", `{"events":[`+good+`]}`).want(http.StatusNoContent)
	for _, body := range []string{
		``, `{}`, `{"events":[]}`, `{"events":{}}`, `{"events":[{}]}`,
		`{"events":[` + strings.Replace(good, "network.bind_port", "network.explode", 1) + `]}`,
		`{"events":[` + strings.Replace(good, "52:54:00:00:00:01", "x", 1) + `]}`,
		`{"events":[` + strings.Replace(good, "port_id", "color", 1) + `]}`,
	} {
		s.do("POST", "/v1/events", "latest", body).want(http.StatusBadRequest)
	}
}
