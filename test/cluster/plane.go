package cluster

import (
	"path/filepath"
	"testing"

	"github.com/ingot-metal/ingot/internal/controlplane"
	"github.com/ingot-metal/ingot/internal/controlplane/controlplanetest"
)

// workloadOptions are those of all workload clusters.
func workloadOptions() *controlplane.WorkloadOptions {
	return &controlplane.WorkloadOptions{NodeGrace: NodeGrace}
}

// NewPlane starts the control plane of a workload cluster for one test.
func (w *World) NewPlane(tb testing.TB) *controlplane.ControlPlane {
	tb.Helper()
	plane := controlplanetest.Start(tb, controlplanetest.Options{Workload: workloadOptions()})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.audit = append(w.audit, plane.AuditLog())
	return plane
}

// WorkerPlane returns a control plane that Clusters share which have workers only. It starts when the first test needs it.
func (w *World) WorkerPlane(tb testing.TB) *controlplane.ControlPlane {
	tb.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.workers != nil {
		return w.workers
	}
	plane, err := controlplane.Start(tb.Context(), controlplane.Options{
		DataDir: filepath.Join(w.dir, "workers"), Workload: workloadOptions(), Volatile: true,
	})
	if err != nil {
		tb.Fatalf("start the control plane of workers: %v", err)
	}
	w.workers, w.audit = plane, append(w.audit, plane.AuditLog())
	return plane
}
