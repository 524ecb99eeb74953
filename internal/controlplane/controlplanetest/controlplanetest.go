// Package controlplanetest starts control planes for tests.
package controlplanetest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/ingot-metal/ingot/config"
	"github.com/ingot-metal/ingot/internal/controlplane"
)

// Options configure the control plane of a test.
type Options struct {
	// CRDs are installed before the test continues. Nil means Ingot's own.
	CRDs fs.FS
	// ControllerManager is the same as in controlplane.Options.
	ControllerManager bool
	// ClusterAPI is the same as in controlplane.Options. If a test fails, the logs of all programs
	// are kept, and the ends of the logs of Cluster API's managers are shown.
	ClusterAPI bool
	// Workload is the same as in controlplane.Options. Nil CRDs then means none.
	Workload *controlplane.WorkloadOptions
}

// Start starts a control plane for one test and stops it after the test. Start fails the test if
// the control plane cannot start, also if its programs are missing. A package with more than one
// test shares a control plane through Plane instead.
func Start(tb testing.TB, opts Options) *controlplane.ControlPlane {
	tb.Helper()
	c, err := start(tb.Context(), tb.TempDir(), opts)
	if err != nil {
		tb.Fatalf("start control plane: %v", err)
	}
	tb.Cleanup(func() {
		if err := c.Stop(); err != nil {
			tb.Errorf("stop control plane: %v", err)
		}
		if opts.ClusterAPI && tb.Failed() {
			c.ShowLogs(tb.Logf)
		}
	})
	return c
}

// Plane is a control plane that the tests of one package share:
//
//	var plane = controlplanetest.New(controlplanetest.Options{})
//
//	func TestMain(m *testing.M) { os.Exit(plane.Run(m)) }
//
// Each test uses its own namespaces. The control plane starts when the first test needs it, so a
// run without such a test is fast.
type Plane struct {
	opts Options

	once    sync.Once
	dir     string
	running *controlplane.ControlPlane
	err     error
}

// New returns a control plane that is not started yet.
func New(opts Options) *Plane { return &Plane{opts: opts} }

// Config starts the control plane unless it is running, and returns a copy of the administrator's
// client configuration. Config fails the test if the control plane cannot start.
func (p *Plane) Config(tb testing.TB) *rest.Config {
	tb.Helper()
	return p.ControlPlane(tb).Config()
}

// ControlPlane starts the control plane unless it is running, and fails the test if it cannot
// start.
func (p *Plane) ControlPlane(tb testing.TB) *controlplane.ControlPlane {
	tb.Helper()
	p.once.Do(func() {
		p.dir, p.err = os.MkdirTemp("", "ingot-controlplane-") //nolint:usetesting // outlives the test that starts it
		if p.err == nil {
			p.running, p.err = start(context.Background(), p.dir, p.opts)
		}
	})
	if p.err != nil {
		tb.Fatalf("start control plane: %v", p.err)
	}
	return p.running
}

// Run runs the package's tests, stops the control plane and returns the exit
// code for os.Exit.
func (p *Plane) Run(m *testing.M) int {
	code := m.Run()
	var err error
	if p.running != nil {
		err = p.running.Stop()
		if p.opts.ClusterAPI && code != 0 {
			p.running.ShowLogs(func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) })
		}
	}
	if p.dir != "" {
		err = errors.Join(err, os.RemoveAll(p.dir))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "stop control plane:", err)
		return max(code, 1)
	}
	return code
}

// start starts a control plane on dir and installs the CRDs.
func start(ctx context.Context, dir string, opts Options) (*controlplane.ControlPlane, error) {
	crds := opts.CRDs
	if crds == nil && opts.Workload == nil {
		crds = config.CRDs
	}
	c, err := controlplane.Start(ctx, controlplane.Options{DataDir: dir, ControllerManager: opts.ControllerManager, ClusterAPI: opts.ClusterAPI, Workload: opts.Workload, Volatile: true})
	if err != nil || crds == nil {
		return c, err
	}
	if err := controlplane.InstallCRDs(ctx, c.Config(), crds); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}
