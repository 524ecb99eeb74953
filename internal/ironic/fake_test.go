package ironic

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// paging is how a fake engine announces that a page follows.
type paging int

const (
	pagingNext  paging = iota // `next` only, as shipped Ironic
	pagingBoth                // `next` and `nodes_links`, as Ingot
	pagingLinks               // `nodes_links` only, as gophercloud expects
)

// fakeEngine is as much of an engine as the client's tests need.
type fakeEngine struct {
	paging   paging
	lowest   string
	highest  string
	nodes    []map[string]any
	mu       sync.Mutex
	requests []*http.Request
	// override answers a request before the routes do, when it returns true.
	override func(w http.ResponseWriter, r *http.Request) bool
}

func newFakeEngine(t *testing.T, configure func(*fakeEngine)) (*fakeEngine, *Client) {
	t.Helper()
	f := &fakeEngine{lowest: "1.1", highest: "1.84"}
	if configure != nil {
		configure(f)
	}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	client, err := New(Options{Endpoint: server.URL})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return f, client
}

func (f *fakeEngine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.requests = append(f.requests, r)
	f.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if f.override != nil && f.override(w, r) {
		return
	}
	switch r.URL.Path {
	case "/v1/":
		reply(w, 200, map[string]any{"id": "v1", "version": map[string]any{"min_version": f.lowest, "version": f.highest}})
	case "/v1/nodes":
		f.list(w, r)
	default:
		reply(w, 404, map[string]any{"error_message": `{"faultcode":"Client","faultstring":"no such thing","debuginfo":null}`})
	}
}

func (f *fakeEngine) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	start := 0
	if marker := q.Get("marker"); marker != "" {
		at := slices.IndexFunc(f.nodes, func(n map[string]any) bool { return n["uuid"] == marker })
		if at < 0 {
			reply(w, 404, map[string]any{"error_message": map[string]any{"faultstring": "marker not found"}})
			return
		}
		start = at + 1
	}
	limit := 2
	if text := q.Get("limit"); text != "" {
		limit, _ = strconv.Atoi(text)
	}
	rows := f.nodes[start:min(start+limit, len(f.nodes))]
	body := map[string]any{"nodes": rows}
	if len(rows) == limit {
		next := "http://unreachable.invalid/v1/nodes?marker=x"
		if f.paging != pagingLinks {
			body["next"] = next
		}
		if f.paging != pagingNext {
			body["nodes_links"] = []map[string]string{{"rel": "next", "href": next}}
		}
	}
	reply(w, 200, body)
}

// paths are the paths asked for since the fake started, with queries.
func (f *fakeEngine) paths() []string {
	var all []string
	for _, r := range f.requests {
		all = append(all, strings.TrimSuffix(r.Method+" "+r.URL.RequestURI(), "?"))
	}
	return all
}

func someNodes(n int) []map[string]any {
	all := make([]map[string]any, n)
	for i := range all {
		all[i] = map[string]any{"uuid": fmt.Sprintf("node-%d", i), "name": nil, "provision_state": "enroll"}
	}
	return all
}

func reply(w http.ResponseWriter, status int, body any) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}
