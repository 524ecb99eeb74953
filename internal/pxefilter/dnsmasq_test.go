package pxefilter

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// processes pretends that processes of these names run, by number.
func processes(t *testing.T, names map[string]string) (proc string) {
	t.Helper()
	proc = t.TempDir()
	for pid, name := range names {
		if err := os.Mkdir(filepath.Join(proc, pid), 0o700); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(proc, pid), "comm", name+"\n")
	}
	return proc
}

func TestOnlyDnsmasqIsSignalled(t *testing.T) {
	proc := processes(t, map[string]string{"7": "dnsmasq", "8": "postgres"})
	file := func(text string) string {
		dir := t.TempDir()
		put(t, dir, "pid", text)
		return filepath.Join(dir, "pid")
	}
	for name, test := range map[string]struct {
		server     server
		answer     error
		signalled  bool
		notRunning bool
		want       string
	}{
		"by its file":        {server{pidFile: file("7\n")}, nil, true, false, ""},
		"by number":          {server{pid: 7}, nil, true, false, ""},
		"reused number":      {server{pidFile: file("8\n")}, nil, false, true, "process 8 is postgres"},
		"no such process":    {server{pid: 9}, nil, false, true, "no process 9"},
		"it ends right now":  {server{pid: 7}, syscall.ESRCH, true, true, "no process 7"},
		"no file":            {server{pidFile: "/nonexistent/pid"}, nil, false, true, "no file /nonexistent/pid"},
		"no number":          {server{pidFile: file("soon")}, nil, false, false, "holds no process number"},
		"everybody":          {server{pidFile: file("-1")}, nil, false, false, "holds no process number"},
		"somebody else's":    {server{pid: 7}, syscall.EPERM, true, false, "run this as the same user"},
		"no way to find out": {server{pidFile: t.TempDir()}, nil, false, false, "is a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			signalled := false
			test.server.proc = proc
			test.server.signal = func(pid int, s syscall.Signal) error {
				signalled = pid == 7 && s == syscall.SIGHUP
				return test.answer
			}
			err := test.server.reload()
			if signalled != test.signalled || errors.Is(err, errNotRunning) != test.notRunning {
				t.Errorf("signalled %v, error %v", signalled, err)
			}
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("error = %v, want %q", err, test.want)
			}
		})
	}
}
