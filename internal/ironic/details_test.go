package ironic

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPortsOfANodeAreListedAcrossPages(t *testing.T) {
	_, client := newFakeEngine(t, func(f *fakeEngine) {
		f.override = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/v1/ports" || r.URL.Query().Get("node") != "n1" {
				return false
			}
			if r.URL.Query().Get("marker") == "" {
				reply(w, 200, map[string]any{"ports": []any{map[string]any{"uuid": "p1", "address": "aa"}}, "next": "more"})
			} else {
				reply(w, 200, map[string]any{"ports": []any{map[string]any{"uuid": "p2", "address": "bb", "pxe_enabled": true}}})
			}
			return true
		}
	})
	ports, err := client.Ports(t.Context(), "n1")
	if err != nil {
		t.Fatal(err)
	}
	if len(ports) != 2 || ports[0].Address != "aa" || !ports[1].PXEEnabled {
		t.Errorf("got %+v", ports)
	}
	if _, err := client.Ports(t.Context(), "unknown"); !errors.Is(err, ErrNotFound) {
		t.Errorf("ports of an unknown node: %v, want ErrNotFound", err)
	}
}

func TestInventoryIsKeptAsSent(t *testing.T) {
	const sent = `{"inventory": {"b":1e400,  "a":9007199254740993}, "plugin_data": {"z":[]}}`
	_, client := newFakeEngine(t, func(f *fakeEngine) {
		f.override = func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, "/inventory") {
				return false
			}
			_, _ = w.Write([]byte(sent))
			return true
		}
	})
	got, err := client.Inventory(t.Context(), "n1")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(`{"b":1e400,  "a":9007199254740993}`, string(got.Inventory)); diff != "" {
		t.Errorf("inventory (-want +got):\n%s", diff)
	}
}

func TestEngineIsReadyOnceItHasADriver(t *testing.T) {
	for name, test := range map[string]struct {
		body string
		want error
	}{
		"none yet": {`{"drivers": []}`, ErrOverloaded},
		"one":      {`{"drivers": [{"name": "fake-hardware", "hosts": ["h"], "type": "dynamic"}]}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			_, client := newFakeEngine(t, func(f *fakeEngine) {
				f.override = func(w http.ResponseWriter, r *http.Request) bool {
					if r.URL.Path != "/v1/drivers" {
						return false
					}
					_, _ = w.Write([]byte(test.body))
					return true
				}
			})
			if err := client.Ready(t.Context()); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}
