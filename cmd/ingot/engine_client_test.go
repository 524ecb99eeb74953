package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/ingot-metal/ingot/internal/cli"
	"github.com/ingot-metal/ingot/internal/engine"
)

// startEngine runs an engine until the test ends, makes OS_ENDPOINT point to
// it and returns its URL.
func startEngine(t *testing.T) string {
	t.Helper()
	cfg := engine.DefaultConfig()
	cfg.API.Listen, cfg.Database.Dir = "127.0.0.1:0", t.TempDir()
	cfg.AutoDiscovery.Enabled, cfg.AutoDiscovery.Driver = true, "fake-hardware"
	e, err := engine.Start(t.Context(), engine.Options{Config: cfg, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := e.Stop(ctx); err != nil {
			t.Errorf("stop engine: %v", err)
		}
	})
	t.Setenv("OS_ENDPOINT", e.URL())
	return e.URL()
}

// discovered lets a machine that nobody registered report itself, and returns
// the UUID of its node.
func discovered(t *testing.T, url string) string {
	t.Helper()
	const document = `{"inventory": {"interfaces": [{"name": "eth0", "mac_address": "52:54:00:00:00:99", "has_carrier": true}],
		"cpu": {"count": 4, "architecture": "x86_64"}, "memory": {"physical_mb": 4096},
		"disks": [{"name": "/dev/vda", "size": 10737418240}], "boot": {"pxe_interface": "52:54:00:00:00:99"}, "hostname": "found"}}`
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/continue_inspection", strings.NewReader(document))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var answer struct {
		UUID string `json:"uuid"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || answer.UUID == "" {
		t.Fatalf("report: %s, %v", response.Status, err)
	}
	return answer.UUID
}

// step is one command line and what comes of it.
type step struct {
	args string
	out  string // what it prints; "…" in it stands for anything
	says string // what standard error ends in, or is, with "…" as in out
	code int
	// keep is the name under which later steps have the first word: {name}.
	keep string
	// until repeats the command until it prints out, because the engine may answer before its work
	// is done.
	until bool
}

// walker runs the steps. While work on a node is under way, which the exit code tells, it tries
// again.
type walker struct {
	kept map[string]string
	// ran has the words of every command that ran.
	ran map[string]bool
}

func (w *walker) walk(t *testing.T, steps []step) {
	t.Helper()
	for _, s := range steps {
		line, want := w.fill(s.args), w.fill(s.out)
		args := spaces(line)
		out, stderr, code := clientRun(t, args...)
		again := func() bool { return code == cli.ExitBusy && s.code != code || s.until && !matches(out, want) }
		for deadline := time.Now().Add(10 * time.Second); again() && time.Now().Before(deadline); {
			out, stderr, code = clientRun(t, args...)
		}
		if code != s.code || !matches(out, want) || !matches(stderr, "…"+s.says) {
			t.Fatalf("%s: exit %d, printed %q and %q; want %d, %q and %q", line, code, out, stderr, s.code, want, s.says)
		}
		if words := strings.Fields(out); s.keep != "" {
			w.kept[s.keep] = words[0]
		}
		if command, _, err := newRootCommand().Find(args); err == nil {
			w.ran[command.CommandPath()] = true
		}
	}
}

// fill puts what was kept into a text.
func (w *walker) fill(text string) string {
	for name, value := range w.kept {
		text = strings.ReplaceAll(text, "{"+name+"}", value)
	}
	return text
}

// spaces splits a line into arguments at spaces that are not quoted.
func spaces(line string) []string {
	var args []string
	var arg strings.Builder
	begun, quote := false, rune(0)
	for _, r := range line + " " {
		switch {
		case quote != 0 && r != quote, quote == 0 && !unicode.IsSpace(r) && r != '\'' && r != '"':
			arg.WriteRune(r)
			begun = true
		case quote != 0:
			quote = 0
		case r == '\'' || r == '"':
			quote, begun = r, true
		case begun:
			args = append(args, arg.String())
			arg.Reset()
			begun = false
		}
	}
	return args
}

// matches reports whether the output is as wanted, where "…" stands for any.
func matches(out, want string) bool {
	parts := strings.Split(want, "…")
	if len(parts) == 1 {
		return out == want
	}
	first, last := parts[0], parts[len(parts)-1]
	if !strings.HasPrefix(out, first) || len(out) < len(first)+len(last) || !strings.HasSuffix(out, last) {
		return false
	}
	out = out[len(first) : len(out)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(out, part)
		if at < 0 {
			return false
		}
		out = out[at+len(part):]
	}
	return true
}

// clientCommands are all commands that talk to an engine, by their words.
func clientCommands(cmd *cobra.Command) []string {
	var all []string
	for _, child := range cmd.Commands() {
		all = append(all, clientCommands(child)...)
	}
	if !cmd.HasSubCommands() && cmd.Flag("os-endpoint") != nil {
		all = append(all, cmd.CommandPath())
	}
	return all
}

func TestEveryClientCommandWorksOnARealEngine(t *testing.T) {
	url := startEngine(t)
	folder := t.TempDir()
	t.Setenv("KUBECONFIG", filepath.Join(folder, "none"))
	w := walker{kept: map[string]string{"found": discovered(t, url), "folder": folder}, ran: map[string]bool{}}
	for name, content := range map[string]string{
		"steps": "- {interface: deploy, step: hold}\n- {interface: deploy, step: erase_pstore}\n",
		"rack":  "nodes:\n- {name: rack-1, driver: fake-hardware, ports: [{address: 52:54:00:00:00:b1}]}\n",
	} {
		w.kept[name] = filepath.Join(folder, name+".yaml")
		if err := os.WriteFile(w.kept[name], []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, part := range []struct {
		name  string
		steps []step
	}{
		{"nodes", nodeSteps},
		{"inspection", inspectionSteps},
		{"states", stateSteps},
		{"hardware", hardwareSteps},
		{"network", networkSteps},
		{"records", recordSteps},
		{"other names", otherNameSteps},
		{"suspension", suspensionSteps},
		{"end", endSteps},
	} {
		if !t.Run(part.name, func(t *testing.T) { w.walk(t, part.steps) }) {
			return
		}
	}
	missing := slices.DeleteFunc(clientCommands(newRootCommand()), func(words string) bool { return w.ran[words] })
	if len(missing) > 0 {
		t.Errorf("no step runs:\n%s", strings.Join(missing, "\n"))
	}
}
