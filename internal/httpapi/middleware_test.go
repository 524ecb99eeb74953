package httpapi

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/node"
)

// newest is the version that the engine advertises, written by hand.
const newest = "1.110"

func TestNegotiation(t *testing.T) {
	tests := []struct {
		name             string
		standard, legacy string
		status           int
		version          string // of the answer
		text             string // in the fault of a 406
	}{
		{"no header", "", "", 200, "1.1", ""},
		{"legacy", "", "1.50", 200, "1.50", ""},
		{"legacy latest", "", "latest", 200, newest, ""},
		{"standard", "baremetal 1.50", "", 200, "1.50", ""},
		{"standard latest", "baremetal latest", "", 200, newest, ""},
		{"standard wins", "baremetal 1.50", "1.60", 200, "1.50", ""},
		{"other services are ignored", "compute 2.1, baremetal 1.50", "", 200, "1.50", ""},
		{"only other services", "compute 2.1", "1.60", 200, "1.60", ""},
		{"word", "", "foo", 406, "", "foo"},
		{"major only", "", "1", 406, "", "1.N"},
		{"letters", "", "1.a", 406, "", "1.a"},
		{"major 2", "", "2.1", 406, "", "2.1"},
		{"sign", "", "1.+5", 406, "", "1.+5"},
		{"below the range", "", "1.0", 406, "", "The supported version range is: [1.1, " + newest + "]."},
		{"above the range", "", "1.116", 406, "", "The supported version range is: [1.1, " + newest + "]."},
		{"far above", "baremetal 1.99999999999999999999", "", 406, "", "1.N"},
	}
	s := newServer(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/v1/nodes", nil)
			if tt.standard != "" {
				r.Header.Set("OpenStack-API-Version", tt.standard)
			}
			if tt.legacy != "" {
				r.Header.Set("X-OpenStack-Ironic-API-Version", tt.legacy)
			}
			got := s.send(r)
			got.tb = t
			got.want(tt.status)
			if version := got.header.Get("X-OpenStack-Ironic-API-Version"); version != tt.version {
				t.Errorf("version in force: got %q, want %q", version, tt.version)
			}
			if tt.status == 200 {
				return
			}
			fault := got.fault()
			if fault["code"] != "406 Not Acceptable" || fault["title"] != "Not Acceptable" || !strings.Contains(fault["faultstring"].(string), tt.text) {
				t.Errorf("got fault %v", fault)
			}
		})
	}
}

func TestEveryAnswerCarriesTheCommonHeaders(t *testing.T) {
	s := newServer(t)
	for _, got := range []reply{
		s.get("/"), s.get("/v1"), s.get("/v1/nodes"), s.get("/v1/nosuch"), s.get("/healthcheck"),
		s.do("DELETE", "/v1/nodes", "latest", ""), s.do("GET", "/v1/nodes", "1.999", ""),
	} {
		for header, want := range map[string]string{
			"X-OpenStack-Ironic-API-Minimum-Version": "1.1",
			"X-OpenStack-Ironic-API-Maximum-Version": newest,
			"Vary":                                   "OpenStack-API-Version, X-OpenStack-Ironic-API-Version",
			"Content-Type":                           "application/json",
		} {
			if value := got.header.Get(header); value != want {
				t.Errorf("%s: %s is %q, want %q", got.what, header, value, want)
			}
		}
		id := got.header.Get("OpenStack-Request-Id")
		if !strings.HasPrefix(id, "req-") || !isUUID(id[4:]) || got.header.Get("X-OpenStack-Request-Id") != id {
			t.Errorf("%s: request ID %q", got.what, id)
		}
	}
}

func TestBrowsersMayReadTheVersionHeaders(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/v1", nil)
	r.Header.Set("Origin", "https://ui.example.org")
	exposed := newServer(t).send(r).header.Get("Access-Control-Expose-Headers")
	for _, name := range []string{"X-OpenStack-Ironic-API-Maximum-Version", "OpenStack-Request-Id"} {
		if !strings.Contains(exposed, name) {
			t.Errorf("%s is not exposed: %q", name, exposed)
		}
	}
}

