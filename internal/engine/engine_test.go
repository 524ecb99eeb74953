package engine_test

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/engine"
	"github.com/ingot-metal/ingot/internal/store/storetest"
)

func TestEngineAnswersOnAPortOfItsOwn(t *testing.T) {
	e := start(t, nil)
	root := e.send(t, "GET", "/", nil, nil).want(t, http.StatusOK).object(t)
	if root["name"] != "OpenStack Ironic API" {
		t.Errorf("name is %v, which clients of this API match on", root["name"])
	}
	if versions, ok := root["versions"].([]any); !ok || len(versions) != 1 {
		t.Errorf("got versions %v, want exactly one", root["versions"])
	}
	e.send(t, "GET", "/healthcheck", nil, nil).want(t, http.StatusOK)
}

func TestSecondEngineOnTheSameFolderIsRefused(t *testing.T) {
	storetest.NeedsFiles(t)
	dir := t.TempDir()
	first := startIn(t, dir, nil)
	uuid := first.create(t, `{"driver":"fake-hardware"}`)
	second, err := tryStart(t, dir, nil)
	if err == nil {
		second.stop(t)
		t.Fatal("two engines share one data folder")
	}
	if text := err.Error(); !strings.Contains(text, dir) || strings.Contains(text, "\n") {
		t.Errorf("got %q, want one line that names %s", text, dir)
	}
	first.node(t, uuid) // the first engine does not notice
	first.stop(t)
	startIn(t, dir, nil).node(t, uuid) // the folder is free again
}

func TestBusyPortIsSaidInOneSentence(t *testing.T) {
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := filepath.Join(t.TempDir(), "data")
	_, err = tryStart(t, dir, func(c *engine.Config) { c.API.Listen = taken.Addr().String() })
	if err == nil {
		t.Fatal("two listeners share one port")
	}
	if text := err.Error(); !strings.Contains(text, taken.Addr().String()) || !strings.Contains(text, "--listen") || strings.Contains(text, "\n") {
		t.Errorf("got %q, want one line that names the address and the way out", text)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the data folder was made although the port is busy: %v", err)
	}
}

func TestMistakesInTheConfigurationStopTheStart(t *testing.T) {
	tests := map[string]struct {
		change func(*engine.Config)
		want   string
	}{
		"unknown hardware type": {func(c *engine.Config) { c.Driver.EnabledHardwareTypes = []string{"toaster"} }, "toaster"},
		"driver that is off": {func(c *engine.Config) {
			c.Driver.EnabledHardwareTypes, c.AutoDiscovery.Driver = []string{"fake-hardware"}, "redfish"
		}, "auto_discovery.driver"},
		"unknown hook": {func(c *engine.Config) { c.Inspector.Hooks = []string{"magic"} }, "magic"},
		"option of a hook": {func(c *engine.Config) {
			c.Inspector.Hooks, c.Inspector.KnownAccelerators = []string{"accelerators"}, "/nonexistent.yaml"
		}, "inspector.known_accelerators"},
		"unknown choice of ports":  {func(c *engine.Config) { c.Inspector.AddPorts = "some" }, "some"},
		"database of another kind": {func(c *engine.Config) { c.Database.URL = "oracle://localhost/x" }, "open database"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			e, err := tryStart(t, t.TempDir(), test.change)
			if err == nil {
				e.stop(t)
				t.Fatal("the engine started")
			}
			if !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %q, want one line with %q", err, test.want)
			}
		})
	}
}

