//go:build fault

package fault_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// patience bounds waits for what has no bound of its own.
const patience = 20 * time.Second

// replica is an `ingot engine` in a process of its own.
type replica struct {
	t      *testing.T
	url    string
	cmd    *exec.Cmd
	done   chan struct{} // closed when the process has ended
	client *http.Client
}

// start runs an engine on a database and returns when it answers.
func start(t *testing.T, database, hostname string) *replica {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), hostname+".log"))
	if err != nil {
		t.Fatal(err)
	}
	r := &replica{
		t: t, url: "http://" + address, done: make(chan struct{}),
		cmd:    exec.Command(binary, "engine", "--listen", address, "--set", "conductor.hostname="+hostname),
		client: &http.Client{Timeout: 10 * time.Second},
	}
	r.cmd.Env = append(os.Environ(), "INGOT_DATABASE__URL="+database)
	r.cmd.Stdout, r.cmd.Stderr = log, log
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = r.cmd.Wait() // tests kill it
		close(r.done)
	}()
	t.Cleanup(func() {
		r.signal(syscall.SIGKILL)
		<-r.done
		if text, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			t.Logf("log of %s:\n%s", hostname, text)
		}
	})
	eventually(t, patience, hostname+" to answer", func() bool {
		_, _, err := r.ask("GET", "/", nil)
		return err == nil
	})
	return r
}

func (r *replica) signal(s syscall.Signal) { _ = r.cmd.Process.Signal(s) } // it may have ended

// ask sends a request and returns its answer.
func (r *replica) ask(method, path string, body any) (status int, answer []byte, err error) {
	content, err := json.Marshal(body)
	if err != nil {
		return 0, nil, err
	}
	request, err := http.NewRequestWithContext(context.Background(), method, r.url+path, bytes.NewReader(content))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-OpenStack-Ironic-API-Version", "latest")
	response, err := r.client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

// must is ask for requests that have to succeed.
func (r *replica) must(method, path string, body any) []byte {
	r.t.Helper()
	status, answer, err := r.ask(method, path, body)
	if err != nil || status >= 300 {
		r.t.Fatalf("%s %s: %d %v: %s", method, path, status, err, answer)
	}
	return answer
}

// shownNode is what tests look at.
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

// awaitManaged waits until every named node is manageable, and fails the test
// when the work on one did.
func (r *replica) awaitManaged(within time.Duration, names []string) {
	r.t.Helper()
	eventually(r.t, within, "every node to be manageable", func() bool {
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

// names returns count names that begin with prefix.
func names(prefix string, count int) []string {
	list := make([]string, count)
	for i := range list {
		list[i] = fmt.Sprint(prefix, "-", i)
	}
	return list
}

// eventually polls until condition holds.
func eventually(t *testing.T, within time.Duration, what string, condition func() bool) {
	t.Helper()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	deadline := time.After(within)
	for !condition() {
		select {
		case <-poll.C:
		case <-deadline:
			t.Fatalf("gave up after %v waiting for %s", within, what)
		}
	}
}
