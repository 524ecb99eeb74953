package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// detachedPoll is how often a detached host is reconciled.
const detachedPoll = 10 * time.Minute

// detachable are the states in which a host can be detached without force.
var detachable = map[v1alpha1.ProvisioningState]bool{
	v1alpha1.StateReady:                 true,
	v1alpha1.StateAvailable:             true,
	v1alpha1.StateProvisioned:           true,
	v1alpha1.StateExternallyProvisioned: true,
}

// detaching is the guard that deletes the node of a detached host without touching the machine, and
// keeps the host as it is until the annotation is removed.
type detaching struct {
	owners     ownership
	maxBackoff time.Duration
}

// detachStep is what has to be done about detaching next.
type detachStep int

const (
	detachNot  detachStep = iota // the host is attached and stays so
	detachWait                   // the host is at work; it is detached afterwards
	detachNow                    // its node has to be deleted
	detachStay                   // it is detached
	detachEnd                    // it has to be attached again
)

// decideDetach returns the next step of detaching or attaching a host.
func decideDetach(h *v1alpha1.BareMetalHost) detachStep {
	_, annotated := h.Annotations[v1alpha1.DetachedAnnotation]
	detached := h.Status.OperationalStatus == v1alpha1.OperationalStatusDetached
	switch {
	case annotated && detached:
		return detachStay
	case detached:
		return detachEnd
	case !annotated:
		return detachNot
	case detachable[h.Status.Provisioning.State] && !isServiced(h), detachArguments(h).Force && h.Status.Provisioning.ID != "":
		return detachNow
	default:
		return detachWait
	}
}

// detachArguments returns the arguments of a request to detach. A value that is not JSON is a
// request without arguments.
func detachArguments(h *v1alpha1.BareMetalHost) v1alpha1.DetachArguments {
	var args v1alpha1.DetachArguments
	_ = json.Unmarshal([]byte(h.Annotations[v1alpha1.DetachedAnnotation]), &args)
	return args
}

func (p detaching) reconcile(ctx context.Context, s *scope) (result, error) {
	if isLeaving(s.host) {
		return result{}, nil
	}
	switch decideDetach(s.host) {
	case detachStay:
		s.updatePending = detachedUpdate(s.host)
		return stoppedFor(detachedPoll), nil
	case detachEnd:
		return s.attach(), nil
	case detachWait:
		s.waitsToDetach = true
		return result{}, nil
	case detachNot:
		return result{}, nil
	}
	if pause := s.wait(v1alpha1.OperationDetach, p.maxBackoff); pause > 0 {
		return stoppedFor(pause), nil
	}
	if len(s.host.Status.PowerOffHolds) > 0 {
		s.host.Status.PowerOffHolds = nil // nobody watches the power of a detached host
		return stoppedFor(soon), nil
	}
	if s.host.Status.Provisioning.ID != "" {
		err := deleteNodeOf(ctx, s, p.owners)
		switch {
		case err == nil, errors.Is(err, provisioner.ErrNotFound), isConflict(err):
		case isTemporary(err):
			return stopped(), err
		default:
			return stopped(), &failure{v1alpha1.OperationDetach, fmt.Errorf("delete node %s: %w", s.host.Status.Provisioning.ID, err)}
		}
	}
	s.host.Status.Provisioning.ID = ""
	s.clearError()
	s.detached = true
	s.note(eventDetached, "The engine no longer knows the machine, which stays as it is")
	return stoppedFor(detachedPoll), nil
}

// attach marks a detached host as attached again. The host gets a node in the next pass.
func (s *scope) attach() result {
	s.host.Status.OperationalStatus = v1alpha1.OperationalStatusOK
	s.host.Status.Operation = v1alpha1.OperationStatus{RAID: s.host.Status.Operation.RAID} // nobody has changed the disks
	s.note(eventAttached, "The host is attached again")
	return stoppedFor(soon)
}
