package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	oci "github.com/google/go-containerregistry/pkg/v1"
)

// builder builds the program for a platform into a file.
type builder func(ctx context.Context, platform oci.Platform, file string) error

// source is the folder of Ingot's module, seen from this one.
const source = "../.."

// goBuild returns a builder of Ingot from source, with flags of "go build". Nothing of this machine
// gets into the program if -trimpath is among them: no path and no state of the work tree.
func goBuild(version, commit string, flags ...string) builder {
	const buildinfo = "github.com/ingot-metal/ingot/internal/buildinfo"
	ldflags := fmt.Sprintf("-s -w -buildid= -X %s.version=%s -X %s.commit=%s", buildinfo, version, buildinfo, commit)
	return func(ctx context.Context, platform oci.Platform, file string) error {
		args := append([]string{"-C", source, "build", "-buildvcs=false", "-ldflags", ldflags}, flags...)
		cmd := exec.CommandContext(ctx, "go", append(args, "-o", file, "./cmd/ingot")...) //nolint:gosec // arguments of this program's caller
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS="+platform.OS, "GOARCH="+platform.Architecture)
		cmd.Stderr = os.Stderr
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		cmd.WaitDelay = 10 * time.Second
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("build ingot for %s: %w", platform, err)
		}
		return nil
	}
}
