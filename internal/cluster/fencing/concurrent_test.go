package fencing

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/remediation"
)

// Version returns the version of an API server that does not know the out-of-service taint. So
// Nodes are deleted, which the world checks.
func (w *world) Version(context.Context, types.NamespacedName) (*version.Version, error) {
	return version.MajorMinor(1, 27), nil
}

// remediate makes a Metal3Remediation with the strategy Reboot for a Machine.
func (w *world) remediate(i int) *v1beta2.Metal3Remediation {
	w.Helper()
	machine := w.theMachine(i)
	m := &v1beta2.Metal3Remediation{Spec: v1beta2.Metal3RemediationSpec{Strategy: &v1beta2.RemediationStrategy{Type: v1beta2.RebootRemediation, TimeoutSeconds: 3600}}}
	m.Namespace, m.Name, m.UID = testNamespace, machine.Name, types.UID("remediation-"+machine.Name)
	m.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: machine.Name, UID: machine.UID}}
	if err := w.mgmt.Create(w.Context(), m); err != nil {
		w.Fatal(err)
	}
	return m
}

// remediator is the controller of Metal3Remediations, which shares the guard.
func (w *world) remediator() *remediation.Reconciler {
	w.Helper()
	metrics, err := remediation.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		w.Fatal(err)
	}
	return remediation.New(remediation.Config{
		Client: w.observed(w.mgmt), Live: w.mgmt, Workload: w, FindNode: w.findNode, ProvenOff: ProvenOff, DoubtNode: DoubtNode, Guard: w.r.Guard,
		Recorder: w.notes, Metrics: metrics, Now: func() time.Time { return w.now },
	})
}

// away are the hosts that are off or held off.
func (w *world) away(hosts int) (names []string) {
	w.Helper()
	for i := range hosts {
		h := w.host(i)
		held := false
		for key := range h.Annotations {
			held = held || strings.HasPrefix(key, v1alpha1.RebootAnnotation)
		}
		if held || !w.isRunning(h.Name) {
			names = append(names, h.Name)
		}
	}
	return names
}

// TestTheControlPlaneKeepsItsMajorityWhileBothControllersRecoverItsMachines recovers one Machine by
// annotation, one by a Metal3Remediation, and one by both, with their steps in random order. The
// conditions of the Machines say all the time that all of them are ready.
func TestTheControlPlaneKeepsItsMajorityWhileBothControllersRecoverItsMachines(t *testing.T) {
	const machines = 3
	for seed := range uint64(20) {
		w := newControlPlane(t, machines)
		w.start(func(c *Config) { c.Budget = machines })
		w.request(0)
		w.request(1)
		remediated := []*v1beta2.Metal3Remediation{w.remediate(1), w.remediate(2)}
		r := w.remediator()
		random := rand.New(rand.NewPCG(seed, 1))
		done := func() bool {
			for i := range machines {
				if isRequested(w.theMachine(i)) {
					return false
				}
			}
			for _, m := range remediated {
				if read(w, w.mgmt, &v1beta2.Metal3Remediation{}, m.Namespace, m.Name).Status.Phase != v1beta2.RemediationWaiting {
					return false
				}
			}
			return len(w.away(machines)) == 0
		}
		steps := 0
		for ; steps < 5000 && !done(); steps++ {
			switch n := random.IntN(8); {
			case n < 3:
				if _, err := w.pass(n); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			case n < 5:
				if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(remediated[n-3])}); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			default:
				w.operate(n - 5)
				w.now = w.now.Add(time.Second)
			}
			if away := w.away(machines); len(away) > 1 {
				t.Fatalf("seed %d: %v are off or held off at the same time", seed, away)
			}
		}
		if !done() {
			t.Fatalf("seed %d: not all machines are recovered; conditions %q, %q and %q; away are %v", seed, w.reason(0), w.reason(1), w.reason(2), w.away(machines))
		}
		if n := count(w.writes, "delete Node"); n < machines {
			t.Errorf("seed %d: %d Nodes were deleted, want %d at least", seed, n, machines)
		}
		for i := range machines {
			w.live(i)
			if w.theNode(i) == nil || w.theNode(i).Labels["rack"] != "1" {
				t.Errorf("seed %d: Node %v", seed, w.theNode(i))
			}
		}
	}
}

// TestAnUpdateThatRunsOnTheHostIsNoPowerOff reads the machine as off in the middle of a live
// update.
func TestAnUpdateThatRunsOnTheHostIsNoPowerOff(t *testing.T) {
	w := newWorld(t, 1)
	old := w.theNode(0).UID
	w.changeHost(0, func(h *v1alpha1.BareMetalHost) { h.Status.OperationalStatus = v1alpha1.OperationalStatusServicing })
	w.request(0)
	w.passes(0)
	w.changeHost(0, func(h *v1alpha1.BareMetalHost) { h.Status.PoweredOn = false })
	for range 3 {
		w.passes(0)
	}
	if w.reason(0) != v1beta2.PoweringOffReason || w.theNode(0) == nil || !isHeld(w.host(0)) {
		t.Errorf("condition %q, Node %v, host %v", w.reason(0), w.theNode(0), w.host(0).Annotations)
	}
	w.changeHost(0, func(h *v1alpha1.BareMetalHost) { h.Status.OperationalStatus = v1alpha1.OperationalStatusOK })
	w.live(0)
	w.checkRecovered(0, old)
}
