//go:build fault

package fault_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/test/cluster"
)

// stopReuse begins an upgrade with node reuse and switches the reuse off during the upgrade. The
// host that is reserved at that time must be freed.
func (l *clusterLife) stopReuse() {
	l.t.Helper()
	next := l.roll("-3")
	l.reserved()
	no := false
	cluster.Change(l.t, l.Cluster, next, func(t *v1beta2.Metal3MachineTemplate) { t.Spec.NodeReuse = &no })
	hosts := l.awaitMadeOf(next.Name)
	l.ask(slices.Collect(maps.Values(hosts))...)
	if !slices.Contains(slices.Collect(maps.Values(hosts)), free) {
		l.t.Errorf("the Machines are on %q, want one on %q, which comes first", hosts, free)
	}
	l.othersAreFree(hosts)
}

// scaleDown takes a machine away while an upgrade has reserved a host. Nobody keeps that host then.
func (l *clusterLife) scaleDown() {
	l.t.Helper()
	next := l.roll("-4")
	l.reserved()
	fewer := int32(len(l.shape.used) - 1)
	cluster.Change(l.t, l.Cluster, l.deployment, func(d *clusterv1.MachineDeployment) { d.Spec.Replicas = &fewer })
	var hosts map[string]string
	cluster.Eventually(l.t, func(ctx context.Context) error {
		made, all, err := l.madeOf(ctx, next.Name)
		if err == nil && (len(made) != int(fewer) || all != int(fewer)) {
			err = fmt.Errorf("%d of %d Machines are made of %s, want %d", len(made), all, next.Name, fewer)
		}
		if err != nil {
			return err
		}
		hosts, err = l.HostsOfReady(ctx, made)
		return err
	})
	l.ask(slices.Collect(maps.Values(hosts))...)
	others := l.othersAreFree(hosts)
	for _, host := range others { // a new machine that was taken away may have got an image
		if l.images(host) == l.asked[host]+1 {
			l.ask(host)
		}
	}
}

// roll begins to replace all machines by those of another template. They keep their hosts.
func (l *clusterLife) roll(suffix string) *v1beta2.Metal3MachineTemplate {
	l.t.Helper()
	next := l.template(l.Name + suffix)
	l.Create(l.t, next)
	cluster.Change(l.t, l.Cluster, l.deployment, func(d *clusterv1.MachineDeployment) { d.Spec.Template.Spec.InfrastructureRef.Name = next.Name })
	return next
}

// reserved waits until a host is reserved.
func (l *clusterLife) reserved() {
	l.t.Helper()
	cluster.Eventually(l.t, func(context.Context) error {
		if len(l.ReservationsLeft(l.t)) == 0 {
			return errors.New("no host is reserved")
		}
		return nil
	})
}

// othersAreFree waits until all hosts without a machine are free, and returns them. No host may be
// reserved then.
func (l *clusterLife) othersAreFree(machines map[string]string) []string {
	l.t.Helper()
	others := except(slices.Sorted(maps.Keys(l.Hosts)), machines)
	for _, host := range others {
		l.isFree(host)
	}
	if left := l.ReservationsLeft(l.t); len(left) > 0 {
		l.t.Errorf("reservations are left: %q", left)
	}
	return others
}

// replaceOnSameHost lets a health check replace a machine whose host is not broken. The next
// machine gets the same host.
func (l *clusterLife) replaceOnSameHost() {
	l.t.Helper()
	host := l.shape.used[0]
	s := l.silence(host)
	check := l.healthCheck()
	l.Create(l.t, check)
	s.hang()
	cluster.Eventually(l.t, func(ctx context.Context) error {
		m, err := l.machineOn(ctx, host)
		if err == nil && m.UID == s.machine.UID {
			err = fmt.Errorf("the Machine %s is not replaced", m.Name)
		}
		return err
	})
	l.Delete(l.t, check)
	l.Gone(l.t, check)
	l.areOn(l.AwaitNodes(l.t, len(l.shape.used)), l.shape.used...)
	l.ask(host)
	l.HostShows(l.t, host, "healthy and in use", func(h *v1alpha1.BareMetalHost) bool { return !isUnhealthy(h) && h.Status.PoweredOn })
	if left := l.ReservationsLeft(l.t); len(left) > 0 {
		l.t.Errorf("reservations are left: %q", left)
	}
}
