package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/role"
)

func TestStepsOfTemplatesAreChecked(t *testing.T) {
	s := newEngineServer(t)
	post := func(body string) {
		t.Helper()
		s.do("POST", "/v1/deploy_templates", "latest", body).want(http.StatusBadRequest)
	}
	for _, steps := range []string{
		`null`, `[]`, `{}`, `"x"`, `[1]`, `[{}]`,
		`[{"interface":"bios","step":"a","args":{}}]`,
		`[{"interface":"bios","step":"a","args":{},"priority":-1}]`,
		`[{"interface":"bios","step":"a","args":{},"priority":"high"}]`,
		`[{"interface":"bios","step":"a","args":[],"priority":1}]`,
		`[{"interface":"bios","step":"a","args":null,"priority":1}]`,
		`[{"interface":"bios","step":"","args":{},"priority":1}]`,
		`[{"interface":"bios","step":1,"args":{},"priority":1}]`,
		`[{"interface":"network","step":"a","args":{},"priority":1}]`,
		`[{"interface":"bios","step":"a","args":{},"priority":1,"order":1}]`,
		`[{"interface":"bios","step":"a","args":{},"priority":1},{"interface":"bios","step":"a","args":{},"priority":2}]`,
	} {
		post(`{"name":"CUSTOM_A","steps":` + steps + `}`)
	}
	post(strings.Replace(oneTemplate, "CUSTOM_B", "raid", 1))
	post(strings.Replace(oneTemplate, `"name":"CUSTOM_B",`, "", 1))
}

func TestPatchChangesSingleStepsOfATemplate(t *testing.T) {
	s := newEngineServer(t)
	s.create("/v1/deploy_templates", oneTemplate)
	const item = "/v1/deploy_templates/CUSTOM_B"
	got := s.patch(item, `[{"op":"replace","path":"/steps/0/priority","value":7},
		{"op":"add","path":"/steps/1","value":{"interface":"raid","step":"apply","args":{},"priority":1}},
		{"op":"replace","path":"/name","value":"CUSTOM_C"}]`).want(http.StatusOK).json()
	diffJSON(t, "steps", []any{
		map[string]any{"interface": "bios", "step": "apply", "args": map[string]any{"a": 1.0}, "priority": 7.0},
		map[string]any{"interface": "raid", "step": "apply", "args": map[string]any{}, "priority": 1.0},
	}, got["steps"])
	for _, op := range []string{
		`{"op":"remove","path":"/steps"}`, `{"op":"remove","path":"/steps/0/interface"}`, `{"op":"remove","path":"/steps/7"}`,
		`{"op":"remove","path":"/name"}`, `{"op":"replace","path":"/name","value":"x"}`,
	} {
		s.patch("/v1/deploy_templates/CUSTOM_C", "["+op+"]").want(http.StatusBadRequest)
	}
	s.do("POST", "/v1/deploy_templates", "latest", strings.Replace(oneTemplate, "CUSTOM_B", "CUSTOM_C", 1)).want(http.StatusConflict)
	s.get(item).want(http.StatusNotFound)
}

func TestSecretsInStepsAreForAdministrators(t *testing.T) {
	user := role.Admin
	s := newEngineServer(t, func(o *Options) { o.Role = func(context.Context) role.Role { return user } })
	for path, record := range map[string]string{"/v1/deploy_templates": oneTemplate, "/v1/runbooks": oneRunbook} {
		user = role.Admin
		item := path + "/CUSTOM_B"
		before, _, _ := strings.Cut(record, `"args"`)
		_, after, _ := strings.Cut(record, "},")
		written := s.create(path, before+`"args":{"password":"hunter2","url":"/i?sig=hunter2"},`+after)["steps"]
		for _, user = range []role.Role{role.Reader, role.Operator} {
			for _, path := range []string{item, path + "?detail=true"} {
				if got := s.get(path).want(http.StatusOK); contains(got.body, "hunter2") || !contains(got.body, `"password":"******","url":"/i?sig=******"`) {
					t.Errorf("%s as %s: got %s", path, user, got.body)
				}
			}
		}
		read, err := json.Marshal(s.get(item).json()["steps"])
		if err != nil {
			t.Fatal(err)
		}
		s.patch(item, `[{"op":"replace","path":"/steps","value":`+string(read)+`},{"op":"add","path":"/extra/a","value":1}]`).want(http.StatusOK)
		moved := strings.Replace(string(read), `"apply"`, `"other"`, 1)
		s.patch(item, `[{"op":"replace","path":"/steps","value":`+moved+`}]`).want(http.StatusBadRequest).wantFault("Give the secrets themselves")
		user = role.Admin
		diffJSON(t, "steps", written, s.get(item).want(http.StatusOK).json()["steps"])
	}
}

func TestPublicRunbooksHaveNoOwner(t *testing.T) {
	s := newEngineServer(t)
	mine := s.create("/v1/runbooks", strings.Replace(oneRunbook, "{", `{"owner":"p1",`, 1))["uuid"].(string)
	s.create("/v1/runbooks", strings.Replace(strings.Replace(oneRunbook, "{", `{"owner":"p2",`, 1), "CUSTOM_B", "CUSTOM_A", 1))
	diffJSON(t, "of a project", []string{mine}, s.uuids("/v1/runbooks?project=p1", "runbooks"))
	got := s.patch("/v1/runbooks/"+mine, `[{"op":"replace","path":"/public","value":true}]`).want(http.StatusOK).json()
	if got["public"] != true || got["owner"] != nil {
		t.Errorf("got public %v, owner %v", got["public"], got["owner"])
	}
	diffJSON(t, "of another project", []string{mine}, s.uuids("/v1/runbooks?project=p3", "runbooks"))
}

// FuzzTemplateSteps looks for stored steps that cannot run, and for errors that are not
// mistakes of the client.
func FuzzTemplateSteps(f *testing.F) {
	for _, seed := range []string{
		`[{"interface":"bios","step":"apply","args":{"a":1},"priority":150}]`, `[{"interface":"bios","step":"apply","args":{},"order":1}]`,
		`[]`, `null`, `[null]`, `[{"args":null}]`, `[{"interface":"bios","step":"a","args":{},"priority":1e99}]`,
	} {
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, raw []byte, template bool) {
		place := "order"
		if template {
			place = "priority"
		}
		steps, err := readTemplateSteps(raw, place)
		if err != nil {
			wantStatus(t, invalidField("steps", err), http.StatusBadRequest)
			return
		}
		if err := node.CheckSteps(steps.Steps()); err != nil {
			t.Errorf("%s: stored, but %v", raw, err)
		}
		var items []map[string]any
		if err := json.Unmarshal([]byte(steps.String()), &items); err != nil || len(items) != len(steps.Steps()) {
			t.Errorf("%s: stored as %s with %d steps, %v", raw, steps, len(steps.Steps()), err)
		}
	})
}
