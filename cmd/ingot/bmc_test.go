package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/cli"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

// bmcRun executes ingot with an input, and returns what it wrote and its exit code.
func bmcRun(t *testing.T, input string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	root := newRootCommand()
	var out, errs strings.Builder
	root.SetIn(strings.NewReader(input))
	root.SetOut(&out)
	root.SetErr(&errs)
	root.SetArgs(args)
	code = cli.Report(&errs, root.ExecuteContext(t.Context()))
	return out.String(), errs.String(), code
}

// caOf writes a file with the authority of a BMC and returns its path.
func caOf(t *testing.T, s *redfishtest.Server) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, s.CA, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestBMCTestReadsThePasswordFromWhereNobodySeesIt(t *testing.T) {
	s := redfishtest.Start(t, "dell")
	test := []string{"bmc", "test", s.URL, "--user", redfishtest.User, "--ca-file", caOf(t, s)}
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(redfishtest.Password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, run := range map[string]struct {
		input, variable string
		args            []string
		code            int
		says            string
	}{
		"file":     {"", "", []string{"--password-file", file}, 0, "grants a session"},
		"input":    {redfishtest.Password + "\r\n", "", []string{"--password-file", "-"}, 0, "grants a session"},
		"variable": {"", redfishtest.Password, nil, 0, "grants a session"},
		"wrong":    {"", "guess", nil, 1, "refuses the user name or password"},
		"missing":  {"", "", nil, 2, "--password-file"},
		"no file":  {"", "", []string{"--password-file", file + "x"}, 1, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(bmcPassword, run.variable)
			if run.variable == "" {
				_ = os.Unsetenv(bmcPassword) // Setenv puts it back
			}
			stdout, stderr, code := bmcRun(t, run.input, append(test, run.args...)...)
			if code != run.code || !strings.Contains(stdout+stderr, run.says) {
				t.Errorf("exit %d, %s%s; want %d with %q", code, stdout, stderr, run.code, run.says)
			}
			if strings.Contains(stdout+stderr, redfishtest.Password) {
				t.Errorf("the password is in %s%s", stdout, stderr)
			}
		})
	}
}

func TestBMCTestRefusesFlagsThatCannotWork(t *testing.T) {
	for args, want := range map[string]string{
		"":                                    "name one address",
		"https://u:p@192.0.2.1":               "must not hold credentials",
		"192.0.2.1 --timeout 0s":              "--timeout",
		"192.0.2.1 --ipmi-port 623":           "--ipmi",
		"192.0.2.1 --ipmi --ipmi-port x":      "ipmi_port",
		"192.0.2.1 --ipmi --record x.json":    "not possible over IPMI",
		"192.0.2.1 --record /nowhere/x.json":  "--record",
		"192.0.2.1 --system Systems/1":        "redfish_system_id",
		"192.0.2.1 --password hunter2hunter2": "nknown flag",
	} {
		_, stderr, code := bmcRun(t, "", append([]string{"bmc", "test"}, strings.Fields(args)...)...)
		if code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit %d, %q; want 2 with %q", args, code, stderr, want)
		}
	}
}

func TestRecordingOfABMCIsServed(t *testing.T) {
	s := redfishtest.Start(t, "hpe")
	t.Setenv(bmcPassword, redfishtest.Password)
	folder := t.TempDir()
	file, ca := filepath.Join(folder, "bmc.json"), filepath.Join(folder, "ca.pem")
	_, stderr, code := bmcRun(t, "", "bmc", "test", s.URL, "--user", redfishtest.User, "--ca-file", caOf(t, s), "--record", file)
	if code != 0 || !strings.Contains(stderr, "Recorded ") {
		t.Fatalf("exit %d, %s", code, stderr)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	root := newRootCommand()
	errs, said := io.Pipe()
	defer said.Close()
	root.SetErr(said)
	root.SetArgs([]string{"sim", "bmc-recording", file, "--listen", "127.0.0.1:0", "--user", "tester", "--password", "opensesame-3", "--ca-file", ca})
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	line, err := bufio.NewReader(errs).ReadString('\n')
	address := regexp.MustCompile(`https://127\.0\.0\.1:\d+`).FindString(line)
	if err != nil || address == "" {
		t.Fatalf("line %q, %v", line, err)
	}
	t.Setenv(bmcPassword, "opensesame-3")
	stdout, stderr, code := bmcRun(t, "", "bmc", "test", address, "--user", "tester", "--ca-file", ca, "--power-cycle", "-o", "json")
	var report struct {
		Driver  string
		Ready   bool
		Results []struct{ Check, Outcome string }
	}
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || code != 0 || !report.Ready || report.Driver != "redfish" || len(report.Results) < 15 {
		t.Errorf("exit %d, %v, %s%s", code, err, stdout, stderr)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
