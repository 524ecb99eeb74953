package cluster_test

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// healthCheck returns a MachineHealthCheck of a deployment that replaces Machines with silent
// Nodes.
func (c reuse) healthCheck(d *clusterv1.MachineDeployment) *clusterv1.MachineHealthCheck {
	seconds := int32(5)
	check := &clusterv1.MachineHealthCheck{ObjectMeta: c.Meta(d.Name)}
	check.Spec.ClusterName = c.Name
	check.Spec.Selector = metav1.LabelSelector{MatchLabels: of(d)}
	check.Spec.Checks.UnhealthyNodeConditions = []clusterv1.UnhealthyNodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, TimeoutSeconds: &seconds},
	}
	return check
}

func TestMachineThatAHealthCheckReplacesGetsTheSameHost(t *testing.T) {
	t.Parallel()
	c, d := deployment(t, "health-check", true, used[:1], free[:1])
	machines, err := c.Machines(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.Create(t, c.healthCheck(d))
	if err := c.Machine(used[0]).Hang(); err != nil {
		t.Fatal(err)
	}
	hosts := c.awaitRollout(t, of(d), 1, func(_ context.Context, m *clusterv1.Machine) (bool, error) {
		return m.UID != machines[0].UID, nil
	})
	if got := c.marked(); !slices.Equal(hosts, used[:1]) || !slices.Equal(got, used[:1]) {
		t.Errorf("the new Machine is on %q, and the marks of %q are left, want %q", hosts, got, used[:1])
	}
	h, err := c.Host(t.Context(), used[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, unhealthy := h.Annotations[v1alpha1.UnhealthyAnnotation]; unhealthy {
		t.Error("the host is annotated as unhealthy")
	}
	if got := c.seen.Begun(t); !slices.Equal(got, used[:1]) {
		t.Errorf("the hosts %q were reserved, want %q", got, used[:1])
	}
	c.nothingLeft(t)
}
