package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/ingot-metal/ingot/internal/cli"
)

// simRun executes `ingot sim` and returns what it wrote and its exit code.
func simRun(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	root := &cobra.Command{Use: "ingot", SilenceUsage: true, SilenceErrors: true}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return cli.FlagError(err) })
	root.AddCommand(newSimCommand())
	var out, errs strings.Builder
	root.SetOut(&out)
	root.SetErr(&errs)
	root.SetArgs(append([]string{"sim"}, args...))
	code = cli.Report(&errs, root.ExecuteContext(t.Context()))
	return out.String(), errs.String(), code
}

func TestSimRefusesFlagsThatCannotWork(t *testing.T) {
	for name, test := range map[string]struct{ args, stderr string }{
		"network":        {"--listen 127.0.0.1", "--listen: want a network"},
		"inventory":      {"--inventory-network x", "--inventory-network: want a network"},
		"kind":           {"--kind toaster", `no machines of kind "toaster"`},
		"engine":         {"--engine 127.0.0.1:6385", "is no http or https URL"},
		"speed":          {"--speed 0", "--speed must be positive"},
		"too many":       {"--machines 300 --listen 127.5.0.0/24", "has room for 255 machines"},
		"log level":      {"--log-level loud", "--log-level"},
		"negative count": {"--machines -1", "Want 1 to"},
		"boot script":    {"--boot-url boot.ipxe", "is no http or https URL"},
		"disks":          {"--disks /nowhere", "no folder"},
		"fault":          {"--agent-fault-times -1", "must not be negative"},
		"chance":         {"--agent-crash 2", "want a chance"},
	} {
		t.Run(name, func(t *testing.T) {
			_, stderr, code := simRun(t, strings.Fields(test.args)...)
			if code != 2 || !strings.Contains(stderr, test.stderr) {
				t.Errorf("exit %d, %q; want 2, %q", code, stderr, test.stderr)
			}
		})
	}
}

func TestSimEndsOnceAllMachinesRun(t *testing.T) {
	const node = `"uuid":"00000000-0000-4000-8000-000000000001"`
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			_, _ = io.WriteString(w, `{"default_version":{"version":"1.84"}}`)
		case "/v1/lookup":
			_, _ = io.WriteString(w, `{"node":{`+node+`},"config":{"heartbeat_timeout":300}}`)
		case "/v1/continue_inspection":
			_, _ = io.WriteString(w, `{`+node+`}`)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	defer engine.Close()
	stdout, stderr, code := simRun(t, "--engine", engine.URL, "--machines", "3", "--rate", "0", "--boot-time", "0s",
		"--listen", "127.126.200.0/28", "--once")
	if code != 0 || !strings.Contains(stderr, "3/3 machines running\n") {
		t.Errorf("exit %d, progress %q, want three running machines", code, stderr)
	}
	if !strings.Contains(stdout, "inspect    200               3\n") {
		t.Errorf("summary is %q, want three accepted posts", stdout)
	}
}
