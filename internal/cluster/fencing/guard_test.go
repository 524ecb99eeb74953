package fencing

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// hasNoNode makes a Machine of the control plane one whose machine was started and has no Node.
func (w *world) hasNoNode(i int) {
	w.Helper()
	w.changeMachine(i, func(m *clusterv1.Machine) { m.Status.NodeRef.Name, m.Status.Conditions = "", nil })
	if err := w.nodes.Delete(w.Context(), w.theNode(i)); err != nil {
		w.Fatal(err)
	}
}

// isBeingDeployed makes a Machine of the control plane one that was never started, as in the middle
// of an upgrade.
func (w *world) isBeingDeployed(i int) {
	w.Helper()
	w.hasNoNode(i)
	w.changeHost(i, func(h *v1alpha1.BareMetalHost) { h.Status.Provisioning.State = v1alpha1.StateProvisioning })
	w.dropProviderID(i)
}

// dropProviderID leaves a machine without its provider ID.
func (w *world) dropProviderID(i int) {
	w.Helper()
	w.changeMachine(i, func(m *clusterv1.Machine) { m.Spec.ProviderID = "" })
	m := read(w, w.mgmt, &v1beta2.Metal3Machine{}, testNamespace, name("m3m", i))
	m.Spec.ProviderID = ""
	if err := w.mgmt.Update(w.Context(), m); err != nil {
		w.Fatal(err)
	}
}

func TestAMachineOfTheControlPlaneThatCannotHaveBootedIsNotNeededForItsMajority(t *testing.T) {
	for name, never := range map[string]func(w *world, i int){
		"its host is being deployed": (*world).isBeingDeployed,
		"it has no host": func(w *world, i int) {
			w.isBeingDeployed(i)
			w.changeHost(i, func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef = nil })
		},
		"it has no Metal3Machine": func(w *world, i int) {
			w.hasNoNode(i)
			w.changeMachine(i, func(m *clusterv1.Machine) { m.Spec.InfrastructureRef.Name = "gone" })
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newControlPlane(t, 4)
			never(w, 3)
			w.changeMachine(2, func(m *clusterv1.Machine) { m.Status.Conditions = nil })
			w.request(2)
			if w.passes(2); !isHeld(w.host(2)) {
				t.Errorf("condition %q, want two of three others to be the majority", w.reason(2))
			}
		})
	}
}

// TestAMachineOfTheControlPlaneThatMayHaveBootedCountsForItsMajorityWithoutANode has a machine that
// joined etcd and died before kubelet registered its Node.
func TestAMachineOfTheControlPlaneThatMayHaveBootedCountsForItsMajorityWithoutANode(t *testing.T) {
	for name, started := range map[string]func(w *world, i int){
		"its host is deployed": func(w *world, i int) { w.hasNoNode(i); w.dropProviderID(i) },
		"it was, before a move": func(w *world, i int) {
			w.hasNoNode(i)
			w.changeHost(i, func(h *v1alpha1.BareMetalHost) { h.Status.Provisioning.State = v1alpha1.StateNone })
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newControlPlane(t, 4)
			started(w, 3)
			for _, hangs := range []int{0, 3} {
				w.changeMachine(0, func(m *clusterv1.Machine) { m.Status.Conditions = nil })
				if why, _, err := w.r.Guard.Endangered(t.Context(), w.theMachine(hangs)); err != nil || why == "" {
					t.Errorf("machine %d: %q, %v, want two of four not to be the majority", hangs, why, err)
				}
			}
			w.request(0)
			if w.passes(0); isHeld(w.host(0)) || w.reason(0) != v1beta2.WaitingForControlPlaneReason {
				t.Errorf("condition %q, host %v", w.reason(0), w.host(0).Annotations)
			}
		})
	}
}

func TestAMachineThatTheControlPlaneCanNeverDoWithoutIsNotFencedAndThatIsShown(t *testing.T) {
	for _, machines := range []int{1, 2} {
		w := newControlPlane(t, machines)
		w.request(0)
		if w.passes(0); isHeld(w.host(0)) || w.reason(0) != v1beta2.RemediationImpossibleReason {
			t.Errorf("of %d: condition %q, host %v", machines, w.reason(0), w.host(0).Annotations)
		}
	}
}

func TestAMachineOfTheControlPlaneMayBeAMemberAsLongAsItsNodeIsNotKnown(t *testing.T) {
	w := newControlPlane(t, 2)
	w.isBeingDeployed(1)
	for _, silent := range []bool{true, false} {
		w.silent = silent
		why, lasting, err := w.r.Guard.Endangered(t.Context(), w.theMachine(0))
		if err != nil || lasting != silent || (why != "") != silent {
			t.Errorf("silent %t: %q, lasting %t, %v", silent, why, lasting, err)
		}
	}
}

// TestAHoldWaitsForThoseOfItsClusterAndOfNoOther has a hold that takes long, as with a workload
// cluster that does not answer.
func TestAHoldWaitsForThoseOfItsClusterAndOfNoOther(t *testing.T) {
	w := newWorld(t, 3)
	of := func(i int, cluster string) *clusterv1.Machine {
		m := w.theMachine(i)
		m.Spec.ClusterName = cluster
		return m
	}
	slow, same, other := of(0, testCluster), of(1, testCluster), of(2, "another")
	synctest.Test(t, func(t *testing.T) {
		guard := NewGuard(w.mgmt, w, w.findNode)
		answer, held := make(chan struct{}), make(chan string, 3)
		hold := func(m *clusterv1.Machine, set func()) {
			_, err := guard.Hold(t.Context(), m, func() error {
				set()
				held <- m.Name
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
		go hold(slow, func() { <-answer })
		synctest.Wait()
		go hold(same, func() {})
		go hold(other, func() {})
		synctest.Wait()
		if len(held) != 1 || <-held != other.Name {
			t.Error("want the hold in another cluster to be set, and no other, while one takes long")
		}
		close(answer)
		synctest.Wait()
		if len(held) != 2 || <-held != slow.Name {
			t.Error("want the holds of a cluster to be set one after the other")
		}
	})
}

// TestANodeIsLookedForByTheProviderIDsThatItsMachineMayGet has a Node that kubelet registered
// before its Machine is known to be provisioned.
func TestANodeIsLookedForByTheProviderIDsThatItsMachineMayGet(t *testing.T) {
	w := newControlPlane(t, 2)
	own := w.theMachine(1).Spec.ProviderID
	w.isBeingDeployed(1)
	for _, id := range []string{own, v1beta2.ProviderIDPrefix + string(w.host(1).UID)} {
		guard := NewGuard(w.mgmt, w, func(_ context.Context, _ client.Client, _ *clusterv1.Machine, ids ...string) (*corev1.Node, error) {
			if slices.Contains(ids, id) {
				return &corev1.Node{}, nil
			}
			return nil, nil
		})
		if why, _, err := guard.Endangered(t.Context(), w.theMachine(0)); err != nil || why == "" {
			t.Errorf("%s: %q, %v, want the other Machine to count", id, why, err)
		}
	}
}
