package cluster

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/internal/controlplane/controlplanetest"
	"github.com/ingot-metal/ingot/internal/operator"
	"github.com/ingot-metal/ingot/internal/sim/invariant"
)

// pollInterval is how often the operator of another management cluster asks the engine.
const pollInterval = 5 * time.Second

// Management is a management cluster.
type Management struct {
	// Kube is its administrator, whose configuration is Config and the file Kubeconfig.
	Kube       client.Client
	Config     *rest.Config
	Kubeconfig string
}

// Management is the management cluster of the world.
func (w *World) Management() *Management {
	return &Management{Kube: w.Kube, Config: w.Config(), Kubeconfig: filepath.Join(w.dir, "kubeconfig")}
}

// NewManagement starts another management cluster for one test, with Cluster API and with an operator of its own on the engine of the
// world. At the end of the test the rules are checked there.
func (w *World) NewManagement(tb testing.TB) *Management {
	tb.Helper()
	m := w.NewManagementWithoutOperator(tb)
	op, err := operator.New(operator.Options{
		Config: m.Config, EngineURL: w.EngineURL(), AgentWindow: agentTimeout, PollInterval: pollInterval, LocalImages: true,
		Controllers: append(operator.DefaultGroups(), operator.GroupCluster, operator.GroupRemediation, operator.GroupAutoscale),
		Logger:      slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		tb.Fatalf("make another operator: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- op.Run(ctx) }()
	tb.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			tb.Errorf("run another operator: %v", err)
		}
	})
	return m
}

// NewManagementWithoutOperator is NewManagement for a test that runs the operator itself.
func (w *World) NewManagementWithoutOperator(tb testing.TB) *Management {
	tb.Helper()
	plane := controlplanetest.Start(tb, controlplanetest.Options{ClusterAPI: true})
	m := &Management{Config: plane.Config(), Kubeconfig: plane.Kubeconfig()}
	scheme, err := Scheme()
	if err != nil {
		tb.Fatal(err)
	}
	if m.Kube, err = client.New(m.Config, client.Options{Scheme: scheme}); err != nil {
		tb.Fatal(err)
	}
	watch, stop, err := watchHosts(m.Config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		checkRules(tb, invariant.Checker{Machines: w.MachinesWithBMC(), Hosts: watch})
		if err := stop(); err != nil {
			tb.Errorf("watch the hosts of another management cluster: %v", err)
		}
	})
	return m
}
