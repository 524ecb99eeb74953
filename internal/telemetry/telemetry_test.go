package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/conductor"
	"github.com/ingot-metal/ingot/internal/loglimit"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
)

// scrape returns the samples of a metric as lines, without histogram buckets and times.
func scrape(t *testing.T, m *Metrics, figure string) []string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("got status %d: %s", w.Code, w.Body)
	}
	var found []string
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, figure) && !strings.Contains(line, "_bucket") && !strings.Contains(line, "_sum") {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

func wantSamples(t *testing.T, m *Metrics, figure string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, scrape(t, m, figure)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", figure, diff)
	}
}

// clock returns a clock that moves by a millisecond with each reading.
func clock() func() time.Time {
	now := time.Unix(0, 0)
	return func() time.Time {
		now = now.Add(time.Millisecond)
		return now
	}
}

// service returns an API of a few routes behind q.
func service(q *Requests) http.Handler {
	mux := http.NewServeMux()
	for pattern, handler := range map[string]http.HandlerFunc{
		"/{$}":      func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "root") },
		"/v1/{id}":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) },
		"/v1/early": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusProcessing); fmt.Fprint(w, "x") },
		"/v1/empty": func(http.ResponseWriter, *http.Request) {},
		"/v1/abort": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"/":         func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
	} {
		mux.Handle(pattern, q.RecordRoute(q.RecordUser(handler)))
	}
	return q.Observe(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Openstack-Request-Id", "req-1")
		if r.Header.Get("Origin") != "" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	}))
}

func ask(handler http.Handler, r *http.Request) {
	defer func() { _ = recover() }()
	handler.ServeHTTP(httptest.NewRecorder(), r)
}

func nobody(context.Context) string { return "" }

func TestRequestsAreCountedByRouteMethodAndStatus(t *testing.T) {
	m := New()
	api := service(&Requests{Metrics: m, User: nobody, Now: clock()})
	gone, leave := context.WithCancel(t.Context())
	leave()
	refused := httptest.NewRequest(http.MethodPost, "/v1/a", nil)
	refused.Header.Set("Origin", "https://other.example")
	for _, r := range []*http.Request{
		httptest.NewRequest(http.MethodGet, "/", nil),
		httptest.NewRequest(http.MethodGet, "/v1/a?secret=1", nil),
		httptest.NewRequest(http.MethodGet, "/v1/b", nil),
		httptest.NewRequest("BREW", "/v1/b", nil),
		httptest.NewRequest("BOIL", "/v1/b", nil),
		httptest.NewRequest(http.MethodGet, "/v1/early", nil),
		httptest.NewRequest(http.MethodGet, "/v1/empty", nil),
		httptest.NewRequest(http.MethodGet, "/v1/empty", nil).WithContext(gone),
		httptest.NewRequest(http.MethodGet, "/v1/abort", nil),
		httptest.NewRequest(http.MethodGet, "/nosuch/1", nil),
		httptest.NewRequest(http.MethodGet, "/nosuch/2", nil),
		refused,
	} {
		ask(api, r)
	}
	wantSamples(
		t, m, "ingot_api_requests_total",
		`ingot_api_requests_total{code="200",method="GET",route="/"} 1`,
		`ingot_api_requests_total{code="200",method="GET",route="/v1/early"} 1`,
		`ingot_api_requests_total{code="200",method="GET",route="/v1/empty"} 1`,
		`ingot_api_requests_total{code="202",method="GET",route="/v1/{id}"} 2`,
		`ingot_api_requests_total{code="202",method="other",route="/v1/{id}"} 2`,
		`ingot_api_requests_total{code="403",method="POST",route="unmatched"} 1`,
		`ingot_api_requests_total{code="404",method="GET",route="unmatched"} 2`,
		`ingot_api_requests_total{code="499",method="GET",route="/v1/abort"} 1`,
		`ingot_api_requests_total{code="499",method="GET",route="/v1/empty"} 1`,
	)
	wantSamples(
		t, m, `ingot_api_request_duration_seconds_count{method="GET",route="/v1/{id}"}`,
		`ingot_api_request_duration_seconds_count{method="GET",route="/v1/{id}"} 2`,
	)
	wantSamples(t, m, "ingot_api_requests_in_flight", "ingot_api_requests_in_flight 0")
}

