package redfish_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/sim/redfish"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

// linksIn collects the links in a document.
func linksIn(value any, found map[string]bool) {
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			if id, isText := inner.(string); isText && (name == "@odata.id" || name == "Uri" || name == "TaskMonitor") {
				found[id] = true
			}
			linksIn(inner, found)
		}
	case []any:
		for _, inner := range v {
			linksIn(inner, found)
		}
	}
}

func TestEveryLinkLeadsToItsResource(t *testing.T) {
	for i, vendor := range append(slices.Clone(redfish.Vendors), redfish.Vendors...) {
		systems := 1 + i/len(redfish.Vendors)
		t.Run(fmt.Sprintf("%s with %d systems", vendor, systems), func(t *testing.T) {
			t.Parallel()
			s := redfishtest.Start(t, vendor, redfishtest.Options{Systems: systems})
			seen, todo := map[string]bool{}, []string{"/redfish/v1/"}
			for len(todo) > 0 {
				path := todo[0]
				todo = todo[1:]
				if seen[path] {
					continue
				}
				seen[path] = true
				status, text, header := call(t, s, "GET", path, "")
				var document map[string]any
				if err := json.Unmarshal([]byte(text), &document); err != nil || status != 200 {
					t.Errorf("%s: status %d, %v: %.300s", path, status, err, text)
					continue
				}
				if id := document["@odata.id"]; id != path && !strings.Contains(path, "gistr") {
					t.Errorf("%s says that it is %v", path, id)
				}
				if header.Get("ETag") == "" || header.Get("OData-Version") != "4.0" {
					t.Errorf("%s: headers %v, want an ETag and OData-Version 4.0", path, header)
				}
				found := map[string]bool{}
				linksIn(document, found)
				for id := range found {
					todo = append(todo, id)
				}
			}
			if len(seen) < 40*systems*3/4 {
				t.Errorf("only %d resources are linked", len(seen))
			}
		})
	}
}

func TestNothingButTheServiceRootIsShownWithoutLogin(t *testing.T) {
	for _, vendor := range redfish.Vendors {
		t.Run(vendor, func(t *testing.T) {
			t.Parallel()
			s := redfishtest.Start(t, vendor)
			for path, want := range map[string]int{"/redfish": 200, "/redfish/v1": 200, "/redfish/v1/": 200, "/redfish/v1/Systems": 401, "/redfish/v1/Registries": 401} {
				response, err := s.Client().Get(s.URL + path)
				if err != nil {
					t.Fatal(err)
				}
				response.Body.Close()
				if response.StatusCode != want {
					t.Errorf("%s: status %d, want %d", path, response.StatusCode, want)
				}
			}
			for path, want := range map[string]int{"/redfish/v1/Nothing": 404, "/redfish/v1/Systems/99": 404} {
				if status, text, _ := call(t, s, "GET", path, ""); status != want || !strings.Contains(text, "ResourceMissingAtURI") {
					t.Errorf("%s: status %d, %s", path, status, text)
				}
			}
			if status, text, _ := call(t, s, "DELETE", "/redfish/v1/Systems", ""); status != 405 || !strings.Contains(text, "OperationNotAllowed") {
				t.Errorf("DELETE of the systems: status %d, %s", status, text)
			}
			if status, _, _ := call(t, s, "GET", "/redfish/v1/Systems", "", "X-Auth-Token", "guess"); status != 401 {
				t.Errorf("a wrong token: status %d, want 401", status)
			}
		})
	}
}
