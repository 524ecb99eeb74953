// Package cluster makes workload clusters of simulated machines, with all of Ingot and with Cluster API's own managers, for
// stories, fault tests and benchmarks.
//
// A [World] is what they share: the management cluster, the engine, the operator and a rack of machines with BMCs. A
// [Cluster] is a namespace of it with hosts and a workload cluster.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	discoveryv1alpha1 "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/controlplane"
	"github.com/ingot-metal/ingot/internal/sim/invariant"
	"github.com/ingot-metal/ingot/internal/up"
)

const (
	// WaitTimeout bounds every wait. The race detector makes everything slow, and many things wait for
	// others.
	WaitTimeout = 4 * time.Minute
	// poll is the pause between two looks.
	poll = 200 * time.Millisecond

	// NodeGrace is how long a Node may be silent until it is not ready; it is many times the heartbeat, so that
	// a slow computer makes no Node unready.
	NodeGrace = 20 * time.Second
	heartbeat = 2 * time.Second
	// agentTimeout is how long a ramdisk may be silent.
	agentTimeout = 6 * time.Second
	// speed is that of the machines: a deployment takes seconds.
	speed = 10
)

// World is a running Ingot with Cluster API.
type World struct {
	*up.Up
	// Kube is the administrator of the management cluster.
	Kube client.Client

	dir       string
	network   netip.Prefix
	metrics   string // address
	checker   invariant.Checker
	stopWatch func() error

	mu      sync.Mutex
	taken   int                        // machines with BMCs that belong to a Cluster
	plugged []invariant.Checker        // of machines that were plugged in
	audit   []string                   // logs of workload clusters
	workers *controlplane.ControlPlane // of Clusters that have workers only; nil before the first
}

// Start starts a world on a data folder, with so many machines that have BMCs. Changes may alter the options of all that runs.
func Start(ctx context.Context, dir string, machines int, changes ...func(*up.Options)) (*World, error) {
	network, err := claimNetwork()
	if err != nil {
		return nil, err
	}
	opts := up.Options{
		DataDir: dir, BMCs: machines, Seed: 7, Listen: "127.0.0.1:0", Network: network, AgentTimeout: agentTimeout, Speed: speed,
		ClusterAPI: true, Heartbeat: heartbeat, Metrics: metricsAddress(network), Volatile: true,
	}
	for _, change := range changes {
		change(&opts)
	}
	u, err := up.Start(ctx, opts)
	if err != nil {
		return nil, err
	}
	w := &World{Up: u, dir: dir, network: opts.Network, metrics: opts.Metrics}
	if err := w.connect(); err != nil {
		return nil, errors.Join(err, u.Stop(ctx))
	}
	return w, nil
}

// StartForTest is Start for one test, which also stops the world at its end.
func StartForTest(tb testing.TB, machines int, changes ...func(*up.Options)) *World {
	tb.Helper()
	w, err := Start(tb.Context(), tb.TempDir(), machines, append(changes, func(o *up.Options) { o.Output = tb.Output() })...)
	if err != nil {
		tb.Fatalf("start a world: %v", err)
	}
	tb.Cleanup(func() {
		if err := w.Stop(context.Background()); err != nil {
			tb.Errorf("stop the world: %v", err)
		}
	})
	return w
}

// Scheme returns the kinds that a world has objects of.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, v1alpha1.AddToScheme, discoveryv1alpha1.AddToScheme, v1beta2.AddToScheme,
		clusterv1.AddToScheme, bootstrapv1.AddToScheme, controlplanev1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return scheme, nil
}

// connect makes the client and starts to watch the rules.
func (w *World) connect() error {
	scheme, err := Scheme()
	if err != nil {
		return err
	}
	if w.Kube, err = client.New(w.Config(), client.Options{Scheme: scheme}); err != nil {
		return err
	}
	watch, stop, err := watchHosts(w.Config())
	if err != nil {
		return err
	}
	w.stopWatch = stop
	w.checker = invariant.Checker{Machines: w.MachinesWithBMC(), Instances: w.Instances(), Hosts: watch}
	return nil
}

