package httpapi

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
)

const apiPagePath = "../../docs/api.md"

func TestAPIPageShowsTheTables(t *testing.T) {
	want := apiPage()
	if *update {
		if err := os.WriteFile(apiPagePath, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(apiPagePath)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is out of date; run go generate ./internal/httpapi", apiPagePath)
	}
}

func TestSuccessOfRoutesIsKnownForRoutesThatExist(t *testing.T) {
	known := map[string]bool{}
	for _, rt := range sortedRoutes() {
		known[rt.method+" "+rt.pattern] = true
	}
	for key := range otherSuccess {
		if !known[key] {
			t.Errorf("there is a success status for %s, and no such route", key)
		}
	}
}

// success is the status of an answer that tells of success, unless otherSuccess
// says something else.
var success = map[string]string{get: "200", post: "201", put: "202", patch: "200", remove: "204"}

var otherSuccess = map[string]string{
	"POST /v1/continue_inspection":                 "200",
	"POST /v1/events":                              "204",
	"POST /v1/heartbeat/{ident}":                   "202",
	"DELETE /v1/nodes/{ident}/maintenance":         "202",
	"PUT /v1/nodes/{ident}/management/boot_device": "204",
	"PUT /v1/nodes/{ident}/management/inject_nmi":  "204",
	"PUT /v1/nodes/{ident}/states/raid":            "204",
	"PUT /v1/nodes/{ident}/traits":                 "204",
	"PUT /v1/nodes/{ident}/traits/{trait}":         "204",
	"POST /v1/nodes/{ident}/vifs":                  "204",
	"POST /v1/nodes/{ident}/vmedia":                "204",
}

// successOf is the status of success for the page. The method of a vendor
// decides whether it answers at once or later; no driver has one of its own, and
// none has indicators.
func successOf(rt route) string {
	if status, ok := otherSuccess[rt.method+" "+rt.pattern]; ok {
		return status
	}
	_, inner, found := strings.Cut(rt.pattern, "/vendor_passthru")
	switch {
	case strings.Contains(rt.pattern, "/indicators"):
		return "–"
	case found && inner != "/methods" && strings.HasPrefix(rt.pattern, "/v1/nodes"):
		return "200, 202"
	case found && inner != "/methods":
		return "–"
	}
	return success[rt.method]
}

// olderHear is what a request hears whose version is older than the route.
func olderHear(rt route) string {
	switch {
	case max(rt.since, minVersion) == minVersion:
		return ""
	case rt.orUnversioned:
		return fmt.Sprintf("404, but %s is served", versionText[minVersion])
	case rt.below == 0:
		return fmt.Sprint(http.StatusNotFound)
	}
	return fmt.Sprint(rt.below)
}

// routeTitles are the parts of the page, by the first word of the path.
var routeTitles = []struct{ word, title string }{
	{"", "The service"},
	{"nodes", "Nodes"},
	{"ports", "Ports"},
	{"portgroups", "Port groups"},
	{"chassis", "Chassis"},
	{"allocations", "Allocations"},
	{"deploy_templates", "Deploy templates"},
	{"runbooks", "Runbooks"},
	{"volume", "Volume connectors and targets"},
	{"drivers", "Drivers"},
	{"conductors", "Conductors"},
	{"shards", "Shards"},
	{"events", "Events of a network service"},
	{"lookup", "Machines that run a ramdisk"},
	{"heartbeat", ""},
	{"continue_inspection", ""},
}

func writeRoutes(page *strings.Builder) {
	words := map[string][]route{}
	for _, rt := range sortedRoutes() {
		if rt.since > maxVersion { // built ahead, and hidden
			continue
		}
		parts := strings.Split(strings.Trim(rt.pattern, "/"), "/")
		word := ""
		if parts[0] == "v1" && len(parts) > 1 {
			word = parts[1]
		}
		words[word] = append(words[word], rt)
	}
	for _, part := range routeTitles {
		if part.title != "" && len(words[part.word]) > 0 {
			fmt.Fprintf(page, "\n### %s\n\n| Request | Since | Before | Success | Query arguments |\n|---|---|---|---|---|\n", part.title)
		}
		for _, rt := range words[part.word] {
			fmt.Fprintf(page, "| `%s %s` | %s | %s | %s | %s |\n",
				rt.method, rt.pattern, versionText[max(rt.since, minVersion)], olderHear(rt), successOf(rt), argsText(rt.args))
		}
		delete(words, part.word)
	}
	for word := range words {
		panic("httpapi: routeTitles has no title for " + word)
	}
}

// argsText lists query arguments; those of the large lists by where they stand.
func argsText(args []string) string {
	a := &api{}
	for _, set := range []struct {
		args []string
		text string
	}{
		{nodeListArgs(), "[page](#lists), [filters](#fields-of-a-node), `conductor`, `include_children`"},
		{portListArgs, "[page](#lists), [filters](#fields-of-a-port)"},
		{filterArgs(a.portgroups().filters), "[page](#lists), [filters](#fields-of-a-port-group)"},
	} {
		if slices.Equal(args, set.args) {
			return set.text
		}
	}
	var texts []string
	rest := slices.Clone(args)
	if !slices.ContainsFunc(pageArgs, func(arg string) bool { return !slices.Contains(args, arg) }) {
		texts = append(texts, "[page](#lists)")
		rest = slices.DeleteFunc(rest, func(arg string) bool { return slices.Contains(pageArgs, arg) })
	}
	slices.Sort(rest)
	for _, arg := range rest {
		texts = append(texts, "`"+arg+"`")
	}
	return strings.Join(texts, ", ")
}
