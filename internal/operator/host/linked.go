package host

import (
	"context"
	"errors"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
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

// keptStates are the states that a host without a BMC keeps when it has no node. Its machine has
// data, so it must not be prepared like a new one when the host gets a node again.
var keptStates = map[v1alpha1.ProvisioningState]bool{
	v1alpha1.StateProvisioning:          true,
	v1alpha1.StateProvisioned:           true,
	v1alpha1.StateExternallyProvisioned: true,
	v1alpha1.StateDeprovisioning:        true,
}

// linked reads the node of a host for the handler of the host's state, and makes sure that the node
// is the host's. If it is not, or if the engine has lost it, a host without a BMC waits for a node:
// in its state if that is one of keptStates, and unmanaged otherwise. The guard registration has
// already read the node of a host with a BMC, except while the host is being deleted.
type linked struct {
	owners ownership
}

func (p linked) reconcile(ctx context.Context, s *scope) (result, error) {
	switch {
	case s.node != nil:
		return result{}, nil
	case s.host.HasBMC() && isLeaving(s.host):
		return p.readDeleted(ctx, s)
	case s.host.HasBMC(), !linkedStates[s.state()]:
		return result{}, nil
	}
	n, err := p.find(ctx, s)
	if err == nil && s.host.Status.Provisioning.ID != n.ID {
		// The link is written before the mark, so that a deletion in between finds the node.
		s.host.Status.Provisioning.ID = n.ID
		return stoppedFor(soon), nil
	}
	if err == nil {
		n, err = p.owners.ensureMark(ctx, s.host, n)
	}
	switch {
	case isConflict(err), errors.Is(err, provisioner.ErrNotFound):
		if keptStates[s.state()] {
			return p.keep(s, err), nil
		}
		return p.unlink(s, err), nil
	case err != nil:
		return result{}, err
	}
	s.node = &n
	return result{}, nil
}

// find returns the node that a host is linked to. For a host that has none and keeps its state, it
// returns another node that may become the host's.
func (p linked) find(ctx context.Context, s *scope) (provisioner.Node, error) {
	n, err := provisioner.Node{}, provisioner.ErrNotFound
	if id := s.host.Status.Provisioning.ID; id != "" {
		n, err = p.owners.read(ctx, s, id, s.state())
	}
	if !errors.Is(err, provisioner.ErrNotFound) || !keptStates[s.state()] {
		return n, err
	}
	if n, err = p.owners.find(ctx, s.host); err != nil {
		return n, err
	}
	return n, p.owners.check(ctx, s.host, n)
}

// unlink makes a host unmanaged until it gets a node again.
func (p linked) unlink(s *scope, why error) result {
	if isConflict(why) {
		s.waiting("Not imported: %v", why)
		s.warn(eventImportConflict, "%s", s.progress.message)
	} else {
		s.warn(eventImportLost, "The engine no longer knows node %s; the host is unmanaged until its machine boots the ramdisk again", s.host.Status.Provisioning.ID)
		s.waiting("The engine lost the node of this host; boot the machine into the ramdisk")
	}
	s.host.Status.Provisioning.ID = ""
	return s.moveTo(v1alpha1.StateUnmanaged)
}

// keep lets a host wait for a node in its state. A node that the engine has lost stays linked: the
// engine may have missed it only once, or may get its database back.
func (p linked) keep(s *scope, why error) result {
	id := &s.host.Status.Provisioning.ID
	if _, abandoned := s.host.Annotations[v1alpha1.AbandonedAnnotation]; abandoned {
		s.warn(eventAbandoned, "The machine is given up with data on its disks; the engine has no node for it")
		return forgetMachine(s)
	}
	reason, what := eventImportLost, "The engine no longer knows node "+*id
	switch {
	case isConflict(why):
		reason, what, *id = eventImportConflict, capitalized(node.CutText(why.Error())), ""
	case *id == "":
		what = "The engine has no node for this host"
	}
	s.nodeLost = true
	s.waiting("%s; the machine has data, so the host stays in state %q until the engine knows the machine again: boot the machine into the ramdisk, "+
		"or give it up with its data with the annotation %s", what, s.state(), v1alpha1.AbandonedAnnotation)
	if s.lastMessage(v1alpha1.ProgressingCondition) != s.progress.message {
		s.warn(reason, "%s", s.progress.message)
	}
	return stoppedFor(idlePoll)
}

// forgetMachine forgets the machine of a host and what is deployed on it. If the machine comes
// back, it is discovered, and cleaned like a new one.
func forgetMachine(s *scope) result {
	delete(s.host.Annotations, v1alpha1.AbandonedAnnotation)
	delete(s.host.Annotations, v1alpha1.ConfirmedOffAnnotation)
	s.host.Status.Provisioning.ID = ""
	s.host.Status.Provisioning.Image, s.host.Status.Provisioning.CustomDeploy = v1alpha1.Image{}, nil
	return s.moveTo(v1alpha1.StateUnmanaged)
}

// readDeleted reads the node of a host that is being deleted. A node that is gone, or is not the
// host's, counts as none.
func (p linked) readDeleted(ctx context.Context, s *scope) (result, error) {
	if _, used := endingOf[s.state()]; !used {
		return result{}, nil
	}
	n, err := p.owners.nodeOf(ctx, s.host)
	switch {
	case err == nil:
		s.node = &n
	case errors.Is(err, provisioner.ErrNotFound), isConflict(err):
	default:
		return stopped(), err
	}
	return result{}, nil
}
