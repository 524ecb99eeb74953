// Package reuse lets the machines of an owner, which is a control plane or a MachineDeployment,
// take over each other's hosts, so that the same disks come back after an upgrade. A host is
// reserved for the owner when its machine is deleted, the next machine of the owner takes
// it, and the controller frees it when nobody will.
//
// A reservation is in the host object alone: spec.consumerRef names the owner, NodeReuseLabel
// repeats it for other providers, and ReservedAtAnnotation says since when. All decisions are pure
// functions (decide.go) of what was read (read.go). A decision that gives a host away is made once more
// over what the API server has now.
package reuse

import (
	"context"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// Reuse answers the questions of the controller of Metal3Machines. It writes nothing and is safe for
// concurrent use.
type Reuse struct {
	// Client reads from the cache; Live asks the API server.
	Client, Live client.Reader
	// Wait bounds how long a new machine waits for a host of its owner, counted from the
	// reservation of the host or the deletion of its machine; 0 means for ever.
	Wait time.Duration
	// Now is the clock.
	Now func() time.Time
}

// Reservation is the answer to whether a host is reserved when its machine is deleted. The zero value
// says that it is not.
type Reservation struct {
	// Owner is whom the host is reserved for, and At since when.
	Owner Owner
	At    time.Time
	// Refused says why the host is not reserved although its template wants reuse, and Message
	// the same as a sentence for an event.
	Refused Reason
	Message string
}

// Reserves reports whether the host is to be reserved.
func (r Reservation) Reserves() bool { return r.Owner != Owner{} }

// Apply sets the consumer, the label and the annotation of the reservation on a host object, which
// the caller writes with its resourceVersion, together with the removal of its image.
func (r Reservation) Apply(h *v1alpha1.BareMetalHost) { reserve(h, r.Owner, r.At) }

// Preference is which hosts a new machine may take.
type Preference struct {
	// Owner is the owner of the machine, or nil when it has none.
	Owner *Owner
	// Wanted says that hosts for which ReservedFor(Owner, host) holds are chosen first: those
	// of the failure domain, then the oldest by ReservedAt, then by name. Without it only hosts
	// are chosen for which IsReserved does not hold.
	Wanted bool
	// Waiting says that the machine waits when none of these hosts can be chosen now;
	// WaitingFor is what it waits for, as a sentence for its condition, and RequeueAfter when
	// to ask again, or 0 when only a change can end the wait.
	Waiting      bool
	WaitingFor   string
	RequeueAfter time.Duration
	// Skipped is a sentence that says why the template's nodeReuse has no effect for this
	// machine, or that its wait took too long; empty when there is nothing to say.
	Skipped string
}

// OwnerOf returns the owner of a Machine, or nil when there is none: for a Machine that stands
// alone or belongs to a MachineSet without a MachineDeployment.
func OwnerOf(ctx context.Context, r client.Reader, machine *clusterv1.Machine) (*Owner, error) {
	return nil, nil
}

// Reserve decides whether the host of a machine that is being deleted is reserved for its owner.
// It is asked before the first write of the deletion.
func (x Reuse) Reserve(ctx context.Context, machine *clusterv1.Machine, m *v1beta2.Metal3Machine, h *v1alpha1.BareMetalHost) (Reservation, error) {
	return Reservation{}, nil
}

// Preference decides which hosts a new machine may take; hosts are those of its namespace.
func (x Reuse) Preference(ctx context.Context, machine *clusterv1.Machine, m *v1beta2.Metal3Machine, hosts []v1alpha1.BareMetalHost) (Preference, error) {
	return Preference{}, nil
}

// inUse are the states in which a host still has, or is losing, what its last machine
// had deployed.
var inUse = map[v1alpha1.ProvisioningState]bool{
	v1alpha1.StatePreparing: true, v1alpha1.StateProvisioning: true, v1alpha1.StateProvisioned: true,
	v1alpha1.StateDeprovisioning: true, v1alpha1.StatePoweringOffBeforeDelete: true, v1alpha1.StateDeleting: true,
}

// Released reports whether a deleted Metal3Machine has nothing more to wait for at the host that it
// names: the host is gone (nil), another machine has it, or what this one had
// deployed is removed. A host that still names this machine as its consumer is not released.
func Released(m *v1beta2.Metal3Machine, h *v1alpha1.BareMetalHost) bool {
	if h == nil {
		return true
	}
	ref := h.Spec.ConsumerRef
	if ref == nil || ref.Kind != metal3MachineKind || groupOf(ref.APIVersion) != v1beta2.GroupVersion.Group {
		return !inUse[h.Status.Provisioning.State]
	}
	return ref.Name != m.Name || ref.UID != "" && ref.UID != m.UID
}

// Reason is why a host is not reserved, or not any more.
type Reason string
