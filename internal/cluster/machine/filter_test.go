package machine

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
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

func TestClaimForDataFollowsTheLabelOfItsMachine(t *testing.T) {
	for name, tt := range map[string]struct {
		machine string // its label, or none
		owner   types.UID
		deleted bool // the machine
		want    string
	}{
		"another value":              {machine: "blue", want: "blue"},
		"another value, at the end":  {machine: "blue", deleted: true, want: "blue"},
		"no label":                   {want: "red"},
		"claim of somebody else":     {machine: "blue", owner: "other", want: "red"},
		"claim of another, deleting": {machine: "blue", owner: "other", deleted: true, want: "red"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newMachineBench(t, newHost("a"))
			edit(b, b.machine(), func(m *v1beta2.Metal3Machine) { m.Spec.DataTemplate = &v1beta2.ObjectReference{Name: "data"} })
			b.passes()
			edit(b, b.claim("m-1"), func(c *v1beta2.Metal3DataClaim) {
				c.Labels[clusterv1.WatchLabel], c.Finalizers = "red", []string{v1beta2.DataClaimFinalizer}
				if tt.owner != "" {
					c.OwnerReferences[0].UID = tt.owner
				}
			})
			if tt.machine != "" {
				edit(b, b.machine(), func(m *v1beta2.Metal3Machine) { m.Labels[clusterv1.WatchLabel] = tt.machine })
			}
			if tt.deleted {
				b.remove()
			}
			b.passes()
			b.run()
			if got := b.claim("m-1").Labels[clusterv1.WatchLabel]; got != tt.want {
				t.Errorf("the claim has the label %q, want %q", got, tt.want)
			}
		})
	}
}
