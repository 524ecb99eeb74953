package httpapi

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/role"
)

const apiPagePath = "../../docs/api.md"

func TestAPIPageIsUpToDate(t *testing.T) {
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

func TestSuccessStatusesAreOfExistingRoutes(t *testing.T) {
	known := map[string]bool{}
	for _, rt := range sortedRoutes() {
		known[rt.method+" "+rt.pattern] = true
	}
	for key := range otherSuccess {
		if !known[key] {
			t.Errorf("otherSuccess has %s, which is no route", key)
		}
	}
}

// success is the status of success by method. otherSuccess has the exceptions.
var success = map[string]string{get: "200", post: "201", put: "202", patch: "200", remove: "204"}

var otherSuccess = map[string]string{
	"PUT /ingot/suspension":                        "204",
	"PUT /ingot/suspension/nodes/{ident}":          "204",
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

// successOf returns the status of success for the page. A vendor method of a node
// answers 200 or 202, one of a driver 200. There are no indicators.
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
	case found:
		return "200"
	}
	return success[rt.method]
}

// answerToOlder describes the answer to requests that are older than the route.
func answerToOlder(rt route) string {
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

// routeTitles has the titles of the routes, by the first word of their path.
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
	{"ingot", "Ingot's own: suspended work"},
}

func writeRoutes(page *strings.Builder) {
	words := map[string][]route{}
	for _, rt := range sortedRoutes() {
		if rt.since > maxVersion { // hidden
			continue
		}
		parts := strings.Split(strings.Trim(rt.pattern, "/"), "/")
		word := ""
		if parts[0] == "v1" && len(parts) > 1 {
			word = parts[1]
		}
		if strings.HasPrefix(rt.pattern, ownPrefix) {
			word = "ingot"
		}
		words[word] = append(words[word], rt)
	}
	for _, part := range routeTitles {
		if part.title != "" && len(words[part.word]) > 0 {
			fmt.Fprintf(page, "\n### %s\n\n| Request | Role | Since | Before | Success | Query arguments |\n|---|---|---|---|---|---|\n", part.title)
		}
		for _, rt := range words[part.word] {
			fmt.Fprintf(page, "| `%s %s` | %s | %s | %s | %s | %s |\n",
				rt.method, rt.pattern, roleText(rt.role), versionText[max(rt.since, minVersion)], answerToOlder(rt), successOf(rt), argsText(rt.args))
		}
		delete(words, part.word)
	}
	for word := range words {
		panic("httpapi: routeTitles has no title for " + word)
	}
}

// roleText returns the least role that a row of a table needs.
func roleText(r role.Role) string {
	if r == role.None {
		return ""
	}
	return r.String()
}

// argsText lists query arguments. It refers to tables for the arguments of large lists.
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
