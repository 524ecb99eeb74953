package story

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/objectstore/objectstoretest"
)

// TestInventoriesAreStoredInAndRemovedFromAnObjectStore inspects machines while the object store
// and the engine stop and start.
func TestInventoriesAreStoredInAndRemovedFromAnObjectStore(t *testing.T) {
	t.Parallel()
	server := objectstoretest.Start(t)
	r := startRack(t, 2, allHooks, "inventory.data_backend=s3", "inventory.s3_endpoint="+server.Endpoint,
		"inventory.s3_bucket="+objectstoretest.BucketName, "inventory.s3_prefix=inventories/",
		"inventory.s3_access_key="+server.AccessKey, "inventory.s3_secret_key="+server.SecretKey,
		"inventory.s3_timeout=2s") // an object is left alone for a few times that long
	first := r.register(t, "agent", r.bootMAC(0), nil)
	r.inspectMachine(t, first, 0)
	r.wantInventory(t, first, 0)
	r.inspectMachine(t, first, 0) // a hook reads the result of the first inspection
	r.wantInventory(t, first, 0)
	r.wantObjects(t, server, first)

	// The store goes away while a machine is inspected and another one deleted. The
	// engine can be restarted meanwhile.
	second := r.register(t, "agent", r.bootMAC(1), nil)
	r.provision(t, second, verbInspect, "inspect wait")
	server.Stop()
	if err := r.Machine(1).PowerOn(); err != nil {
		t.Fatal(err)
	}
	waits := func(context.Context) error {
		if n := r.show(t, second); n.State != "inspecting" || !strings.Contains(n.LastError, "waits for the object store") {
			return fmt.Errorf("node is in %q with %q, want it to say that it waits", n.State, n.LastError)
		}
		return nil
	}
	eventually(t, waits)
	r.restart(t)
	eventually(t, waits)
	if status, body := r.get(t, "/v1/nodes/"+first+"/inventory"); status != http.StatusServiceUnavailable {
		t.Errorf("inventory: %d %s, want 503", status, body)
	}
	if status, body := r.call(t, http.MethodDelete, "/v1/nodes/"+first, nil, "latest"); status != http.StatusNoContent {
		t.Fatalf("delete: %d %s", status, body)
	}

	server.Resume()
	if n := r.awaitState(t, second, "manageable"); n.LastError != "" {
		t.Errorf("last error %q", n.LastError)
	}
	r.wantInventory(t, second, 1)
	r.wantObjects(t, server, second)
}

func TestInventoriesThatNobodyKeeps(t *testing.T) {
	t.Parallel()
	r := startRack(t, 1, allHooks, "inventory.data_backend=none")
	uuid := r.register(t, "agent", r.bootMAC(0), nil)
	r.inspectMachine(t, uuid, 0)
	if status, body := r.get(t, "/v1/nodes/"+uuid+"/inventory"); status != http.StatusNotFound {
		t.Errorf("inventory: %d %s, want 404", status, body)
	}
	if ports := r.ports(t, uuid); len(ports) != stormNICs {
		t.Errorf("%d ports, want %d", len(ports), stormNICs)
	}
}

// inspectMachine lets a node be inspected, and boots its machine for that.
func (r *rack) inspectMachine(t *testing.T, uuid string, machine int) {
	t.Helper()
	r.provision(t, uuid, verbInspect, "inspect wait")
	if err := r.Machine(machine).PowerOn(); err != nil {
		t.Fatal(err)
	}
	if n := r.awaitState(t, uuid, "manageable"); n.LastError != "" {
		t.Errorf("last error %q", n.LastError)
	}
	r.Machine(machine).PowerOff()
}

// wantInventory compares a node's inventory with what its machine posted.
func (r *rack) wantInventory(t *testing.T, uuid string, machine int) {
	t.Helper()
	var stored, posted inspectionData
	r.read(t, "/v1/nodes/"+uuid+"/inventory", &stored)
	if err := json.Unmarshal(r.Machine(machine).Document(), &posted); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(stored.Inventory, posted.Inventory) || stored.PluginData["valid_interfaces"] == nil {
		t.Errorf("the inventory is not what was posted, or hooks left nothing:\n%s\n%s", stored.Inventory, posted.Inventory)
	}
}

// wantObjects waits until the bucket has exactly one object: that of a node.
func (r *rack) wantObjects(t *testing.T, server *objectstoretest.Server, uuid string) {
	t.Helper()
	eventually(t, func(context.Context) error {
		if objects := server.Objects(); len(objects) != 1 || !strings.HasPrefix(objects[0], "inventories/"+uuid+"/") {
			return fmt.Errorf("objects %q, want one of node %s", objects, uuid)
		}
		return nil
	})
}
