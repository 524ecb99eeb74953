package engine_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/ingot-metal/ingot/internal/engine"
	"github.com/ingot-metal/ingot/internal/store/storetest"
)

// startBehindProxy runs an engine that reaches PostgreSQL by way of a proxy, and has
// this many connections for writes.
func startBehindProxy(t *testing.T, writes int) (*running, *storetest.Proxy) {
	t.Helper()
	storetest.NeedsServer(t)
	proxy, url := storetest.ThroughProxy(t, storetest.Postgres(t))
	return start(t, func(cfg *engine.Config) { cfg.Database.URL, cfg.Database.WriteConnections = url, writes }), proxy
}

// change is a request whose effects can be counted.
type change struct {
	method, path, body string
	status             int // when it succeeds
	effects            func() int
}

// ask sends the request.
func (c change) ask(t *testing.T, e *running) answer {
	t.Helper()
	return e.do(t, c.method, c.path, c.body)
}

// changes are requests by name, each built again whenever it is sent.
var changes = map[string]func(t *testing.T, e *running) change{
	"create a node with a UUID": func(t *testing.T, e *running) change {
		t.Helper()
		return creation(t, e, `"uuid":"`+uuid.NewString()+`"`)
	},
	"create a node with a name": func(t *testing.T, e *running) change {
		t.Helper()
		return creation(t, e, `"name":"n-`+uuid.NewString()[:8]+`"`)
	},
	"create a node with neither": func(t *testing.T, e *running) change {
		t.Helper()
		return creation(t, e, `"extra":{}`)
	},
	"patch a node": func(t *testing.T, e *running) change {
		t.Helper()
		item := "/v1/nodes/" + e.create(t, `{"driver":"fake-hardware","extra":{"list":[]}}`)
		return change{"PATCH", item, `[{"op":"add","path":"/extra/list/-","value":1}]`, http.StatusOK, func() int {
			extra, _ := e.do(t, "GET", item, "").want(t, http.StatusOK).object(t)["extra"].(map[string]any)
			list, _ := extra["list"].([]any)
			return len(list)
		}}
	},
	"manage a node": func(t *testing.T, e *running) change {
		t.Helper()
		uuid := e.create(t, `{"driver":"fake-hardware"}`)
		return change{"PUT", "/v1/nodes/" + uuid + "/states/provision", `{"target":"manage"}`, http.StatusAccepted, func() int {
			n := e.node(t, uuid)
			if n["provision_state"] == "enroll" && n["last_error"] == nil {
				return 0
			}
			e.awaitNode(t, uuid, inState("manageable"))
			return 1
		}}
	},
	"create a port": func(t *testing.T, e *running) change {
		t.Helper()
		node := e.create(t, `{"driver":"fake-hardware"}`)
		id := uuid.New()
		mac := fmt.Sprintf("02:%02x:%02x:%02x:%02x:%02x", id[0], id[1], id[2], id[3], id[4])
		return change{"POST", "/v1/ports", `{"node_uuid":"` + node + `","address":"` + mac + `"}`, http.StatusCreated, func() int {
			ports, _ := e.do(t, "GET", "/v1/nodes/"+node+"/ports", "").want(t, http.StatusOK).object(t)["ports"].([]any)
			return len(ports)
		}}
	},
}

// creation creates a node that its owner identifies.
func creation(t *testing.T, e *running, member string) change {
	t.Helper()
	owner := uuid.NewString()
	return change{"POST", "/v1/nodes", `{"driver":"fake-hardware","owner":"` + owner + `",` + member + `}`, http.StatusCreated, func() int {
		nodes, _ := e.do(t, "GET", "/v1/nodes?owner="+owner, "").want(t, http.StatusOK).object(t)["nodes"].([]any)
		return len(nodes)
	}}
}

// checkOutage fails the test unless the answer asks for another try.
func (a answer) checkOutage(t *testing.T, text string) {
	t.Helper()
	if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
		t.Fatalf("got %d with Retry-After %q, want 503 with one: %s", a.status, a.header.Get("Retry-After"), a.body)
	}
	if !strings.Contains(a.body, text) {
		t.Errorf("got %s, want %q in it", a.body, text)
	}
}

// TestRequestsOutliveAConnectionThatBreaksAtAnyMoment breaks one connection at
// each piece of what the request and the database say to each other, in turn.
func TestRequestsOutliveAConnectionThatBreaksAtAnyMoment(t *testing.T) {
	e, proxy := startBehindProxy(t, 16)
	for name, prepare := range changes {
		t.Run(name, func(t *testing.T) {
			for moment, broke := 0, true; broke; moment++ {
				c := prepare(t, e)
				proxy.CutAfter(moment)
				got := c.ask(t, e)
				broke = proxy.Mend()
				want := 1
				if got.status != c.status {
					got.checkOutage(t, "please retry")
					want = 0
				}
				if effects := c.effects(); effects != want {
					t.Fatalf("moment %d: answered %d after %d effects, want %d", moment, got.status, effects, want)
				}
				if want == 0 {
					c.ask(t, e).want(t, c.status)
				}
			}
		})
	}
	node := "/v1/nodes/" + e.create(t, `{"driver":"fake-hardware"}`)
	for _, path := range []string{"/v1/nodes", "/v1/nodes/detail", node, node + "/ports", "/v1/ports/detail", "/v1/conductors", "/v1/lookup?addresses=02:00:00:00:00:01"} {
		t.Run("read "+path, func(t *testing.T) {
			want := e.do(t, "GET", path, "").status
			for moment, broke := 0, true; broke; moment++ {
				proxy.CutAfter(moment)
				got := e.do(t, "GET", path, "")
				broke = proxy.Mend()
				if got.status != want {
					got.checkOutage(t, "please retry")
				}
			}
		})
	}
}