func TestWebPagesOfOtherSitesCannotChangeAnything(t *testing.T) {
	for header, value := range map[string]string{"Origin": "https://evil.example.org", "Sec-Fetch-Site": "cross-site"} {
		s := newServer(t)
		r := httptest.NewRequest(http.MethodPost, "/v1/nodes", strings.NewReader(`{"driver":"fake-hardware"}`))
		r.Header.Set(header, value)
		s.send(r).want(403)
		if len(s.engine.nodes) > 0 {
			t.Errorf("%s: a node was created", header)
		}
	}
}

func TestRefusedHostsReachNothing(t *testing.T) {
	s := newServer(t, func(o *Options) {
		o.CheckHost = func(host string) error {
			if host != "localhost:6385" {
				return &node.ForbiddenError{Reason: "No such host: " + host}
			}
			return nil
		}
	})
	for host, status := range map[string]int{"evil.example.org:6385": 403, "localhost:6385": 201} {
		r := httptest.NewRequest(http.MethodPost, "/v1/nodes", strings.NewReader(`{"driver":"fake-hardware"}`))
		r.Host = host
		s.send(r).want(status)
	}
	if len(s.engine.nodes) != 1 {
		t.Errorf("%d nodes were created, want 1", len(s.engine.nodes))
	}
}

