package httpapi

import (
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/node"
)

func TestDriverListHasTheEnabledDrivers(t *testing.T) {
	s := newServer(t)
	drivers := s.get("/v1/drivers").want(200).json()["drivers"].([]any)
	var names []string
	for _, d := range drivers {
		document := d.(map[string]any)
		names = append(names, document["name"].(string))
		diffJSON(t, "hosts", []any{"ingot-1"}, document["hosts"])
		diffJSON(t, "type", "dynamic", document["type"])
		if document["default_power_interface"] != nil {
			t.Errorf("a list without detail shows interfaces: %v", document)
		}
	}
	diffJSON(t, "names", []string{"fake-hardware", "manual-management"}, names)
	if got := s.get("/v1/drivers?type=classic").want(200).json()["drivers"].([]any); len(got) != 0 {
		t.Errorf("classic drivers: got %v", got)
	}
}

func TestDriverListIsEmptyWithoutALiveConductor(t *testing.T) {
	s := newServer(t)
	s.engine.conductors = []node.Conductor{{Hostname: "ingot-1"}}
	if got := s.get("/v1/drivers").want(200).body; got != `{"drivers":[]}` {
		t.Errorf("got %s", got)
	}
}

func TestDriverShowsItsInterfacesByVersion(t *testing.T) {
	s := newServer(t)
	document := s.get("/v1/drivers/manual-management").want(200).json()
	diffJSON(t, "default_power_interface", "agent", document["default_power_interface"])
	diffJSON(t, "enabled_boot_interfaces", []any{"ipxe", "pxe"}, document["enabled_boot_interfaces"])
	for version, want := range map[string]bool{"1.29": false, "1.30": false, "1.31": true} {
		_, got := s.do("GET", "/v1/drivers/manual-management", version, "").want(200).json()["enabled_boot_interfaces"]
		if got != want {
			t.Errorf("at %s: interfaces shown %v, want %v", version, got, want)
		}
	}
	diffJSON(t, "fields", map[string]any{"name": "manual-management"}, s.get("/v1/drivers/manual-management?fields=name").want(200).json())
	s.do("GET", "/v1/drivers?fields=name", "1.76", "").want(406)
	s.do("GET", "/v1/drivers?detail=true", "1.29", "").want(406)
	if got := s.get("/v1/drivers/fake-hardware/properties").want(200).json(); got["deploy_kernel"] == nil {
		t.Errorf("properties: got %v", got)
	}
}

func TestConductorsShowTheirHostAndDrivers(t *testing.T) {
	s := newServer(t)
	conductor := s.get("/v1/conductors").want(200).json()["conductors"].([]any)[0].(map[string]any)
	for name, want := range map[string]any{
		"hostname": "ingot-1", "conductor_group": "", "alive": true, "updated_at": "2031-03-04T10:11:12+00:00", "drivers": nil,
	} {
		diffJSON(t, name, want, conductor[name])
	}
	shown := s.get("/v1/conductors/ingot-1").want(200).json()
	diffJSON(t, "drivers", []any{"fake-hardware", "manual-management"}, shown["drivers"])
	diffJSON(t, "fields", map[string]any{"hostname": "ingot-1"},
		s.get("/v1/conductors?fields=hostname").want(200).json()["conductors"].([]any)[0])
	s.get("/v1/conductors?fields=hostname&detail=true").want(400)
	s.get("/v1/drivers?fields=name&detail=true").want(400)
}

func TestConductorListIsPaged(t *testing.T) {
	s := newServer(t)
	s.engine.conductors = []node.Conductor{{Hostname: "c"}, {Hostname: "a"}, {Hostname: "b"}}
	var seen []string
	for path := "/v1/conductors?limit=1&sort_dir=desc"; path != ""; {
		list := s.get(path).want(200).json()
		for _, conductor := range list["conductors"].([]any) {
			seen = append(seen, conductor.(map[string]any)["hostname"].(string))
		}
		next, _ := list["next"].(string)
		path = strings.TrimPrefix(next, "http://example.com")
	}
	diffJSON(t, "order", []string{"c", "b", "a"}, seen)
	s.get("/v1/conductors?marker=nobody").want(404)
	s.get("/v1/conductors?sort_key=colour").want(400)
	s.get("/v1/conductors?limit=0").want(400)
}
