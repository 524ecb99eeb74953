package ironic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	client "github.com/ingot-metal/ingot/internal/ironic"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// upstream is an upstream engine with a few nodes. It refuses the field auto_discovered, writes
// times without fractions, and announces pages with "next".
type upstream struct {
	nodes    []map[string]any // newest change first
	pageSize int
	answers  map[string][]int // method and path → statuses to answer with first
	refusal  string           // text of refused answers
	version  string           // highest API version; "" for 1.96
	ports    []string         // MAC addresses of the node's ports
	drivers  []string
	inspects []string       // inspect interfaces of every driver
	replies  map[string]any // method and path → documents to answer with
	calls    []string
}

func (e *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := r.Method + " " + r.URL.Path
	body, _ := io.ReadAll(r.Body)
	if r.URL.Path != "/v1/" {
		shown := key
		if r.Method != http.MethodGet && r.URL.RawQuery != "" {
			shown += "?" + r.URL.RawQuery
		}
		e.calls = append(e.calls, strings.TrimSpace(shown+" "+string(body)))
	}
	if queue := e.answers[key]; len(queue) > 0 {
		e.answers[key] = queue[1:]
		if queue[0] >= 400 {
			fault(w, queue[0], e.refusal)
			return
		}
		w.WriteHeader(queue[0])
		if queue[0] == http.StatusOK {
			_, _ = io.WriteString(w, "{}")
		}
		return
	}
	if document, ok := e.replies[key]; ok {
		reply(w, document)
		return
	}
	switch {
	case r.URL.Path == "/v1/":
		reply(w, map[string]any{"version": map[string]any{"min_version": "1.1", "version": e.version}})
	case key == "POST /v1/nodes":
		var created map[string]any
		_ = json.Unmarshal(body, &created)
		created["uuid"], created["provision_state"] = "a", "enroll"
		replyWith(w, http.StatusCreated, created)
	case key == "POST /v1/ports":
		replyWith(w, http.StatusCreated, map[string]any{"uuid": "p"})
	case key == "GET /v1/ports":
		ports := []map[string]any{}
		for i, mac := range e.ports {
			ports = append(ports, map[string]any{"uuid": fmt.Sprint("p", i), "address": mac})
		}
		reply(w, map[string]any{"ports": ports})
	case strings.HasPrefix(key, "GET /v1/drivers/"):
		reply(w, map[string]any{"enabled_inspect_interfaces": e.inspects})
	case key == "GET /v1/drivers":
		drivers := []map[string]any{}
		for _, name := range e.drivers {
			drivers = append(drivers, map[string]any{"name": name})
		}
		reply(w, map[string]any{"drivers": drivers})
	case r.Method == http.MethodPatch && lacksNetworkData(body):
		fault(w, http.StatusBadRequest, "Invalid network_data: 'links' is a required property")
	case r.Method == http.MethodPatch && len(e.nodes) > 0:
		reply(w, e.nodes[0])
	case strings.HasSuffix(r.URL.Path, "/states/raid") && strings.Contains(string(body), `"logical_disks":[]`):
		fault(w, http.StatusBadRequest, "RAID config validation error: [] is too short")
	case strings.HasSuffix(r.URL.Path, "/states/raid"), strings.HasSuffix(r.URL.Path, "/vmedia"):
		w.WriteHeader(http.StatusNoContent)
	case strings.Contains(r.URL.Query().Get("fields"), "auto_discovered") && key == "GET /v1/nodes":
		fault(w, http.StatusInternalServerError, "type object 'Node' has no attribute 'auto_discovered'")
	case strings.Contains(r.URL.Query().Get("fields"), "auto_discovered"):
		fault(w, http.StatusBadRequest, "Field auto_discovered is not a valid field.")
	case strings.Contains(r.URL.Query().Get("fields"), "created_at"):
		fault(w, http.StatusBadRequest, "Field created_at is not a valid field.")
	case key == "GET /v1/nodes":
		e.list(w, r)
	case r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/v1/nodes/"):
		for _, n := range e.nodes {
			if strings.HasSuffix(r.URL.Path, "/"+n["uuid"].(string)) {
				reply(w, n)
				return
			}
		}
		fault(w, http.StatusNotFound, "Node could not be found.")
	default:
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, "{}")
	}
}

