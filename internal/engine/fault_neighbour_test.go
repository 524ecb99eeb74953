package engine_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/engine"
	"github.com/ingot-metal/ingot/internal/store/storetest"
)

// TestRunningEngineServesBesideANewerVersion has a newer version bring the tables
// forward under an engine, which has its statements prepared by then.
func TestRunningEngineServesBesideANewerVersion(t *testing.T) {
	storetest.NeedsServer(t)
	database := storetest.NewSchema(t)
	onDatabase := func(cfg *engine.Config) { cfg.Database.URL = database }
	e := start(t, onDatabase)
	serve := func() {
		t.Helper()
		for name, prepare := range changes {
			c := prepare(t, e)
			c.ask(t, e).want(t, c.status)
			if effects := c.effects(); effects != 1 {
				t.Errorf("%s: %d effects, want one", name, effects)
			}
		}
		for _, collection := range []string{
			"nodes", "nodes/detail", "ports/detail", "portgroups/detail", "chassis/detail", "conductors", "allocations",
			"deploy_templates", "runbooks", "shards", "volume/connectors", "volume/targets",
		} {
			e.do(t, "GET", "/v1/"+collection, "").want(t, http.StatusOK)
		}
	}
	for range 2 {
		serve()
	}
	e.awaitNode(t, e.post(t, machine("52:54:00:00:00:01")), inspected)
	storetest.Widen(t, database)
	administer(t, database, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, true)")
	serve()
	e.awaitNode(t, e.post(t, machine("52:54:00:00:00:02")), inspected)
	if _, err := tryStart(t, "", func(cfg *engine.Config) { onDatabase(cfg); cfg.Conductor.Hostname = "late" }); err == nil ||
		!strings.Contains(err.Error(), "use the program version that wrote it") {
		t.Errorf("start on newer tables: got %v, want it refused", err)
	}
}
