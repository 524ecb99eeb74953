package cluster_test

import (
	"maps"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/test/cluster"
)

func TestMoveKeepsReservedAndFencedHosts(t *testing.T) {
	t.Parallel()
	to := shared.World(t).NewManagement(t)
	c, d := deployment(t, "moving", true, []string{"fenced", "reserved", "running"}, []string{"unused"})
	running, fenced, replaced := recoveryOf(t, c, "running"), recoveryOf(t, c, "fenced"), recoveryOf(t, c, "reserved")

	c.PauseMachineSet(t, true)
	c.Delete(t, replaced.machine)
	c.Gone(t, replaced.machine)
	c.HostShows(t, "reserved", "reserved", cluster.IsReservedFor(d))
	c.KeepNode(t, fenced.node.Name, true)
	cluster.Change(t, c.Cluster, fenced.machine, func(m *clusterv1.Machine) {
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, v1beta2.ExternalRemediationAnnotation, "")
	})
	fenced.shows(t, v1beta2.WaitingForNodeDeletionReason)
	c.PauseFree(t, "unused")
	before := map[string][]string{}
	for host := range c.Hosts {
		before[host] = (&recovery{reuse: c, host: host}).done()
	}

	c.Move(t, to)
	c.HasLeft(t, c.Management().Kube)
	fenced.shows(t, v1beta2.WaitingForNodeDeletionReason)
	c.HostShows(t, "fenced", "confirmed off", func(h *v1alpha1.BareMetalHost) bool {
		return len(h.Status.PowerOffHolds) == 1 && h.Status.PowerOffHolds[0].ConfirmedAt != nil && !h.Status.PoweredOn
	})
	c.HostShows(t, "reserved", "reserved", cluster.IsReservedFor(d))
	c.HostShows(t, "running", "provisioned and on", func(h *v1alpha1.BareMetalHost) bool {
		return h.Status.Provisioning.State == v1alpha1.StateProvisioned && h.Status.PoweredOn
	})
	c.ChangeHost(t, "unused", func(h *v1alpha1.BareMetalHost) { delete(h.Annotations, v1alpha1.PausedAnnotation) })
	c.HostShows(t, "unused", "available", func(h *v1alpha1.BareMetalHost) bool {
		return h.Status.Provisioning.State == v1alpha1.StateAvailable && h.Annotations[v1alpha1.StatusAnnotation] == ""
	})
	for host := range c.Hosts {
		if got := (&recovery{reuse: c, host: host}).done(); !slices.Equal(got, before[host]) {
			t.Errorf("done to the machine of %s: %q, want %q as before the move", host, got, before[host])
		}
	}

	c.KeepNode(t, fenced.node.Name, false)
	fenced.ends(t)
	fenced.wantOneCycle(t)
	c.PauseMachineSet(t, false)
	hosts := slices.Sorted(maps.Values(c.AwaitNodes(t, 3)))
	if want := []string{"fenced", "reserved", "running"}; !slices.Equal(hosts, want) || !slices.Equal(c.marked(), want) {
		t.Errorf("the Machines are on %q, and there are marks on the data disks of %q, want %q", hosts, c.marked(), want)
	}
	if node, err := c.Node(t.Context(), running.node.Name); err != nil || node == nil || node.UID != running.node.UID || len(running.done()) > 0 {
		t.Errorf("the Node of the machine that only moved is %+v, %v, and done to it was %q; want the one as before and nothing", node, err, running.done())
	}
}
