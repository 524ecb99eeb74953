package machine

import (
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
)

func TestMachineWithoutTheLabelThatTheFilterWantsIsLeftAlone(t *testing.T) {
	b := newMachineBench(t, newHost("a"))
	b.r.Filter = "blue"
	edit(b, b.machine(), func(m *v1beta2.Metal3Machine) { m.Spec.DataTemplate = &v1beta2.ObjectReference{Name: "data"} })
	b.passes()
	if m, h := b.machine(), b.host("a"); len(m.Finalizers) > 0 || len(m.Status.Conditions) > 0 || h.Spec.ConsumerRef != nil {
		t.Fatalf("finalizers %v, conditions %v, consumer %v; want none", m.Finalizers, m.Status.Conditions, h.Spec.ConsumerRef)
	}
	edit(b, b.machine(), func(m *v1beta2.Metal3Machine) { m.Labels[clusterv1.WatchLabel] = "blue" })
	b.passes()
	if b.held() == nil {
		t.Error("the machine with the label has no host")
	}
	if got := b.claim("m-1").Labels[clusterv1.WatchLabel]; got != "blue" {
		t.Errorf("the claim for data has the label %q, want that of the machine", got)
	}
}