func TestDataThatIsNoDatabaseIsNamed(t *testing.T) {
	storetest.NeedsFiles(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "ingot.db")
	if err := os.WriteFile(file, []byte(strings.Repeat("not a database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := tryStart(t, dir, nil)
	if err == nil {
		e.stop(t)
		t.Fatal("the engine started over a file that is no database")
	}
	if text := err.Error(); !strings.Contains(text, dir) || strings.Contains(text, "\n") {
		t.Errorf("got %q, want one line that names %s", text, dir)
	}
}

func TestDataIsReadableByItsOwnerOnly(t *testing.T) {
	storetest.NeedsFiles(t)
	dir := filepath.Join(t.TempDir(), "new", "data")
	e := startIn(t, dir, nil)
	e.post(t, machine("52:54:00:00:00:01"))
	files := 0
	check := func() {
		t.Helper()
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := entry.Info()
			if err != nil {
				return err
			}
			if !entry.IsDir() {
				files++
			}
			if info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s has mode %s: others may read it", path, info.Mode())
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	check()
	e.stop(t)
	check()
	if files == 0 {
		t.Error("there are no data files")
	}
}

func TestRestartKeepsWhatWasStored(t *testing.T) {
	dir := t.TempDir()
	before := startIn(t, dir, nil)
	before.create(t, `{"driver":"fake-hardware","name":"rack1~a","driver_info":{"ipmi_password":"hidden"},"extra":{"n":12345678901234567890}}`)
	found := before.post(t, machine("52:54:00:00:00:01", "52:54:00:00:00:02"))
	before.awaitNode(t, found, inspected)
	before.do(t, "PUT", "/v1/nodes/"+found+"/states/provision", `{"target":"manage"}`).want(t, http.StatusAccepted)
	before.awaitNode(t, found, inState("manageable"))
	inventory := "/v1/nodes/" + found + "/inventory"
	rows, document := before.rows(t), before.do(t, "GET", inventory, "").want(t, http.StatusOK).body
	address := before.address()
	before.stop(t)

	after := startIn(t, dir, nil)
	if got := strings.ReplaceAll(after.rows(t), after.address(), address); got != rows {
		t.Errorf("after the restart there is\n%s\nbefore there was\n%s", got, rows)
	}
	if got := after.do(t, "GET", inventory, "").want(t, http.StatusOK).body; got != document {
		t.Errorf("the inventory changed:\n%s\n%s", got, document)
	}
	again := after.send(t, "POST", "/v1/continue_inspection", nil, strings.NewReader(machine("52:54:00:00:00:02", "52:54:00:00:00:01")))
	if again.want(t, http.StatusNotFound); strings.ReplaceAll(after.rows(t), after.address(), address) != rows {
		t.Error("the machine was enrolled again although it is known")
	}
}

// TestStopLosesNoAnsweredPost stops an engine in the middle of a storm, again and
// again, and checks that every machine that got its answer ends complete.
func TestStopLosesNoAnsweredPost(t *testing.T) {
	const posters, perRound, rounds = 8, 12, 2
	dir := t.TempDir()
	var answered []string
	for round := range rounds {
		e := startIn(t, dir, nil)
		got := make(chan string, posters*perRound)
		for p := range posters {
			go func() {
				// One connection each, none that is opened in vain: stopping
				// would wait for those.
				client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
				defer client.CloseIdleConnections()
				for i := range perRound {
					got <- tryPost(t.Context(), client, e.URL(), fmt.Sprintf("52:54:00:%02x:%02x:%02x", round, p, i))
				}
			}()
		}
		for i := range posters * perRound {
			if uuid := <-got; uuid != "" {
				answered = append(answered, uuid)
			}
			if i == posters*perRound/2 {
				e.stop(t)
			}
		}
	}
	e := startIn(t, dir, nil)
	for _, uuid := range answered {
		n := e.awaitNode(t, uuid, inspected)
		if n["provision_state"] != "enroll" || n["last_error"] != nil || n["reservation"] != nil {
			t.Errorf("node %s is %v, error %v, reserved by %v", uuid, n["provision_state"], n["last_error"], n["reservation"])
		}
		ports, _ := e.do(t, "GET", "/v1/nodes/"+uuid+"/ports", "").want(t, http.StatusOK).object(t)["ports"].([]any)
		if len(ports) != 1 {
			t.Errorf("node %s has %d ports, want 1", uuid, len(ports))
		}
	}
	if len(answered) < rounds*posters {
		t.Errorf("only %d posts were answered", len(answered))
	}
}

// TestVerbsGoOnAfterARestart asks for verbs and stops the engine at once.
func TestVerbsGoOnAfterARestart(t *testing.T) {
	const count = 30
	dir := t.TempDir()
	e := startIn(t, dir, func(c *engine.Config) { c.Conductor.Workers = 1 })
	uuids := make([]string, count)
	for i := range uuids {
		uuids[i] = e.create(t, `{"driver":"fake-hardware"}`)
	}
	var asking sync.WaitGroup
	for _, uuid := range uuids {
		asking.Go(func() {
			if got := e.do(t, "PUT", "/v1/nodes/"+uuid+"/states/provision", `{"target":"manage"}`); got.status != http.StatusAccepted {
				t.Errorf("manage node %s: got %d %s", uuid, got.status, got.body)
			}
		})
	}
	asking.Wait()
	e.stop(t)
	e = startIn(t, dir, nil)
	for _, uuid := range uuids {
		if n := e.awaitNode(t, uuid, inState("manageable")); n["last_error"] != nil || n["power_state"] == nil {
			t.Errorf("node %s has power state %v and error %v", uuid, n["power_state"], n["last_error"])
		}
	}
}

// TestPatchesAtOnceAllSucceed shows that clients who change one node at the same
// time lose nothing of each other's.
func TestPatchesAtOnceAllSucceed(t *testing.T) {
	const count = 24
	e := start(t, nil)
	uuid := e.create(t, `{"driver":"fake-hardware"}`)
	var patching sync.WaitGroup
	for i := range count {
		patching.Go(func() {
			if got := e.do(t, "PATCH", "/v1/nodes/"+uuid, fmt.Sprintf(`[{"op":"add","path":"/extra/k%d","value":%d}]`, i, i)); got.status != http.StatusOK {
				t.Errorf("change %d: got %d %s", i, got.status, got.body)
			}
		})
	}
	patching.Wait()
	if extra, _ := e.node(t, uuid)["extra"].(map[string]any); len(extra) != count {
		t.Errorf("of %d changes there are %v", count, extra)
	}
}

// tryPost posts the inspection data of a machine and returns the node's UUID, or
// "" when the engine was gone.
func tryPost(ctx context.Context, client *http.Client, url, mac string) string {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/continue_inspection", strings.NewReader(machine(mac)))
	if err != nil {
		return ""
	}
	response, err := client.Do(request)
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return ""
	}
	return strings.TrimSuffix(strings.TrimPrefix(string(text), `{"uuid":"`), `"}`)
}

// TestStopDoesNotWaitForClientsThatAreSilent stops an engine while requests are
// half sent. Its deadline decides, and the data folder is free afterwards.
func TestStopDoesNotWaitForClientsThatAreSilent(t *testing.T) {
	dir := t.TempDir()
	e := startIn(t, dir, nil)
	for _, half := range []string{
		"", "POST /v1/cont", "POST /v1/nodes HTTP/1.1\r\nHost: localhost\r\n",
		"POST /v1/continue_inspection HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{",
	} {
		if _, err := io.WriteString(e.dial(t), half); err != nil {
			t.Fatal(err)
		}
	}
	e.do(t, "GET", "/v1/nodes", "").want(t, http.StatusOK)
	e.client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- e.Stop(ctx) }()
	select {
	case err := <-stopped:
		t.Logf("stopped with %v", err) // the deadline may be why; that it returns counts
	case <-time.After(testTimeout):
		t.Fatal("the engine waits for silent clients")
	}
	e.stopped = true
	startIn(t, dir, nil)
}
