package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/polltest"
)

// shell starts a process that runs a shell script.
func shell(t *testing.T, script string) *process {
	t.Helper()
	p, err := startProcess("/bin/sh", filepath.Join(t.TempDir(), "log"), "-c", script)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

// printed waits until the process has printed text.
func printed(t *testing.T, p *process, text string) {
	t.Helper()
	poll(t, "output "+text, func() bool {
		out, err := os.ReadFile(p.logFile)
		return err == nil && bytes.Contains(out, []byte(text))
	})
}

// poll waits until cond holds, a minute at most.
func poll(t *testing.T, what string, cond func() bool) {
	t.Helper()
	polltest.UntilTrue(t, time.Minute, what, cond)
}

// alive reports whether a process runs. A zombie does not: nobody may be there
// to collect it when its parent was killed.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := bytes.Cut(stat, []byte(") "))
	return !bytes.HasPrefix(state, []byte("Z"))
}

func TestStopLetsAProgramEndByItself(t *testing.T) {
	p := shell(t, `trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.01; done`)
	printed(t, p, "ready")
	if err := p.stop(time.Minute); err != nil {
		t.Error(err)
	}
	printed(t, p, "bye")
}

func TestStopKillsAProgramThatDoesNotEnd(t *testing.T) {
	p := shell(t, `trap '' TERM; echo ready; while :; do sleep 0.01; done`)
	printed(t, p, "ready")
	err := p.stop(50 * time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("error = %v, want that it was killed", err)
	}
	if alive(p.cmd.Process.Pid) {
		t.Error("the program still runs")
	}
}

func TestProgramSeesNoVariableOfThisProcess(t *testing.T) {
	t.Setenv("ETCD_DATA_DIR", "/elsewhere")
	p := shell(t, `echo "dir=$ETCD_DATA_DIR path=$PATH"`)
	<-p.done
	printed(t, p, "dir= path="+os.Getenv("PATH"))
}

func TestWaitReadyTellsWhyAProgramEnded(t *testing.T) {
	p := shell(t, `echo "Error: no such luck" >&2; exit 3`)
	err := p.waitReady(t.Context(), func(context.Context) error { return errors.New("refused") })
	for _, want := range []string{"sh", "exit status 3", "no such luck", p.logFile} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want one with %q", err, want)
		}
	}
}

func TestWaitReadyGivesUpWithItsContext(t *testing.T) {
	p := shell(t, `sleep 60`)
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errors.New("too slow"))
	defer cancel()
	err := p.waitReady(ctx, func(context.Context) error { return errors.New("answers 500") })
	for _, want := range []string{"too slow", "answers 500", p.logFile} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want one with %q", err, want)
		}
	}
}

func TestMissingProgramIsAnError(t *testing.T) {
	_, err := startProcess("/nonexistent/program", filepath.Join(t.TempDir(), "log"))
	if !errors.Is(err, syscall.ENOENT) {
		t.Errorf("error = %v, want ENOENT", err)
	}
}

func TestLastError(t *testing.T) {
	for name, tc := range map[string]struct{ output, want string }{
		"nothing": {"", "no output"},
		"plain":   {"starting\nsomething went wrong\n\n", "something went wrong"},
		"etcd": {
			`{"level":"info","msg":"opening"}
{"level":"fatal","ts":"2026-01-01T00:00:00Z","msg":"discovery failed","error":"member has no data","stacktrace":"main.main"}
{"level":"info","msg":"closing"}
`, "discovery failed: member has no data",
		},
		"etcd panic": {
			`{"level":"panic","msg":"failed to open database","path":"db","error":"invalid database"}
panic: failed to open database

goroutine 1 [running]:
main.main()
	main.go:1
`, "failed to open database",
		},
		"kubernetes": {
			`I0101 00:00:00.000000    1234 server.go:1] hello
E0101 00:00:00.000000    1234 run.go:72] "command failed" err="listen tcp: address already in use"
I0101 00:00:00.000000    1234 server.go:2] bye
`, `"command failed" err="listen tcp: address already in use"`,
		},
		"flags": {"Usage:\n  lots\n\nError: unknown flag: --x\n", "unknown flag: --x"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := lastError([]byte(tc.output)); got != tc.want {
				t.Errorf("lastError = %q, want %q", got, tc.want)
			}
		})
	}
	long := lastError([]byte(strings.Repeat("ä", maxErrorText)))
	if len(long) > maxErrorText+len("…") || !strings.HasSuffix(long, "…") {
		t.Errorf("a long line is quoted with %d bytes, want at most %d", len(long), maxErrorText)
	}
}
