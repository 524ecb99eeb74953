package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/engine"
	"github.com/ingot-metal/ingot/internal/polltest"
	"github.com/ingot-metal/ingot/internal/store/storetest"
)

// testTimeout is how long tests wait for what the engine does in the background.
const testTimeout = 20 * time.Second

// running is an engine on a port of its own, with its log and every answer that
// the test read from it.
type running struct {
	*engine.Engine
	client  *http.Client
	log     *syncBuffer
	seen    *syncBuffer
	stopped bool
}

// start runs an engine that enrols unknown machines as fake hardware until the
// test ends.
func start(t *testing.T, change func(*engine.Config)) *running {
	t.Helper()
	return startIn(t, t.TempDir(), change)
}

// startIn is start on a data folder.
func startIn(t *testing.T, dir string, change func(*engine.Config)) *running {
	t.Helper()
	e, err := tryStart(t, dir, change)
	if err != nil {
		t.Fatalf("start engine: %v", err)
	}
	return e
}

func tryStart(t *testing.T, dir string, change func(*engine.Config)) (*running, error) {
	t.Helper()
	cfg := engine.DefaultConfig()
	cfg.API.Listen = "127.0.0.1:0"
	cfg.Database.Dir, cfg.Database.URL = dir, storetest.Options(t, dir).URL
	cfg.Conductor.Hostname = "engine-under-test"
	cfg.Agent.RequireTLS = false
	cfg.Agent.VerifyCallbackAddress = false
	cfg.AutoDiscovery.Enabled = true
	cfg.AutoDiscovery.Driver = "fake-hardware"
	if change != nil {
		change(&cfg)
	}
	if err := cfg.Validate(); err != nil {
		t.Fatalf("configure engine: %v", err)
	}
	r := &running{client: newClient(), log: &syncBuffer{}, seen: &syncBuffer{}}
	log := slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	e, err := engine.Start(t.Context(), engine.Options{Config: cfg, Logger: log})
	if err != nil {
		return nil, err
	}
	r.Engine = e
	t.Cleanup(func() { r.stop(t) })
	return r, nil
}

// stop stops the engine; a second time does nothing.
func (r *running) stop(t *testing.T) {
	t.Helper()
	if r.stopped {
		return
	}
	r.stopped = true
	r.client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	if err := r.Stop(ctx); err != nil {
		t.Errorf("stop engine: %v", err)
	}
}

// newClient returns a client with connections of its own.
func newClient() *http.Client {
	return &http.Client{Transport: &http.Transport{}, Timeout: time.Minute}
}

// address is where the engine listens, host:port.
func (r *running) address() string { return strings.TrimPrefix(r.URL(), "http://") }

// answer is what the engine said to one request.
type answer struct {
	status int
	header http.Header
	body   string
}

// headers are the headers of a request by name.
type headers map[string]string

// latest asks for the newest microversion.
var latest = headers{"X-OpenStack-Ironic-API-Version": "latest"}

// send sends one request and reads the whole answer. A nil body sends none.
func (r *running) send(t *testing.T, method, path string, h headers, body io.Reader) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, r.URL()+path, body)
	if err != nil {
		t.Fatalf("make request: %v", err)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	for name, value := range h {
		request.Header.Set(name, value)
	}
	response, err := r.client.Do(request)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s %s: read answer: %v", method, path, err)
	}
	fmt.Fprintf(r.seen, "%s %s: %d %v %s\n", method, path, response.StatusCode, response.Header, text)
	return answer{status: response.StatusCode, header: response.Header, body: string(text)}
}

// do sends a request at the newest microversion.
func (r *running) do(t *testing.T, method, path, body string) answer {
	t.Helper()
	if body == "" {
		return r.send(t, method, path, latest, nil)
	}
	return r.send(t, method, path, latest, strings.NewReader(body))
}

// want fails the test unless the answer has the status.
func (a answer) want(t *testing.T, status int) answer {
	t.Helper()
	if a.status != status {
		t.Fatalf("got status %d, want %d: %s", a.status, status, a.body)
	}
	return a
}