// Metrics scrapes the metrics of the operator, in the text format of Prometheus.
func (w *World) Metrics(ctx context.Context) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.metrics+"/metrics", http.NoBody)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("scrape the operator: %s: %s", resp.Status, text)
	}
	return string(text), err
}

// watchHosts watches the hosts of a management cluster until stop.
func watchHosts(config *rest.Config) (watch *invariant.Watch, stop func() error, err error) {
	if watch, err = invariant.NewWatch(config); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- watch.Run(ctx, func() { close(ready) }) }()
	select {
	case <-ready:
		return watch, func() error { cancel(); return <-ended }, nil
	case err := <-ended:
		cancel()
		return nil, nil, err
	}
}

// Stop stops everything.
func (w *World) Stop(ctx context.Context) error {
	for _, checker := range w.plugged {
		checker.Machines.Stop()
	}
	err := errors.Join(w.stopWatch(), w.Up.Stop(ctx))
	if w.workers != nil {
		err = errors.Join(err, w.workers.Stop())
	}
	return err
}

// CheckRules fails a test if since the start of the world a Node was deleted whose machine still ran its operating system,
// if a host has had two machines at once, or if a machine was given a host that was not free.
func (w *World) CheckRules(tb testing.TB) {
	tb.Helper()
	w.mu.Lock()
	checkers, audit := append([]invariant.Checker{w.checker}, w.plugged...), slices.Clone(w.audit)
	w.mu.Unlock()
	for i := range checkers {
		checkers[i].AuditLogs, checkers[i].Hosts = audit, w.checker.Hosts
	}
	checkRules(tb, checkers...)
}

// checkRules fails a test if a rule was broken that one of the checkers has the sources of.
func checkRules(tb testing.TB, checkers ...invariant.Checker) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), WaitTimeout)
	defer cancel()
	var said []string // each checker knows other machines, and finds the same about hosts
	for _, checker := range checkers {
		broken, err := checker.Violations(ctx)
		if err != nil {
			tb.Errorf("check the rules: %v", err)
		}
		for _, text := range broken.Strings() {
			if !slices.Contains(said, text) {
				tb.Error(text)
				said = append(said, text)
			}
		}
	}
}

// take returns the numbers of machines that nobody has taken.
func (w *World) take(tb testing.TB, n int) []int {
	tb.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if all := w.MachinesWithBMC().Len(); w.taken+n > all {
		tb.Fatalf("%d more machines are wanted, and %d of %d are taken", n, w.taken, all)
	}
	machines := make([]int, n)
	for i := range machines {
		machines[i] = w.taken + i
	}
	w.taken += n
	return machines
}

// Eventually waits until check returns nil, and fails the test with its last error if it does not in time.
func Eventually(tb testing.TB, check func(context.Context) error) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), WaitTimeout)
	defer cancel()
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			tb.Fatalf("not within %s: %v", WaitTimeout, err)
		case <-ticker.C:
		}
	}
}

// Shared is a world that the tests of one package share. It starts when the first test needs it.
type Shared struct {
	// Machines is how many machines have BMCs.
	Machines int

	start sync.Once
	dir   string
	world *World
	err   error
}

// World starts the world unless it is running. It fails the test when it cannot.
func (s *Shared) World(tb testing.TB) *World {
	tb.Helper()
	s.start.Do(func() {
		s.dir, s.err = os.MkdirTemp("", "ingot-cluster-") //nolint:usetesting // outlives the test that starts it
		if s.err == nil {
			s.world, s.err = Start(context.Background(), s.dir, s.Machines)
		}
	})
	if s.err != nil {
		tb.Fatalf("start a world: %v", s.err)
	}
	return s.world
}

// Run runs the package's tests, stops the world and returns the exit code for os.Exit.
func (s *Shared) Run(m *testing.M) int {
	code := m.Run()
	var err error
	if s.world != nil {
		err = s.world.Stop(context.Background())
	}
	switch {
	case s.dir == "":
	case code == 0:
		err = errors.Join(err, os.RemoveAll(s.dir))
	default:
		fmt.Fprintln(os.Stderr, "the data and logs of the world are in", s.dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "stop the world:", err)
		return max(code, 1)
	}
	return code
}
