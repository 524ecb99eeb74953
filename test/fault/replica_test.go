//go:build fault

package fault_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/test/process"
)

// waitTimeout bounds waits that have no bound of their own.
const waitTimeout = 20 * time.Second

// replica is an `ingot engine` in a process of its own.
type replica struct {
	*process.Process
	api
	t *testing.T
}

// start runs an engine on a database, with settings of the form section.key=value. It returns when
// the engine answers.
func start(t *testing.T, database, hostname string, settings ...string) *replica {
	t.Helper()
	address := process.Address(t)
	p := process.Run(t, engineCommand(database, address, hostname, settings...), filepath.Join(t.TempDir(), hostname+".log"))
	p.AwaitAnswer(t, address)
	return &replica{Process: p, api: newAPI(address, 10*time.Second), t: t}
}

// engineCommand is the command that runs an engine.
func engineCommand(database, address, hostname string, settings ...string) *exec.Cmd {
	args := []string{"engine", "--listen", address, "--set", "conductor.hostname=" + hostname}
	for _, setting := range settings {
		args = append(args, "--set", setting)
	}
	cmd := exec.Command(binary, args...)
	cmd.Env = append(os.Environ(), "INGOT_DATABASE__URL="+database)
	return cmd
}

// must is ask for requests that must succeed.
func (r *replica) must(method, path string, body any) []byte {
	r.t.Helper()
	status, answer, err := r.ask(method, path, body)
	if err != nil || status >= 300 {
		r.t.Fatalf("%s %s: %d %v: %s", method, path, status, err, answer)
	}
	return answer
}

// shownNode is the part of a node that tests use.
type shownNode struct {
	UUID      string  `json:"uuid"`
	Name      string  `json:"name"`
	State     string  `json:"provision_state"`
	LastError *string `json:"last_error"`
	Holder    *string `json:"reservation"`
	UpdatedAt *string `json:"updated_at"`
}

// create enrols a node whose verification takes some seconds.
func (r *replica) create(name string, seconds int) {
	r.t.Helper()
	r.must("POST", "/v1/nodes", map[string]any{
		"name": name, "driver": "fake-hardware", "driver_info": map[string]any{"fake_verify_delay": seconds},
	})
}

func (r *replica) manage(name string) {
	r.t.Helper()
	r.must("PUT", "/v1/nodes/"+name+"/states/provision", map[string]any{"target": "manage"})
}

// nodes returns all nodes by name.
func (r *replica) nodes() map[string]shownNode {
	r.t.Helper()
	var list struct {
		Nodes []shownNode `json:"nodes"`
	}
	if err := json.Unmarshal(r.must("GET", "/v1/nodes/detail?limit=1000", nil), &list); err != nil {
		r.t.Fatal(err)
	}
	nodes := map[string]shownNode{}
	for _, n := range list.Nodes {
		nodes[n.Name] = n
	}
	return nodes
}

// awaitManaged waits until every named node is manageable. It fails the test if the work on one has
// failed.
func (r *replica) awaitManaged(within time.Duration, names []string) {
	r.t.Helper()
	process.Eventually(r.t, within, "every node to be manageable", func() bool {
		nodes := r.nodes()
		for _, name := range names {
			n := nodes[name]
			if n.LastError != nil {
				r.t.Fatalf("node %s failed: %s", name, *n.LastError)
			}
			if n.State != "manageable" || n.Holder != nil {
				return false
			}
		}
		return true
	})
}
