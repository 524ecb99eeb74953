package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const rack = `
chassis:
- description: rack 1
  nodes:
  - name: n1
    driver: d
    ports:
    - address: a1
    portgroups:
    - name: g1
      ports:
      - {address: a2, pxe_enabled: false}
nodes:
- {name: n2, driver: d, ports: [{address: a3}]}
- {name: n3, driver: d}
`

// description writes a description to a file and returns its name.
func description(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "rack.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestObjectsInFilesAreCreatedWithTheirChildren(t *testing.T) {
	f, engine := newFakeEngine(t, map[string][]answer{
		"POST /v1/chassis":    {{201, `{"uuid": "c1"}`}},
		"POST /v1/nodes":      {{201, `{"uuid": "u1", "name": "n1"}`}, {409, fault("A node with name n2 already exists.")}, {201, `{"uuid": "u3", "name": "n3"}`}},
		"POST /v1/ports":      {{201, `{"uuid": "p1"}`}, {201, `{"uuid": "p2"}`}},
		"POST /v1/portgroups": {{201, `{"uuid": "g1"}`}},
	})
	var r run
	err := CreateFiles{}.Run(t.Context(), engine, []string{description(t, rack)}, r.streams())
	if code := ExitCode(err); code != ExitError {
		t.Errorf("exit code %d, want %d of the node that exists", code, ExitError)
	}
	want := []string{
		`{"description":"rack 1"}`, `{"chassis_uuid":"c1","driver":"d","name":"n1"}`,
		`{"name":"g1","node_uuid":"u1"}`, `{"address":"a2","node_uuid":"u1","portgroup_uuid":"g1","pxe_enabled":false}`,
		`{"address":"a1","node_uuid":"u1"}`, `{"driver":"d","name":"n2"}`, `{"driver":"d","name":"n3"}`,
	}
	if diff := cmp.Diff(want, f.bodies); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if want := "Created chassis c1\nCreated node n1\nCreated portgroup g1\nCreated port p1\nCreated port p2\nCreated node n3\n"; r.out.String() != want {
		t.Errorf("printed %q, want %q", r.out.String(), want)
	}
	if want := "Cannot create node n2: A node with name n2 already exists.\n"; r.err.String() != want {
		t.Errorf("reported %q, want %q", r.err.String(), want)
	}
}

func TestNothingIsCreatedOfAFileThatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"[]":                             "it must be an object with chassis or nodes",
		"machines: []":                   `it has "machines"; it may have chassis and nodes`,
		"nodes: {}":                      "nodes must be a list",
		"nodes: [{ports: [a]}]":          "nodes[0]: ports[0] must be an object",
		"chassis: [{nodes: {}}]":         "chassis[0]: nodes must be a list",
		"nodes: [\"\x1b[2J\"":            "neither JSON nor YAML",
		"chassis: [{}]\nchassis: [{}]\n": "already set",
	} {
		f, engine := newFakeEngine(t, nil)
		err := CreateFiles{}.Run(t.Context(), engine, []string{description(t, "nodes: []"), description(t, text)}, Streams{})
		if ExitCode(err) != ExitUsage || !strings.Contains(err.Error(), want) || len(f.asked) > 0 {
			t.Errorf("%q: %v after %v, want %q", text, err, f.asked, want)
		}
	}
	err := CreateFiles{}.Run(t.Context(), nil, []string{"/nowhere"}, Streams{})
	if want := "File /nowhere: no such file or directory. See --help."; Sentence(err) != want {
		t.Errorf("got %v, want %q", err, want)
	}
}
