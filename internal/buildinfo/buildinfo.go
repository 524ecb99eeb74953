// Package buildinfo reads the version and the commit that a binary was built from.
package buildinfo

import (
	"cmp"
	"runtime/debug"
)

// version and commit, if set, replace the values that Go records in a binary; with
// -buildvcs=false Go records none. The Makefile sets them at link time:
// -ldflags "-X github.com/ingot-metal/ingot/internal/buildinfo.version=v1.2.3".
var version, commit string

// Info is what a binary was built from. A field is empty when that is not known.
type Info struct {
	Version  string // "v1.2.3", or a pseudo-version of the commit; "(devel)" when built outside version control
	Commit   string // full hash
	Modified bool   // the working tree had changes that are not in Commit
	Go       string // version of Go: "go1.26.8"
}

// Read returns what this binary was built from.
func Read() Info {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		build = &debug.BuildInfo{}
	}
	return from(build, version, commit)
}

// from combines the values that Go recorded with version and commit, which win.
func from(build *debug.BuildInfo, version, commit string) Info {
	info := Info{Version: cmp.Or(version, build.Main.Version), Commit: commit, Go: build.GoVersion}
	for _, setting := range build.Settings {
		switch setting.Key {
		case "vcs.revision":
			info.Commit = cmp.Or(commit, setting.Value)
		case "vcs.modified":
			info.Modified = setting.Value == "true"
		}
	}
	return info
}
