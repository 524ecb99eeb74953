package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"sigs.k8s.io/yaml"
)

const twoNodes = `{"nodes": [
 {"uuid": "5c7a1d5e-9e3b-4b63-8f0e-1f7f0f5f0001", "name": null, "instance_uuid": null, "power_state": "power on", "provision_state": "enroll", "maintenance": false, "updated_at": "2026-01-02T03:04:05+00:00", "big": 9007199254740993},
 {"uuid": "5c7a1d5e-9e3b-4b63-8f0e-1f7f0f5f0002", "name": "rack1\u001b[2J\u202e~evil", "instance_uuid": "i-1", "power_state": null, "provision_state": "available", "maintenance": true, "extra": {"a": [1, "<b>\u009b"]}}
]}`

func TestNodeListPrintsEveryForm(t *testing.T) {
	for _, form := range Outputs() {
		t.Run(form, func(t *testing.T) {
			_, engine := newFakeEngine(t, map[string][]answer{"GET /v1/nodes": {{200, twoNodes}}})
			var r run
			if err := (&List{Resource: Nodes, Output: Output(form)}).Run(t.Context(), engine, &r.out); err != nil {
				t.Fatal(err)
			}
			golden(t, "list."+form, r.out.String())
		})
	}
}

// FuzzYAMLIsReadAsItWasStored prints texts that clients or machines may have chosen, as
// keys and as values.
func FuzzYAMLIsReadAsItWasStored(f *testing.F) {
	for _, r := range []rune{0x7f, 0x85, 0x1b, 0x200e, 0x2028, 0xfeff, 0xfffe, 0xe000, 0x1f600, 0xe0041, 0xf0000, 0x10ffff} {
		f.Add("name", "a"+string(r)+"b")
		f.Add("a"+string(r)+"b", "value")
	}
	for _, text := range []string{"", "~", "null", "yes", "0x1f", "1e3", "- a", "a: b", "# a", "a\n\tb", "'\"", "<<", "&a *a", "2026-01-02", "!!int 3", "=", " a "} {
		f.Add("name", text)
		f.Add(text, "value")
	}
	f.Add(strings.Repeat("k", 2000), strings.Repeat("\x13", 400))
	f.Add(strings.Repeat("\x13", 400), "value")
	f.Fuzz(func(t *testing.T, key, value string) {
		if !utf8.ValidString(key) || !utf8.ValidString(value) {
			t.Skip("engines store UTF-8 only")
		}
		want := map[string]any{key: value, "list " + key: []any{value, map[string]any{key: nil}}}
		stored, err := json.Marshal(want) // engines keep texts as they were sent, with any escapes
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := OutputYAML.structured(&out, json.RawMessage(stored)); err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := yaml.Unmarshal(out.Bytes(), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q is read as %q, %v; want %q", out.String(), got, err, want)
		}
		if strings.ContainsFunc(out.String(), func(r rune) bool { return r != '\n' && active(r) }) {
			t.Errorf("%q has what a terminal acts on", out.String())
		}
	})
}

func TestYAMLWithoutSpecialCharactersIsYAML(t *testing.T) {
	_, engine := newFakeEngine(t, map[string][]answer{"GET /v1/nodes": {{200, `{"nodes": [{"uuid": "u1", "name": null}]}`}}})
	var r run
	if err := (&List{Resource: Nodes, Output: OutputYAML}).Run(t.Context(), engine, &r.out); err != nil || r.out.String() != "- name: null\n  uuid: u1\n" {
		t.Errorf("printed %q, %v", r.out.String(), err)
	}
}

func TestNodeListWithoutNodesPrintsAnEmptyTable(t *testing.T) {
	_, engine := newFakeEngine(t, map[string][]answer{"GET /v1/nodes": {{200, `{"nodes": []}`}}})
	for form, want := range map[Output]string{OutputJSON: "[]\n", OutputYAML: "[]\n", OutputName: "", OutputValue: ""} {
		var r run
		if err := (&List{Resource: Nodes, Output: form}).Run(t.Context(), engine, &r.out); err != nil || r.out.String() != want {
			t.Errorf("%s: %q, %v; want %q", form, r.out.String(), err, want)
		}
	}
}

