//go:build compat

package compat_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"github.com/ingot-metal/ingot/internal/engine"
)

// acceptancePackages is where gophercloud keeps its acceptance tests of the Bare
// Metal API.
const acceptancePackages = "github.com/gophercloud/gophercloud/v2/internal/acceptance/openstack/baremetal/"

// acceptanceTests are all acceptance tests by package and name. The value is the microversion that
// the test asks for, if an engine may lack that. A test that is missing here or in gophercloud is
// an error, so that a new release of gophercloud is noticed.
var acceptanceTests = map[string]map[string]string{
	"noauth": {
		"TestAllocationsCreateDestroy": "",
		"TestNodesCreateDestroy":       "",
		"TestNodesRAIDConfig":          "",
		"TestNodesUpdate":              "",
		"TestPortsCreateDestroy":       "",
		"TestPortsUpdate":              "",
	},
	"httpbasic": {
		"TestAllocationsCreateDestroy": "",
		"TestNodesCreateDestroy":       "",
		"TestNodesFirmwareInterface":   "1.86",
		"TestNodesRAIDConfig":          "",
		"TestNodesUpdate":              "",
		"TestPortsCreateDestroy":       "",
		"TestPortsUpdate":              "",
	},
	"v1": {
		"TestAllocationsCreateDestroy": "",
		"TestConductorsListAndGet":     "",
		"TestNodesCreateDestroy":       "",
		"TestNodesFields":              "",
		"TestNodesFirmwareInterface":   "1.86",
		"TestNodesMaintenance":         "",
		"TestNodesRAIDConfig":          "",
		"TestNodesServicingHold":       "1.87",
		"TestNodesUpdate":              "",
		"TestNodesVirtualInterfaces":   "",
		"TestNodesVirtualMedia":        "1.93",
		"TestPortsCreateDestroy":       "",
		"TestPortsUpdate":              "",
		"TestVendorPassthruMethods":    "",
	},
}

// acceptanceUser is the user of the acceptance tests. Some of them run as admin only.
const acceptanceUser, acceptancePassword = "admin", "correct horse battery staple"

// TestGophercloudPassesItsOwnAcceptanceTests runs the tests that gophercloud publishes, unchanged.
// It runs them for each way to reach the API: without authentication, with http_basic, and with a
// token and a catalogue of an identity service.
func TestGophercloudPassesItsOwnAcceptanceTests(t *testing.T) {
	for _, pkg := range slices.Sorted(maps.Keys(acceptanceTests)) {
		t.Run(pkg, func(t *testing.T) {
			t.Parallel() // these tests look once a second whether a state is reached
			url := serveEngineWith(t, func(cfg *engine.Config) {
				cfg.Driver.EnabledHardwareTypes = []string{"fake-hardware", "ipmi", "redfish", "manual-management"}
				if pkg == "httpbasic" {
					cfg.API.Auth, cfg.API.HtpasswdFile = "http_basic", htpasswd(t)
				}
			})
			identity := serveIdentity(t, url)
			results := runPublishedTests(t, acceptancePackages+pkg, "acceptance",
				"IRONIC_ENDPOINT="+url+"/v1", "OS_AUTH_URL="+identity, "OS_BRANCH=master",
				"OS_USERNAME="+acceptanceUser, "OS_PASSWORD="+acceptancePassword, "OS_DOMAIN_NAME=Default", "OS_PROJECT_NAME=admin",
				"OS_IMAGE_ID=none", "OS_FLAVOR_ID=none", "OS_FLAVOR_ID_RESIZE=other")
			checkAcceptance(t, maximumVersion(t, url), acceptanceTests[pkg], results)
		})
	}
}

// checkAcceptance compares results with what is expected and prints the sums. A test that asks for
// a microversion beyond the maximum must fail for that reason. Every other test must pass. None may
// be skipped.
func checkAcceptance(t *testing.T, maximum string, expected map[string]string, results map[string]testResult) {
	t.Helper()
	count := make(map[string]int)
	for name, result := range results {
		count[result.action]++
		if _, ok := expected[name]; !ok {
			t.Errorf("%s is a test that nobody expected: add it to the table", name)
		}
	}
	tooNew := 0
	for _, name := range slices.Sorted(maps.Keys(expected)) {
		result, microversion := results[name], expected[name]
		switch ok := has(t, maximum, microversion); {
		case ok && result.action != "pass":
			t.Errorf("%s: got %q, want pass\n%s", name, result.action, result.output)
		case !ok && (result.action != "fail" || !strings.Contains(result.output, "got 406 instead")):
			t.Errorf("%s: got %q, want fail with 406 for version %s\n%s", name, result.action, microversion, result.output)
		case !ok:
			tooNew++
			t.Logf("%s cannot pass yet: it asks for version %s, the engine has %s", name, microversion, maximum)
		}
	}
	t.Logf("of %d acceptance tests %d passed, %d were skipped, %d failed; %d ask for a version that the engine does not have",
		len(expected), count["pass"], count["skip"], count["fail"], tooNew)
}

// htpasswd writes the file that lets acceptanceUser in.
func htpasswd(t *testing.T) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(acceptancePassword), bcrypt.MinCost)
	must(t, "hash password", err)
	path := filepath.Join(t.TempDir(), "htpasswd")
	must(t, "write htpasswd", os.WriteFile(path, []byte(acceptanceUser+":"+string(hash)+"\n"), 0o600))
	return path
}