// object decodes the answer's body.
func (a answer) object(t *testing.T) map[string]any {
	t.Helper()
	return decodeObject(t, a.body)
}

func decodeObject(t *testing.T, text string) map[string]any {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		t.Fatalf("decode %q: %v", text, err)
	}
	return object
}

// create makes a node and returns its UUID.
func (r *running) create(t *testing.T, body string) string {
	t.Helper()
	uuid, _ := r.do(t, "POST", "/v1/nodes", body).want(t, http.StatusCreated).object(t)["uuid"].(string)
	return uuid
}

// node reads a node.
func (r *running) node(t *testing.T, ident string) map[string]any {
	t.Helper()
	return r.do(t, "GET", "/v1/nodes/"+ident, "").want(t, http.StatusOK).object(t)
}

// post posts inspection data as agents do, without a version, and returns the
// UUID of the node.
func (r *running) post(t *testing.T, document string) string {
	t.Helper()
	uuid, _ := r.send(t, "POST", "/v1/continue_inspection", nil, strings.NewReader(document)).want(t, http.StatusOK).object(t)["uuid"].(string)
	return uuid
}

// awaitNode waits until the node is as wanted and returns it.
func (r *running) awaitNode(t *testing.T, ident string, done func(n map[string]any) bool) map[string]any {
	t.Helper()
	var n map[string]any
	eventually(t, "node "+ident+" as wanted", func() bool {
		n = r.node(t, ident)
		return done(n)
	})
	return n
}

func inState(state string) func(map[string]any) bool {
	return func(n map[string]any) bool {
		return n["provision_state"] == state && n["target_provision_state"] == nil
	}
}

func inspected(n map[string]any) bool { return n["inspection_finished_at"] != nil }

// rows is everything that clients can see of what is stored.
func (r *running) rows(t *testing.T) string {
	t.Helper()
	return r.do(t, "GET", "/v1/nodes/detail", "").want(t, http.StatusOK).body + "\n" +
		r.do(t, "GET", "/v1/ports/detail", "").want(t, http.StatusOK).body
}

// eventually polls until done holds, and fails the test when it never does.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	polltest.UntilTrue(t, testTimeout, what, done)
}

// machine is the inspection document of a machine with these MAC addresses.
func machine(macs ...string) string {
	var interfaces []string
	for i, mac := range macs {
		interfaces = append(interfaces, fmt.Sprintf(`{"name":"eno%d","mac_address":%q,"ipv4_address":"192.0.2.%d","has_carrier":true,"lldp":null}`, i+1, mac, i+1))
	}
	return inventoryOf(strings.Join(interfaces, ","), "")
}

// inventoryOf is an inspection document with these interfaces and more members
// of the inventory, which begin with a comma.
func inventoryOf(interfaces, more string) string {
	return `{"inventory":{"interfaces":[` + interfaces + `],"cpu":{"count":8,"architecture":"x86_64"},"memory":{"physical_mb":16384},"disks":[]` + more + `}}`
}

// dial opens a connection to the engine that ends with the test.
func (r *running) dial(t *testing.T) net.Conn {
	t.Helper()
	return dial(t, r.address())
}

// dialMetrics opens a connection to the metrics that ends with the test.
func (r *running) dialMetrics(t *testing.T) net.Conn {
	t.Helper()
	return dial(t, strings.TrimSuffix(strings.TrimPrefix(r.MetricsURL(), "http://"), "/metrics"))
}

// dial opens a connection that ends with the test.
func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() { connection.Close() })
	if err := connection.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return connection
}

// exchange sends text on a connection of its own, word for word, and returns
// all that comes back before the engine closes it.
func (r *running) exchange(t *testing.T, text string) string {
	t.Helper()
	connection := r.dial(t)
	if _, err := io.WriteString(connection, text); err != nil {
		t.Fatalf("send: %v", err)
	}
	all, err := io.ReadAll(connection)
	if err != nil {
		t.Fatalf("receive: %v", err)
	}
	return string(all)
}

// syncBuffer collects text from many goroutines.
type syncBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write adds text.
func (b *syncBuffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(text)
}

// String returns all text so far.
func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
