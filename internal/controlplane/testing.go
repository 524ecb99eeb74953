package controlplane

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
)

// TestOptions configure the control plane of a test.
type TestOptions struct {
	// CRDs are installed before the test continues. Nil means Ingot's own.
	CRDs fs.FS
	// ControllerManager is the same as in Options.
	ControllerManager bool
	// ClusterAPI is the same as in Options. When a test fails, the logs of all programs
	// are kept, and the ends of those of Cluster API's managers are shown.
	ClusterAPI bool
	// Workload is the same as in Options. Nil CRDs then means none.
	Workload *WorkloadOptions
}

// shownLog is how much of the log of a manager is shown, in bytes.
const shownLog = 16 << 10

// StartForTest starts a control plane for one test and stops it after the test.
// It fails the test when it cannot, also for lack of the programs. A package
// with more than one test shares one through TestPlane instead.
func StartForTest(tb testing.TB, opts TestOptions) *rest.Config {
	tb.Helper()
	return StartPlaneForTest(tb, opts).Config()
}

// StartPlaneForTest is StartForTest for tests that need more than the configuration.
func StartPlaneForTest(tb testing.TB, opts TestOptions) *ControlPlane {
	tb.Helper()
	c, err := startForTest(tb.Context(), tb.TempDir(), opts)
	if err != nil {
		tb.Fatalf("start control plane: %v", err)
	}
	tb.Cleanup(func() {
		if err := c.Stop(); err != nil {
			tb.Errorf("stop control plane: %v", err)
		}
		if opts.ClusterAPI && tb.Failed() {
			c.showLogs(tb.Logf)
		}
	})
	return c
}

// TestPlane is a control plane that the tests of one package share:
//
//	var plane = controlplane.NewTestPlane(controlplane.TestOptions{})
//
//	func TestMain(m *testing.M) { os.Exit(plane.Run(m)) }
//
// Each test uses its own namespaces. The control plane starts when the first
// test needs it, so that a run without such a test is fast.
type TestPlane struct {
	opts TestOptions

	start   sync.Once
	dir     string
	running *ControlPlane
	err     error
}

// NewTestPlane returns a control plane that is not started yet.
func NewTestPlane(opts TestOptions) *TestPlane { return &TestPlane{opts: opts} }

// Config starts the control plane unless it is running, and returns a copy of
// the administrator's client configuration. It fails the test when it cannot.
func (p *TestPlane) Config(tb testing.TB) *rest.Config {
	tb.Helper()
	return p.ControlPlane(tb).Config()
}

// ControlPlane starts the control plane unless it is running. It fails the test when it cannot.
func (p *TestPlane) ControlPlane(tb testing.TB) *ControlPlane {
	tb.Helper()
	p.start.Do(func() {
		p.dir, p.err = os.MkdirTemp("", "ingot-controlplane-") //nolint:usetesting // outlives the test that starts it
		if p.err == nil {
			p.running, p.err = startForTest(context.Background(), p.dir, p.opts)
		}
	})
	if p.err != nil {
		tb.Fatalf("start control plane: %v", p.err)
	}
	return p.running
}

// Run runs the package's tests, stops the control plane and returns the exit
// code for os.Exit.
func (p *TestPlane) Run(m *testing.M) int {
	code := m.Run()
	var err error
	if p.running != nil {
		err = p.running.Stop()
		if p.opts.ClusterAPI && code != 0 {
			p.running.showLogs(func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) })
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

// startForTest starts a control plane on dir and installs the CRDs.
func startForTest(ctx context.Context, dir string, opts TestOptions) (*ControlPlane, error) {
	crds := opts.CRDs
	if crds == nil && opts.Workload == nil {
		crds = config.CRDs
	}
	c, err := Start(ctx, Options{DataDir: dir, ControllerManager: opts.ControllerManager, ClusterAPI: opts.ClusterAPI, Workload: opts.Workload, Volatile: true})
	if err != nil || crds == nil {
		return c, err
	}
	if err := InstallCRDs(ctx, c.Config(), crds); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// showLogs keeps the logs of all programs in a folder that outlives the data folder, and
// says where it is and how those of Cluster API's managers end.
func (c *ControlPlane) showLogs(say func(format string, args ...any)) {
	kept, err := os.MkdirTemp("", "ingot-controlplane-logs-")
	if err == nil {
		err = os.CopyFS(kept, os.DirFS(c.dir.own("logs")))
	}
	if err != nil {
		say("keep the logs of the control plane: %v", err)
		return
	}
	say("the logs of the control plane are in %s", kept)
	for _, manager := range clusterAPIManagers {
		log, err := os.ReadFile(c.dir.log(manager))
		say("%s (%v):\n%s", manager, err, log[max(0, len(log)-shownLog):])
	}
}
