package cluster_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	discoveryv1alpha1 "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/test/cluster"
)

// breaksForGood breaks the machine of a host. It waits until the machine was powered off and on
// twice in vain: the Node is gone, and the host is marked as unhealthy.
func breaksForGood(t *testing.T, c reuse, host string) *recovery {
	t.Helper()
	r := recoveryOf(t, c, host)
	c.Machine(host).Break(true)
	cluster.Eventually(t, func(ctx context.Context) error {
		if node, err := c.Node(ctx, r.node.Name); err != nil || node != nil {
			return fmt.Errorf("the Node %s is there: %t, %w", r.node.Name, node != nil, err)
		}
		return nil
	})
	want := []string{string(bmc.PowerOff), string(bmc.PowerOn), string(bmc.PowerOff), string(bmc.PowerOn)}
	cluster.Eventually(t, func(context.Context) error {
		if done := r.done(); len(done) < len(want) {
			return fmt.Errorf("done to the machine of %s: %q, want first %q", host, done, want)
		}
		return nil
	})
	c.HostShows(t, host, "marked as unhealthy", func(h *v1alpha1.BareMetalHost) bool {
		_, marked := h.Annotations[v1alpha1.UnhealthyAnnotation]
		return marked
	})
	if got := r.done(); !slices.Equal(got[:len(want)], want) {
		t.Errorf("done to the machine of %s: %q, want first %q", host, got, want)
	}
	return r
}

// wantReplaced checks that the Machine of a recovery is gone, and that its Node was deleted once
// and never came back. The host must be free, off and not used again.
func (r *recovery) wantReplaced(t *testing.T) {
	t.Helper()
	r.Gone(t, r.machine)
	h := r.HostShows(t, r.host, "free and off", func(h *v1alpha1.BareMetalHost) bool {
		return h.Spec.ConsumerRef == nil && h.Status.Provisioning.State == v1alpha1.StateAvailable && !h.Status.PoweredOn
	})
	if _, marked := h.Annotations[v1alpha1.UnhealthyAnnotation]; !marked {
		t.Errorf("the host %s is not marked as unhealthy any more", r.host)
	}
	if deleted := r.deletions(t); len(deleted) != 1 {
		t.Errorf("the Node was deleted at %v, want once", deleted)
	}
	for _, n := range r.Instances().Nodes() {
		if n.Machine == r.Hosts[r.host] && n.UID != r.node.UID {
			t.Errorf("the broken machine has registered the Node %s again", n.Name)
		}
	}
	if got := r.written(r.host)[r.host]; got != 1 {
		t.Errorf("%d images were written to %s, want 1", got, r.host)
	}
}

func TestMachineThatStaysBrokenIsReplacedOnAnotherHost(t *testing.T) {
	t.Parallel()
	c, d := deployment(t, "replacement", false, used[:1], free[:1])
	checkHealth(t, c, d)

	r := breaksForGood(t, c, used[0])
	if hosts := slices.Collect(maps.Values(c.AwaitNodes(t, 1))); !slices.Equal(hosts, free[:1]) {
		t.Errorf("the Machine is on %q, want %q", hosts, free[:1])
	}
	r.wantReplaced(t)
}

// discover lets the operator make hosts of machines that boot the ramdisk, in the namespace of the
// cluster, with the labels of its pool.
func discover(t *testing.T, c reuse) {
	t.Helper()
	var present discoveryv1alpha1.BareMetalHostDiscoveryList
	if err := c.Kube.List(t.Context(), &present); err != nil {
		t.Fatal(err)
	}
	for i := range present.Items { // the oldest discovery gets each machine
		cluster.Change(t, c.Cluster, &present.Items[i], func(d *discoveryv1alpha1.BareMetalHostDiscovery) { d.Spec.Suspend = true })
	}
	c.Create(t, &discoveryv1alpha1.BareMetalHostDiscovery{ObjectMeta: c.Meta(c.Name), Spec: discoveryv1alpha1.BareMetalHostDiscoverySpec{
		ResourceNameTemplate: discoveryv1alpha1.ResourceNameTemplate{Prefix: "new-", HardwareDetails: discoveryv1alpha1.DetailSerialNumber},
		PollInterval:         metav1.Duration{Duration: 5 * time.Second},
		HostTemplate:         discoveryv1alpha1.HostTemplate{Labels: pool},
	}})
}

// followsHosts makes the size of the deployment follow its hosts, and waits until it does.
func followsHosts(t *testing.T, c reuse, d *clusterv1.MachineDeployment) {
	t.Helper()
	cluster.Change(t, c.Cluster, d, func(d *clusterv1.MachineDeployment) {
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, v1beta2.AutoscaleToHostsAnnotation, "")
	})
	cluster.Eventually(t, func(ctx context.Context) error {
		if err := c.Kube.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
			return err
		}
		if shown := meta.FindStatusCondition(d.Status.Conditions, v1beta2.AutoscaledToHostsCondition); shown == nil || shown.Reason != v1beta2.AutoscaleFollowsReason {
			return fmt.Errorf("the condition is %+v, want the reason %s", shown, v1beta2.AutoscaleFollowsReason)
		}
		return nil
	})
}

func TestMachineThatStaysBrokenIsReplacedByOneThatIsPluggedIn(t *testing.T) {
	t.Parallel()
	c, d := deployment(t, "plugged-in", false, used[:2], nil)
	discover(t, c)
	checkHealth(t, c, d)
	followsHosts(t, c, d)

	r := breaksForGood(t, c, used[0])
	plugged := c.PlugIn(t)
	hosts := c.AwaitNodes(t, 2)
	for machine, host := range hosts {
		if host == used[1] {
			continue
		}
		h, err := c.Host(t.Context(), host)
		if err != nil || h.Spec.BootMACAddress != plugged.BootMAC() || h.HasBMC() {
			t.Errorf("the Machine %s is on %+v, %v, want the machine that was plugged in", machine, h.Spec, err)
		}
	}
	r.wantReplaced(t)
	followsHosts(t, c, d)
	if *d.Spec.Replicas != 2 {
		t.Errorf("the deployment has %d replicas, want 2", *d.Spec.Replicas)
	}
}
