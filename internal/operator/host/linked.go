package host

import (
	"context"
	"errors"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// linkedStates are the states in which a host without a BMC has a node.
var linkedStates = map[v1alpha1.ProvisioningState]bool{
	v1alpha1.StateImporting:             true,
	v1alpha1.StateInspecting:            true,
	v1alpha1.StateMatchProfile:          true,
	v1alpha1.StatePreparing:             true,
	v1alpha1.StateReady:                 true,
	v1alpha1.StateAvailable:             true,
	v1alpha1.StateExternallyProvisioned: true,
	v1alpha1.StateProvisioning:          true,
	v1alpha1.StateProvisioned:           true,
	v1alpha1.StateDeprovisioning:        true,
}

// linked reads the node of a host that has one, for the handler of its state, and makes
// sure that it is the host's. When it is not, or the engine has lost it, a host without a
// BMC is unmanaged until it gets a node again. The node of a host with a BMC was read by
// registration already, except while the host is deleted.
type linked struct {
	owners ownership
	nodes  nodeView
}

func (p linked) reconcile(ctx context.Context, s *scope) (result, error) {
	switch {
	case s.node != nil:
		return result{}, nil
	case s.host.HasBMC() && !s.host.DeletionTimestamp.IsZero():
		return p.readDeleted(ctx, s)
	case s.host.HasBMC(), !linkedStates[s.state()]:
		return result{}, nil
	}
	n, err := provisioner.Node{}, provisioner.ErrNotFound
	if id := s.host.Status.Provisioning.ID; id != "" {
		n, err = p.owners.read(ctx, s, id, s.state())
	}
	if err == nil {
		n, err = p.owners.hold(ctx, s.host, n)
	}
	if isConflict(err) {
		s.waiting("Not imported: %v", err)
		s.warn(eventImportConflict, "%s", s.progress.message)
		s.host.Status.Provisioning.ID = ""
		return s.moveTo(v1alpha1.StateUnmanaged), nil
	}
	if errors.Is(err, provisioner.ErrNotFound) {
		s.warn(eventImportLost, "The engine no longer knows node %s; the host is unmanaged until its machine boots the ramdisk again", s.host.Status.Provisioning.ID)
		s.host.Status.Provisioning.ID = ""
		s.waiting("The engine lost the node of this host; boot the machine into the ramdisk")
		return s.moveTo(v1alpha1.StateUnmanaged), nil
	}
	if err != nil {
		return result{}, err
	}
	s.node = &n
	return result{}, nil
}

// leavingStates are the states of a host with a BMC that is deleted in which its node is
// used.
var leavingStates = map[v1alpha1.ProvisioningState]bool{
	v1alpha1.StateProvisioned:             true,
	v1alpha1.StateDeprovisioning:          true,
	v1alpha1.StatePoweringOffBeforeDelete: true,
}

// readDeleted reads the node of a host that is deleted. One that is gone, or is not the
// host's, is none.
func (p linked) readDeleted(ctx context.Context, s *scope) (result, error) {
	id := s.host.Status.Provisioning.ID
	if !leavingStates[s.state()] || id == "" {
		return result{}, nil
	}
	n, err := p.nodes.Fetch(ctx, id)
	if err == nil {
		n, err = p.owners.hold(ctx, s.host, n)
	}
	switch {
	case err == nil:
		s.node = &n
	case errors.Is(err, provisioner.ErrNotFound), isConflict(err):
	default:
		return result{stop: true}, err
	}
	return result{}, nil
}
