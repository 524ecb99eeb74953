package fencing

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
)

// neverHadANode has a Machine of the control plane that is not there yet, as in the middle of an upgrade.
func (w *world) neverHadANode(i int) {
	w.Helper()
	w.changeMachine(i, func(m *clusterv1.Machine) { m.Status.NodeRef.Name, m.Status.Conditions = "", nil })
	if err := w.nodes.Delete(w.Context(), w.theNode(i)); err != nil {
		w.Fatal(err)
	}
}

func TestAMachineOfTheControlPlaneThatNeverHadANodeIsNotNeededForItsMajority(t *testing.T) {
	w := newControlPlane(t, 4)
	w.neverHadANode(3)
	w.changeMachine(2, func(m *clusterv1.Machine) { m.Status.Conditions = nil })
	w.request(2)
	if w.passes(2); !isHeld(w.host(2)) {
		t.Errorf("condition %q, want two of three others to be the majority", w.reason(2))
	}
}

func TestAMachineOfTheControlPlaneThatNeverHadANodeIsPoweredOffAndOn(t *testing.T) {
	w := newControlPlane(t, 2)
	w.neverHadANode(1)
	w.request(1)
	if w.passes(1); !isHeld(w.host(1)) {
		t.Fatalf("condition %q, want the host held off", w.reason(1))
	}
	w.live(1)
	if isRequested(w.theMachine(1)) || isHeld(w.host(1)) || !w.isRunning("host-1") {
		t.Errorf("Machine %v, host %v, on: %t", w.theMachine(1).Annotations, w.host(1).Annotations, w.isRunning("host-1"))
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
	w.neverHadANode(1)
	for _, silent := range []bool{true, false} {
		w.silent = silent
		why, lasting, err := w.r.Guard.Endangered(t.Context(), w.theMachine(0))
		if err != nil || lasting != silent || (why != "") != silent {
			t.Errorf("silent %t: %q, lasting %t, %v", silent, why, lasting, err)
		}
	}
}

// TestANodeIsLookedForByTheProviderIDThatItsMachineWillHave has a Node that kubelet has registered before its Machine is known to be
// provisioned.
func TestANodeIsLookedForByTheProviderIDThatItsMachineWillHave(t *testing.T) {
	w := newControlPlane(t, 2)
	w.neverHadANode(1)
	w.changeMachine(1, func(m *clusterv1.Machine) { m.Spec.ProviderID = "" })
	m3m := read(w, w.mgmt, &v1beta2.Metal3Machine{}, testNamespace, name("m3m", 1))
	id := m3m.Spec.ProviderID
	m3m.Spec.ProviderID = ""
	if err := w.mgmt.Update(t.Context(), m3m); err != nil {
		t.Fatal(err)
	}
	guard := NewGuard(w.mgmt, w, func(_ context.Context, _ client.Client, _ *clusterv1.Machine, ids ...string) (*corev1.Node, error) {
		if slices.Contains(ids, id) {
			return &corev1.Node{}, nil
		}
		return nil, nil
	})
	if why, _, err := guard.Endangered(t.Context(), w.theMachine(0)); err != nil || why == "" {
		t.Errorf("%q, %v, want the other Machine to count", why, err)
	}
}
