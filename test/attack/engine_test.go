//go:build attack

package attack_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// engine is an engine in a process of its own.
type engine struct {
	t       *testing.T
	address string // host:port
	dir     string // with its database, unless that is on PostgreSQL, and its log
	process *os.Process
}

// startEngine runs an engine that discovers machines, until the test ends. On
// PostgreSQL, database is the URL.
func startEngine(t *testing.T, database string, settings ...string) *engine {
	t.Helper()
	e := &engine{t: t, address: freeAddress(t), dir: t.TempDir()}
	args := []string{"engine", "--listen", e.address, "--data", filepath.Join(e.dir, "data")}
	if database != "" {
		args = append(args, "--database", database)
	}
	for _, setting := range append([]string{
		"auto_discovery.enabled=true", "auto_discovery.driver=manual-management", "api.access_log=true",
	}, settings...) {
		args = append(args, "--set", setting)
	}
	log, err := os.Create(e.log())
	if err != nil {
		t.Fatal(err)
	}
	e.process = launch(t, exec.Command(binary, args...), log)
	eventually(t, "the engine answers", func() bool {
		answer, err := http.Get("http://" + e.address + "/")
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
	return e
}

func (e *engine) log() string { return filepath.Join(e.dir, "log") }

// launch runs a command until the test ends, however it ends: the kernel kills a child
// when the thread that started it does.
func launch(t *testing.T, command *exec.Cmd, output io.WriteCloser) *os.Process {
	t.Helper()
	command.Stdout, command.Stderr = output, output
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	launched, ended := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer output.Close()
		err := command.Start()
		launched <- err
		if err == nil {
			_ = command.Wait() // it is killed
			close(ended)
		}
	}()
	if err := <-launched; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill() // it may have ended
		<-ended
	})
	return command.Process
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	pause := time.NewTicker(20 * time.Millisecond)
	defer pause.Stop()
	for began := time.Now(); !ok(); <-pause.C {
		if time.Since(began) > 15*time.Second {
			t.Fatalf("not within 15 s: %s", what)
		}
	}
}

// peakMemory is the most memory that the engine had so far, in bytes.
func (e *engine) peakMemory() int64 {
	e.t.Helper()
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(e.process.Pid), "status"))
	if err != nil {
		e.t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kilobytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			if err != nil {
				e.t.Fatal(err)
			}
			return kilobytes << 10
		}
	}
	e.t.Fatal("the kernel does not say how much memory the engine has")
	return 0
}

// client is somebody at an address of their own.
type client struct {
	http *http.Client
	base string
}

// clientAt returns a client whose requests come from an address of 127.0.0.0/8.
func (e *engine) clientAt(source netip.Addr) *client {
	dialer := &net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(source, 0))}
	transport := &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 4}
	e.t.Cleanup(transport.CloseIdleConnections)
	return &client{http: &http.Client{Transport: transport, Timeout: 20 * time.Second}, base: "http://" + e.address}
}

// admin returns a client that administers the engine.
func (e *engine) admin() *client { return e.clientAt(netip.MustParseAddr("127.0.0.1")) }

// do sends a request and returns the status and the body of its answer.
func (c *client) do(ctx context.Context, method, path string, body []byte) (int, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("X-OpenStack-Ironic-API-Version", "1.84")
	r.Header.Set("Content-Type", "application/json")
	answer, err := c.http.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, text, err
}

// must sends a request that has to succeed, and returns its answer.
func (c *client) must(t *testing.T, method, path, body string) map[string]any {
	t.Helper()
	status, text, err := c.do(t.Context(), method, path, []byte(body))
	if err != nil || status >= http.StatusBadRequest {
		t.Fatalf("%s %s: %d %v %.300s", method, path, status, err, text)
	}
	var document map[string]any
	if len(text) > 0 {
		if err := json.Unmarshal(text, &document); err != nil {
			t.Fatalf("%s %s: %v", method, path, err)
		}
	}
	return document
}

// count returns how many records of a kind there are.
func (e *engine) count(kind string) (sum int) {
	e.t.Helper()
	c := e.admin()
	for path := "/v1/" + kind + "?fields=uuid"; path != ""; {
		page := c.must(e.t, http.MethodGet, path, "")
		sum += len(page[kind].([]any))
		next, _ := page["next"].(string)
		path = strings.TrimPrefix(next, c.base)
	}
	return sum
}

// node is a registered node whose inspection waits for its ramdisk.
type node struct{ uuid, mac string }

// awaitRamdisk registers a node and brings it to where it waits for its ramdisk.
func (e *engine) awaitRamdisk(i int) node {
	e.t.Helper()
	c := e.admin()
	n := node{mac: fmt.Sprintf("02:aa:00:00:%02x:%02x", i>>8, i&0xff)}
	n.uuid = c.must(e.t, http.MethodPost, "/v1/nodes", fmt.Sprintf(`{"driver":"fake-hardware","inspect_interface":"agent","name":"known-%d"}`, i))["uuid"].(string)
	c.must(e.t, http.MethodPost, "/v1/ports", fmt.Sprintf(`{"node_uuid":%q,"address":%q}`, n.uuid, n.mac))
	for _, step := range []struct{ verb, state string }{{"manage", "manageable"}, {"inspect", "inspect wait"}} {
		c.must(e.t, http.MethodPut, "/v1/nodes/"+n.uuid+"/states/provision", fmt.Sprintf(`{"target":%q}`, step.verb))
		eventually(e.t, step.state, func() bool {
			return c.must(e.t, http.MethodGet, "/v1/nodes/"+n.uuid+"?fields=provision_state", "")["provision_state"] == step.state
		})
	}
	return n
}
