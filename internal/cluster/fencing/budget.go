package fencing

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// ConfirmTimeout is how long a host may take until it is proven to be off. A cycle that takes
// longer gives its place in the budget back, and is shown as stuck.
const ConfirmTimeout = 10 * time.Minute

// age is how far a hold is from now. It was set in what is the future now if the clock has been set
// back since; that must not keep it for so long.
func (h *hold) age(now time.Time) time.Duration { return now.Sub(h.RequestedAt.Time).Abs() }

// isStuck reports whether a hold has not been confirmed in time.
func isStuck(h *v1alpha1.BareMetalHost, held *hold, now time.Time) bool {
	return held.age(now) >= ConfirmTimeout && ProvenOff(h, holdKey, h.Annotations[holdKey]) != nil
}

// occupied are the names of the hosts that take the places of a cluster's budget, in their
// order.
func occupied(hosts []v1alpha1.BareMetalHost, cluster string, now time.Time) []string {
	var names []string
	for i := range hosts {
		held := holdOf(&hosts[i])
		if held != nil && held.Cluster == cluster && !isStuck(&hosts[i], held, now) {
			names = append(names, hosts[i].Name)
		}
	}
	slices.Sort(names)
	return names
}

// isControlPlane reports whether a Machine belongs to the control plane of its cluster.
func isControlPlane(m *clusterv1.Machine) bool {
	_, ok := m.Labels[clusterv1.MachineControlPlaneLabel]
	return ok
}

// endangered says why a Machine of the control plane cannot be powered off, or is empty: the
// others that are ready have to be the majority. Without it etcd cannot be written, so that
// the Node could not be deleted and the host would stay off.
func endangered(machine *clusterv1.Machine, controlPlane []clusterv1.Machine, hosts []v1alpha1.BareMetalHost) string {
	held := map[types.UID]bool{}
	for i := range hosts {
		if h := holdOf(&hosts[i]); h != nil {
			held[h.Machine.UID] = true
		}
	}
	ready := 0
	for i := range controlPlane {
		if m := &controlPlane[i]; m.UID != machine.UID && !held[m.UID] && isReady(m) {
			ready++
		}
	}
	if needed := len(controlPlane)/2 + 1; ready < needed {
		return fmt.Sprintf("%d of %d machines of the control plane are ready besides this one, and %d are needed", ready, len(controlPlane), needed)
	}
	return ""
}

// isReady reports whether a Machine has a Node that is ready. One whose Node we have deleted has
// none, even if its condition does not say so yet.
func isReady(m *clusterv1.Machine) bool {
	return m.DeletionTimestamp.IsZero() && !isSuspended(m) && meta.IsStatusConditionTrue(m.Status.Conditions, clusterv1.MachineNodeReadyCondition)
}
