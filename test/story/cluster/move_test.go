package cluster_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/test/cluster"
)

// keepNode is a finalizer that keeps a Node of a fenced machine.
const keepNode = "example.com/volumes"

// isReserved reports whether a host is reserved for the deployment of the Cluster and available.
func isReserved(d *clusterv1.MachineDeployment) func(*v1alpha1.BareMetalHost) bool {
	return func(h *v1alpha1.BareMetalHost) bool {
		ref := h.Spec.ConsumerRef
		return ref != nil && ref.Kind == "MachineDeployment" && ref.Name == d.Name && h.Status.Provisioning.State == v1alpha1.StateAvailable
	}
}

// keeps adds or removes a finalizer of the Node of a recovery.
func (r *recovery) keeps(t *testing.T, kept bool) {
	t.Helper()
	cluster.Eventually(t, func(ctx context.Context) error {
		node, err := r.Node(ctx, r.node.Name)
		if err != nil || node == nil {
			return fmt.Errorf("there is no Node %s: %w", r.node.Name, err)
		}
		before := node.DeepCopy()
		if kept {
			controllerutil.AddFinalizer(node, keepNode)
		} else {
			controllerutil.RemoveFinalizer(node, keepNode)
		}
		return r.Workload.Patch(ctx, node, client.MergeFrom(before))
	})
}

func TestMoveKeepsReservedAndFencedHosts(t *testing.T) {
	t.Parallel()
	to := shared.World(t).NewManagement(t)
	c, d := deployment(t, "moving", true, []string{"fenced", "reserved", "running"}, []string{"unused"})
	running, fenced, replaced := recoveryOf(t, c, "running"), recoveryOf(t, c, "fenced"), recoveryOf(t, c, "reserved")

	c.PauseMachineSet(t, true)
	c.Delete(t, replaced.machine)
	c.Gone(t, replaced.machine)
	c.HostShows(t, "reserved", "reserved", isReserved(d))
	fenced.keeps(t, true)
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
	wantMoved(t, c)
	fenced.shows(t, v1beta2.WaitingForNodeDeletionReason)
	c.HostShows(t, "fenced", "confirmed off", func(h *v1alpha1.BareMetalHost) bool {
		return len(h.Status.PowerOffHolds) == 1 && h.Status.PowerOffHolds[0].ConfirmedAt != nil && !h.Status.PoweredOn
	})
	c.HostShows(t, "reserved", "reserved", isReserved(d))
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

	fenced.keeps(t, false)
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

// wantMoved checks that nothing of a Cluster that was moved is left where it was.
func wantMoved(t *testing.T, c reuse) {
	t.Helper()
	for _, list := range []client.ObjectList{
		&clusterv1.ClusterList{}, &clusterv1.MachineList{}, &v1beta2.Metal3MachineList{}, &v1beta2.Metal3DataList{}, &v1alpha1.BareMetalHostList{},
	} {
		if err := c.Management().Kube.List(t.Context(), list, client.InNamespace(c.Name)); err != nil || meta.LenList(list) > 0 {
			t.Errorf("left behind: %+v, %v", list, err)
		}
	}
}
