//go:build compat

package compat_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/test/process"
)

// TestEveryWriteIsOnDiskBeforeItIsAnswered watches the system calls of a real engine while clients
// write to it, alone and at the same time. For every write request that was answered with success,
// the engine must have written the data of the request to the database's log and made it durable.
// Both must have happened after the request arrived and before the engine began to answer.
func TestEveryWriteIsOnDiskBeforeItIsAnswered(t *testing.T) {
	e := startTracedEngine(t)
	requests := e.writeOneByOne(t)
	requests = append(requests, e.writeAtOnce(t)...)
	must(t, "end the engine, and with it strace", e.Stop(time.Minute))

	trace, err := os.Open(e.trace)
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	events, err := parseTrace(trace)
	if err != nil {
		t.Fatalf("read the trace: %v", err)
	}
	seen := map[string]exchange{}
	for _, x := range exchanges(events) {
		seen[x.id] = x
	}
	for _, r := range requests {
		x, ok := seen[r.id]
		if !ok || x.status != r.status {
			t.Errorf("%s %s (%s) was answered with %d, but the trace shows %+v", r.method, r.path, r.id, r.status, x)
			continue
		}
		if err := durable(events, x, r.marker); err != nil {
			t.Errorf("%s: %v", r.what, err)
		}
	}
	t.Logf("%d write requests, %d system calls of reading, writing and syncing", len(requests), len(events))
}