func TestReachedLimitIsNotLogged(t *testing.T) {
	var log bytes.Buffer
	s := newServer(t, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	s.engine.err = node.ErrBusy
	s.do("POST", "/v1/continue_inspection", "", `{}`).want(503)
	if log.Len() > 0 {
		t.Errorf("logged %s", log.String())
	}
}

func TestSpellingsOfAPathAreNormalized(t *testing.T) {
	s := newServer(t)
	s.addNode(uuid1, func(n *node.Node) { n.Name = "metal3~worker-7" })
	for _, path := range []string{
		"/v1/nodes/metal3~worker-7", "/v1/nodes/metal3~worker-7/", "/nodes/metal3~worker-7", "//v1//nodes/metal3~worker-7",
		"/v1/nodes/metal3%7Eworker-7", "/v1/nodes/" + uuid1, "/v1/nodes/" + strings.ToUpper(uuid1),
	} {
		if got := s.get(path).want(200).json()["uuid"]; got != uuid1 {
			t.Errorf("%s: got %v", path, got)
		}
	}
	for _, path := range []string{"/", "/v1", "/v1/", "/healthcheck", "/healthcheck/", "/nodes/"} {
		s.get(path).want(200)
	}
}

func TestUnknownPathsAndMethodsGetTheRoutersError(t *testing.T) {
	s := newServer(t)
	for _, tt := range []struct {
		method, path string
		status       int
		code         string
	}{
		{"GET", "/v1/toasters", 404, "404 Not Found"},
		{"GET", "/v2", 404, "404 Not Found"},
		{"GET", "/v1/nodes/x/y/z", 404, "404 Not Found"},
		{"POST", "/v1", 405, "405 Method Not Allowed"},
		{"DELETE", "/v1/nodes", 405, "405 Method Not Allowed"},
		{"PUT", "/v1/nodes/x", 405, "405 Method Not Allowed"},
	} {
		got := s.do(tt.method, tt.path, "latest", "").want(tt.status)
		fault := got.fault()
		if fault["code"] != tt.code || fault["title"] == "" || fault["message"] == "" || fault["faultstring"] == "" {
			t.Errorf("%s: got fault %v", got.what, fault)
		}
		if tt.status == 405 && got.header.Get("Allow") == "" {
			t.Errorf("%s: no Allow header", got.what)
		}
	}
}

func TestHeadIsGetWithoutBody(t *testing.T) {
	s := newServer(t)
	s.do("HEAD", "/v1", "", "").want(200)
	s.do("HEAD", "/v1/nodes", "", "").want(200)
}

func TestRootDocument(t *testing.T) {
	document := newServer(t).do("GET", "/", "nonsense", "").want(200).json()
	version := map[string]any{
		"id": "v1", "status": "CURRENT", "min_version": "1.1", "version": newest,
		"links": []any{map[string]any{"rel": "self", "href": "http://example.com/v1/"}},
	}
	if document["name"] != "OpenStack Ironic API" {
		t.Errorf("name: got %v", document["name"])
	}
	diffJSON(t, "default_version", version, document["default_version"])
	diffJSON(t, "versions", []any{version}, document["versions"])
}

func TestLinksStartWithThePublicURL(t *testing.T) {
	for _, given := range []string{"https://metal.example.org", "https://metal.example.org/", "https://metal.example.org/v1/"} {
		s := newServer(t, func(o *Options) { o.PublicURL = given })
		s.addNode(uuid1)
		if got := s.get("/v1/nodes").want(200); !strings.Contains(got.body, `"https://metal.example.org/v1/nodes/`+uuid1) {
			t.Errorf("public URL %q: got %s", given, got.body)
		}
	}
}

func TestLinksFollowTheSchemeOfTheRequest(t *testing.T) {
	s := newServer(t)
	if got := s.get("https://metal.example.org/v1").want(200); !strings.Contains(got.body, `"https://metal.example.org/v1/nodes/"`) {
		t.Errorf("got %s", got.body)
	}
}

func TestHealthCheckReportsWhetherTheEngineIsReady(t *testing.T) {
	s := newServer(t)
	s.get("/healthcheck").want(200)
	s.engine.err = errInternal
	if got := s.get("/healthcheck").want(503); strings.Contains(got.body, "secret detail") {
		t.Errorf("internals in the answer: %s", got.body)
	}
}

func TestAnybodyFillsTheLogWithFewFailures(t *testing.T) {
	var log bytes.Buffer
	s := newServer(t, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	s.engine.err = node.ErrUnavailable
	for range 1000 {
		s.get("/healthcheck").want(503)
		s.do("GET", "/v1/lookup?node_uuid="+uuid1, "1.62", "").want(503)
	}
	if lines := strings.Count(log.String(), "\n"); lines != failuresAtOnce {
		t.Errorf("%d lines, want %d", lines, failuresAtOnce)
	}
	log.Reset()
	s.get("/v1/nodes").want(503)
	if !strings.Contains(log.String(), "/v1/nodes") {
		t.Errorf("the failed request of a user is not logged: %q", log.String())
	}
}

func TestPanicIsA500WithoutInternals(t *testing.T) {
	var log bytes.Buffer
	s := newServer(t, func(o *Options) { o.Drivers = nil; o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	got := s.get("/v1/drivers").want(500) // no registry: a nil pointer
	if strings.Contains(got.body, "nil pointer") || !strings.Contains(got.body, "request ID") {
		t.Errorf("got %s", got.body)
	}
	if id := got.header.Get("OpenStack-Request-Id"); !strings.Contains(log.String(), id) || !strings.Contains(log.String(), "nil pointer") {
		t.Errorf("the log does not explain request %s: %s", id, log.String())
	}
	s.get("/v1/nodes").want(200)
}

func TestRequestsAreLoggedAtDebugOnly(t *testing.T) {
	for level, want := range map[slog.Level]bool{slog.LevelDebug: true, slog.LevelInfo: false} {
		var log bytes.Buffer
		s := newServer(t, func(o *Options) {
			o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level}))
		})
		id := s.get("/v1/nodes/nobody").want(404).header.Get("OpenStack-Request-Id")
		line := log.String()
		if got := strings.Contains(line, id) && strings.Contains(line, "status=404") && strings.Contains(line, "version="+newest); got != want {
			t.Errorf("level %s: logged %q, want a line: %v", level, line, want)
		}
	}
}

// TestBodiesCanBeCutWhileRequestsAreLogged sends a part of a body over a connection, and
// has the server end it as the budget of bodies does.
func TestBodiesCanBeCutWhileRequestsAreLogged(t *testing.T) {
	var cut error
	s := newServer(t, func(o *Options) {
		o.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
		o.Middleware = func(next http.Handler, _ bool) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				cut = http.NewResponseController(w).SetReadDeadline(longAgo)
				next.ServeHTTP(w, r)
			})
		}
	})
	server := httptest.NewServer(s.handler)
	defer server.Close()
	slow, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	if err := slow.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(slow, "POST /v1/continue_inspection HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n{")
	if _, err := io.ReadAll(slow); err != nil || cut != nil {
		t.Errorf("the body was not ended: %v; setting its deadline: %v", err, cut)
	}
}

// diffJSON compares decoded JSON.
func diffJSON(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
