package engine_test

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/engine"
)

func TestOnlyAdministratorsReadProfiles(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		role string
		on   bool
		user *url.Userinfo
		path string
		want int
	}{
		"administrator":               {"admin", true, url.UserPassword("ann", "secret"), "heap", http.StatusOK},
		"processor":                   {"admin", true, url.UserPassword("ann", "secret"), "profile?seconds=1", http.StatusOK},
		"operator":                    {"operator", true, url.UserPassword("ann", "secret"), "heap", http.StatusForbidden},
		"nobody":                      {"admin", true, nil, "heap", http.StatusUnauthorized},
		"off":                         {"admin", false, url.UserPassword("ann", "secret"), "heap", http.StatusNotFound},
		"command line, with password": {"admin", true, url.UserPassword("ann", "secret"), "cmdline", http.StatusNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			roles := filepath.Join(t.TempDir(), "roles")
			if err := os.WriteFile(roles, []byte("ann: "+tc.role+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			e := start(t, withPasswords(t, func(c *engine.Config) {
				c.API.RoleFile, c.API.MetricsListen, c.API.Profiles = roles, "127.0.0.1:0", tc.on
			}))
			base := strings.TrimSuffix(e.MetricsURL(), "/metrics")
			e.fetch(t, base+"/debug/pprof/"+tc.path, tc.user).want(t, tc.want)
		})
	}
}
