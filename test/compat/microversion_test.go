//go:build compat

package compat_test

import (
	"cmp"
	"fmt"
	"net/http"
	"testing"
)

// maximumVersion returns the newest microversion that the engine advertises.
func maximumVersion(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v1", http.NoBody)
	must(t, "make request", err)
	resp, err := http.DefaultClient.Do(req)
	must(t, "ask for the versions", err)
	defer resp.Body.Close()
	return resp.Header.Get("X-OpenStack-Ironic-API-Maximum-Version")
}

// has reports whether an engine with the newest microversion maximum has another one. The empty
// microversion is older than all.
func has(t *testing.T, maximum, microversion string) bool {
	t.Helper()
	var m, n int
	for version, minor := range map[string]*int{maximum: &m, cmp.Or(microversion, "1.1"): &n} {
		if _, err := fmt.Sscanf(version, "1.%d", minor); err != nil {
			t.Fatalf("read microversion %q: %v", version, err)
		}
	}
	return n <= m
}
