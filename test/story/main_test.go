// Package story tells what users of Ingot experience, one file per story. All of Ingot runs, with
// simulated machines, on a real etcd and kube-apiserver.
package story

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	discoveryv1alpha1 "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
	metal3v1alpha1 "github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/ironic"
	"github.com/ingot-metal/ingot/internal/operator"
	"github.com/ingot-metal/ingot/internal/sim/loopbacktest"
	"github.com/ingot-metal/ingot/internal/up"
)

// engineProcess is an environment variable that makes the test binary an engine, for stories that
// kill an engine. The arguments have the form section.key=value.
const engineProcess = "INGOT_STORY_ENGINE"

func TestMain(m *testing.M) {
	if os.Getenv(engineProcess) != "" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		if err := runEngine(ctx, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1) //nolint:gocritic // nothing of stop outlives the process
		}
		stop()
		os.Exit(0)
	}
	operator.RouteLogs(slog.New(slog.DiscardHandler))
	os.Exit(plane.Run(m))
}

// testTimeout bounds every wait of a story. The race detector makes everything
// slow.
const testTimeout = 2 * time.Minute

// world is a running Ingot and its clients.
type world struct {
	*up.Up
	kube   client.Client
	engine *ironic.Client
}

// start runs all of Ingot on a data folder and stops it at the end of the test.
func start(t *testing.T, opts up.Options) *world {
	t.Helper()
	if opts.Listen == "" {
		opts.Listen = "127.0.0.1:0"
	}
	opts.Network = loopbacktest.Network(t)
	opts.AgentTimeout = 6 * time.Second // a machine that is switched off and on has to wait this long
	opts.Output = t.Output()
	opts.Volatile = true
	u, err := up.Start(t.Context(), opts)
	if err != nil {
		t.Fatalf("start Ingot: %v", err)
	}
	w := &world{Up: u}
	t.Cleanup(func() { w.stop(t) })
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{metal3v1alpha1.AddToScheme, discoveryv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	if w.kube, err = client.New(u.Config(), client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	if w.engine, err = ironic.New(ironic.Options{Endpoint: u.EngineURL()}); err != nil {
		t.Fatal(err)
	}
	return w
}

// stop stops Ingot; calling it again does nothing.
func (w *world) stop(t *testing.T) {
	t.Helper()
	if err := w.Stop(context.Background()); err != nil {
		t.Errorf("stop Ingot: %v", err)
	}
}

// eventually polls until check returns nil, and fails with its last error.
func eventually(t *testing.T, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("not within %s: %v", testTimeout, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// hosts lists all hosts.
func (w *world) hosts(ctx context.Context) ([]metal3v1alpha1.BareMetalHost, error) {
	var list metal3v1alpha1.BareMetalHostList
	err := w.kube.List(ctx, &list)
	return list.Items, err
}

// nodes lists all nodes of the engine.
func (w *world) nodes(ctx context.Context) ([]ironic.Node, error) {
	return allNodes(ctx, w.engine, ironic.NodeQuery{})
}

func allNodes(ctx context.Context, c *ironic.Client, q ironic.NodeQuery) ([]ironic.Node, error) {
	var nodes []ironic.Node
	for n, err := range c.Nodes(ctx, q) {
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// theAvailableHost waits until there is exactly one host and it is available.
func (w *world) theAvailableHost(t *testing.T) *metal3v1alpha1.BareMetalHost {
	t.Helper()
	var host *metal3v1alpha1.BareMetalHost
	eventually(t, func(ctx context.Context) error {
		hosts, err := w.hosts(ctx)
		if err != nil {
			return err
		}
		if len(hosts) != 1 {
			return fmt.Errorf("%d hosts, want 1", len(hosts))
		}
		if state := hosts[0].Status.Provisioning.State; state != metal3v1alpha1.StateAvailable {
			return fmt.Errorf("host %s is %q: %s", hosts[0].Name, state, hosts[0].Status.ErrorMessage)
		}
		host = &hosts[0]
		return nil
	})
	return host
}

// gone waits until an object is no longer there.
func (w *world) gone(t *testing.T, object client.Object) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		err := w.kube.Get(ctx, client.ObjectKeyFromObject(object), object)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("%s is still there", object.GetName())
		}
		return err
	})
}
