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
)

// pool has the hosts that machines may choose.
var pool = map[string]string{"pool": "workers"}

// deployment makes a Cluster with a MachineDeployment on the hosts of these names, and waits until all of them are Nodes with a mark on their
// data disks.
func deployment(t *testing.T, name string, nodeReuse bool, hosts ...string) (*cluster.Cluster, *clusterv1.MachineDeployment) {
	t.Helper()
	w := shared.World(t)
	c := w.NewCluster(t, name, w.WorkerPlane(t), nil)
	c.AddHosts(t, pool, hosts...)
	c.CreateData(t)
	template := c.MachineTemplate(name, pool)
	template.Spec.NodeReuse = &nodeReuse
	c.Create(t, template)
	d := c.Deployment(int32(len(hosts)))
	c.Create(t, d)
	c.AwaitNodes(t, len(hosts))
	for _, host := range hosts {
		c.Machine(host).Disks().WriteFile(dataDisk, mark, []byte(host))
	}
	return c, d
}

// rollOut gives the deployment another template of machines, and waits until every Machine is made of it and has a Ready Node. It returns the
// hosts by the names of the Machines.
func rollOut(t *testing.T, c *cluster.Cluster, d *clusterv1.MachineDeployment, nodeReuse bool) (hosts map[string]string) {
	t.Helper()
	next := c.MachineTemplate(c.Name+"-2", pool)
	next.Spec.NodeReuse = &nodeReuse
	c.Create(t, next)
	cluster.Change(t, c, d, func(d *clusterv1.MachineDeployment) { d.Spec.Template.Spec.InfrastructureRef.Name = next.Name })
	cluster.Eventually(t, func(ctx context.Context) error {
		machines, err := c.Machines(ctx)
		if err != nil {
			return err
		}
		if len(machines) != int(*d.Spec.Replicas) {
			return fmt.Errorf("there are %d Machines, want %d", len(machines), *d.Spec.Replicas)
		}
		for _, m := range machines {
			var m3m v1beta2.Metal3Machine
			if err := c.Kube.Get(ctx, c.Key(m.Spec.InfrastructureRef.Name), &m3m); err != nil {
				return err
			}
			if from := m3m.Annotations[clusterv1.TemplateClonedFromNameAnnotation]; from != next.Name {
				return fmt.Errorf("the Machine %s is made of %s", m.Name, from)
			}
		}
		hosts, err = c.HostsOfReady(ctx, machines)
		return err
	})
	return hosts
}

// marked returns the names of the hosts whose mark is on their data disk.
func marked(c *cluster.Cluster) (hosts []string) {
	for host := range c.Hosts {
		if content, _ := c.Machine(host).Disks().ReadFile(dataDisk, mark); string(content) == host {
			hosts = append(hosts, host)
		}
	}
	slices.Sort(hosts)
	return hosts
}

// written counts how often an image was written to the machine of a host.
func written(c *cluster.Cluster, host string) (n int) {
	for _, e := range c.MachinesWithBMC().Recorder().Effects(fmt.Sprint(c.Hosts[host]), 0) {
		if e.Kind == effect.Write {
			n++
		}
	}
	return n
}

func TestRollingUpgradeWithNodeReuseKeepsHostsAndDisks(t *testing.T) {
	t.Parallel()
	used := []string{"used-1", "used-2", "used-3"}
	c, d := deployment(t, "upgrade", true, used...)
	c.AddHosts(t, pool, "free-1", "free-2", "free-3")

	hosts := rollOut(t, c, d, true)
	if got := slices.Sorted(maps.Values(hosts)); !slices.Equal(got, used) {
		t.Errorf("the Machines are on %q after the upgrade, want %q", got, used)
	}
	if got := marked(c); !slices.Equal(got, used) {
		t.Errorf("the marks of %q are left, want those of %q", got, used)
	}
	for _, host := range used {
		if got := written(c, host); got != 2 {
			t.Errorf("%d images were written to %s, want 2", got, host)
		}
	}
	for _, host := range []string{"free-1", "free-2", "free-3"} {
		if got := written(c, host); got != 0 {
			t.Errorf("%d images were written to %s, want none", got, host)
		}
	}
}
