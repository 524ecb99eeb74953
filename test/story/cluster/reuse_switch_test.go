package cluster_test

import (
	"slices"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/test/cluster"
)

func TestHostsAreKeptUntilNodeReuseIsSwitchedOffHalfWay(t *testing.T) {
	t.Parallel()
	c, d := deployment(t, "switch", true, used, free)
	next := c.template(c.Name+"-2", true)
	c.Create(t, next)
	cluster.Change(t, c.Cluster, d, func(d *clusterv1.MachineDeployment) { d.Spec.Template.Spec.InfrastructureRef.Name = next.Name })

	reserved := c.awaitReservations(t, 2)
	cluster.Change(t, c.Cluster, next, func(t *v1beta2.Metal3MachineTemplate) { t.Spec.NodeReuse = new(false) })
	hosts := c.awaitRollout(t, of(d), len(used), c.madeOf(next.Name))
	if kept, moved := except(hosts, free...), except(hosts, used...); !slices.Equal(kept, reserved[:1]) || len(moved) != 2 {
		t.Errorf("the Machines are on %q; reuse was switched off after the machine of %s was replaced and while %s was reserved", hosts, reserved[0], reserved[1])
	}
	if begun, freed := c.seen.Begun(t), c.seen.Freed(t); len(begun) != 2 || !slices.Equal(freed, reserved[1:]) {
		t.Errorf("the hosts %q were reserved, and %q freed; want that only of %q", begun, freed, reserved)
	}
	c.nothingLeft(t)
	for _, host := range except(slices.Concat(used, free), hosts...) {
		c.HostIsFree(t, host)
	}
}
