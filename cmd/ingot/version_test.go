package main

import (
	"runtime"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/buildinfo"
	"github.com/ingot-metal/ingot/internal/cli"
)

func TestVersionCommandAndFlagPrintTheSame(t *testing.T) {
	want := versionText(buildinfo.Read())
	for _, args := range [][]string{{"version"}, {"--version"}} {
		out, stderr, code := clientRun(t, args...)
		if code != cli.ExitOK || out != want || !strings.Contains(out, runtime.Version()) {
			t.Errorf("ingot %s: exit %d, %q, %q; want %q", args[0], code, out, stderr, want)
		}
	}
}

func TestVersionTextHasEveryFact(t *testing.T) {
	got := versionText(buildinfo.Info{Version: "v1.2.3", Commit: "0123abcd", Modified: true, Go: "go1.26.8"})
	want := `Version:             v1.2.3
Commit:              0123abcd with changes
Go:                  go1.26.8
API microversions:   1.81 to 1.110
`
	if got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
	if got := versionText(buildinfo.Info{}); !strings.Contains(got, "Version:             unknown\n") {
		t.Errorf("without a version:\n%s", got)
	}
}
