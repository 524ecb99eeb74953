package ironic

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
)

func TestListReturnsEveryNodeWhateverWayTheEnginePages(t *testing.T) {
	for name, style := range map[string]paging{"next": pagingNext, "both": pagingBoth, "links": pagingLinks} {
		for _, count := range []int{0, 1, 2, 5, 6} {
			t.Run(name, func(t *testing.T) {
				_, client := newFakeEngine(t, func(f *fakeEngine) { f.paging, f.nodes = style, someNodes(count) })
				var got []string
				for n, err := range client.Nodes(t.Context(), NodeQuery{}) {
					if err != nil {
						t.Fatalf("list: %v", err)
					}
					got = append(got, n.UUID)
				}
				if len(got) != count || !slices.IsSorted(got) {
					t.Errorf("got %v, want %d nodes once each in order", got, count)
				}
			})
		}
	}
}

func TestListStopsAskingWhenTheCallerStops(t *testing.T) {
	f, client := newFakeEngine(t, func(f *fakeEngine) { f.nodes = someNodes(10) })
	for _, err := range client.Nodes(t.Context(), NodeQuery{PageSize: 3}) {
		if err != nil {
			t.Fatal(err)
		}
		break
	}
	want := []string{"GET /v1/", "GET /v1/nodes?limit=3"}
	if diff := cmp.Diff(want, f.paths()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestListSendsWhatTheQuerySays(t *testing.T) {
	yes := true
	f, client := newFakeEngine(t, nil)
	query := NodeQuery{
		Fields: []string{"name", "updated_at"}, ProvisionState: "clean wait", Driver: "redfish", AutoDiscovered: &yes,
		SortKey: "updated_at", SortDir: Descending,
	}
	for _, err := range client.Nodes(t.Context(), query) {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := "GET /v1/nodes?auto_discovered=true&driver=redfish&fields=uuid%2Cname%2Cupdated_at&provision_state=clean+wait&sort_dir=desc&sort_key=updated_at"
	if got := f.paths()[1]; got != want {
		t.Errorf("request\n got %s\nwant %s", got, want)
	}
}

func TestListFailsAsConflictWhenTheMarkerNodeIsDeletedMeanwhile(t *testing.T) {
	f, client := newFakeEngine(t, func(f *fakeEngine) { f.nodes = someNodes(4) })
	var last error
	for n, err := range client.Nodes(t.Context(), NodeQuery{}) {
		last = err
		if n.UUID == "node-1" {
			f.nodes = f.nodes[2:]
		}
	}
	if !errors.Is(last, ErrConflict) || errors.Is(last, ErrNotFound) || !Retryable(last) {
		t.Errorf("got %v, want a retryable conflict", last)
	}
}

func TestListRefusesPagesThatDoNotAdvance(t *testing.T) {
	_, client := newFakeEngine(t, func(f *fakeEngine) {
		f.override = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/v1/nodes" {
				return false
			}
			reply(w, 200, map[string]any{"nodes": someNodes(1), "next": "again"})
			return true
		}
	})
	count, last := 0, error(nil)
	for _, err := range client.Nodes(t.Context(), NodeQuery{}) {
		count, last = count+1, err
	}
	if !errors.Is(last, ErrProtocol) || count > 3 {
		t.Errorf("after %d items got %v, want ErrProtocol soon", count, last)
	}
}

func TestEngineWithoutTheDiscoveryFlagIsAskedWithoutIt(t *testing.T) {
	for name, answer := range map[string]struct {
		status int
		text   string
	}{
		"it refuses":        {400, `{"faultstring":"Field(s) \"auto_discovered\" are not valid."}`},
		"it fails, as 1.82": {500, `{"faultcode": "Server", "faultstring": "type object 'Node' has no attribute 'auto_discovered'", "debuginfo": null}`},
	} {
		t.Run(name, func(t *testing.T) {
			f, client := newFakeEngine(t, func(f *fakeEngine) {
				f.nodes = someNodes(1)
				f.override = func(w http.ResponseWriter, r *http.Request) bool {
					if !strings.Contains(r.URL.RawQuery, "auto_discovered") {
						return false
					}
					reply(w, answer.status, map[string]any{"error_message": answer.text})
					return true
				}
			})
			for range 2 {
				for n, err := range client.Nodes(t.Context(), NodeQuery{Fields: []string{"auto_discovered", "name"}}) {
					if err != nil || n.AutoDiscovered != nil {
						t.Fatalf("got %v, %v; want a node that does not say", n.AutoDiscovered, err)
					}
				}
			}
			want := []string{
				"GET /v1/", "GET /v1/nodes?fields=uuid%2Cauto_discovered%2Cname",
				"GET /v1/nodes?fields=uuid%2Cname", "GET /v1/nodes?fields=uuid%2Cname",
			}
			if diff := cmp.Diff(want, f.paths()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNodeReadsEveryFieldClientsNeed(t *testing.T) {
	f, client := newFakeEngine(t, func(f *fakeEngine) {
		f.override = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/v1/nodes/a b/c" {
				return false
			}
			reply(w, 200, map[string]any{
				"uuid": "u1", "name": nil, "auto_discovered": true, "maintenance": true, "updated_at": nil,
				"driver_internal_info":   map[string]any{"agent_last_heartbeat": "2026-01-02T03:04:05.678901"},
				"inspection_finished_at": "2026-01-02T03:04:05.5+00:00",
			})
			return true
		}
	})
	n, err := client.Node(t.Context(), "a b/c")
	if err != nil {
		t.Fatalf("show: %v", err)
	}
	if n.Label() != "u1" || n.AutoDiscovered == nil || !*n.AutoDiscovered || !n.Maintenance || !n.UpdatedAt.IsZero() {
		t.Errorf("got %+v", n)
	}
	if want := time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC); !n.AgentLastHeartbeat().Equal(want) {
		t.Errorf("last heartbeat %v, want %v", n.AgentLastHeartbeat(), want)
	}
	if got := f.paths()[1]; got != "GET /v1/nodes/a%20b%2Fc" {
		t.Errorf("asked %q, want the identifier escaped", got)
	}
}

func TestChangesSendTheRequestThatTheAPINames(t *testing.T) {
	var body string
	f, client := newFakeEngine(t, func(f *fakeEngine) {
		f.override = func(w http.ResponseWriter, r *http.Request) bool {
			buffer := make([]byte, 200)
			n, _ := r.Body.Read(buffer)
			body = string(buffer[:n])
			status := map[string]int{http.MethodDelete: 204, http.MethodPut: 202, http.MethodPatch: 200}[r.Method]
			if status == 200 {
				reply(w, status, map[string]any{"uuid": "u1", "name": "new"})
			} else if status != 0 {
				w.WriteHeader(status)
			}
			return status != 0
		}
	})
	if err := client.Provision(t.Context(), "n1", Manage); err != nil || body != `{"target":"manage"}` {
		t.Errorf("manage: %v, body %s", err, body)
	}
	if err := client.DeleteNode(t.Context(), "n1"); err != nil {
		t.Errorf("delete: %v", err)
	}
	n, err := client.UpdateNode(t.Context(), "n1", nodes.UpdateOperation{Op: nodes.AddOp, Path: "/name", Value: "new"})
	if err != nil || n.Name != "new" || body != `[{"op":"add","path":"/name","value":"new"}]` {
		t.Errorf("update: %v, %q, body %s", err, n.Name, body)
	}
	want := []string{"GET /v1/", "PUT /v1/nodes/n1/states/provision", "DELETE /v1/nodes/n1", "PATCH /v1/nodes/n1"}
	if diff := cmp.Diff(want, f.paths()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestIdentifiersThatWouldNameAnotherURLAreRefused(t *testing.T) {
	f, client := newFakeEngine(t, nil)
	for _, ident := range []string{"", ".", ".."} {
		if _, err := client.Node(t.Context(), ident); !errors.Is(err, ErrRejected) {
			t.Errorf("Node(%q) = %v, want ErrRejected", ident, err)
		}
		if err := client.DeleteNode(t.Context(), ident); !errors.Is(err, ErrRejected) {
			t.Errorf("DeleteNode(%q) = %v, want ErrRejected", ident, err)
		}
	}
	if len(f.requests) != 0 {
		t.Errorf("engine was asked %v", f.paths())
	}
}

func TestDocumentsAreWhatTheEngineSent(t *testing.T) {
	_, client := newFakeEngine(t, func(f *fakeEngine) {
		f.override = func(w http.ResponseWriter, r *http.Request) bool {
			switch r.URL.Path {
			case "/v1/nodes":
				_, _ = w.Write([]byte(`{"nodes":[{"uuid":"u1","new":null}]}`))
			case "/v1/nodes/u1":
				_, _ = w.Write([]byte(`{"uuid":"u1", "new":1.0}`))
			default:
				return false
			}
			return true
		}
	})
	for document, err := range client.Documents(t.Context(), Listing{Collection: []string{"nodes"}}) {
		if err != nil || string(document) != `{"uuid":"u1","new":null}` {
			t.Errorf("list: %s, %v", document, err)
		}
	}
	if document, err := client.Document(t.Context(), "show node u1", Listing{Collection: []string{"nodes"}}, "u1"); err != nil || string(document) != `{"uuid":"u1", "new":1.0}` {
		t.Errorf("show: %s, %v", document, err)
	}
}