// TestAnAnswerBeforeItsSyncIsFound makes sure that the check above can fail.
func TestAnAnswerBeforeItsSyncIsFound(t *testing.T) {
	const (
		arrives     = `10 1.000001 read(7<socket:[5]>, "POST /v1/nodes HTTP/1.1\r\nX-Exchange: a-1\r\n\r\n{\"name\"", 4096) = 60`
		otherReads  = `10 1.000002 read(7<socket:[5]>, ":\"m) = 5\"}", 4096) = 9`
		begins      = `11 1.000003 pwrite64(5</d/ingot.db-wal>, "x\0m1\"", 4096, 56 <unfinished ...>`
		interrupted = `12 1.000004 read(8<socket:[6]>, 0xc000, 4096) = -1 EAGAIN (Resource temporarily unavailable)`
		resumes     = `11 1.000005 <... pwrite64 resumed>) = 4096`
		syncs       = `11 1.000006 fsync(5</d/ingot.db-wal>)   = 0`
		syncsElse   = `11 1.000006 fsync(6</d/ingot.db>) = 0`
		syncFails   = `11 1.000006 fsync(5</d/ingot.db-wal>) = -1 EIO (Input/output error)`
		signal      = `11 1.000007 --- SIGURG {si_signo=SIGURG, si_code=SI_TKILL} ---`
		answers     = `10 1.000008 write(7<socket:[5]>, "HTTP/1.1 201 Created\r\n"..., 300) = 300`
	)
	tests := map[string]struct {
		lines []string
		want  string // part of the error; empty means that the answer was durable
	}{
		"durable":            {[]string{arrives, otherReads, begins, interrupted, resumes, syncs, signal, answers}, ""},
		"answer first":       {[]string{arrives, begins, resumes, answers, syncs}, "no finished sync"},
		"sync before data":   {[]string{arrives, syncs, begins, resumes, answers}, "no finished sync"},
		"sync of other file": {[]string{arrives, begins, resumes, syncsElse, answers}, "no finished sync"},
		"sync failed":        {[]string{arrives, begins, resumes, syncFails, answers}, "no finished sync"},
		"sync before":        {[]string{begins, resumes, syncs, arrives, answers}, "not written"},
		"data not written":   {[]string{arrives, syncs, answers}, "not written"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			events, err := parseTrace(strings.NewReader(strings.Join(test.lines, "\n")))
			if err != nil {
				t.Fatal(err)
			}
			found := exchanges(events)
			if len(found) != 1 || found[0].id != "a-1" || found[0].status != 201 {
				t.Fatalf("found exchanges %+v, want one: a-1 answered with 201", found)
			}
			err = durable(events, found[0], "m1")
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

// durable returns an error unless the database's log was written and then synced, after the request
// arrived and before its answer. What was written must have the marker. An empty marker stands for
// any write.
func durable(events []syscallEvent, x exchange, marker string) error {
	written := 0 // line at which the last such write ended
	for _, e := range events {
		if !strings.HasSuffix(e.fd, "ingot.db-wal") || !e.ok() || e.start < x.arrived || e.end > x.answer {
			continue
		}
		switch e.name {
		case "pwrite64":
			if written == 0 && strings.Contains(e.args, marker) {
				written = e.end
			}
		case "fsync", "fdatasync":
			if written != 0 && e.start > written {
				return nil
			}
		}
	}
	where := fmt.Sprintf("%q (%s, trace lines %d to %d, answered at %s)", x.request, x.id, x.arrived, x.answer, x.at)
	if written == 0 {
		return fmt.Errorf("%s: %q was not written to the database's log between request and answer", where, marker)
	}
	return fmt.Errorf("%s: no finished sync of the database's log between writing %q to it and the answer", where, marker)
}

// tracedEngine is a real engine under strace.
type tracedEngine struct {
	*process.Process
	url   string
	trace string
}

// startTracedEngine builds and starts an engine that enrols unknown machines.
func startTracedEngine(t *testing.T) *tracedEngine {
	t.Helper()
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Fatal("strace is needed to see when the engine syncs its disk: install Debian's package strace")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "ingot")
	must(t, "build", process.Build(t.Context(), ".", program, "-pgo=off"))
	address := process.Address(t)
	e := &tracedEngine{url: "http://" + address, trace: filepath.Join(dir, "trace")}
	// strace passes on no signals, so the engine gets them through its process group.
	e.Process = process.Run(t, exec.Command(strace, "-f", "--seccomp-bpf", "-ttt", "-y", "-s", "16384", "-o", e.trace,
		"-e", "trace=read,write,pwrite64,fsync,fdatasync",
		program, "engine", "--data", filepath.Join(dir, "data"), "--listen", address,
		"--set", "auto_discovery.enabled=true", "--set", "auto_discovery.driver=manual-management"), filepath.Join(dir, "log"))
	e.AwaitAnswer(t, address)
	return e
}

// writeRequest is a request that changed something, with what identifies it in the trace.
type writeRequest struct {
	what, id, method, path string
	status                 int
	marker                 string // text that it must have written; empty means any
}

// session writes to an engine over one connection and remembers what it asked.
type session struct {
	t      *testing.T
	name   string
	url    string
	client *http.Client
	made   []writeRequest
}

func (e *tracedEngine) session(t *testing.T, name string) *session {
	t.Helper()
	transport := &http.Transport{MaxConnsPerHost: 1}
	t.Cleanup(transport.CloseIdleConnections)
	return &session{t: t, name: name, url: e.url, client: &http.Client{Transport: transport, Timeout: time.Minute}}
}

// do sends a request and decodes its answer. Everything but a GET is remembered.
func (s *session) do(what, method, path, body, marker string, status int) map[string]any {
	s.t.Helper()
	id := fmt.Sprintf("%s-%d", s.name, len(s.made))
	request, err := http.NewRequestWithContext(context.Background(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if !strings.HasPrefix(path, "/v1/continue_inspection") {
		request.Header.Set("X-OpenStack-Ironic-API-Version", "1.84")
	}
	writes := marker != readOnly
	if writes {
		request.Header.Set(exchangeHeader, id)
	}
	answer, err := s.client.Do(request)
	if err != nil {
		s.t.Fatalf("%s: %v", what, err)
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatalf("%s: %v", what, err)
	}
	if answer.StatusCode != status {
		s.t.Fatalf("%s: %s %s answered %d, want %d: %s", what, method, path, answer.StatusCode, status, content)
	}
	if writes {
		s.made = append(s.made, writeRequest{what: what, id: id, method: method, path: path, status: status, marker: marker})
	}
	var decoded map[string]any
	if len(bytes.TrimSpace(content)) > 0 {
		if err := json.Unmarshal(content, &decoded); err != nil {
			s.t.Fatalf("%s: read answer: %v", what, err)
		}
	}
	return decoded
}

// readOnly marks a request that changes nothing.
const readOnly = "\x00"

// awaitNode waits until a node satisfies a condition. Otherwise the work on the node could write in
// place of the next request.
func (s *session) awaitNode(node string, done func(map[string]any) bool) {
	s.t.Helper()
	process.Eventually(s.t, time.Minute, "the end of the work on node "+node, func() bool {
		return done(s.do("show", http.MethodGet, "/v1/nodes/"+node, "", readOnly, http.StatusOK))
	})
}

func inState(state string) func(map[string]any) bool {
	return func(n map[string]any) bool { return n["provision_state"] == state && n["reservation"] == nil }
}

func inspected(n map[string]any) bool {
	return n["inspection_finished_at"] != nil && n["reservation"] == nil
}

// register walks one node by hand through every kind of write.
func (s *session) register(serial int) {
	name := fmt.Sprintf("%s-node-%d", s.name, serial)
	mac := fmt.Sprintf("02:%02x:00:00:%02x:01", s.name[0], serial)
	node := s.do("create node", "POST", "/v1/nodes", fmt.Sprintf(`{"driver":"fake-hardware","name":%q}`, name), name, 201)["uuid"].(string)
	path := "/v1/nodes/" + node
	s.do("patch node", "PATCH", path, fmt.Sprintf(`[{"op":"add","path":"/extra/note","value":"noted-%s"}]`, name), "noted-"+name, 200)
	port := s.do("create port", "POST", "/v1/ports", fmt.Sprintf(`{"node_uuid":%q,"address":%q}`, node, mac), mac, 201)["uuid"].(string)
	s.do("patch port", "PATCH", "/v1/ports/"+port, fmt.Sprintf(`[{"op":"add","path":"/extra/note","value":"port-of-%s"}]`, name), "port-of-"+name, 200)
	s.do("start maintenance", "PUT", path+"/maintenance", fmt.Sprintf(`{"reason":"repair-%s"}`, name), "repair-"+name, 202)
	s.do("end maintenance", "DELETE", path+"/maintenance", "", name, 202)
	s.do("manage", "PUT", path+"/states/provision", `{"target":"manage"}`, name, 202)
	s.awaitNode(node, inState("manageable"))
	s.do("provide", "PUT", path+"/states/provision", `{"target":"provide"}`, name, 202)
	s.awaitNode(node, inState("available"))
	s.do("delete port", "DELETE", "/v1/ports/"+port, "", "", 204)
	s.do("delete node", "DELETE", path, "", "", 204)
}

// discover lets an unknown machine post its inventory, look itself up and
// heartbeat.
func (s *session) discover(serial int) {
	mac := fmt.Sprintf("02:%02x:00:00:%02x:02", s.name[0], serial)
	address := fmt.Sprintf("192.0.2.%d", serial+1)
	node := s.do("continue_inspection", "POST", "/v1/continue_inspection", fmt.Sprintf(`{"inventory":{
		"interfaces":[{"name":"eth0","mac_address":%q,"ipv4_address":%q,"has_carrier":true,"lldp":null,"vendor":"0x8086","product":"0x1533"}],
		"cpu":{"architecture":"x86_64","count":4,"model_name":"CPU","frequency":"2000","flags":[]},
		"disks":[],"memory":{"total":8589934592,"physical_mb":8192},"bmc_address":"0.0.0.0","bmc_v6address":"::/0",
		"system_vendor":{"product_name":"P","serial_number":"S","manufacturer":"M"},
		"boot":{"current_boot_mode":"uefi","pxe_interface":%q},"hostname":"h"}}`, mac, address, mac), mac, 200)["uuid"].(string)
	s.awaitNode(node, inspected)
	config := s.do("lookup", "GET", "/v1/lookup?addresses="+mac, "", "agent_secret_token", 200)["config"].(map[string]any)
	callback := "https://" + address + ":9999"
	s.do("heartbeat", "POST", "/v1/heartbeat/"+node,
		fmt.Sprintf(`{"callback_url":%q,"agent_version":"9.11","agent_token":%q}`, callback, config["agent_token"]), address, 202)
	s.do("delete discovered node", "DELETE", "/v1/nodes/"+node, "", "", 204)
}

func (e *tracedEngine) writeOneByOne(t *testing.T) []writeRequest {
	t.Helper()
	s := e.session(t, "alone")
	s.register(0)
	s.discover(0)
	return s.made
}

// writeAtOnce lets several clients write at the same time, so that their writes share commits.
func (e *tracedEngine) writeAtOnce(t *testing.T) []writeRequest {
	t.Helper()
	const clients, rounds = 8, 3
	var mu sync.Mutex
	var made []writeRequest
	t.Run("at once", func(t *testing.T) {
		for i := range clients {
			name := string(rune('b'+i)) + "-together"
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := e.session(t, name)
				for serial := range rounds {
					s.register(serial)
					s.discover(rounds*i + serial)
				}
				mu.Lock()
				defer mu.Unlock()
				made = append(made, s.made...)
			})
		}
	})
	return made
}