// TestBrokenConnectionThatDoesNotComeBack breaks the connection during a request
// and keeps the database away until the request is answered.
func TestBrokenConnectionThatDoesNotComeBack(t *testing.T) {
	storetest.NeedsServer(t)
	const inserted, committed = "INSERT 0 1\x00", "COMMIT\x00" // PostgreSQL's words
	for _, test := range []struct {
		name    string
		changes []string
		arm     func(*storetest.Proxy)
		text    string
		effects int
	}{
		{"before the first statement", []string{"create a node with a UUID", "manage a node"}, (*storetest.Proxy).Disconnect, "please retry", 0},
		{"after the first statement", []string{"create a node with neither", "create a port"}, func(p *storetest.Proxy) { p.Lose(inserted) }, "please retry", 0},
		{"after the commit", []string{"create a node with a name", "create a port", "patch a node", "manage a node"}, func(p *storetest.Proxy) { p.Lose(committed) }, "look before you repeat it", 1},
	} {
		for _, name := range test.changes {
			t.Run(test.name+": "+name, func(t *testing.T) {
				t.Parallel()                       // it waits until the engine gives up
				e, proxy := startBehindProxy(t, 1) // a second one would go on
				c := changes[name](t, e)
				before := slices.Clone([]byte(e.rows(t)))
				proxy.Refuse(true) // first: a write in the background may be what is cut
				test.arm(proxy)
				c.ask(t, e).checkOutage(t, test.text)
				proxy.Mend()
				eventually(t, "the database to be back", func() bool { return e.do(t, "GET", "/v1/nodes", "").status == http.StatusOK })
				if effects := c.effects(); effects != test.effects {
					t.Errorf("%d effects, want %d; before there was\n%s", effects, test.effects, before)
				}
				if test.effects == 0 {
					c.ask(t, e).want(t, c.status)
				}
				if effects := c.effects(); effects != 1 {
					t.Errorf("%d effects in the end, want one", effects)
				}
			})
		}
	}
}

// TestEngineServesAgainWhenItsDatabaseIsBack keeps the database away for a while.
func TestEngineServesAgainWhenItsDatabaseIsBack(t *testing.T) {
	t.Parallel() // it waits until the engine gives up
	e, proxy := startBehindProxy(t, 16)
	node := "/v1/nodes/" + e.create(t, `{"driver":"fake-hardware"}`)
	proxy.Refuse(true)
	proxy.Disconnect()
	for _, request := range []struct{ method, path, body string }{
		{"GET", "/v1/nodes", ""},
		{"GET", node, ""},
		{"GET", "/healthcheck", ""},
		{"POST", "/v1/nodes", `{"driver":"fake-hardware"}`},
		{"PATCH", node, `[{"op":"add","path":"/description","value":"x"}]`},
		{"DELETE", node, ""},
		{"POST", "/v1/continue_inspection", machine("52:54:00:00:00:09")},
	} {
		if got := e.do(t, request.method, request.path, request.body); got.status != http.StatusServiceUnavailable {
			t.Errorf("%s %s: got %d, want 503: %s", request.method, request.path, got.status, got.body)
		}
	}
	proxy.Mend()
	for _, path := range []string{"/healthcheck", "/v1/nodes", node} {
		eventually(t, path+" to answer", func() bool { return e.do(t, "GET", path, "").status == http.StatusOK })
	}
	e.awaitNode(t, e.post(t, machine("52:54:00:00:00:09")), inspected)
	if strings.Contains(e.seen.String(), ": 500 ") {
		t.Error("a request was answered with 500")
	}
}

// TestRequestsEndThoughTheDatabaseFallsSilent loses what the engine and the
// database say to each other without breaking the connections.
func TestRequestsEndThoughTheDatabaseFallsSilent(t *testing.T) {
	storetest.NeedsServer(t)
	t.Parallel() // it waits until the engine gives up
	e, proxy := startBehindProxy(t, 16)
	item := "/v1/nodes/" + e.create(t, `{"driver":"fake-hardware"}`)
	resume := proxy.Hang()
	t.Cleanup(resume)
	var requests sync.WaitGroup
	for _, request := range []struct{ method, path, body string }{
		{"POST", "/v1/nodes", `{"driver":"fake-hardware","name":"silent"}`},
		{"GET", item, ""},
		{"GET", "/v1/nodes", ""},
	} {
		requests.Go(func() {
			if got := e.do(t, request.method, request.path, request.body); got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
				t.Errorf("%s %s: got %d, want 503 with Retry-After: %s", request.method, request.path, got.status, got.body)
			}
		})
	}
	requests.Wait() // for less than the timeout of the client, or the test fails
	resume()
	eventually(t, "the engine to serve again", func() bool { return e.do(t, "GET", item, "").status == http.StatusOK })
	e.do(t, "POST", "/v1/nodes", `{"driver":"fake-hardware","name":"silent"}`).want(t, http.StatusCreated)
}
