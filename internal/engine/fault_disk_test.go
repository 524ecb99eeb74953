package engine_test

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/engine"
	"github.com/ingot-metal/ingot/internal/store/storetest"
)

// TestFullDiskRefusesChangesAndNothingElse fills the disk under the database while
// the engine runs, and makes space again.
func TestFullDiskRefusesChangesAndNothingElse(t *testing.T) {
	disk := storetest.NewDisk(t, 16<<20)
	options := disk.Options()
	onDisk := func(cfg *engine.Config) { cfg.Database.Dir, cfg.Database.URL = options.Dir, options.URL }
	e := start(t, onDisk)
	first := e.create(t, `{"driver":"fake-hardware","name":"first"}`)
	names := []string{"first"}
	free := disk.Fill()
	const full = "The disk of the database is full"
	refused := 0
	for i := 0; refused < 3; i++ {
		name := fmt.Sprint("large-", i)
		got := e.do(t, "POST", "/v1/nodes", `{"driver":"fake-hardware","name":"`+name+`","extra":{"pad":"`+noise(300<<10)+`"}}`)
		if got.status == http.StatusCreated && i < 100 {
			names = append(names, name)
			continue
		}
		refused++
		got.checkOutage(t, full)
	}
	e.do(t, "PATCH", "/v1/nodes/first", `[{"op":"add","path":"/extra/pad","value":"`+noise(300<<10)+`"},{"op":"add","path":"/description","value":"half"}]`).checkOutage(t, full)
	if n := e.node(t, first); n["description"] != nil || n["updated_at"] != nil {
		t.Errorf("the node of a refused change is %v", n)
	}
	checkNames(t, e, names)
	e.do(t, "GET", "/healthcheck", "").want(t, http.StatusOK)

	free()
	names = append(names, "after")
	e.create(t, `{"driver":"fake-hardware","name":"after"}`)
	e.do(t, "PUT", "/v1/nodes/first/states/provision", `{"target":"manage"}`).want(t, http.StatusAccepted)
	e.awaitNode(t, first, inState("manageable"))
	e.awaitNode(t, e.post(t, machine("52:54:00:00:00:09")), inspected)
	e.stop(t)
	e = start(t, onDisk)
	checkNames(t, e, names)
}

// TestReadOnlyDataFolderRefusesChangesAndNothingElse has the file system refuse
// writes while the engine runs, for a while and then for good.
func TestReadOnlyDataFolderRefusesChangesAndNothingElse(t *testing.T) {
	storetest.NeedsFiles(t)
	disk := storetest.NewExt4(t)
	onDisk := func(cfg *engine.Config) { cfg.Database.Dir = filepath.Join(disk.Dir, "data") }
	e := start(t, onDisk)
	first := e.create(t, `{"driver":"fake-hardware","name":"first"}`)
	names := []string{"first"}
	refuses := func() {
		t.Helper()
		const text = "The database is read-only"
		e.do(t, "POST", "/v1/nodes", `{"driver":"fake-hardware","name":"refused"}`).checkOutage(t, text)
		e.do(t, "PATCH", "/v1/nodes/first", `[{"op":"add","path":"/description","value":"half"}]`).checkOutage(t, text)
		e.do(t, "PUT", "/v1/nodes/first/states/provision", `{"target":"manage"}`).checkOutage(t, text)
		e.send(t, "POST", "/v1/continue_inspection", nil, strings.NewReader(machine("52:54:00:00:00:09"))).checkOutage(t, "please retry")
		if n := e.node(t, first); n["description"] != nil || n["updated_at"] != nil || n["provision_state"] != "enroll" {
			t.Errorf("the node of a refused change is %v", n)
		}
		checkNames(t, e, names)
	}
	allow := disk.Forbid()
	refuses()
	allow()
	names = append(names, "after")
	e.create(t, `{"driver":"fake-hardware","name":"after"}`)

	disk.Break()
	refuses()
	e.stopped = true
	e.client.CloseIdleConnections()
	_ = e.Stop(t.Context()) // it may want to give leases back
	if _, err := tryStart(t, "", onDisk); err == nil || !strings.Contains(err.Error(), "read-only file system") {
		t.Errorf("start: got %v, want the reason", err)
	}
	disk.Remount()
	e = start(t, onDisk)
	checkNames(t, e, names)
	e.do(t, "PUT", "/v1/nodes/first/states/provision", `{"target":"manage"}`).want(t, http.StatusAccepted)
	e.awaitNode(t, first, inState("manageable"))
	e.stop(t)
}

// checkNames fails the test unless these are the nodes that have a name.
func checkNames(t *testing.T, e *running, want []string) {
	t.Helper()
	nodes, _ := e.do(t, "GET", "/v1/nodes?fields=name", "").want(t, http.StatusOK).object(t)["nodes"].([]any)
	var got []string
	for _, n := range nodes {
		if name, ok := n.(map[string]any)["name"].(string); ok {
			got = append(got, name)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("nodes (-answered +stored):\n%s", diff)
	}
}

// noise is text that nothing makes smaller.
func noise(size int) string {
	random := make([]byte, size*3/4)
	_, _ = rand.Read(random) // never fails
	return base64.StdEncoding.EncodeToString(random)
}
