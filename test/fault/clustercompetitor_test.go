//go:build fault

package fault_test

import (
	"context"
	"fmt"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/test/cluster"
)

// nextVersion is the version of Kubernetes of an upgrade that keeps the template.
const nextVersion = cluster.Version + "+2"

// upgradeEdited edits the template so that it keeps hosts, and then replaces all machines.
// Meanwhile the machines of a second deployment wait for a host. They get none.
func (l *clusterLife) upgradeEdited() {
	l.t.Helper()
	competitor := l.template(l.competitor())
	l.Create(l.t, competitor)
	second := l.Deployment(1)
	second.Name, second.Spec.Template.Spec.InfrastructureRef.Name = competitor.Name, competitor.Name
	l.Create(l.t, second)
	yes := true
	cluster.Change(l.t, l.Cluster, &v1beta2.Metal3MachineTemplate{ObjectMeta: l.Meta(l.Name)}, func(t *v1beta2.Metal3MachineTemplate) {
		t.Spec.NodeReuse = &yes
	})
	cluster.Change(l.t, l.Cluster, l.deployment, func(d *clusterv1.MachineDeployment) { d.Spec.Template.Spec.Version = nextVersion })
	l.areOn(l.awaitMachinesOf(l.Name, len(l.shape.used)), l.shape.used...)
	l.ask(l.shape.used...)
}

// giveToCompetitor takes a machine away. The second deployment gets the host of this machine.
func (l *clusterLife) giveToCompetitor() {
	l.t.Helper()
	fewer := int32(len(l.shape.used) - 1)
	cluster.Change(l.t, l.Cluster, l.deployment, func(d *clusterv1.MachineDeployment) { d.Spec.Replicas = &fewer })
	freed := except(l.shape.used, l.awaitMachinesOf(l.Name, int(fewer)))
	l.areOn(l.awaitMachinesOf(l.competitor(), 1), freed...)
	l.ask(freed...)
	if left := l.ReservationsLeft(l.t); len(left) > 0 {
		l.t.Errorf("reservations are left: %q", left)
	}
}

// competitor is the name of the second deployment and of its template.
func (l *clusterLife) competitor() string { return l.Name + "-second" }

// awaitMachinesOf waits until a deployment has this many Machines with Ready Nodes. The Machines of
// the first deployment must also be upgraded. It returns the names of the hosts by those of the
// Machines.
func (l *clusterLife) awaitMachinesOf(deployment string, want int) (hosts map[string]string) {
	l.t.Helper()
	for n := 1; n <= want; n++ { // each has a time limit of its own
		cluster.Eventually(l.t, func(ctx context.Context) error {
			machines, err := l.Machines(ctx)
			if err != nil {
				return err
			}
			var its []clusterv1.Machine
			all := 0
			for _, m := range machines {
				if m.Labels[clusterv1.MachineDeploymentNameLabel] != deployment {
					continue
				}
				all++
				if m.DeletionTimestamp.IsZero() && (deployment != l.Name || m.Spec.Version == nextVersion) {
					its = append(its, m)
				}
			}
			if len(its) < n || n == want && all != n {
				return fmt.Errorf("%d of %d Machines of %s are as they are to be, want %d", len(its), all, deployment, n)
			}
			hosts, err = l.HostsOfReady(ctx, its)
			return err
		})
	}
	return hosts
}
