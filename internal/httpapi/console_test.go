package httpapi

import (
	"net/http"
	"testing"

	"github.com/ingot-metal/ingot/internal/node"
)

func TestConsoleIsEnabledAndDisabled(t *testing.T) {
	s := newEngineServer(t)
	console := "/v1/nodes/" + s.node() + "/states/console"
	shown := func(version string) map[string]any {
		t.Helper()
		return s.do("GET", console, version, "").want(http.StatusOK).json()
	}
	off := map[string]any{"console_enabled": false, "console_info": nil}
	for _, version := range []string{"1.1", "latest"} {
		diffJSON(t, "console", off, shown(version))
		set := s.do("PUT", console, version, `{"enabled":true}`).want(http.StatusAccepted)
		if want := "http://example.com" + console; set.body != "" || set.header.Get("Location") != want {
			t.Errorf("answer: got %q at %q, want none at %q", set.body, set.header.Get("Location"), want)
		}
		s.do("PUT", console, version, `{"enabled":true}`).want(http.StatusAccepted)
		diffJSON(t, "console", map[string]any{"console_enabled": true, "console_info": map[string]any{"type": "fake", "url": ""}}, shown(version))
		s.do("PUT", console, version, `{"enabled":"off"}`).want(http.StatusAccepted)
		diffJSON(t, "console", off, shown(version))
	}
}

func TestNodeWithoutConsoleShowsItDisabledAndRefusesToSetIt(t *testing.T) {
	s := newEngineServer(t)
	console := "/v1/nodes/" + s.node(func(n *node.Node) { n.Interfaces[node.ConsoleInterface] = "no-console" }) + "/states/console"
	for _, version := range []string{"1.1", "latest"} {
		diffJSON(t, "console", map[string]any{"console_enabled": false, "console_info": nil}, s.do("GET", console, version, "").want(http.StatusOK).json())
		for _, enabled := range []string{"true", "false"} {
			s.do("PUT", console, version, `{"enabled":`+enabled+`}`).want(http.StatusBadRequest).wantFault("console", "no-console")
		}
	}
}

func TestConsoleThatWasEnabledAtCreationWithoutAnInterfaceIsAnError(t *testing.T) {
	s := newEngineServer(t)
	n := s.create("/v1/nodes", `{"driver":"fake-hardware","console_interface":"no-console","console_enabled":true}`)["uuid"].(string)
	s.get("/v1/nodes/" + n + "/states/console").want(http.StatusBadRequest).wantFault("no-console")
}
