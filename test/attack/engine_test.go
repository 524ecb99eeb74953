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
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/ingot-metal/ingot/test/process"
)

// engine is an engine in a process of its own.
type engine struct {
	t       *testing.T
	address string // host:port
	dir     string // with its database, unless that is on PostgreSQL, and its log
	process *process.Process
}

// Users of the engine and their roles; each has the name as password.
var users = map[string]string{"ann": "admin", "otto": "operator", "rita": "reader"}

// passwordCost is the cost of checking a wrong password, as in htpasswd -C, whose default is 5.
const passwordCost = 8

// writeUsers writes the users and their roles, and returns the settings for them.
func writeUsers(t *testing.T, dir string) []string {
	t.Helper()
	var hashes, roles strings.Builder
	for user, role := range users {
		hash, err := bcrypt.GenerateFromPassword([]byte(user), passwordCost)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&hashes, "%s:%s\n", user, hash)
		fmt.Fprintf(&roles, "%s: %s\n", user, role)
	}
	settings := []string{"api.auth=http_basic"}
	for key, text := range map[string]string{"htpasswd_file": hashes.String(), "role_file": roles.String()} {
		file := filepath.Join(dir, key)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		settings = append(settings, "api."+key+"="+file)
	}
	return settings
}

// startEngine runs an engine that discovers machines, until the test ends. On
// PostgreSQL, database is the URL.
func startEngine(t *testing.T, database string, settings ...string) *engine {
	t.Helper()
	e := &engine{t: t, address: process.Address(t), dir: t.TempDir()}
	args := []string{"engine", "--listen", e.address, "--data", filepath.Join(e.dir, "data")}
	if database != "" {
		args = append(args, "--database", database)
	}
	for _, setting := range slices.Concat([]string{
		"auto_discovery.enabled=true", "auto_discovery.driver=manual-management", "api.access_log=true",
	}, writeUsers(t, e.dir), settings) {
		args = append(args, "--set", setting)
	}
	e.process = process.Run(t, exec.Command(binary, args...), filepath.Join(e.dir, "log"))
	e.process.AwaitAnswer(t, e.address)
	return e
}

// waitTimeout bounds waits for what has no bound of its own.
const waitTimeout = 15 * time.Second

// client is a person or machine with an address of its own.
type client struct {
	http *http.Client
	base string
	user string // empty for machines
}

// clientAt returns a client whose requests come from an address of 127.0.0.0/8.
func (e *engine) clientAt(source netip.Addr) *client {
	dialer := &net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(source, 0))}
	transport := &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 4}
	e.t.Cleanup(transport.CloseIdleConnections)
	return &client{http: &http.Client{Transport: transport, Timeout: 20 * time.Second}, base: "http://" + e.address}
}

// admin returns a client that administers the engine.
func (e *engine) admin() *client { return e.user("ann") }

// user returns the client of a user.
func (e *engine) user(name string) *client {
	c := e.clientAt(netip.MustParseAddr("127.0.0.1"))
	c.user = name
	return c
}

// do sends a request and returns the status and the body of its answer.
func (c *client) do(ctx context.Context, method, path string, body []byte) (int, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("X-OpenStack-Ironic-API-Version", "1.84")
	r.Header.Set("Content-Type", "application/json")
	if c.user != "" {
		r.SetBasicAuth(c.user, c.user)
	}
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

// node is a registered node with a port.
type node struct{ uuid, mac string }

// macOf is the address of node i.
func macOf(i int) string { return fmt.Sprintf("02:aa:00:00:%02x:%02x", i>>8, i&0xff) }

// register registers node i, which becomes manageable.
func (e *engine) register(i int) node {
	e.t.Helper()
	c := e.admin()
	n := node{mac: macOf(i)}
	n.uuid = c.must(e.t, http.MethodPost, "/v1/nodes", fmt.Sprintf(`{"driver":"fake-hardware","inspect_interface":"agent","name":"known-%d"}`, i))["uuid"].(string)
	c.must(e.t, http.MethodPost, "/v1/ports", fmt.Sprintf(`{"node_uuid":%q,"address":%q}`, n.uuid, n.mac))
	e.provision(n, "manage", "manageable")
	return n
}

// awaitRamdisk registers node i and brings it to a state in which it waits for its ramdisk.
func (e *engine) awaitRamdisk(i int) node {
	e.t.Helper()
	n := e.register(i)
	e.provision(n, "inspect", "inspect wait")
	return n
}

// provision sends a verb and waits for the state that it leads to.
func (e *engine) provision(n node, verb, state string) {
	e.t.Helper()
	e.admin().must(e.t, http.MethodPut, "/v1/nodes/"+n.uuid+"/states/provision", fmt.Sprintf(`{"target":%q}`, verb))
	e.awaitState(n, state)
}

func (e *engine) awaitState(n node, state string) {
	e.t.Helper()
	process.Eventually(e.t, waitTimeout, "the state "+state, func() bool {
		return e.show(n)["provision_state"] == state
	})
}

// show returns the node as its administrator sees it.
func (e *engine) show(n node) map[string]any {
	e.t.Helper()
	return e.admin().must(e.t, http.MethodGet, "/v1/nodes/"+n.uuid, "")
}
