package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

func TestBriefQueryReadsAllFieldsOfAShortList(t *testing.T) {
	lean := node.Node{
		ID: 7, UUID: "00000000-0000-4000-8000-000000000007", Name: "rack-7",
		InstanceUUID: "00000000-0000-4000-8000-000000000008",
		PowerState:   node.PowerOn, ProvisionState: node.Active, Maintenance: true,
	}
	full := lean
	full.Driver, full.MaintenanceReason, full.Fault, full.LastError = "redfish", "a fan", "power failure", "no answer"
	full.TargetPowerState, full.TargetProvisionState = node.PowerOff, node.Available
	full.UpdatedAt, full.Retired, full.Owner = time.Now(), true, "ann"
	for version := minVersion; version <= maxVersion; version++ {
		fields := nodeTable.brief[version]
		if !isBrief(fields) {
			t.Fatalf("version 1.%d: the fields of a short list are not brief", version)
		}
		v := &view{version: version, links: newLinkBase("http://engine")}
		got, want := string(appendItem(nil, v, &lean, fields)), string(appendItem(nil, v, &full, fields))
		if got != want {
			t.Errorf("version 1.%d: a brief query shows %s, a full one %s", version, got, want)
		}
	}
}

func TestFieldsOutsideOfShortListsNeedAFullQuery(t *testing.T) {
	fields, err := nodeTable.selected([]string{"uuid", "driver"}, maxVersion)
	if err != nil {
		t.Fatal(err)
	}
	if isBrief(fields) {
		t.Error("driver is not read by a brief query, but the query is brief")
	}
}

// TestPagesOfLargeItemsAreShorter follows the links of a list whose items are so large
// that a whole page of them would not fit into memory many times.
func TestPagesOfLargeItemsAreShorter(t *testing.T) {
	const size, most = 900_000, maxPageBytes/900_000 + 1
	s := newEngineServer(t)
	for _, kind := range []struct {
		path, name string
		count      int
		body       func() string
	}{
		{"/v1/nodes", "nodes", most + 1, func() string {
			return fmt.Sprintf(`{"driver":"fake-hardware","extra":{"note":%q}}`, strings.Repeat("x", size))
		}},
		{"/v1/chassis", "chassis", most + 1, func() string {
			return fmt.Sprintf(`{"extra":{"note":%q}}`, strings.Repeat("x", size))
		}},
	} {
		want := map[string]bool{}
		for range kind.count {
			want[s.create(kind.path, kind.body())["uuid"].(string)] = true
		}
		pages := 0
		for path := kind.path + "?detail=true"; path != ""; pages++ {
			got := s.do(http.MethodGet, path, "latest", "").want(http.StatusOK)
			if len(got.body) > maxPageBytes+2*size {
				t.Errorf("a page of %s has %d bytes, want at most about %d", kind.name, len(got.body), maxPageBytes)
			}
			document := got.json()
			for _, item := range document[kind.name].([]any) {
				uuid := item.(map[string]any)["uuid"].(string)
				if !want[uuid] {
					t.Errorf("%s %s is listed twice or does not exist", kind.name, uuid)
				}
				delete(want, uuid)
			}
			path, _ = document["next"].(string)
			path = strings.TrimPrefix(path, "http://example.com")
		}
		if len(want) > 0 || pages < 2 {
			t.Errorf("%d pages of %s lack %d of them", pages, kind.name, len(want))
		}
	}
}

func TestTheNextPageOfAListWithAllFieldsHasAllFields(t *testing.T) {
	s := newEngineServer(t)
	n := s.node()
	chassis := s.create("/v1/chassis", `{}`)["uuid"].(string)
	group := s.create("/v1/portgroups", `{"node_uuid":"`+n+`"}`)["uuid"].(string)
	s.create("/v1/portgroups", `{"node_uuid":"`+n+`"}`)
	for _, last := range []string{"1", "2"} {
		s.create("/v1/nodes", `{"driver":"fake-hardware","chassis_uuid":"`+chassis+`"}`)
		s.create("/v1/ports", `{"node_uuid":"`+n+`","portgroup_uuid":"`+group+`","address":"52:54:00:00:00:0`+last+`"}`)
	}
	for _, path := range []string{
		"/v1/nodes", "/v1/ports", "/v1/portgroups", "/v1/chassis/" + chassis + "/nodes", "/v1/portgroups/" + group + "/ports",
		"/v1/nodes/" + n + "/ports", "/v1/nodes/" + n + "/portgroups",
	} {
		for _, path := range []string{path, path + "/detail"} {
			next := s.get(path + "?limit=1").want(200).json()["next"]
			if text, _ := next.(string); !strings.HasPrefix(text, "http://example.com"+path+"?limit=1&marker=") {
				t.Errorf("%s: the next page is %v", path, next)
			}
		}
	}
}
