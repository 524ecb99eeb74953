package main

import (
	"context"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/ingot-metal/ingot/internal/cli"
)

// clientRun executes a client command line as main does and returns what it
// wrote and its exit code.
func clientRun(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	root := newRootCommand()
	var out, errs strings.Builder
	root.SetOut(&out)
	root.SetErr(&errs)
	root.SetArgs(args)
	err := root.ExecuteContext(context.WithoutCancel(t.Context()))
	code = cli.Report(&errs, err)
	return out.String(), errs.String(), code
}

// serveEngine answers the paths given with their bodies and 404 to the rest,
// and makes OS_ENDPOINT point to it.
func serveEngine(t *testing.T, bodies map[string]string) string {
	t.Helper()
	bodies["/v1/"] = `{"version": {"min_version": "1.1", "version": "1.84"}}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := bodies[r.URL.Path]
		w.Header().Set("Content-Type", "application/json")
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			body = `{"error_message": {"faultstring": "no such thing"}}`
		}
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	t.Setenv("OS_ENDPOINT", server.URL)
	return server.URL
}

const nodesBody = `{"nodes": [{"uuid": "aa-1", "name": "alpha", "provision_state": "enroll"}, {"uuid": "bb-2", "name": null, "provision_state": "available"}]}`

func TestCompletionOffersNodesOfTheEngine(t *testing.T) {
	serveEngine(t, map[string]string{
		"/v1/nodes":   nodesBody,
		"/v1/drivers": `{"drivers": [{"name": "fake-hardware"}]}`,
	})
	for line, want := range map[string][]string{
		"node show ":               {"alpha\tenroll", "bb-2\tavailable"},
		"node show a":              {"alpha\tenroll"},
		"node show aa":             {"aa-1\tenroll"},
		"node show alpha ":         nil,
		"node delete alpha ":       {"bb-2\tavailable"},
		"node manage b":            {"bb-2\tavailable"},
		"node inventory save bb":   {"bb-2\tavailable"},
		"node list --driver ":      {"fake-hardware"},
		"node list -o ":            cli.Outputs(),
		"port create --node a":     {"alpha\tenroll"},
		"allocation list --state ": {"allocating", "active", "error"},
		"node list --health ":      {"OK", "Warning", "Critical"},
	} {
		t.Run(line, func(t *testing.T) {
			out, _, _ := clientRun(t, append([]string{cobra.ShellCompRequestCmd}, strings.Split(line, " ")...)...)
			lines := strings.Split(strings.TrimSpace(out), "\n")
			if directive := lines[len(lines)-1]; directive != ":4" {
				t.Errorf("directive %s, want no file names", directive)
			}
			got := append([]string(nil), lines[:len(lines)-1]...)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("suggestions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCompletionWithoutAnEngineSuggestsNothing(t *testing.T) {
	t.Setenv("OS_ENDPOINT", "http://127.0.0.1:1")
	out, _, code := clientRun(t, cobra.ShellCompRequestCmd, "node", "show", "")
	if code != cli.ExitOK || strings.TrimSpace(out) != ":4" {
		t.Errorf("exit %d, suggestions %q", code, out)
	}
}

func TestExitCodesAreWhatTheHelpSays(t *testing.T) {
	endpoint := serveEngine(t, map[string]string{"/v1/nodes": nodesBody})
	for name, test := range map[string]struct {
		args   string
		code   int
		stderr string
	}{
		"done":                 {"node list", 0, ""},
		"engine named first":   {"--os-endpoint " + endpoint + " node list", 0, ""},
		"unknown flag":         {"node list --nope", 2, "Unknown flag: --nope. See --help.\n"},
		"unknown output":       {"node list -o xml", 2, "must be one of table"},
		"missing node":         {"node show", 2, "See --help."},
		"empty node":           {"node show ''", 2, "ingot node show: argument 1 is empty. See --help.\n"},
		"unwanted argument":    {"node list n1", 2, `ingot node list: the command takes no arguments, got "n1". See --help.`},
		"bad number":           {"node list --limit x", 2, `--limit is "x": it must be a whole number. See --help.`},
		"unknown command":      {"node frobnicate", 2, `nknown command "frobnicate"`},
		"mistyped command":     {"node manag", 2, `for "ingot node"; did you mean manage? See --help.`},
		"missing host":         {"explain", 2, "See --help."},
		"seconds without =":    {"node manage n1 --wait 30", 2, "write --wait=30"},
		"minutes without =":    {"node manage n1 --wait 1h30m", 2, "write --wait=1h30m"},
		"bad endpoint":         {"node list --os-endpoint 127.0.0.1", 2, "is not a URL"},
		"bad version":          {"node list --os-baremetal-api-version 2", 2, "not a version"},
		"unknown node":         {"node show nope", 3, "Cannot show node nope: no such thing."},
		"engine not reachable": {"node list --os-endpoint http://127.0.0.1:1", 5, "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			_, stderr, code := clientRun(t, spaces(test.args)...)
			if code != test.code || !strings.Contains(stderr, test.stderr) {
				t.Errorf("exit %d, %q; want %d, %q", code, stderr, test.code, test.stderr)
			}
			if strings.Count(stderr, "\n") > 1 {
				t.Errorf("more than one line: %q", stderr)
			}
		})
	}
}

func TestTroubleOnTheWayToTheEngineIsOneClearSentence(t *testing.T) {
	for _, name := range []string{"OS_USERNAME", "OS_PASSWORD", "OS_CACERT", "OS_INSECURE"} {
		t.Setenv(name, "")
	}
	secured := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"error": {"message": "Who is there?", "code": 401}}`))
	}))
	secured.Config.ErrorLog = log.New(io.Discard, "", 0)
	secured.StartTLS()
	t.Cleanup(secured.Close)
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	authority := filepath.Join(t.TempDir(), "ca.pem")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secured.Certificate().Raw})
	if err := os.WriteFile(authority, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	byPlainHTTP := "http" + strings.TrimPrefix(secured.URL, "https")
	byTLS := "https" + strings.TrimPrefix(plain.URL, "http")
	for name, test := range map[string]struct {
		args   string
		code   int
		stderr string
	}{
		"unknown authority":   {secured.URL, 5, "Name the file of the authority that signed it with --os-cacert or OS_CACERT.\n"},
		"known authority":     {secured.URL + " --os-cacert " + authority, 1, "Put the name and the password of a user of the engine into OS_USERNAME and OS_PASSWORD.\n"},
		"nobody checks":       {secured.URL + " --insecure", 1, "into OS_USERNAME and OS_PASSWORD.\n"},
		"half a credential":   {secured.URL + " --os-username ann", 2, "User name and password of the engine must be given together. See --help.\n"},
		"http to TLS":         {byPlainHTTP, 1, byPlainHTTP + " is not the Bare Metal API; check the endpoint; its answer: Client sent an HTTP request to an HTTPS server.\n"},
		"TLS to http":         {byTLS, 5, "the server does not use TLS; use http:// instead of https://.\n"},
		"another server":      {plain.URL, 1, plain.URL + " is not the Bare Metal API; check the endpoint.\n"},
		"no authority's file": {secured.URL + " --os-cacert /nowhere", 2, "no such file or directory. See --help.\n"},
	} {
		t.Run(name, func(t *testing.T) {
			_, stderr, code := clientRun(t, strings.Fields("node list --os-endpoint "+test.args)...)
			if code != test.code || !strings.HasSuffix(stderr, test.stderr) || strings.Count(stderr, "\n") != 1 {
				t.Errorf("exit %d, %q; want %d, %q", code, stderr, test.code, test.stderr)
			}
		})
	}
}

func TestGroupWithoutCommandShowsItsHelp(t *testing.T) {
	out, _, code := clientRun(t, "node")
	if code != cli.ExitOK || !strings.Contains(out, "Available Commands:") {
		t.Errorf("exit %d, printed %q", code, out)
	}
}

func TestHelpShowsNoPassword(t *testing.T) {
	t.Setenv("OS_PASSWORD", "hunter2")
	out, _, _ := clientRun(t, "node", "list", "--help")
	if strings.Contains(out, "hunter2") || !strings.Contains(out, "OS_PASSWORD") {
		t.Errorf("help: %s", out)
	}
}
