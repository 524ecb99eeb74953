//go:build fault

package fault_test

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/test/cluster"
)

const (
	// preferred is the failure domain that machines prefer. Only the free host is in it.
	preferred = "rack-2"
	// dataDisk is a disk that no image is written to, and mark a file on it.
	dataDisk, mark = "/dev/data", "/mark"
)

// pool is the label of all hosts.
var pool = map[string]string{"pool": "all"}

// in returns the labels of hosts in a failure domain.
func in(domain string) map[string]string {
	labels := maps.Clone(pool)
	labels[v1beta2.FailureDomainLabel] = domain
	return labels
}

// template returns a template of machines that keep their hosts, unless a later step has to edit it
// first.
func (l *clusterLife) template(name string) *v1beta2.Metal3MachineTemplate {
	template := l.MachineTemplate(name, pool)
	reuse := !l.shape.edited
	template.Spec.NodeReuse, template.Spec.Template.Spec.FailureDomain = &reuse, preferred
	return template
}

// deploy lets machines become Nodes, and marks their data disks.
func (l *clusterLife) deploy() {
	l.t.Helper()
	l.AddHosts(l.t, in("rack-1"), l.shape.used...)
	l.CreateData(l.t)
	l.Create(l.t, l.template(l.Name))
	replicas := int32(len(l.shape.used))
	if l.shape.controlPlane {
		l.Create(l.t, l.ControlPlane(replicas))
	} else {
		l.deployment = l.Deployment(replicas)
		l.Create(l.t, l.deployment)
	}
	l.areOn(l.awaitMadeOf(l.Name), l.shape.used...)
	l.ask(l.shape.used...)
	for _, host := range l.shape.used {
		l.Machine(host).Disks().WriteFile(dataDisk, mark, []byte(host))
	}
	l.marked = l.shape.used
	if !l.shape.full {
		l.AddHosts(l.t, in(preferred), free)
	}
}

// upgrade replaces all machines. They keep their hosts, although the free host comes first in their order.
func (l *clusterLife) upgrade() {
	l.t.Helper()
	next := l.template(l.Name + "-2")
	l.Create(l.t, next)
	if l.shape.controlPlane {
		cluster.Change(l.t, l.Cluster, &controlplanev1.KubeadmControlPlane{ObjectMeta: l.Meta(l.Name)}, func(k *controlplanev1.KubeadmControlPlane) {
			k.Spec.MachineTemplate.Spec.InfrastructureRef.Name = next.Name
		})
	} else {
		cluster.Change(l.t, l.Cluster, l.deployment, func(d *clusterv1.MachineDeployment) { d.Spec.Template.Spec.InfrastructureRef.Name = next.Name })
	}
	l.areOn(l.awaitMadeOf(next.Name), l.shape.used...)
	l.ask(l.shape.used...)
}

// awaitMadeOf waits until all Machines are made from a template and have Ready Nodes. It returns
// the names of the hosts by those of the Machines.
func (l *clusterLife) awaitMadeOf(template string) (hosts map[string]string) {
	l.t.Helper()
	want := len(l.shape.used)
	for n := 1; n <= want; n++ { // each has a time limit of its own
		cluster.Eventually(l.t, func(ctx context.Context) error {
			made, all, err := l.madeOf(ctx, template)
			if err != nil {
				return err
			}
			if len(made) < n || n == want && all != n {
				return fmt.Errorf("%d of %d Machines are made of %s, want %d", len(made), all, template, n)
			}
			hosts, err = l.HostsOfReady(ctx, made)
			return err
		})
	}
	return hosts
}

// madeOf returns the Machines that are made from a template, without those in deletion, and the
// number of all Machines.
func (l *clusterLife) madeOf(ctx context.Context, template string) (made []clusterv1.Machine, all int, err error) {
	machines, err := l.Machines(ctx)
	if err != nil {
		return nil, 0, err
	}
	for _, m := range machines {
		var m3m v1beta2.Metal3Machine
		if err := l.Kube.Get(ctx, l.Key(m.Spec.InfrastructureRef.Name), &m3m); err != nil {
			return nil, 0, err
		}
		if m3m.Annotations[clusterv1.TemplateClonedFromNameAnnotation] == template && m.DeletionTimestamp.IsZero() {
			made = append(made, m)
		}
	}
	return made, len(machines), nil
}

// machineOn returns the Machine on a host. Every Machine has to have a Ready Node.
func (l *clusterLife) machineOn(ctx context.Context, host string) (*clusterv1.Machine, error) {
	machines, err := l.Machines(ctx)
	if err != nil {
		return nil, err
	}
	hosts, err := l.HostsOfReady(ctx, machines)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(machines, func(m clusterv1.Machine) bool { return hosts[m.Name] == host })
	if i < 0 {
		return nil, fmt.Errorf("no Machine is on %s: %v", host, hosts)
	}
	return &machines[i], nil
}

// nodeOf reads the Node of a Machine.
func (l *clusterLife) nodeOf(ctx context.Context, m *clusterv1.Machine) (*corev1.Node, error) {
	node, err := l.Node(ctx, m.Status.NodeRef.Name)
	if err == nil && node == nil {
		err = fmt.Errorf("the Machine %s has no Node", m.Name)
	}
	return node, err
}

// areOn checks on which hosts machines are.
func (l *clusterLife) areOn(hosts map[string]string, want ...string) {
	l.t.Helper()
	if got := slices.Sorted(maps.Values(hosts)); !slices.Equal(got, want) {
		l.t.Errorf("the Machines are on %q, want %q", got, want)
	}
}
