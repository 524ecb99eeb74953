package cluster_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/test/cluster"
)

const (
	// dataDisk is a disk to which no image is written.
	dataDisk = "/dev/data"
	// mark is a file on it.
	mark = "/mark"
	// domain is the failure domain that all machines prefer.
	domain = "preferred"
)

var (
	// pool selects the hosts that machines may choose.
	pool = map[string]string{"pool": "workers"}
	// preferred are the labels of hosts in the pool that each machine prefers. others are those of
	// other hosts.
	preferred = map[string]string{"pool": "workers", v1beta2.FailureDomainLabel: domain}
	others    = map[string]string{"pool": "workers", v1beta2.FailureDomainLabel: "another"}
	// used are the names of the hosts that have machines when a story begins. free are the names of
	// preferred hosts without machines.
	used, free = []string{"used-1", "used-2", "used-3"}, []string{"free-1", "free-2", "free-3"}
)

// reuse is a Cluster whose reservations are watched.
type reuse struct {
	*cluster.Cluster
	seen *cluster.Reservations
}

// template returns a template whose machines are put on hosts of the pool, and on preferred hosts
// if they can choose.
func (c reuse) template(name string, nodeReuse bool) *v1beta2.Metal3MachineTemplate {
	t := c.MachineTemplate(name, pool)
	t.Spec.NodeReuse, t.Spec.Template.Spec.FailureDomain = &nodeReuse, domain
	return t
}

// deployment makes a Cluster with a MachineDeployment on the hosts of these names. It waits until
// all of them are Nodes, with a mark on their data disks. Then it adds preferred hosts that are
// free.
func deployment(t *testing.T, name string, nodeReuse bool, used, free []string) (reuse, *clusterv1.MachineDeployment) {
	t.Helper()
	w := shared.World(t)
	c := reuse{Cluster: w.NewCluster(t, name, w.WorkerPlane(t), nil)}
	c.seen = c.WatchReservations(t)
	c.AddHosts(t, others, used...)
	c.CreateData(t)
	c.Create(t, c.template(name, nodeReuse))
	d := c.Deployment(int32(len(used)))
	c.Create(t, d)
	c.AwaitNodes(t, len(used))
	c.mark(used...)
	c.AddHosts(t, preferred, free...)
	return c, d
}

// nothingReserved fails the test if a host was reserved, or a machine has waited for a reserved
// host, until now.
func (c reuse) nothingReserved(t *testing.T) {
	t.Helper()
	if hosts, machines := c.seen.Begun(t), c.seen.Waits(t); len(hosts)+len(machines) > 0 {
		t.Errorf("the hosts %q were reserved and the machines %q waited for one, want none", hosts, machines)
	}
}

// mark leaves a mark on the data disks of hosts.
func (c reuse) mark(hosts ...string) {
	for _, host := range hosts {
		c.Machine(host).Disks().WriteFile(dataDisk, mark, []byte(host))
	}
}

// marked returns the names of the hosts whose mark is on their data disk.
func (c reuse) marked() (hosts []string) {
	for host := range c.Hosts {
		if content, _ := c.Machine(host).Disks().ReadFile(dataDisk, mark); string(content) == host {
			hosts = append(hosts, host)
		}
	}
	slices.Sort(hosts)
	return hosts
}

// written counts how often images were written to hosts.
func (c reuse) written(hosts ...string) map[string]int {
	counts := map[string]int{}
	for _, host := range hosts {
		counts[host] = 0
		for _, e := range c.MachinesWithBMC().Recorder().Effects(fmt.Sprint(c.Hosts[host]), 0) {
			if e.Kind == effect.Write {
				counts[host]++
			}
		}
	}
	return counts
}

// rollOut gives the deployment another template of machines, and waits until it is rolled out. It
// returns the names of the hosts.
func (c reuse) rollOut(t *testing.T, d *clusterv1.MachineDeployment, nodeReuse bool) []string {
	t.Helper()
	next := c.template(c.Name+"-2", nodeReuse)
	c.Create(t, next)
	cluster.Change(t, c.Cluster, d, func(d *clusterv1.MachineDeployment) { d.Spec.Template.Spec.InfrastructureRef.Name = next.Name })
	return c.awaitRollout(t, of(d), int(*d.Spec.Replicas), c.madeOf(next.Name))
}

// of selects the Machines of a deployment.
func of(d *clusterv1.MachineDeployment) client.MatchingLabels {
	return client.MatchingLabels{clusterv1.MachineDeploymentNameLabel: d.Name}
}

// kind reports whether a Machine is of a kind.
type kind func(context.Context, *clusterv1.Machine) (bool, error)

