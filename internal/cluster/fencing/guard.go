package fencing

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/related"
	"github.com/ingot-metal/ingot/internal/keylimit"
)

// Guard keeps control planes from losing their majority because hosts are held off. All
// controllers of a process that hold hosts off share one. It is safe for concurrent use.
type Guard struct {
	// live reads from the API server.
	live client.Reader
	// workloads and findNode tell whether a Machine has a Node.
	workloads workloads
	findNode  findNode
	// holding lets one controller at a time count the other machines of a cluster and set a hold,
	// so that no two holds rest on the same count. Each cluster has a place of its own, because
	// counting may wait for its workload cluster.
	holding *keylimit.Limit
}

// findNode finds the Node of a Machine: see Config.FindNode.
type findNode = func(ctx context.Context, c client.Client, machine *clusterv1.Machine, providerIDs ...string) (*corev1.Node, error)

// NewGuard returns a guard. live has to read from the API server and not from a cache. find finds
// the Nodes of Machines in their workload clusters.
func NewGuard(live client.Reader, workloads workloads, find findNode) *Guard {
	return &Guard{live: live, workloads: workloads, findNode: find, holding: keylimit.New(1)}
}

// Endangered says why the control plane would lose its majority without this Machine, or is empty.
// lasting means that the other machines are too few, even if all of them are ready. A control plane
// of one is never endangered: it has no majority that others could keep. It is away while its host
// is off, and comes back with its host.
func (g *Guard) Endangered(ctx context.Context, machine *clusterv1.Machine) (why string, lasting bool, err error) {
	if !isControlPlane(machine) {
		return "", false, nil
	}
	var hosts v1alpha1.BareMetalHostList
	if err := g.live.List(ctx, &hosts, client.InNamespace(machine.Namespace)); err != nil {
		return "", false, fmt.Errorf("list the hosts that are off: %w", err)
	}
	members, err := g.members(ctx, machine)
	if err != nil || len(members) == 1 {
		return "", false, err
	}
	why, lasting = endangered(machine, members, hosts.Items)
	return why, lasting, nil
}

// Hold calls set, which holds the host of a Machine off. If the control plane would lose its
// majority by that, Hold returns why and does not call set.
func (g *Guard) Hold(ctx context.Context, machine *clusterv1.Machine, set func() error) (why string, err error) {
	release, err := g.enter(ctx, machine)
	if err != nil {
		return "", err
	}
	defer release()
	if why, _, err = g.Endangered(ctx, machine); err != nil || why != "" {
		return why, err
	}
	return "", set()
}

// enter waits until nobody else counts the machines of the cluster. The caller calls release once.
func (g *Guard) enter(ctx context.Context, machine *clusterv1.Machine) (release func(), err error) {
	release, err = g.holding.Acquire(ctx, machine.Namespace+"/"+machine.Spec.ClusterName)
	if err != nil {
		return nil, fmt.Errorf("wait for other holds of cluster %s/%s: %w", machine.Namespace, machine.Spec.ClusterName, err)
	}
	return release, nil
}

// members returns the Machines of the control plane that a Machine belongs to. It leaves out
// Machines that cannot have booted yet, because the majority is one of etcd members, and they are
// none.
func (g *Guard) members(ctx context.Context, machine *clusterv1.Machine) ([]clusterv1.Machine, error) {
	var machines clusterv1.MachineList
	err := g.live.List(ctx, &machines, client.InNamespace(machine.Namespace), client.HasLabels{clusterv1.MachineControlPlaneLabel},
		client.MatchingLabels{clusterv1.ClusterNameLabel: machine.Spec.ClusterName})
	if err != nil {
		return nil, fmt.Errorf("count the machines of the control plane that are ready: %w", err)
	}
	var members []clusterv1.Machine
	for i := range machines.Items {
		mayBe, err := g.mayBeMember(ctx, &machines.Items[i])
		if err != nil {
			return nil, err
		}
		if mayBe {
			members = append(members, machines.Items[i])
		}
	}
	return members, nil
}