func TestNodeListAsksForWhatItShows(t *testing.T) {
	for name, test := range map[string]struct {
		list List
		want string
	}{
		"default": {List{}, "/v1/nodes?fields=uuid%2Cname%2Cinstance_uuid%2Cpower_state%2Cprovision_state%2Cmaintenance"},
		"filters": {
			List{Fields: []string{"name"}, Filters: given("auto_discovered", true, "provision_state", "clean wait", "driver", "redfish")},
			"/v1/nodes?auto_discovered=true&driver=redfish&fields=uuid%2Cname&provision_state=clean+wait",
		},
		"order": {List{Fields: []string{"uuid"}, Sort: "updated_at:desc", Limit: 1}, "/v1/nodes?fields=uuid&limit=1&sort_dir=desc&sort_key=updated_at"},
		"many":  {List{Fields: []string{"uuid"}, Sort: "name", Limit: 5000}, "/v1/nodes?fields=uuid&limit=1000&sort_key=name"},
	} {
		t.Run(name, func(t *testing.T) {
			f, engine := newFakeEngine(t, map[string][]answer{"GET /v1/nodes": {{200, twoNodes}}})
			var r run
			test.list.Resource = Nodes
			if err := test.list.Run(t.Context(), engine, &r.out); err != nil {
				t.Fatal(err)
			}
			if got := f.asked[0]; got != "GET "+test.want {
				t.Errorf("asked\n     %s\nwant GET %s", got, test.want)
			}
		})
	}
}

func TestNodeListStopsAtItsLimit(t *testing.T) {
	_, engine := newFakeEngine(t, map[string][]answer{"GET /v1/nodes": {{200, twoNodes}}})
	var r run
	if err := (&List{Resource: Nodes, Limit: 1, Output: OutputName}).Run(t.Context(), engine, &r.out); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(r.out.String(), "\n"); got != 1 {
		t.Errorf("printed %d nodes, want 1", got)
	}
}

func TestNodeListRefusesFlagsThatContradict(t *testing.T) {
	f, engine := newFakeEngine(t, nil)
	for _, list := range []List{{Long: true, Fields: []string{"uuid"}}, {Limit: -1}, {Sort: "name:up"}} {
		var usage *UsageError
		if err := list.Run(t.Context(), engine, nil); !errors.As(err, &usage) {
			t.Errorf("%+v: %v, want a usage error", list, err)
		}
	}
	if len(f.asked) > 0 {
		t.Errorf("the engine was asked %v", f.asked)
	}
}

func TestNodeShowPrintsEveryForm(t *testing.T) {
	const body = `{"uuid": "5c7a1d5e-9e3b-4b63-8f0e-1f7f0f5f0002", "name": "n2", "maintenance": true, "last_error": "power\nfailed \u001b]0;title\u0007",
 "extra": {}, "properties": {"cpu_arch": "x86_64", "memory_mb": 4096}, "links": [{"rel": "self"}], "raid_config": null,
 "description": "a text that is so long that no terminal shows it in a single line, which is why the table has to wrap it somewhere"}`
	for _, form := range Outputs() {
		t.Run(form, func(t *testing.T) {
			_, engine := newFakeEngine(t, map[string][]answer{"GET /v1/nodes/n2": {{200, body}}})
			var r run
			if err := (&Show{Resource: Nodes, Output: Output(form)}).Run(t.Context(), engine, "n2", &r.out); err != nil {
				t.Fatal(err)
			}
			golden(t, "show."+form, r.out.String())
		})
	}
}

func TestShowFindsObjectsByOtherFields(t *testing.T) {
	f, engine := newFakeEngine(t, map[string][]answer{"GET /v1/ports": {{200, `{"ports": [{"uuid": "p1"}]}`}, {200, `{"ports": []}`}}})
	var r run
	show := Show{Resource: Ports, Find: true, Output: OutputName}
	if err := show.Run(t.Context(), engine, "52:54:00:00:00:01", &r.out); err != nil || r.out.String() != "p1\n" {
		t.Errorf("printed %q, %v", r.out.String(), err)
	}
	if want := "GET /v1/ports?address=52%3A54%3A00%3A00%3A00%3A01&detail=true"; f.asked[0] != want {
		t.Errorf("asked %s, want %s", f.asked[0], want)
	}
	err := show.Run(t.Context(), engine, "x", &r.out)
	if want := "Cannot show port x: no port has the address x. See what the engine has with: ingot port list."; ExitCode(err) != ExitNotFound || Sentence(err) != want {
		t.Errorf("got %v, want %q", err, want)
	}
}

func TestNodeShowLimitsFields(t *testing.T) {
	f, engine := newFakeEngine(t, map[string][]answer{"GET /v1/nodes/n2": {{200, `{"uuid": "u2", "driver": "redfish"}`}}})
	var r run
	if err := (&Show{Resource: Nodes, Output: OutputValue, Fields: []string{"driver", "name"}}).Run(t.Context(), engine, "n2", &r.out); err != nil {
		t.Fatal(err)
	}
	if r.out.String() != "redfish\nNone\n" || f.asked[0] != "GET /v1/nodes/n2?fields=uuid%2Cdriver%2Cname" {
		t.Errorf("printed %q after %v", r.out.String(), f.asked)
	}
}
