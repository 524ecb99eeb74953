package storetest

import (
	"bytes"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Dump replaces a PostgreSQL schema by what pg_dump says of another one. Both are URLs
// of NewSchema.
func Dump(t testing.TB, from, to string) {
	t.Helper()
	server, source := schemaOf(t, from)
	_, target := schemaOf(t, to)
	text := program(t, nil, "pg_dump", "--schema", source, "--no-owner", server)
	program(t, []byte("DROP SCHEMA "+target+" CASCADE;\n"+strings.ReplaceAll(string(text), source, target)),
		"psql", "--quiet", "--set", "ON_ERROR_STOP=1", server)
}

// GoBack makes a PostgreSQL schema, a URL of NewSchema, count as older than whoever uses it has seen it.
func GoBack(t testing.TB, database string) {
	t.Helper()
	execute(t, database, "UPDATE lineage SET signatures = signatures - 2, written_in = pg_current_xact_id()::xid::text")
}

// schemaOf returns the URL of the server, as its own programs take it, and the name of
// the schema that a URL chooses.
func schemaOf(t testing.TB, database string) (server, schema string) {
	t.Helper()
	parsed, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	query := parsed.Query()
	schema = query.Get("search_path")
	query.Del("search_path")
	parsed.RawQuery = query.Encode()
	return parsed.String(), schema
}

// program runs one of the server's programs and returns what it prints.
func program(t testing.TB, input []byte, name string, args ...string) []byte {
	t.Helper()
	bin := PostgresBin()
	if bin == "" {
		t.Skipf("%s of Debian's package is not installed", name)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, name), args...) //nolint:gosec // of Debian's package
	var said bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(input), &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, said.String())
	}
	return out
}
