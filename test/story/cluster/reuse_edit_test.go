package cluster_test

import (
	"context"
	"slices"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/test/cluster"
)

// competing creates a deployment whose machines can only have the hosts of the first deployment,
// and wait for them.
func (c reuse) competing(t *testing.T, name string, replicas int32) *clusterv1.MachineDeployment {
	t.Helper()
	template := c.template(name, false)
	template.Spec.Template.Spec.HostSelector = &v1beta2.HostSelector{MatchLabels: others}
	c.Create(t, template)
	d := c.Deployment(replicas)
	d.Name, d.Spec.Template.Spec.InfrastructureRef.Name = name, name
	c.Create(t, d)
	return d
}

// upgrade gives the deployment another version of Kubernetes.
func (c reuse) upgrade(t *testing.T, d *clusterv1.MachineDeployment, version string) kind {
	t.Helper()
	cluster.Change(t, c.Cluster, d, func(d *clusterv1.MachineDeployment) { d.Spec.Template.Spec.Version = version })
	return func(_ context.Context, m *clusterv1.Machine) (bool, error) { return m.Spec.Version == version, nil }
}

func (c reuse) scale(t *testing.T, d *clusterv1.MachineDeployment, replicas int32) {
	t.Helper()
	cluster.Change(t, c.Cluster, d, func(d *clusterv1.MachineDeployment) { d.Spec.Replicas = &replicas })
}

// except returns names without those that are among others.
func except(names []string, others ...string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(others, name) })
}

// TestHostsAreKeptByAnEditedTemplateUntilTheirOwnerIsScaledDown has a second deployment that always
// wants the hosts of the first one. It gets no host that is kept, and each host that is not kept
// any more.
func TestHostsAreKeptByAnEditedTemplateUntilTheirOwnerIsScaledDown(t *testing.T) {
	t.Parallel()
	c, d := deployment(t, "edit", false, used, free[:1])
	second := c.competing(t, "second", 2)

	cluster.Change(t, c.Cluster, c.template(c.Name, false), func(t *v1beta2.Metal3MachineTemplate) { t.Spec.NodeReuse = new(true) })
	c.nothingReserved(t)
	if got := c.awaitRollout(t, of(d), len(used), c.upgrade(t, d, cluster.Version+"+2")); !slices.Equal(got, used) {
		t.Errorf("the Machines are on %q after the upgrade, want %q", got, used)
	}
	if got := c.marked(); !slices.Equal(got, used) {
		t.Errorf("the marks of %q are left, want those of %q", got, used)
	}
	if freed := c.seen.Freed(t); len(freed) > 0 {
		t.Errorf("the hosts %q were freed during the upgrade", freed)
	}

	c.scale(t, d, 2)
	given := c.awaitReady(t, of(second), 1)
	left := c.awaitReady(t, of(d), 2)
	if want := except(used, left...); !slices.Equal(given, want) {
		t.Errorf("the second deployment is on %q after the first one is scaled down to %q, want %q", given, left, want)
	}

	begun := len(c.seen.Begun(t))
	isNew := c.upgrade(t, d, cluster.Version+"+3")
	reserved := c.awaitReservations(t, begun+1)[begun]
	c.scale(t, d, 1)
	last := c.awaitRollout(t, of(d), 1, isNew)
	if freed := c.seen.Freed(t); !slices.Contains(freed, reserved) || !slices.Contains(left, last[0]) {
		t.Errorf("the hosts %q were freed when the deployment was scaled down while %s was reserved; its Machine was on %q, and is on %q", freed, reserved, left, last)
	}
	if given, want := c.awaitReady(t, of(second), 2), except(used, last...); !slices.Equal(given, want) {
		t.Errorf("the second deployment is on %q, want %q", given, want)
	}
	c.nothingLeft(t)
	c.HostIsFree(t, free[0])
}
