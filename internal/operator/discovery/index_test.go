package discovery

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

func TestDivisionLeavesNodesOfOthersOut(t *testing.T) {
	index := indexOf(

		existingHost("by-id", func(h *v1alpha1.BareMetalHost) { h.Status.Provisioning.ID = "linked" }),
		existingHost("by-name", nil),
		existingHost("by-source", func(h *v1alpha1.BareMetalHost) {
			h.Annotations = map[string]string{v1alpha1.DiscoverySourceAnnotation: "metal/racks/sourced"}
		}),
	)
	got := index.divide([]provisioner.Node{
		{ID: "linked", State: node.Active},
		{ID: "named", Name: "metal~by-name", State: node.Enroll},
		{ID: "sourced", State: node.Enroll},
		{ID: "free", State: node.Manageable},
		{ID: "foreign-name", Name: "db-1", State: node.Enroll},
		{ID: "foreign-instance", InstanceID: "i", State: node.Available},
		{ID: "foreign-owner", Owner: "team", State: node.Available},
		{ID: "active", State: node.Active},
		{ID: "cleaning", State: node.Cleaning},
		{ID: "left-by-a-deletion", Mark: "c1/metal/gone", State: node.Available},
	})
	if got.matched != 3 || len(got.free) != 1 || got.free[0].ID != "free" || got.foreign != 6 {
		t.Errorf("got %+v", got)
	}
}

func TestOriginInAnotherNamespaceDoesNotCount(t *testing.T) {
	index := indexOf(existingHost("evil", func(h *v1alpha1.BareMetalHost) {
		h.Namespace = "tenant"
		h.Annotations = map[string]string{v1alpha1.DiscoverySourceAnnotation: "metal/racks/sourced"}
	}))
	if index.madeBy(testResource(nil)) != 0 || index.has(provisioner.Node{ID: "sourced"}) {
		t.Error("a host of another namespace counts as one that the resource created for the node")
	}
}

func TestIndexFollowsTheLifeOfAHost(t *testing.T) {
	now := testStart
	x := newHostIndex(func() time.Time { return now })
	h := existingHost("web", func(h *v1alpha1.BareMetalHost) { h.Spec.BootMACAddress = "00:1B:21:00:00:01" })
	nic := []string{"00:1b:21:00:01:01"}
	version := x.version()
	step := func(what string, changes bool) {
		t.Helper()
		if got := x.version(); (got != version) != changes {
			t.Errorf("%s: version %d after %d, want a change: %v", what, got, version, changes)
		}
		version = x.version()
	}

	x.remember(&h)
	step("created", true)
	if x.hostWith([]string{"00:1b:21:00:00:01"}, anyPort) == nil {
		t.Error("a new host is not found before the cache has it")
	}
	x.put(&h)
	step("shown by the cache as it is known", false)
	now = now.Add(time.Hour)
	x.expire()
	step("seen long ago", false)

	h.Status.Provisioning.ID = "n1"
	h.Status.HardwareDetails = &v1alpha1.HardwareDetails{NICs: []v1alpha1.NIC{{MAC: nic[0]}}}
	x.put(&h)
	step("got a node", true)
	if !x.has(provisioner.Node{ID: "n1"}) || x.hostWith(nic, anyPort) == nil {
		t.Error("node or NIC of the host is not found")
	}
	h.Status.OperationalStatus = v1alpha1.OperationalStatusOK
	x.put(&h)
	step("changed in what does not matter", false)

	h.DeletionTimestamp = &metav1.Time{Time: now}
	if !x.put(&h) || x.put(&h) {
		t.Error("want the deletion told of once")
	}
	if !x.has(provisioner.Node{ID: "n1"}) {
		t.Error("a host that is being deleted does not keep its node")
	}
	if x.remove(h.UID) {
		t.Error("the deletion is told of again at its end")
	}
	if x.has(provisioner.Node{ID: "n1"}) || x.hostWith(nic, anyPort) != nil || len(x.macs)+len(x.names)+len(x.nodeNames)+len(x.nodeIDs) != 0 {
		t.Errorf("a host that is gone is left in the index: %+v", x)
	}
}

func TestHostThatTheCacheNeverShowedIsForgotten(t *testing.T) {
	now := testStart
	x := newHostIndex(func() time.Time { return now })
	h := existingHost("brief", nil)
	x.remember(&h)
	now = now.Add(cacheLag + time.Second)
	x.expire()
	if x.isTaken(entryOf(&h).name) {
		t.Error("the host is still there")
	}
}

func TestHostThatGoesWithoutADeletionTimeIsToldOf(t *testing.T) {
	h := existingHost("web", nil)
	if !indexOf(h).remove(h.UID) {
		t.Error("the deletion is not told of")
	}
}

// hostsWithNodes returns hosts with nodes and NICs, and their nodes.
func hostsWithNodes(n int) ([]v1alpha1.BareMetalHost, []provisioner.Node) {
	hosts, nodes := make([]v1alpha1.BareMetalHost, n), make([]provisioner.Node, n)
	for i := range hosts {
		id := fmt.Sprintf("node-%05d", i)
		nodes[i] = provisioner.Node{ID: id, State: node.Available}
		hosts[i] = existingHost(fmt.Sprintf("host-%05d", i), func(h *v1alpha1.BareMetalHost) {
			h.Status.Provisioning.ID = id
			h.Status.HardwareDetails = &v1alpha1.HardwareDetails{}
			for nic := range 4 {
				h.Status.HardwareDetails.NICs = append(h.Status.HardwareDetails.NICs,
					v1alpha1.NIC{MAC: fmt.Sprintf("00:1b:21:%02x:%02x:%02x", nic, i/256, i%256)})
			}
			h.Spec.BootMACAddress = h.Status.HardwareDetails.NICs[0].MAC
		})
	}
	return hosts, nodes
}

// BenchmarkIndex measures the cost of one changed host and of one pass over all nodes, among
// 10,000 of each.
func BenchmarkIndex(b *testing.B) {
	hosts, nodes := hostsWithNodes(10_000)
	x := indexOf(hosts...)
	b.Run("change", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			h := &hosts[i%len(hosts)]
			h.Spec.BootMACAddress = fmt.Sprintf("00:1b:21:99:%02x:%02x", i/256%256, i%256)
			x.put(h)
		}
	})
	b.Run("nodes", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if got := x.divide(nodes); got.matched != len(nodes) {
				b.Fatalf("%d matched", got.matched)
			}
		}
	})
}

// anyPort says that a node has every MAC address.
func anyPort(string, string) bool { return true }
