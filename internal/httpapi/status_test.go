package httpapi

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite docs/status.md from the route table")

const statusPath = "../../docs/status.md"

func TestStatusPageListsWhatIsNotBuilt(t *testing.T) {
	want := statusPage()
	if *update {
		if err := os.WriteFile(statusPath, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(statusPath)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is out of date; run go generate ./internal/httpapi", statusPath)
	}
}

func statusPage() string {
	var page strings.Builder
	fmt.Fprintf(&page, `<!-- Generated from the tables of internal/httpapi; run go generate there. -->

# What of the Bare Metal API is built

The engine advertises the versions %s to %s. Everything in that range works as the
API reference has it, with one exception: inspection rules (1.96) are not there,
%s/v1/inspection_rules%s answers 404 and GET /v1 does not list it.

Every hardware type exists. Work on BMCs does not yet: nodes of the types redfish
and ipmi can be created, changed and validated, and a verb that needs their driver
fails with one sentence. With fake-hardware every verb runs to its end.

`, versionText[minVersion], versionText[maxVersion], "`", "`")
	served := 0
	for _, rt := range sortedRoutes() {
		if rt.since <= maxVersion { // others are built ahead, and hidden
			served++
		}
	}
	fmt.Fprintf(&page, "All %d routes are built.\n", served)
	return page.String()
}

func sortedRoutes() []route {
	routes := (&api{}).routes()
	slices.SortFunc(routes, func(a, b route) int {
		return strings.Compare(a.pattern+" "+a.method, b.pattern+" "+b.method)
	})
	return routes
}

func TestEveryRouteIsBuiltAndListedOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, rt := range sortedRoutes() {
		key := rt.method + " " + rt.pattern
		if seen[key] {
			t.Errorf("%s stands twice in the table", key)
		}
		if rt.handler == nil {
			t.Errorf("%s has no handler", key)
		}
		seen[key] = true
	}
}
