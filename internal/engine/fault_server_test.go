package engine_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/ingot-metal/ingot/internal/engine"
	"github.com/ingot-metal/ingot/internal/store/storetest"
)

// administer runs statements on a PostgreSQL server.
func administer(t *testing.T, database string, statements ...string) {
	t.Helper()
	ctx := context.Background() // also when the test has ended
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// asRole returns the URL of a schema for a user of its own.
func asRole(t *testing.T, schema string) (role, database string) {
	t.Helper()
	parsed, err := url.Parse(schema)
	if err != nil {
		t.Fatal(err)
	}
	role = "role_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	administer(t, schema, "CREATE ROLE "+role+" LOGIN PASSWORD 'secret'",
		"GRANT ALL ON SCHEMA "+parsed.Query().Get("search_path")+" TO "+role)
	t.Cleanup(func() { administer(t, schema, "DROP OWNED BY "+role+" CASCADE", "DROP ROLE "+role) })
	parsed.User = url.UserPassword(role, "secret")
	return role, parsed.String()
}

// TestDatabaseThatTurnsItsUserAwayIsAnOutage has the server refuse connections in
// several ways while the engine runs.
func TestDatabaseThatTurnsItsUserAwayIsAnOutage(t *testing.T) {
	storetest.NeedsServer(t)
	t.Parallel() // it waits until the engine gives up
	schema := storetest.NewSchema(t)
	role, database := asRole(t, schema)
	e := start(t, func(cfg *engine.Config) { cfg.Database.URL = database })
	item := "/v1/nodes/" + e.create(t, `{"driver":"fake-hardware"}`)
	for _, test := range []struct{ name, refuse, allow, text string }{
		{"too many connections", "CONNECTION LIMIT 0", "CONNECTION LIMIT -1", "takes no more connections"},
		{"another password", "PASSWORD 'changed'", "PASSWORD 'secret'", "not available"},
		{"no login", "NOLOGIN", "LOGIN", "not available"},
	} {
		t.Run(test.name, func(t *testing.T) {
			administer(t, schema, "ALTER ROLE "+role+" "+test.refuse,
				"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '"+role+"'")
			e.do(t, "GET", item, "").checkOutage(t, test.text)
			e.do(t, "POST", "/v1/nodes", `{"driver":"fake-hardware","name":"refused"}`).checkOutage(t, test.text)
			administer(t, schema, "ALTER ROLE "+role+" "+test.allow)
			e.do(t, "POST", "/v1/nodes", `{"driver":"fake-hardware"}`).want(t, http.StatusCreated)
			e.do(t, "GET", item, "").want(t, http.StatusOK)
			e.do(t, "GET", "/v1/nodes/refused", "").want(t, http.StatusNotFound)
		})
	}
}

func TestSecondEngineOfOneNameDoesNotStart(t *testing.T) {
	storetest.NeedsServer(t)
	t.Parallel() // it waits for the first to end
	dir := t.TempDir()
	first := startIn(t, dir, nil)
	if _, err := tryStart(t, dir, nil); err == nil || !strings.Contains(err.Error(), `another engine named "engine-under-test"`) {
		t.Errorf("start: got %v, want it refused", err)
	}
	startIn(t, dir, func(cfg *engine.Config) { cfg.Conductor.Hostname = "another" })
	first.stop(t)
	startIn(t, dir, nil)
}

// TestServerThatRestartsLosesNothing ends the server while clients create nodes,
// and starts it again.
func TestServerThatRestartsLosesNothing(t *testing.T) {
	storetest.NeedsServer(t)
	t.Parallel() // it waits for the server
	server := storetest.NewServer(t)
	e := start(t, func(cfg *engine.Config) { cfg.Database.URL = server.URL })
	for name, how := range map[string]syscall.Signal{"after a shutdown": storetest.Shutdown, "after a crash": storetest.Crash} {
		t.Run(name, func(t *testing.T) {
			var answers sync.Map // by name of the node
			var created, refused atomic.Int64
			var stop atomic.Bool
			var clients sync.WaitGroup
			for client := range 4 {
				clients.Go(func() {
					for i := 0; !stop.Load(); i++ {
						node := fmt.Sprintf("%s-%d-%d", strings.ReplaceAll(name, " ", "-"), client, i)
						got := e.do(t, "POST", "/v1/nodes", `{"driver":"fake-hardware","name":"`+node+`"}`)
						answers.Store(node, got)
						switch got.status {
						case http.StatusCreated:
							created.Add(1)
						case http.StatusServiceUnavailable:
							refused.Add(1)
						}
					}
				})
			}
			eventually(t, "nodes to be created", func() bool { return created.Load() > 20 })
			if err := server.Halt(how); err != nil {
				t.Error(err)
			}
			eventually(t, "requests to be refused", func() bool { return refused.Load() > 0 })
			if err := server.Start(); err != nil {
				t.Error(err)
			}
			before := created.Load()
			eventually(t, "nodes to be created again", func() bool { return created.Load() > before+20 })
			stop.Store(true)
			clients.Wait()
			answers.Range(func(node, value any) bool {
				got := value.(answer)
				stored := e.do(t, "GET", "/v1/nodes/"+node.(string), "").status == http.StatusOK
				unknown := strings.Contains(got.body, "look before you repeat it")
				switch {
				case got.status != http.StatusCreated && got.status != http.StatusServiceUnavailable:
					t.Errorf("%s: got %d: %s", node, got.status, got.body)
				case stored != (got.status == http.StatusCreated) && !unknown:
					t.Errorf("%s: stored %v, but the answer was %d: %s", node, stored, got.status, got.body)
				}
				return true
			})
		})
	}
}
