package fencing

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// Guard keeps control planes from losing their majority because hosts are held off. All
// controllers of a process that hold hosts off share one. It is safe for concurrent use.
type Guard struct {
	// live reads from the API server.
	live client.Reader
	// holding is held while others are counted and a hold is set, so that two holds are not set by
	// the same count.
	holding sync.Mutex
}

// NewGuard returns a guard that reads with live, from the API server and not from a cache.
func NewGuard(live client.Reader) *Guard { return &Guard{live: live} }

// Endangered says why the control plane would lose its majority without this Machine, or is empty. A
// control plane of one has none that others could keep: it is away while its host is off, and back
// with it.
func (g *Guard) Endangered(ctx context.Context, machine *clusterv1.Machine) (string, error) {
	if !isControlPlane(machine) {
		return "", nil
	}
	var hosts v1alpha1.BareMetalHostList
	if err := g.live.List(ctx, &hosts, client.InNamespace(machine.Namespace)); err != nil {
		return "", fmt.Errorf("list the hosts that are off: %w", err)
	}
	controlPlane, err := g.controlPlane(ctx, machine)
	if err != nil || len(controlPlane) == 1 {
		return "", err
	}
	return endangered(machine, controlPlane, hosts.Items), nil
}

// Hold calls set, which holds the host of a Machine off, unless the control plane would lose its
// majority by it. Then it says why, and set is not called.
func (g *Guard) Hold(ctx context.Context, machine *clusterv1.Machine, set func() error) (why string, err error) {
	g.holding.Lock()
	defer g.holding.Unlock()
	if why, err = g.Endangered(ctx, machine); err != nil || why != "" {
		return why, err
	}
	return "", set()
}

// controlPlane are the Machines of the control plane to which a Machine belongs.
func (g *Guard) controlPlane(ctx context.Context, machine *clusterv1.Machine) ([]clusterv1.Machine, error) {
	var machines clusterv1.MachineList
	err := g.live.List(ctx, &machines, client.InNamespace(machine.Namespace), client.HasLabels{clusterv1.MachineControlPlaneLabel},
		client.MatchingLabels{clusterv1.ClusterNameLabel: machine.Spec.ClusterName})
	if err != nil {
		return nil, fmt.Errorf("count the machines of the control plane that are ready: %w", err)
	}
	return machines.Items, nil
}

// isControlPlane reports whether a Machine belongs to the control plane of its cluster.
func isControlPlane(m *clusterv1.Machine) bool {
	_, ok := m.Labels[clusterv1.MachineControlPlaneLabel]
	return ok
}

// endangered says why a Machine of the control plane cannot be powered off, or is empty: the
// others that are ready have to be the majority. Without it etcd cannot be written, so that
// the Node could not be deleted and the host would stay off. A machine whose host is off or held off,
// by whomever, is not ready, whatever its Machine says.
func endangered(machine *clusterv1.Machine, controlPlane []clusterv1.Machine, hosts []v1alpha1.BareMetalHost) string {
	held, off := map[types.UID]string{}, map[string]string{} // by the UID of the Machine, and by the name of the Metal3Machine
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
	for i := range controlPlane {
		m := &controlPlane[i]
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
	needed := len(controlPlane)/2 + 1
	if ready >= needed {
		return ""
	}
	why := fmt.Sprintf("%d of %d machines of the control plane are ready besides this one, and %d are needed", ready, len(controlPlane), needed)
	if len(down) > 0 {
		why += "; off or held off are the hosts " + strings.Join(slices.Sorted(maps.Keys(down)), ", ")
	}
	return why
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

// isReady reports whether a Machine has a Node that is ready. One whose Node we have deleted has
// none, even if its condition does not say so yet, and one that its health check gave up may be
// booting.
func isReady(m *clusterv1.Machine) bool {
	return m.DeletionTimestamp.IsZero() && !isSuspended(m) && meta.IsStatusConditionTrue(m.Status.Conditions, clusterv1.MachineNodeReadyCondition) &&
		!meta.IsStatusConditionFalse(m.Status.Conditions, clusterv1.MachineHealthCheckSucceededCondition)
}
