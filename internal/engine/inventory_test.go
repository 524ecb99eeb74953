package engine_test

import (
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/engine"
	"github.com/ingot-metal/ingot/internal/objectstore/objectstoretest"
)

// onServer is a change that keeps inventories on an S3 server.
func onServer(server *objectstoretest.Server, changes ...func(*engine.InventoryConfig)) func(*engine.Config) {
	return func(c *engine.Config) {
		c.Inventory.DataBackend, c.Inventory.S3Endpoint, c.Inventory.S3Bucket = "s3", server.Endpoint, objectstoretest.BucketName
		c.Inventory.S3AccessKey, c.Inventory.S3SecretKey = engine.Secret(server.AccessKey), engine.Secret(server.SecretKey)
		for _, change := range changes {
			change(&c.Inventory)
		}
	}
}

func TestWrongSettingsOfTheObjectStoreEndTheStart(t *testing.T) {
	server := objectstoretest.Start(t)
	for name, tc := range map[string]struct {
		change func(*engine.InventoryConfig)
		want   string
	}{
		"secret key": {func(c *engine.InventoryConfig) { c.S3SecretKey = "hunter2" }, "inventory.s3_secret_key"},
		"access key": {func(c *engine.InventoryConfig) { c.S3AccessKey = "hunter2" }, "inventory.s3_access_key"},
		"bucket":     {func(c *engine.InventoryConfig) { c.S3Bucket = "none" }, "inventory.s3_bucket"},
		"file":       {func(c *engine.InventoryConfig) { c.S3CAFile, c.S3Endpoint = "/none", "https://127.0.0.1:1" }, "inventory.s3_ca_file"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tryStart(t, t.TempDir(), onServer(server, tc.change))
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), server.SecretKey) {
				t.Errorf("error = %v, want one that names %s and no secret", err, tc.want)
			}
		})
	}
}

func TestObjectStoreThatIsAwayStopsNothingButInventories(t *testing.T) {
	server := objectstoretest.Start(t)
	server.Stop()
	e := start(t, onServer(server))
	if !strings.Contains(e.log.String(), "Object store for inventories does not answer") {
		t.Error("the log does not say that the object store is away")
	}
	uuid := e.post(t, machine(goodMAC))
	inventory := "/v1/nodes/" + uuid + "/inventory"
	e.do(t, "GET", inventory, "").want(t, http.StatusNotFound)
	e.awaitNode(t, uuid, func(n map[string]any) bool {
		text, _ := n["last_error"].(string)
		return strings.HasPrefix(text, "Inspection waits for the object store") && strings.Contains(text, server.Endpoint)
	})
	server.Resume()
	e.awaitNode(t, uuid, inspected)
	got := e.do(t, "GET", inventory, "").want(t, http.StatusOK).object(t)
	if got["inventory"] == nil || got["plugin_data"] == nil {
		t.Errorf("inventory = %v, want both parts", got)
	}

	server.Stop()
	refused := e.do(t, "GET", inventory, "").want(t, http.StatusServiceUnavailable)
	if refused.header.Get("Retry-After") == "" || !strings.Contains(refused.body, "object store") {
		t.Errorf("answer %v %s, want Retry-After and the reason", refused.header, refused.body)
	}
	e.do(t, "GET", "/healthcheck", "").want(t, http.StatusOK)
	e.do(t, "GET", "/v1/nodes/"+nobody+"/inventory", "").want(t, http.StatusNotFound)
	e.do(t, "DELETE", "/v1/nodes/"+uuid, "").want(t, http.StatusNoContent)
	for where, text := range map[string]string{"an answer": e.seen.String(), "the log": e.log.String()} {
		if strings.Contains(text, server.SecretKey) || strings.Contains(text, server.AccessKey) {
			t.Errorf("%s has a credential of the object store", where)
		}
	}
}

func TestObjectStoreThatIsSilentHoldsTheStartForAMomentOnly(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() // it takes connections and answers none
	began := time.Now()
	e := start(t, func(c *engine.Config) {
		c.Inventory.DataBackend, c.Inventory.S3Endpoint, c.Inventory.S3Bucket = "s3", "http://"+listener.Addr().String(), "inventories"
		c.Inventory.S3AccessKey, c.Inventory.S3SecretKey = "access", "secret"
	})
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("the start took %s", took)
	}
	if !strings.Contains(e.log.String(), "Object store for inventories does not answer") {
		t.Error("the log does not say that the object store is away")
	}
}

func TestObjectStoreThatIsNoLongerConfiguredIsMissed(t *testing.T) {
	server, dir := objectstoretest.Start(t), t.TempDir()
	e := startIn(t, dir, onServer(server))
	uuid := e.post(t, machine(goodMAC))
	e.awaitNode(t, uuid, inspected)
	e.stop(t)

	e = startIn(t, dir, nil)
	if !strings.Contains(e.log.String(), "inventory.s3_endpoint") {
		t.Error("the log does not say that an object store is missing")
	}
	e.do(t, "GET", "/v1/nodes/"+uuid+"/inventory", "").want(t, http.StatusServiceUnavailable)
	if len(server.Objects()) != 1 {
		t.Errorf("objects %q, want the inventory", server.Objects())
	}
}
