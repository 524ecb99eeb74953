package storetest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/ingot-metal/ingot/internal/store"
)

// Variables that choose the database of tests.
const (
	// databaseVar set to "postgres" makes Options give PostgreSQL databases.
	databaseVar = "INGOT_TEST_DATABASE"
	// serverVar is the URL of a PostgreSQL server whose user may create schemas and
	// is a superuser.
	// Without it a server of Debian's package is started for the test binary.
	serverVar = "INGOT_TEST_POSTGRES"
	// requiredVar set to anything fails tests that miss PostgreSQL and would
	// otherwise be skipped.
	requiredVar = "INGOT_TEST_POSTGRES_REQUIRED"
)

// Options are those of the database that belongs to a folder of the test, which
// is new and empty at first. The tests run on SQLite unless a variable says
// otherwise; SQLite's files are in the folder.
func Options(t testing.TB, dir string) store.Options {
	t.Helper()
	if !onPostgres() {
		return store.Options{Dir: dir}
	}
	key := t.Name() + "\x00" + dir
	if url, ok := databases.Load(key); ok {
		return store.Options{URL: url.(string)}
	}
	url := Postgres(t)
	databases.Store(key, url)
	return store.Options{URL: url}
}

// databases are the URLs of databases by test and folder.
var databases sync.Map

// NeedsFiles skips a test that is about SQLite's files when the tests run on
// another database.
func NeedsFiles(t testing.TB) {
	t.Helper()
	if onPostgres() {
		t.Skip("PostgreSQL has no data folder")
	}
}

// NeedsServer skips a test that is about PostgreSQL's server when the tests run on
// another database.
func NeedsServer(t testing.TB) {
	t.Helper()
	if !onPostgres() {
		t.Skip("SQLite has no server; make test-postgres runs this test")
	}
}

func onPostgres() bool { return os.Getenv(databaseVar) == "postgres" }

// Postgres returns the URL of a PostgreSQL schema that is empty and the test's
// own. It skips the test when there is no server, and fails it when that is
// required. The package's TestMain must call Main.
//
// Creating the tables takes longer than most tests, so a schema is emptied and
// used again. A test that spoils its schema takes one from NewSchema.
func Postgres(t testing.TB) string {
	t.Helper()
	server := serverURL(t)
	schema := schemas.take()
	if schema == "" {
		schema = create(t, server)
	}
	t.Cleanup(func() {
		execute(t, server, fmt.Sprintf(emptySchema, schema))
		schemas.give(schema)
	})
	return within(t, server, schema)
}

// NewSchema returns the URL of a PostgreSQL schema without tables that no other
// test will use.
func NewSchema(t testing.TB) string {
	t.Helper()
	server := serverURL(t)
	schema := create(t, server)
	t.Cleanup(func() { execute(t, server, "DROP SCHEMA "+schema+" CASCADE") })
	return within(t, server, schema)
}

// emptySchema deletes all rows of a schema but the version of its tables. Foreign
// keys, which would ask for an order, are not checked in a replica's session.
const emptySchema = `DO $$ DECLARE name text; BEGIN
	PERFORM set_config('session_replication_role', 'replica', true);
	FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = '%[1]s' AND tablename <> 'goose_db_version' LOOP
		EXECUTE 'DELETE FROM %[1]s.' || quote_ident(name);
	END LOOP;
END $$`

// schemas are those that are not in use.
var schemas pool

type pool struct {
	mu    sync.Mutex
	names []string
}

func (p *pool) take() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.names) == 0 {
		return ""
	}
	name := p.names[len(p.names)-1]
	p.names = p.names[:len(p.names)-1]
	return name
}

func (p *pool) give(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.names = append(p.names, name)
}

func serverURL(t testing.TB) string {
	t.Helper()
	if server := os.Getenv(serverVar); server != "" {
		return server
	}
	return ownServer(t)
}

func create(t testing.TB, server string) (schema string) {
	t.Helper()
	schema = "test_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	execute(t, server, "CREATE SCHEMA "+schema)
	return schema
}

// within is the URL of a schema of the server.
func within(t testing.TB, server, schema string) string {
	t.Helper()
	parsed, err := url.Parse(server)
	if err != nil {
		t.Fatalf("%s is no URL", serverVar)
	}
	query := parsed.Query()
	query.Set("search_path", schema)
	parsed.RawQuery = query.Encode()
	return parsed.String()
}

func execute(t testing.TB, server, statement string) {
	t.Helper()
	if err := run(server, statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func run(server, statement string) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	_, err = conn.Exec(ctx, statement)
	return err
}

// started is the server of this test binary.
var started struct {
	once   sync.Once
	server *Server
	err    error
}

func ownServer(t testing.TB) string {
	t.Helper()
	bin := installed(t)
	started.once.Do(func() { started.server, started.err = StartServer(bin) })
	if started.err != nil {
		t.Fatalf("start PostgreSQL: %v", started.err)
	}
	return started.server.URL
}

// NewServer starts a server that is the test's own, to be stopped and started.
func NewServer(t testing.TB) *Server {
	t.Helper()
	server, err := StartServer(installed(t))
	if err != nil {
		t.Fatalf("start PostgreSQL: %v", err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// installed is the folder of PostgreSQL's programs. Without them it skips the
// test, and fails it when they are required.
func installed(t testing.TB) (bin string) {
	t.Helper()
	if bin = PostgresBin(); bin != "" {
		return bin
	}
	const missing = "PostgreSQL is not here: install Debian's package postgresql or set " + serverVar
	if os.Getenv(requiredVar) != "" {
		t.Fatal(missing)
	}
	t.Skip(missing)
	return ""
}

// Main runs the tests of a package that may use PostgreSQL, and removes what they
// left on the server, or the server. It returns the exit code.
func Main(m *testing.M) int {
	code := m.Run()
	var err error
	if started.server != nil {
		err = started.server.Stop()
	} else if server := os.Getenv(serverVar); server != "" {
		for schema := schemas.take(); schema != ""; schema = schemas.take() {
			err = errors.Join(err, run(server, "DROP SCHEMA "+schema+" CASCADE"))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "clean up PostgreSQL:", err)
		return max(code, 1)
	}
	return code
}
