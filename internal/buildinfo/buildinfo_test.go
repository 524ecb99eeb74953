package buildinfo

import (
	"runtime/debug"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestInfoIsWhatGoRecorded(t *testing.T) {
	build := &debug.BuildInfo{
		GoVersion: "go1.26.8", Main: debug.Module{Version: "v0.1.0"},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123abcd"}, {Key: "vcs.modified", Value: "true"}},
	}
	want := Info{Version: "v0.1.0", Commit: "0123abcd", Modified: true, Go: "go1.26.8"}
	if diff := cmp.Diff(want, from(build, "", "")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWhatTheLinkerSetWins(t *testing.T) {
	build := &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123abcd"}}}
	want := Info{Version: "v1.2.3", Commit: "4567cdef"}
	if diff := cmp.Diff(want, from(build, "v1.2.3", "4567cdef")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