func TestAccessLogHasOneLineAndNoQuery(t *testing.T) {
	var log bytes.Buffer
	q := &Requests{
		AccessLog: slog.New(slog.NewJSONHandler(&log, nil)), Now: clock(),
		User: func(context.Context) string { return "ann\nlevel=ERROR" },
	}
	r := httptest.NewRequest(http.MethodPatch, "/v1/rack1?token=hunter2", strings.NewReader("hunter2"))
	r.SetBasicAuth("mallory", "hunter2")
	ask(service(q), r)
	if strings.Contains(log.String(), "hunter2") || strings.Contains(log.String(), "mallory") {
		t.Errorf("the log has what only the client should know: %s", log.String())
	}
	var line map[string]any
	if err := json.Unmarshal(log.Bytes(), &line); err != nil {
		t.Fatalf("want one line, got %v:\n%s", err, log.String())
	}
	delete(line, "time")
	want := map[string]any{
		"level": "INFO", "msg": "Request answered", "request_id": "req-1", "user": "ann\nlevel=ERROR", "remote": "192.0.2.1:1234",
		"method": "PATCH", "path": "/v1/rack1", "route": "/v1/{id}", "status": 202.0, "bytes": 0.0, "duration": 1e6,
	}
	if diff := cmp.Diff(want, line); diff != "" {
		t.Errorf("line (-want +got):\n%s", diff)
	}
	log.Reset()
	ask(service(q), httptest.NewRequest(http.MethodGet, "/"+strings.Repeat("a", 50_000), nil))
	if log.Len() > 1000 {
		t.Errorf("a client wrote %d bytes into the log", log.Len())
	}
}

func TestAnonymousRequestsWriteABoundedNumberOfLines(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewJSONHandler(&log, nil))
	now := time.Unix(1000, 0)
	q := &Requests{
		AccessLog: logger, AnonymousLog: loglimit.New(logger, 1, 3), Now: func() time.Time { return now },
		User: func(context.Context) string { return "" },
	}
	mux := http.NewServeMux()
	for pattern, status := range map[string]int{
		"/v1/public": http.StatusOK, "/v1/refused": http.StatusUnauthorized, "/v1/overloaded": http.StatusServiceUnavailable, "/v1/admitted": http.StatusUnauthorized,
	} {
		var handler http.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		if pattern == "/v1/admitted" {
			handler = q.RecordUser(handler)
		}
		mux.Handle(pattern, q.RecordRoute(handler))
	}
	for _, test := range []struct {
		path  string
		lines int // of ten requests
	}{{"/v1/public", 3}, {"/v1/refused", 3}, {"/v1/overloaded", 3}, {"/no/such/path", 3}, {"/v1/admitted", 10}} {
		now = now.Add(time.Minute)
		log.Reset()
		for range 10 {
			ask(q.Observe(mux), httptest.NewRequest(http.MethodGet, test.path, nil))
		}
		if got := strings.Count(log.String(), "\n"); got != test.lines {
			t.Errorf("ten requests to %s wrote %d lines, want %d", test.path, got, test.lines)
		}
	}
}

func TestLayersInsideWorkWithoutTheOneOutside(t *testing.T) {
	q := &Requests{User: nobody, Now: clock()}
	w := httptest.NewRecorder()
	q.RecordRoute(q.RecordUser(http.NotFoundHandler())).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if w.Code != http.StatusNotFound {
		t.Errorf("got status %d", w.Code)
	}
}

func TestConductorIsCounted(t *testing.T) {
	m := New()
	m.WorkEnded("verify", runner.Done, time.Second)
	m.WorkEnded("verify", runner.Done, time.Second)
	m.WorkEnded("inspect", runner.Failed, time.Second)
	m.LeaseWaited(time.Second, true)
	m.LeaseWaited(time.Second, false)
	m.PostEnded(conductor.PostEnrolled)
	m.AddressesLeftOut(0)
	m.AddressesLeftOut(1936)
	wantSamples(
		t, m, "ingot_work_duration_seconds",
		`ingot_work_duration_seconds_count{kind="inspect",outcome="failed"} 1`,
		`ingot_work_duration_seconds_count{kind="verify",outcome="done"} 2`,
	)
	wantSamples(
		t, m, "ingot_lease_wait_seconds",
		`ingot_lease_wait_seconds_count{outcome="got"} 1`,
		`ingot_lease_wait_seconds_count{outcome="refused"} 1`,
	)
	wantSamples(t, m, "ingot_inspection_posts_total", `ingot_inspection_posts_total{outcome="enrolled"} 1`)
	wantSamples(t, m, "ingot_discovery_addresses_left_out_total", "ingot_discovery_addresses_left_out_total 1936")
	if got := scrape(t, m, "ingot_build_info{"); len(got) != 1 || !strings.HasSuffix(got[0], "} 1") {
		t.Errorf("got %q", got)
	}
}