// lacksNetworkData reports whether a patch sets network data that lack keys which their schema
// requires.
func lacksNetworkData(body []byte) bool {
	var operations []struct {
		Path  string
		Value json.RawMessage
	}
	_ = json.Unmarshal(body, &operations)
	for _, o := range operations {
		var value map[string]any
		if o.Path != "/network_data" || o.Value == nil {
			continue
		}
		_ = json.Unmarshal(o.Value, &value)
		if value["links"] == nil || value["networks"] == nil || value["services"] == nil {
			return true
		}
	}
	return false
}

func (e *upstream) list(w http.ResponseWriter, r *http.Request) {
	from := 0
	if marker := r.URL.Query().Get("marker"); marker != "" {
		from = 1 + slices.IndexFunc(e.nodes, func(n map[string]any) bool { return n["uuid"] == marker })
	}
	to := min(from+e.pageSize, len(e.nodes))
	page := map[string]any{"nodes": e.nodes[from:to]}
	if to < len(e.nodes) {
		page["next"] = "http://elsewhere.invalid/v1/nodes?marker=x"
	}
	reply(w, page)
}

func reply(w http.ResponseWriter, v any) { replyWith(w, http.StatusOK, v) }

func replyWith(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func fault(w http.ResponseWriter, status int, text string) {
	inner, _ := json.Marshal(map[string]any{"faultcode": "Client", "faultstring": text, "debuginfo": nil})
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error_message": string(inner)})
}

func newEngine(t *testing.T, e *upstream) *Engine {
	t.Helper()
	if e.pageSize == 0 {
		e.pageSize = 2
	}
	if e.version == "" {
		e.version = "1.96"
	}
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	c, err := client.New(client.Options{Endpoint: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return New(c, Options{})
}

func rawNode(id string, change map[string]any) map[string]any {
	n := map[string]any{"uuid": id, "name": nil, "provision_state": "enroll", "driver": "fake-hardware", "updated_at": nil, "reservation": nil}
	for k, v := range change {
		n[k] = v
	}
	return n
}

func TestNodesAreReadPageByPageFromAnyEngine(t *testing.T) {
	e := &upstream{nodes: []map[string]any{rawNode("a", nil), rawNode("b", nil), rawNode("c", nil), rawNode("d", nil), rawNode("e", nil)}}
	got, err := newEngine(t, e).Nodes(t.Context(), provisioner.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, n := range got {
		ids = append(ids, n.ID)
		if n.AutoDiscovered != nil {
			t.Errorf("node %s: auto-discovered is %v, want it unknown", n.ID, *n.AutoDiscovered)
		}
	}
	if diff := cmp.Diff([]string{"a", "b", "c", "d", "e"}, ids); diff != "" {
		t.Errorf("nodes differ (-want +got):\n%s", diff)
	}
}

func TestChangesAreReadDownToTheLastSeen(t *testing.T) {
	at := func(second int) map[string]any {
		return map[string]any{"updated_at": fmt.Sprintf("2026-01-02T03:04:%02d+00:00", second)}
	}
	e := &upstream{nodes: []map[string]any{rawNode("a", at(50)), rawNode("b", at(40)), rawNode("c", at(30)), rawNode("d", at(20)), rawNode("e", at(10))}}
	since := time.Date(2026, 1, 2, 3, 4, 40, 0, time.UTC)
	got, err := newEngine(t, e).Nodes(t.Context(), provisioner.ListOptions{ChangedSince: since, Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].ID != "a" || got[1].ID != "b" {
		t.Errorf("got %v, want a and b", got)
	}
	lists := 0
	for _, call := range e.calls {
		if call == "GET /v1/nodes" {
			lists++
		}
	}
	if lists > 4 { // two are refused for their fields, and the page after the last wanted one ends the list
		t.Errorf("%d pages were asked for: %v", lists, e.calls)
	}
}

func TestEngineThatRefusesFieldsIsAskedForWholeNodes(t *testing.T) {
	e := &upstream{nodes: []map[string]any{rawNode("a", map[string]any{"created_at": "2026-01-02T03:04:05+00:00"})}}
	engine := newEngine(t, e)
	for range 2 {
		n, err := engine.Node(t.Context(), "a")
		if err != nil || n.CreatedAt.IsZero() {
			t.Fatalf("got %+v, %v; want the time of creation", n, err)
		}
	}
	if got, err := engine.Nodes(t.Context(), provisioner.ListOptions{}); err != nil || len(got) != 1 {
		t.Errorf("got %v, %v; want one node", got, err)
	}
	// During the first read, one request each is refused for two fields.
	if diff := cmp.Diff([]string{"GET /v1/nodes/a", "GET /v1/nodes/a", "GET /v1/nodes/a", "GET /v1/nodes/a", "GET /v1/nodes"}, e.calls); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestEngineOfAnotherVersionIsAskedForFieldsAgain(t *testing.T) {
	e := &upstream{nodes: []map[string]any{rawNode("a", nil)}}
	engine := newEngine(t, e)
	reads := func() int {
		e.calls = nil
		if _, err := engine.Node(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		return len(e.calls)
	}
	first, second := reads(), reads()
	e.version, e.answers = "1.95", map[string][]int{"GET /v1/nodes/a": {http.StatusNotAcceptable}}
	if _, err := engine.Node(t.Context(), "a"); !errors.Is(err, provisioner.ErrUnsupported) {
		t.Errorf("error %v, want that the version is refused", err)
	}
	if third := reads(); third != first || second != 1 {
		t.Errorf("%d, %d and, of another version, %d requests; want one the second time, and %d then", first, second, third, first)
	}
}

func TestSnapshotHoldsWhatTheOperatorNeeds(t *testing.T) {
	e := &upstream{nodes: []map[string]any{rawNode("a", map[string]any{
		"name": "metal~web", "provision_state": "clean wait", "last_error": "oops", "maintenance": true, "maintenance_reason": "fan",
		"instance_uuid": "i1", "owner": "team", "reservation": "(suspended)",
		"created_at": "2026-01-02T03:04:05+00:00", "updated_at": "2026-01-02T05:04:06+02:00", "inspection_finished_at": "2026-01-02T03:04:07+00:00",
		"driver_internal_info":   map[string]any{"agent_url": "https://192.0.2.1:9999", "agent_last_heartbeat": "2026-01-02T03:04:08.5", "firmware_updates": []any{}},
		"extra":                  map[string]any{"rack": 7, "ingot_host": "c1/metal/web", "ingot_credentials": "v1"},
		"target_provision_state": "available", "power_state": "power on", "target_power_state": "power off",
		"clean_step": map[string]any{"interface": "deploy", "step": "erase_devices"}, "deploy_step": map[string]any{}, "fault": "clean failure",
	})}}
	got, err := newEngine(t, e).Node(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	day := func(second int) time.Time { return time.Date(2026, 1, 2, 3, 4, second, 0, time.UTC) }
	want := provisioner.Node{
		ID: "a", Name: "metal~web", Mark: "c1/metal/web", CredentialsVersion: "v1", Driver: "fake-hardware", State: node.CleanWait, LastError: "oops",
		TargetState: node.Available, Power: node.PowerOn, TargetPower: node.PowerOff, Step: "erase_devices", GuardsFirmware: true, Fault: "clean failure",
		Maintenance: true, MaintenanceReason: "fan", InstanceID: "i1", Owner: "team", Busy: true, Suspended: true,
		CreatedAt: day(5), UpdatedAt: day(6), InspectedAt: day(7),
		Agent: provisioner.Agent{URL: "https://192.0.2.1:9999", LastHeartbeat: day(8).Add(time.Second / 2)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("node differs (-want +got):\n%s", diff)
	}
}

func TestAnyValueUnderTheKeyOfMarksIsAMark(t *testing.T) {
	for _, tt := range []struct {
		extra map[string]any
		want  provisioner.Mark
	}{
		{nil, ""},
		{map[string]any{"rack": "7"}, ""},
		{map[string]any{"ingot_host": nil}, ""},
		{map[string]any{"ingot_host": "c1/metal/web"}, "c1/metal/web"},
		{map[string]any{"ingot_host": false}, "false"},
		{map[string]any{"ingot_host": map[string]any{}}, "map[]"},
	} {
		e := &upstream{nodes: []map[string]any{rawNode("a", map[string]any{"extra": tt.extra})}}
		if n, err := newEngine(t, e).Node(t.Context(), "a"); err != nil || n.Mark != tt.want {
			t.Errorf("extra %v: mark %q, %v; want %q", tt.extra, n.Mark, err, tt.want)
		}
	}
}

func TestFindPrefersTheIDToTheName(t *testing.T) {
	e := &upstream{nodes: []map[string]any{rawNode("id-1", nil), rawNode("metal~web", nil)}}
	engine := newEngine(t, e)
	for _, tt := range []struct {
		identity provisioner.Identity
		want     string
	}{
		{provisioner.Identity{ID: "id-1", Name: "metal~web"}, "id-1"},
		{provisioner.Identity{ID: "unknown", Name: "metal~web"}, "metal~web"},
		{provisioner.Identity{Name: "metal~db", MAC: "00:1b:21:00:00:01"}, ""},
	} {
		n, err := engine.Find(t.Context(), tt.identity)
		if n.ID != tt.want || (tt.want == "") != errors.Is(err, provisioner.ErrNotFound) {
			t.Errorf("%+v: got %q, %v; want %q", tt.identity, n.ID, err, tt.want)
		}
	}
}

// mutations returns the calls that change something; nil for none.
func mutations(e *upstream) []string {
	var all []string
	for _, call := range e.calls {
		if !strings.HasPrefix(call, "GET ") {
			all = append(all, call)
		}
	}
	return all
}

func TestVerbs(t *testing.T) {
	for _, tt := range []struct {
		name    string
		state   string
		answers map[string][]int
		do      func(context.Context, *Engine) error
		want    []string
		wantErr bool
	}{
		{
			name: "manage", state: "enroll",
			do:   func(ctx context.Context, e *Engine) error { return e.Manage(ctx, "a") },
			want: []string{`PUT /v1/nodes/a/states/provision {"target":"manage"}`},
		},
		{
			name: "manage again after a lost answer", state: "verifying",
			answers: map[string][]int{"PUT /v1/nodes/a/states/provision": {400}},
			do:      func(ctx context.Context, e *Engine) error { return e.Manage(ctx, "a") },
			want:    []string{`PUT /v1/nodes/a/states/provision {"target":"manage"}`},
		},
		{
			name: "manage refused", state: "active", wantErr: true,
			answers: map[string][]int{"PUT /v1/nodes/a/states/provision": {400}},
			do:      func(ctx context.Context, e *Engine) error { return e.Manage(ctx, "a") },
			want:    []string{`PUT /v1/nodes/a/states/provision {"target":"manage"}`},
		},
		{
			name: "provide", state: "manageable",
			do:   func(ctx context.Context, e *Engine) error { return e.Provide(ctx, "a", provisioner.ProvideOptions{}) },
			want: []string{`PUT /v1/nodes/a/states/provision {"target":"provide"}`},
		},
		{
			name: "provide without cleaning", state: "manageable",
			do: func(ctx context.Context, e *Engine) error {
				return e.Provide(ctx, "a", provisioner.ProvideOptions{SkipCleaning: true})
			},
			want: []string{
				`PATCH /v1/nodes/a [{"op":"add","path":"/automated_clean","value":false}]`,
				`PUT /v1/nodes/a/states/provision {"target":"provide"}`,
			},
		},
		{
			name: "delete", state: "enroll", answers: map[string][]int{"DELETE /v1/nodes/a": {204}},
			do:   func(ctx context.Context, e *Engine) error { return e.Delete(ctx, "a", "mine") },
			want: []string{"DELETE /v1/nodes/a"},
		},
		{
			name: "delete what is gone", state: "enroll", answers: map[string][]int{"DELETE /v1/nodes/a": {404}},
			do:   func(ctx context.Context, e *Engine) error { return e.Delete(ctx, "a", "mine") },
			want: []string{"DELETE /v1/nodes/a"},
		},
		{
			name: "delete what another host has claimed meanwhile", state: "clean failed", wantErr: true, answers: map[string][]int{"DELETE /v1/nodes/a": {409}},
			do:   func(ctx context.Context, e *Engine) error { return e.Delete(ctx, "a", "other") },
			want: []string{"DELETE /v1/nodes/a"},
		},
		{
			name: "claim", state: "active",
			do: func(ctx context.Context, e *Engine) error {
				_, err := e.Claim(ctx, "a", "mine", provisioner.ClaimOptions{})
				return err
			},
			want: []string{`PATCH /v1/nodes/a [{"op":"add","path":"/extra/ingot_host","value":"mine"}]`},
		},
		{
			name: "lock", state: "enroll",
			do: func(ctx context.Context, e *Engine) error {
				_, err := e.Lock(ctx, "a", "mine")
				return err
			},
			want: []string{`PATCH /v1/nodes/a [{"op":"add","path":"/instance_uuid","value":"` + provisioner.Mark("mine").Lock("a") + `"}]`},
		},
		{
			name: "claim what is locked", state: "enroll",
			do: func(ctx context.Context, e *Engine) error {
				_, err := e.Claim(ctx, "a", "mine", provisioner.ClaimOptions{Unlock: true})
				return err
			},
			want: []string{`PATCH /v1/nodes/a [{"op":"add","path":"/extra/ingot_host","value":"mine"},{"op":"remove","path":"/instance_uuid"}]`},
		},
		{
			name: "unlock", state: "enroll",
			do:   func(ctx context.Context, e *Engine) error { return e.Unlock(ctx, "a", "mine") },
			want: []string{`PATCH /v1/nodes/a [{"op":"remove","path":"/instance_uuid"}]`},
		},
		{
			name: "delete in a state that forbids it", state: "clean failed", answers: map[string][]int{"DELETE /v1/nodes/a": {409, 204}},
			do: func(ctx context.Context, e *Engine) error { return e.Delete(ctx, "a", "mine") },
			want: []string{
				"DELETE /v1/nodes/a",
				`PUT /v1/nodes/a/maintenance {"reason":"its host is deleted or detached"}`,
				"DELETE /v1/nodes/a",
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := &upstream{nodes: []map[string]any{rawNode("a", map[string]any{"provision_state": tt.state, "extra": map[string]any{"ingot_host": "mine"}})}, answers: tt.answers}
			if e.answers == nil {
				e.answers = map[string][]int{}
			}
			e.answers["PATCH /v1/nodes/a"] = []int{200}
			err := tt.do(t.Context(), newEngine(t, e))
			if (err != nil) != tt.wantErr {
				t.Errorf("error = %v, want one: %v", err, tt.wantErr)
			}
			if diff := cmp.Diff(tt.want, mutations(e)); diff != "" {
				t.Errorf("calls differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNodeThatAnotherOperatorLockedIsNotLockedAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		instance string
		want     error
	}{
		"it has the lock":      {provisioner.Mark("other").Lock("a"), provisioner.ErrNotOwned},
		"it is in use":         {"i1", provisioner.ErrNotOwned},
		"it is unlocked again": {"", provisioner.ErrBusy},
	} {
		e := &upstream{
			nodes:   []map[string]any{rawNode("a", map[string]any{"instance_uuid": tt.instance})},
			answers: map[string][]int{"PATCH /v1/nodes/a": {409}}, refusal: "Node a is associated with instance x.",
		}
		if _, err := newEngine(t, e).Lock(t.Context(), "a", "mine"); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
}

func TestDeletionOfABusyNodeIsNoRefusal(t *testing.T) {
	e := &upstream{
		nodes:   []map[string]any{rawNode("a", map[string]any{"reservation": "conductor-1"})},
		answers: map[string][]int{"DELETE /v1/nodes/a": {409}},
	}
	if err := newEngine(t, e).Delete(t.Context(), "a", ""); !errors.Is(err, provisioner.ErrBusy) {
		t.Errorf("error = %v, want busy", err)
	}
}

func TestFinalRefusalOfADeletionIsNotTakenForBusy(t *testing.T) {
	e := &upstream{
		nodes:   []map[string]any{rawNode("a", map[string]any{"maintenance": true})},
		answers: map[string][]int{"DELETE /v1/nodes/a": {409}},
	}
	if err := newEngine(t, e).Delete(t.Context(), "a", ""); err == nil || errors.Is(err, provisioner.ErrBusy) {
		t.Errorf("error = %v, want one that is not busy", err)
	}
}

func TestReleasedNodeIsTakenInOneRequestThatFailsForTheSecond(t *testing.T) {
	const take = `PATCH /v1/nodes/a [{"op":"remove","path":"/extra/ingot_released"},{"op":"add","path":"/extra/ingot_host","value":"c2/metal/web"}]`
	for name, tt := range map[string]struct {
		extra   map[string]any
		refused bool
		want    error
	}{
		"released":                 {extra: map[string]any{"ingot_host": "c1/metal/web", "ingot_released": "d"}},
		"taken by somebody before": {extra: map[string]any{"ingot_host": "c3/metal/web"}, refused: true, want: provisioner.ErrNotOwned},
		"an answer was lost":       {extra: map[string]any{"ingot_host": "c2/metal/web"}, refused: true},
	} {
		e := &upstream{nodes: []map[string]any{rawNode("a", map[string]any{"provision_state": "active", "extra": tt.extra})}}
		if tt.refused {
			e.answers, e.refusal = map[string][]int{"PATCH /v1/nodes/a": {400}}, "there is nothing at this place"
		}
		if _, err := newEngine(t, e).TakeReleased(t.Context(), "a", "c2/metal/web"); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
		if diff := cmp.Diff([]string{take}, mutations(e)); diff != "" {
			t.Errorf("%s: calls differ (-want +got):\n%s", name, diff)
		}
	}
}