// madeOf returns the kind of Machines that are made from a template.
func (c reuse) madeOf(template string) kind {
	return func(ctx context.Context, m *clusterv1.Machine) (bool, error) {
		var m3m v1beta2.Metal3Machine
		err := c.Kube.Get(ctx, c.Key(m.Spec.InfrastructureRef.Name), &m3m)
		return m3m.Annotations[clusterv1.TemplateClonedFromNameAnnotation] == template, err
	}
}

// ready is the kind of Machines with Ready Nodes.
func (c reuse) ready(ctx context.Context, m *clusterv1.Machine) (bool, error) {
	return c.NodeReady(ctx, m.Status.NodeRef.Name)
}

// machines returns the Machines of a kind among those that labels select, and the number of all of
// these.
func (c reuse) machines(ctx context.Context, labels client.MatchingLabels, is kind) (found []clusterv1.Machine, all int, err error) {
	var list clusterv1.MachineList
	if err := c.Kube.List(ctx, &list, client.InNamespace(c.Name), labels); err != nil {
		return nil, 0, err
	}
	for _, m := range list.Items {
		switch yes, err := is(ctx, &m); {
		case err != nil:
			return nil, 0, err
		case yes:
			found = append(found, m)
		}
	}
	return found, len(list.Items), nil
}

// awaitRollout waits until there are this many Machines, all of this kind and with Ready Nodes. It
// returns the names of their hosts.
func (c reuse) awaitRollout(t *testing.T, labels client.MatchingLabels, replicas int, isNew kind) []string {
	t.Helper()
	var hosts map[string]string
	for n := 1; n <= replicas; n++ { // one after the other, so that each has its time
		cluster.Eventually(t, func(ctx context.Context) error {
			found, all, err := c.machines(ctx, labels, isNew)
			if err != nil {
				return err
			}
			if len(found) < n || n == replicas && all != replicas {
				return fmt.Errorf("%d of %d Machines are new ones, want %d of %d", len(found), all, n, replicas)
			}
			hosts, err = c.HostsOfReady(ctx, found)
			return err
		})
	}
	return slices.Sorted(maps.Values(hosts))
}

// awaitReady waits until this many Machines have Ready Nodes. It returns the names of their hosts.
func (c reuse) awaitReady(t *testing.T, labels client.MatchingLabels, count int) []string {
	t.Helper()
	var hosts map[string]string
	cluster.Eventually(t, func(ctx context.Context) error {
		found, all, err := c.machines(ctx, labels, c.ready)
		if err != nil {
			return err
		}
		if len(found) != count {
			return fmt.Errorf("%d of %d Machines have Ready Nodes, want %d", len(found), all, count)
		}
		hosts, err = c.HostsOfReady(ctx, found)
		return err
	})
	return slices.Sorted(maps.Values(hosts))
}

// awaitReservations waits until hosts have been reserved this many times. It returns their names.
func (c reuse) awaitReservations(t *testing.T, count int) (hosts []string) {
	t.Helper()
	cluster.Eventually(t, func(context.Context) error {
		if hosts = c.seen.Begun(t); len(hosts) < count {
			return fmt.Errorf("the hosts %q were reserved, want %d", hosts, count)
		}
		return nil
	})
	return hosts
}

// nothingLeft fails the test if a host is reserved.
func (c reuse) nothingLeft(t *testing.T) {
	t.Helper()
	if left := c.ReservationsLeft(t); len(left) > 0 {
		t.Errorf("reservations are left: %q", left)
	}
}

func TestRollingUpgradeWithNodeReuseKeepsHostsAndDisks(t *testing.T) {
	t.Parallel()
	c, d := deployment(t, "upgrade", true, used, free)
	c.nothingReserved(t) // when the first machines are made

	if got := c.rollOut(t, d, true); !slices.Equal(got, used) {
		t.Errorf("the Machines are on %q after the upgrade, want %q", got, used)
	}
	if got := c.marked(); !slices.Equal(got, used) {
		t.Errorf("the marks of %q are left, want those of %q", got, used)
	}
	if got, want := c.written(slices.Concat(used, free)...), map[string]int{"used-1": 2, "used-2": 2, "used-3": 2, "free-1": 0, "free-2": 0, "free-3": 0}; !maps.Equal(got, want) {
		t.Errorf("images were written %v, want %v", got, want)
	}
	if got := slices.Sorted(slices.Values(c.seen.Begun(t))); !slices.Equal(got, used) {
		t.Errorf("the hosts %q were reserved, want %q once each", got, used)
	}
	c.nothingLeft(t)
}

func TestRollingUpgradeWithoutNodeReuseMovesToHostsThatComeFirst(t *testing.T) {
	t.Parallel()
	c, d := deployment(t, "upgrade-without-reuse", false, used, free)
	if got := c.rollOut(t, d, false); !slices.Equal(got, free) {
		t.Errorf("the Machines are on %q after the upgrade, want %q", got, free)
	}
	c.nothingReserved(t)
	for _, name := range used {
		c.HostIsFree(t, name)
	}
}
