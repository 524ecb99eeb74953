//go:build compat

package compat_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/engine"
)

// step is one call of the command line client that Debian ships. In its fields, {a} to {z} stand
// for UUIDs, each for another one. Any other {word} stands for what an earlier step kept.
type step struct {
	line  string // arguments; single quotes keep spaces
	want  string // all of its output, every run of white space as one space
	fails string // what the error says; empty means exit code 0
	keep  string // name under which later steps find the output, which is then not checked
	last  string // the same for the last word of the output
}

// scripts are what the client does, each with an engine of its own. Together they use every command
// of the client that an engine can answer.
var scripts = map[string][]step{
	"nodes":      nodeSteps,
	"lists":      listSteps,
	"life":       lifeSteps,
	"hardware":   hardwareSteps,
	"networking": networkSteps,
	"records":    recordSteps,
}

func TestIronicclientWalksTheAPI(t *testing.T) {
	for name, script := range scripts {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // the client looks once in seconds whether a state is reached
			url := serveEngineWith(t, func(cfg *engine.Config) {
				cfg.Driver.EnabledHardwareTypes = []string{"fake-hardware", "ipmi", "redfish", "manual-management"}
			})
			c := newIronicclient(t, "--os-auth-type", "none", "--os-endpoint", url)
			for _, s := range script {
				c.walk(t, s)
			}
			t.Logf("%d steps", len(script))
		})
	}
}

func TestIronicclientAuthenticates(t *testing.T) {
	t.Parallel()
	url := serveEngineWith(t, func(cfg *engine.Config) {
		cfg.API.Auth, cfg.API.HtpasswdFile = "http_basic", htpasswd(t)
		cfg.Driver.EnabledHardwareTypes = []string{"fake-hardware", "ipmi"}
	})
	login := []string{"--os-auth-type", "http_basic", "--os-endpoint", url, "--os-username", acceptanceUser, "--os-password"}
	newIronicclient(t, append(login, acceptancePassword)...).walk(t, step{line: "driver list -f value -c 'Supported driver(s)'", want: "fake-hardware ipmi"})
	newIronicclient(t, append(login, "guess")...).walk(t, step{line: "driver list", fails: "HTTP 401"})
}

// ironicclient is the client with the options of a connection.
type ironicclient struct {
	options []string
	calls   *json.Encoder
	answers *json.Decoder
	kept    map[string]string
}

// newIronicclient starts the client, which ends with the test. It does not get the user's own
// OpenStack settings.
func newIronicclient(t *testing.T, options ...string) *ironicclient {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), debianPython, "testdata/callclient.py")
	cmd.Env = []string{"HOME=" + t.TempDir(), "LANG=C.UTF-8", "PATH=" + os.Getenv("PATH")}
	cmd.Stderr = t.Output()
	stdin, err := cmd.StdinPipe()
	must(t, "make a pipe", err)
	stdout, err := cmd.StdoutPipe()
	must(t, "make a pipe", err)
	must(t, "start the client; it needs Debian's package python3-ironicclient", cmd.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait() // only its answers to the calls count
	})
	// By default the client repeats requests that are refused with 409 for 25 seconds.
	options = append(options, "--max-retries", "1", "--retry-interval", "1")
	return &ironicclient{options: options, calls: json.NewEncoder(stdin), answers: json.NewDecoder(stdout), kept: make(map[string]string)}
}

// debianPython is the interpreter for which Debian's packages of Python are made.
const debianPython = "/usr/bin/python3"

// walk does a step and compares the exit code and the output with what is expected.
func (c *ironicclient) walk(t *testing.T, s step) {
	t.Helper()
	var answer struct {
		Code           int
		Stdout, Stderr string
	}
	must(t, "call the client", c.calls.Encode(append(slices.Clone(c.options), words(c.expand(s.line))...)))
	if err := c.answers.Decode(&answer); err != nil {
		t.Fatalf("read what the client says to %q: %v; it needs Debian's package python3-ironicclient", s.line, err)
	}
	got := strings.Join(strings.Fields(answer.Stdout), " ")
	switch want := c.expand(s.want); {
	case s.fails != "":
		if answer.Code == 0 || !strings.Contains(answer.Stderr, c.expand(s.fails)) {
			t.Errorf("%s: got exit code %d, %q, want it to fail with %q\n%s", s.line, answer.Code, got, s.fails, answer.Stderr)
		}
	case answer.Code != 0:
		t.Errorf("%s: exit code %d\n%s", s.line, answer.Code, answer.Stderr)
	case s.last != "":
		c.kept[s.last] = got[strings.LastIndexByte(got, ' ')+1:]
	case s.keep != "":
		c.kept[s.keep] = got
	case got != want:
		t.Errorf("%s:\n got %s\nwant %s", s.line, got, want)
	}
}

var placeholder = regexp.MustCompile(`{[a-z]+}`)

// expand replaces placeholders.
func (c *ironicclient) expand(text string) string {
	return placeholder.ReplaceAllStringFunc(text, func(name string) string {
		if name = strings.Trim(name, "{}"); len(name) > 1 {
			return c.kept[name]
		}
		return fmt.Sprintf("00000000-0000-4000-8000-%012x", name[0])
	})
}

// words splits a line as a shell would that knows single quotes only.
func words(line string) []string {
	var all []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 0 {
			all = append(all, strings.Fields(part)...)
		} else {
			all = append(all, part)
		}
	}
	return all
}
