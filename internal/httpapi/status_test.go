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
	var missing []string
	built := 0
	for _, rt := range sortedRoutes() {
		switch {
		case rt.since > maxVersion: // built ahead, and hidden
		case rt.handler != nil:
			built++
		default:
			missing = append(missing, fmt.Sprintf("| %s | %s | %s |\n", rt.method, "`"+rt.pattern+"`", versionText[max(rt.since, minVersion)]))
		}
	}
	fmt.Fprintf(&page, "%d routes are built.\n", built)
	if len(missing) > 0 {
		page.WriteString("\n## Routes that answer 501\n\n| Method | Path | Since |\n|---|---|---|\n" + strings.Join(missing, ""))
	}
	return page.String()
}

func sortedRoutes() []route {
	routes := (&api{}).routes()
	slices.SortFunc(routes, func(a, b route) int {
		return strings.Compare(a.pattern+" "+a.method, b.pattern+" "+b.method)
	})
	return routes
}

func TestEveryRouteIsListedOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, rt := range sortedRoutes() {
		key := rt.method + " " + rt.pattern
		if seen[key] {
			t.Errorf("%s stands twice in the table", key)
		}
		seen[key] = true
	}
}

func TestUnbuiltRoutesSaySo(t *testing.T) {
	s := newServer(t)
	fill := strings.NewReplacer("{ident}", "x", "{uuid}", uuid1, "{name}", "x", "{component}", "x", "{setting}", "x",
		"{trait}", "x", "{vif}", "x", "{method}", "x", "{hostname}", "x")
	for _, rt := range sortedRoutes() {
		if rt.handler != nil {
			continue
		}
		got := s.do(rt.method, fill.Replace(rt.pattern), "latest", "")
		if text := fmt.Sprint(got.want(501).fault()["faultstring"]); !strings.Contains(text, "not built yet") {
			t.Errorf("%s: got %q", got.what, text)
		}
	}
}
