package cluster_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/test/cluster"
)

const (
	// dataDisk is a disk that no image is written to.
	dataDisk = "/dev/data"
	// mark is a file on it.
	mark = "/mark"
	// domain is the failure domain that all machines want.
	domain = "preferred"
)

var (
	// pool has the hosts that machines may choose.
	pool = map[string]string{"pool": "workers"}
	// preferred are hosts of it that come first in the order of each machine.
	preferred = map[string]string{"pool": "workers", v1beta2.FailureDomainLabel: domain}
	// used are the names of the hosts that have machines at the begin of a story, and free those of preferred ones that
	// have none.
	used, free = []string{"used-1", "used-2", "used-3"}, []string{"free-1", "free-2", "free-3"}
)

// reuse is a Cluster whose reservations are watched.
type reuse struct {
	*cluster.Cluster
	seen *cluster.Reservations
}

// template returns a template whose machines are put on hosts of the pool, on preferred ones if they can choose.
func (c reuse) template(name string, nodeReuse bool) *v1beta2.Metal3MachineTemplate {
	t := c.MachineTemplate(name, pool)
	t.Spec.NodeReuse, t.Spec.Template.Spec.FailureDomain = &nodeReuse, domain
	return t
}

// deployment makes a Cluster with a MachineDeployment on the hosts of these names, and waits until all of them are Nodes with a mark on their
// data disks. Then it adds preferred hosts that are free.
func deployment(t *testing.T, name string, nodeReuse bool, used, free []string) (reuse, *clusterv1.MachineDeployment) {
	t.Helper()
	w := shared.World(t)
	c := reuse{Cluster: w.NewCluster(t, name, w.WorkerPlane(t), nil)}
	c.seen = c.WatchReservations(t)
	c.AddHosts(t, pool, used...)
	c.CreateData(t)
	c.Create(t, c.template(name, nodeReuse))
	d := c.Deployment(int32(len(used)))
	c.Create(t, d)
	c.AwaitNodes(t, len(used))
	c.mark(used...)
	c.AddHosts(t, preferred, free...)
	return c, d
}

// nothingReserved fails the test if a host was reserved or a machine has waited for one that is, until now.
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

// rollOut gives the deployment another template of machines, and waits until it is rolled out. It returns the names of the hosts.
func (c reuse) rollOut(t *testing.T, d *clusterv1.MachineDeployment, nodeReuse bool) []string {
	t.Helper()
	next := c.template(c.Name+"-2", nodeReuse)
	c.Create(t, next)
	cluster.Change(t, c.Cluster, d, func(d *clusterv1.MachineDeployment) { d.Spec.Template.Spec.InfrastructureRef.Name = next.Name })
	return c.awaitRollout(t, int(*d.Spec.Replicas), c.madeOf(next.Name))
}

// madeOf tells the Machines that are made of a template.
func (c reuse) madeOf(template string) func(context.Context, *clusterv1.Machine) (bool, error) {
	return func(ctx context.Context, m *clusterv1.Machine) (bool, error) {
		var m3m v1beta2.Metal3Machine
		err := c.Kube.Get(ctx, c.Key(m.Spec.InfrastructureRef.Name), &m3m)
		return m3m.Annotations[clusterv1.TemplateClonedFromNameAnnotation] == template, err
	}
}

// awaitRollout waits until all Machines are new ones with Ready Nodes, and returns the names of their hosts.
func (c reuse) awaitRollout(t *testing.T, replicas int, isNew func(context.Context, *clusterv1.Machine) (bool, error)) []string {
	t.Helper()
	var hosts map[string]string
	for n := range replicas { // one after the other, so that each has its time
		cluster.Eventually(t, func(ctx context.Context) error {
			machines, err := c.Machines(ctx)
			if err != nil {
				return err
			}
			var fresh []clusterv1.Machine
			for _, m := range machines {
				switch is, err := isNew(ctx, &m); {
				case err != nil:
					return err
				case is:
					fresh = append(fresh, m)
				}
			}
			if len(fresh) <= n || n+1 == replicas && len(machines) != replicas {
				return fmt.Errorf("%d of %d Machines are new ones, want %d of %d", len(fresh), len(machines), n+1, replicas)
			}
			hosts, err = c.HostsOfReady(ctx, fresh)
			return err
		})
	}
	return slices.Sorted(maps.Values(hosts))
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
	if left := c.ReservationsLeft(t); len(left) > 0 {
		t.Errorf("reservations are left: %q", left)
	}
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