// fakeEngine is an engine that counts how often it is asked.
type fakeEngine struct {
	asked      int
	err        error
	suspension node.Suspension
}

func (f *fakeEngine) QueueLength() int { return 7 }
func (f *fakeEngine) NodeStates(context.Context) (map[node.State]int, error) {
	f.asked++
	return map[node.State]int{node.Enroll: f.asked}, f.err
}

func (f *fakeEngine) Suspension(context.Context) (node.Suspension, error) { return f.suspension, nil }

func TestWhatIsSuspendedIsShown(t *testing.T) {
	for reason, want := range map[node.SuspensionReason][]string{
		"":                  {`ingot_suspended{reason="machines differ"} 0`, `ingot_suspended{reason="restored"} 0`},
		node.Restored:       {`ingot_suspended{reason="machines differ"} 0`, `ingot_suspended{reason="restored"} 1`},
		node.MachinesDiffer: {`ingot_suspended{reason="machines differ"} 1`, `ingot_suspended{reason="restored"} 0`},
	} {
		m := New()
		m.Watch(&fakeEngine{suspension: node.Suspension{Reason: reason, Nodes: 3, Differing: 4}}, slog.New(slog.DiscardHandler), time.Now)
		wantSamples(t, m, "ingot_suspended{", want...)
		wantSamples(t, m, "ingot_suspended_nodes", "ingot_suspended_nodes 3")
		wantSamples(t, m, "ingot_differing_nodes", "ingot_differing_nodes 4")
	}
}

func TestNodesAreCountedAtMostEveryTenSeconds(t *testing.T) {
	m, f, now := New(), &fakeEngine{}, time.Unix(0, 0)
	m.Watch(f, slog.New(slog.DiscardHandler), func() time.Time { return now })
	for range 5 {
		wantSamples(t, m, `ingot_nodes{provision_state="enroll"}`, `ingot_nodes{provision_state="enroll"} 1`)
	}
	now = now.Add(recentFor)
	wantSamples(t, m, `ingot_nodes{provision_state="enroll"}`, `ingot_nodes{provision_state="enroll"} 2`)
	wantSamples(t, m, `ingot_nodes{provision_state="active"}`, `ingot_nodes{provision_state="active"} 0`)
	wantSamples(t, m, "ingot_work_queue_length", "ingot_work_queue_length 7")
	if got := scrape(t, m, "ingot_nodes{"); len(got) != len(node.States()) {
		t.Errorf("got %d states, want all %d", len(got), len(node.States()))
	}
}

func TestFailedCountLeavesTheOtherFigures(t *testing.T) {
	m, f, now := New(), &fakeEngine{err: errors.New("disk gone")}, time.Unix(0, 0)
	var log bytes.Buffer
	m.Watch(f, slog.New(slog.NewTextHandler(&log, nil)), func() time.Time { return now })
	for range 3 {
		wantSamples(t, m, "ingot_nodes{")
		wantSamples(t, m, "ingot_work_queue_length", "ingot_work_queue_length 7")
	}
	if f.asked != 1 || strings.Count(log.String(), "disk gone") != 1 {
		t.Errorf("asked %d times, log:\n%s", f.asked, log.String())
	}
	f.err, now = nil, now.Add(recentFor)
	wantSamples(t, m, `ingot_nodes{provision_state="enroll"}`, `ingot_nodes{provision_state="enroll"} 2`)
}

// BenchmarkWatchedRequest measures what metrics and access log add to a request.
func BenchmarkWatchedRequest(b *testing.B) {
	for name, q := range map[string]*Requests{
		"metrics":     {Metrics: New(), User: nobody, Now: time.Now},
		"metrics+log": {Metrics: New(), AccessLog: slog.New(slog.NewTextHandler(&bytes.Buffer{}, nil)), User: nobody, Now: time.Now},
	} {
		b.Run(name, func(b *testing.B) {
			handler := q.Observe(q.RecordRoute(q.RecordUser(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))))
			r := httptest.NewRequest(http.MethodGet, "/v1/nodes/rack1", nil)
			r.Pattern = "/v1/nodes/{ident}"
			b.ReportAllocs()
			for b.Loop() {
				handler.ServeHTTP(httptest.NewRecorder(), r)
			}
		})
	}
}
