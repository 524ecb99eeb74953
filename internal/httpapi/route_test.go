package httpapi

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/builtin"
)

// TestMiddlewareSeesTheRouteOfEveryRequest sends spellings of paths that the router
// takes for one path, and that a comparison of texts would take for others.
func TestMiddlewareSeesTheRouteOfEveryRequest(t *testing.T) {
	drivers, err := builtin.New(driver.Config{EnabledHardwareTypes: []string{"fake-hardware"}}, builtin.Dependencies{})
	if err != nil {
		t.Fatal(err)
	}
	var seen string
	api := New(nil, Options{Drivers: drivers, Middleware: func(http.Handler, bool) http.Handler {
		return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = r.Pattern })
	}})
	for target, want := range map[string]string{
		"/":                               "/{$}",
		"/v1/":                            "/v1",
		"/healthcheck/":                   "/healthcheck",
		"/v1/nodes":                       "/v1/nodes",
		"/nodes":                          "/v1/nodes",
		"//v1//nodes//":                   "/v1/nodes",
		"/v1/%6eodes":                     "/v1/nodes",
		"/v1/lookup/../nodes":             "/v1/nodes",
		"/v1/lookup/%2e%2e/nodes":         "/",
		"/v1/lookup%2f..%2fnodes":         "/",
		"/v1/heartbeat/..%2fnodes":        "/v1/heartbeat/{ident}",
		"/v1/heartbeat/../nodes":          "/v1/nodes",
		"/v1%2fnodes":                     "/",
		"/v1/nodes/a":                     "/v1/nodes/{ident}",
		"/v1/nodes/%2e%2e/lookup":         "/",
		"/v1/nosuch":                      "/",
		"/v1/nodes?x=/v1/lookup":          "/v1/nodes",
		"/v1/nodes#/v1/lookup":            "/",
		"/v1/nodes;/v1/lookup":            "/",
		"/v1/nodes/..;/..;/lookup":        "/",
		"http://other.example/v1/lookup/": "/v1/lookup",
	} {
		seen = "(none)"
		api.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, target, nil))
		if seen != want {
			t.Errorf("%s: got pattern %q, want %q", target, seen, want)
		}
	}
}