// mayBeMember reports whether a Machine of the control plane may be a member of etcd: it may have
// booted, it has a Node, or it is not known whether it has one. Having no Node proves nothing. With
// the feature gate ControlPlaneKubeletLocalMode kubeadm joins etcd before kubelet registers the
// Node, and a machine that dies in between keeps its vote for good.
func (g *Guard) mayBeMember(ctx context.Context, m *clusterv1.Machine) (bool, error) {
	if m.Status.NodeRef.Name != "" { // Cluster API never removes it
		return true, nil
	}
	m3m, err := related.Metal3Machine(ctx, g.live, m)
	if err != nil {
		return false, fmt.Errorf("read the Metal3Machine of Machine %s: %w", m.Name, err)
	}
	var h *v1alpha1.BareMetalHost
	if m3m != nil {
		if h, err = related.Host(ctx, g.live, m3m); err != nil {
			return false, fmt.Errorf("read the host of Metal3Machine %s: %w", m3m.Name, err)
		}
	}
	if mayHaveBooted(m3m, h) {
		return true, nil
	}
	c, err := g.workloads.Client(ctx, types.NamespacedName{Namespace: m.Namespace, Name: m.Spec.ClusterName})
	if err != nil {
		return true, nil
	}
	node, err := g.findNode(ctx, c, m, related.ProviderIDs(m3m, h)...)
	return err != nil || node != nil, nil
}

// mayHaveBooted reports whether the host of a Metal3Machine was ever seen deployed. From then on
// the Metal3Machine has its provider ID. The provider ID stays when the host is lost, or when a
// move drops the status of the host. m and h may be nil.
func mayHaveBooted(m *v1beta2.Metal3Machine, h *v1alpha1.BareMetalHost) bool {
	return m != nil && m.Spec.ProviderID != "" || h != nil && isDeployed(h)
}

// isControlPlane reports whether a Machine belongs to the control plane of its cluster.
func isControlPlane(m *clusterv1.Machine) bool {
	_, ok := m.Labels[clusterv1.MachineControlPlaneLabel]
	return ok
}

// endangered says why a Machine of the control plane cannot be powered off, or is empty. The other
// members that are ready have to be the majority. Without a majority etcd cannot be written, so the
// Node could not be deleted and the host would stay off. lasting means that the other members are
// too few, even if all of them are ready.
//
// A Machine whose host is off or held off, by whomever, does not count as ready, whatever its
// conditions say. A Machine that is no member may be powered off.
func endangered(machine *clusterv1.Machine, members []clusterv1.Machine, hosts []v1alpha1.BareMetalHost) (why string, lasting bool) {
	if !slices.ContainsFunc(members, func(m clusterv1.Machine) bool { return m.UID == machine.UID }) {
		return "", false
	}
	// Names of hosts, by the UID of the Machine and by the name of the Metal3Machine.
	held, off := map[types.UID]string{}, map[string]string{}
	for i := range hosts {
		h := &hosts[i]
		if hold := holdOf(h); hold != nil {
			held[hold.Machine.UID] = h.Name
		}
		if ref := h.Spec.ConsumerRef; ref != nil && isMetal3Machine(ref) && mayBeOff(h) {
			off[ref.Name] = h.Name
		}
	}
	ready, down := 0, map[string]bool{}
	for i := range members {
		m := &members[i]
		host := held[m.UID]
		if host == "" {
			host = off[m.Spec.InfrastructureRef.Name]
		}
		switch {
		case m.UID == machine.UID:
		case host != "":
			down[host] = true
		case isReady(m):
			ready++
		}
	}
	needed := len(members)/2 + 1
	if ready >= needed {
		return "", false
	}
	why = fmt.Sprintf("%d of %d machines of the control plane are ready besides this one, and %d are needed", ready, len(members), needed)
	if len(down) > 0 {
		why += "; off or held off are the hosts " + strings.Join(slices.Sorted(maps.Keys(down)), ", ")
	}
	return why, needed > len(members)-1
}

func isMetal3Machine(ref *corev1.ObjectReference) bool {
	version, err := schema.ParseGroupVersion(ref.APIVersion)
	return err == nil && version.Group == v1beta2.GroupVersion.Group && ref.Kind == "Metal3Machine"
}

// mayBeOff reports whether the machine of a host is off, is meant to be, or is about to be.
func mayBeOff(h *v1alpha1.BareMetalHost) bool {
	for key := range h.Annotations {
		if key == v1alpha1.RebootAnnotation || strings.HasPrefix(key, v1alpha1.RebootAnnotationPrefix) {
			return true
		}
	}
	return !h.Spec.Online || !h.Status.PoweredOn
}

// isReady reports whether a Machine has a Node that is ready. If fencing has deleted the Node, the
// Machine has none, even if its condition does not say so yet. A Machine that its health check gave
// up does not count either, because it may be booting.
func isReady(m *clusterv1.Machine) bool {
	return m.DeletionTimestamp.IsZero() && !isSuspended(m) && meta.IsStatusConditionTrue(m.Status.Conditions, clusterv1.MachineNodeReadyCondition) &&
		!meta.IsStatusConditionFalse(m.Status.Conditions, clusterv1.MachineHealthCheckSucceededCondition)
}
