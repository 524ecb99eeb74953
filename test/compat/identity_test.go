//go:build compat

package compat_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// serveIdentity runs as much of an identity service as a client needs to find
// the Bare Metal API: one version, and a token for everybody with a catalogue of
// one endpoint. It returns the URL, which ends in /v3.
func serveIdentity(t *testing.T, baremetal string) string {
	t.Helper()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	url := server.URL + "/v3"
	answer := func(status int, body any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("X-Subject-Token", "token-of-everybody")
			w.WriteHeader(status)
			if err := json.NewEncoder(w).Encode(body); err != nil {
				t.Errorf("write answer of the identity service: %v", err)
			}
		}
	}
	type object = map[string]any
	version := object{"id": "v3.14", "status": "stable", "links": []object{{"rel": "self", "href": url}}}
	mux.HandleFunc("GET /", answer(http.StatusOK, object{"versions": object{"values": []object{version}}}))
	mux.HandleFunc("GET /v3/", answer(http.StatusOK, object{"version": version}))
	mux.HandleFunc("POST /v3/auth/tokens", answer(http.StatusCreated, object{"token": object{
		"expires_at": time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
		"catalog": []object{{
			"type": "baremetal", "name": "ironic", "id": "1",
			"endpoints": []object{{"id": "1", "interface": "public", "region": "here", "region_id": "here", "url": baremetal}},
		}},
	}}))
	return url
}
