package story

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1alpha1 "github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/ironic"
	"github.com/ingot-metal/ingot/internal/operator"
)

// rivals are operators of several clusters that discover the machines of one engine.
type rivals []*managed

// rivalHost is a host of one of the clusters.
type rivalHost struct {
	*metal3v1alpha1.BareMetalHost

	cluster int
}

// awaitOwners waits until each machine is available as the host of one cluster, and no other host
// has a node. It returns these hosts by the address that their machine boots from, and the others.
func (all rivals) awaitOwners(t *testing.T) (users map[string]rivalHost, others []rivalHost) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		users, others = map[string]rivalHost{}, nil
		nodes := map[string]bool{}
		for i, cluster := range all {
			var list metal3v1alpha1.BareMetalHostList
			if err := cluster.kube.List(ctx, &list, client.InNamespace(cluster.host.Namespace)); err != nil {
				return err
			}
			for k := range list.Items {
				h := &list.Items[k]
				switch state, id := h.Status.Provisioning.State, h.Status.Provisioning.ID; {
				case state == metal3v1alpha1.StateUnmanaged && id == "":
					others = append(others, rivalHost{h, i})
				case state != metal3v1alpha1.StateAvailable || nodes[id] || users[h.Spec.BootMACAddress].BareMetalHost != nil:
					return fmt.Errorf("host %s of cluster %d is in state %q with node %q: %s", h.Name, i, state, id, h.Status.ErrorMessage)
				default:
					users[h.Spec.BootMACAddress], nodes[id] = rivalHost{h, i}, true
				}
			}
		}
		if machines := all[0].Len(); len(users) != machines {
			return fmt.Errorf("%d of %d machines are available hosts, and %d hosts have no node", len(users), machines, len(others))
		}
		return nil
	})
	return users, others
}

// as is the story of a host of one of the clusters.
func (all rivals) as(h rivalHost) *managed {
	return &managed{rack: all[h.cluster].rack, kube: all[h.cluster].kube, host: client.ObjectKeyFromObject(h)}
}

// nodes are the IDs of the nodes of the engine, each with its state and what was done to its machine.
func (all rivals) nodes(t *testing.T, users map[string]rivalHost) map[string]string {
	t.Helper()
	nodes, err := allNodes(t.Context(), all[0].engine, ironic.NodeQuery{})
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]string{}
	for _, n := range nodes {
		shown[n.UUID] = n.ProvisionState
	}
	for i := range all[0].Len() {
		id := users[all[0].bootMAC(i)].Status.Provisioning.ID
		shown[id] += " " + strings.Join(all[0].effects(fmt.Sprint(i)), ",")
	}
	return shown
}

// TestOperatorsOfTwoClustersOnOneEngineNeverShareANode has two clusters that discover the same
// machines at the same time, in namespaces of the same name and with the same names for their
// hosts.
func TestOperatorsOfTwoClustersOnOneEngineNeverShareANode(t *testing.T) {
	t.Parallel()
	r := startRack(t, 4, discovering...)
	first := startHost(t, r, operator.GroupDiscovery)
	all := rivals{first, first.startHostElsewhere(t, operator.GroupDiscovery)}
	for _, cluster := range all {
		cluster.discovery(t)
	}
	for i := range r.Len() {
		if err := r.Machine(i).PowerOn(); err != nil {
			t.Fatal(err)
		}
	}
	users, others := all.awaitOwners(t)
	before := all.nodes(t, users)
	if len(before) != r.Len() {
		t.Errorf("the engine has the nodes %v, want one for each of %d machines", before, r.Len())
	}

	// A host without a node is deleted: one that discovery made too late, or that a person registers
	// for the machine of the other cluster.
	for _, h := range others {
		all.as(h).isDeleted(t)
	}
	used := users[r.bootMAC(0)]
	other := all[1-used.cluster]
	other.registerWithout(t)
	other.shows(t, "refused", func(h *metal3v1alpha1.BareMetalHost) bool {
		c := meta.FindStatusCondition(h.Status.Conditions, metal3v1alpha1.ProgressingCondition)
		return h.Status.Provisioning.State == metal3v1alpha1.StateUnmanaged && c != nil && strings.Contains(c.Message, used.Status.Provisioning.ID+" is in use")
	})
	other.isDeleted(t)
	again, others := all.awaitOwners(t)
	for mac, h := range users {
		if again[mac].UID != h.UID || again[mac].Status.Provisioning.ID != h.Status.Provisioning.ID || len(others) != 0 {
			t.Errorf("machine %s is host %s with node %s, want host %s with node %s", mac, again[mac].UID, again[mac].Status.Provisioning.ID, h.UID, h.Status.Provisioning.ID)
		}
	}
	if after := all.nodes(t, again); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("nodes %v, want them as before %v", after, before)
	}

	// The host of the machine is deleted. Then the machine is again one cluster's alone.
	r.Machine(0).PowerOff()
	all.as(used).isDeleted(t)
	eventually(t, func(ctx context.Context) error {
		nodes, err := allNodes(ctx, r.engine, ironic.NodeQuery{})
		if err == nil && slices.ContainsFunc(nodes, func(n ironic.Node) bool { return n.UUID == used.Status.Provisioning.ID }) {
			err = fmt.Errorf("the engine still has node %s", used.Status.Provisioning.ID)
		}
		return err
	})
	if err := r.Machine(0).PowerOn(); err != nil {
		t.Fatal(err)
	}
	last, _ := all.awaitOwners(t)
	after := all.nodes(t, last)
	for mac, h := range users {
		if id := h.Status.Provisioning.ID; mac != r.bootMAC(0) && (last[mac].UID != h.UID || after[id] != before[id]) {
			t.Errorf("machine %s is host %s with node %q, want it as before: host %s with node %q", mac, last[mac].UID, after[id], h.UID, before[id])
		}
	}
	if len(after) != r.Len() {
		t.Errorf("the engine has the nodes %v, want one for each of %d machines", after, r.Len())
	}
}
