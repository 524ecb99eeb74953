package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// deleteAttempts is the number of errors after which a deletion continues without the
// engine, so that it always completes.
const deleteAttempts = 3

const messageNotDeleted = "The engine did not delete the node; this is tried again after a wait"

// deletion deletes the host's node from the engine and then releases the host.
// The machine itself keeps running: without a BMC it cannot be powered off.
type deletion struct {
	engine     provisioner.Lifecycle
	nodes      nodeView
	owners     ownership
	data       hardwareData
	metrics    *Metrics
	maxBackoff time.Duration
}

// deleteStep is what a host being deleted has to do next.
type deleteStep int

const (
	deleteIgnore deleteStep = iota // the operator never managed it
	deleteHold                     // it is detached, with a request to delay the deletion
	deleteEnter                    // it goes to the state deleting
	deleteNode                     // the engine has to delete the node
)

// decideDelete is pure.
func decideDelete(h *v1alpha1.BareMetalHost) deleteStep {
	switch {
	case !controllerutil.ContainsFinalizer(h, v1alpha1.HostFinalizer):
		return deleteIgnore
	case h.Status.Provisioning.State == v1alpha1.StateDeleting:
		return deleteNode
	case detachDelays(h):
		return deleteHold
	default:
		return deleteEnter
	}
}

// detachDelays reports whether a detached host is to be kept until it is
// attached again. A value that is no JSON is a plain request to detach.
func detachDelays(h *v1alpha1.BareMetalHost) bool {
	var args v1alpha1.DetachArguments
	_ = json.Unmarshal([]byte(h.Annotations[v1alpha1.DetachedAnnotation]), &args)
	return args.DeleteAction == v1alpha1.DetachDeleteActionDelay
}

// uncleaned are the states that a host leaves with data on its disks.
var uncleaned = map[v1alpha1.ProvisioningState]bool{
	v1alpha1.StateProvisioning:   true,
	v1alpha1.StateProvisioned:    true,
	v1alpha1.StateDeprovisioning: true,
}

func (p deletion) reconcile(ctx context.Context, s *scope) (result, error) {
	if s.host.DeletionTimestamp.IsZero() {
		return result{}, nil
	}
	switch decideDelete(s.host) {
	case deleteIgnore:
		return result{stop: true}, nil
	case deleteHold:
		s.progress = &progress{reason: v1alpha1.DetachedReason, message: "Deletion waits until the host is attached again"}
		return result{stop: true}, nil
	case deleteEnter:
		if uncleaned[s.state()] {
			s.warn(eventDeletedWithoutCleaning, "Host is deleted with data on its disks, because a machine without a BMC cannot be booted for cleaning")
			p.metrics.deletedUncleaned(s.host)
		}
		s.working(v1alpha1.DeletingReason, "Deleting the node from the engine")
		return s.moveTo(v1alpha1.StateDeleting), nil
	}
	if wait := s.wait(v1alpha1.ErrorRegistration, p.maxBackoff); wait > 0 {
		s.working(v1alpha1.DeletingReason, messageNotDeleted)
		return result{requeueAfter: wait, stop: true}, nil
	}
	if err := p.forget(ctx, s); err != nil {
		return result{stop: true}, err
	}
	if err := p.data.release(ctx, s.host); err != nil {
		return result{}, err
	}
	s.working(v1alpha1.DeletingReason, "The engine has deleted the node")
	controllerutil.RemoveFinalizer(s.host, v1alpha1.HostFinalizer)
	return result{stop: true}, nil
}

// forget removes the host's node from the engine, and no other: the node is read and has
// to carry the host's mark. After some errors it gives up and reports what remains.
func (p deletion) forget(ctx context.Context, s *scope) error {
	id := s.host.Status.Provisioning.ID
	if id == "" {
		return nil
	}
	n, err := p.nodes.Fetch(ctx, id)
	if err == nil {
		n, err = p.owners.hold(ctx, s.host, n)
	}
	if err == nil {
		err = p.engine.Delete(ctx, n.ID, n.Mark)
	}
	switch {
	case err == nil:
		p.nodes.Forget(n.ID)
		return nil
	case errors.Is(err, provisioner.ErrNotFound):
		return nil
	case errors.Is(err, provisioner.ErrBusy):
		return err
	case isConflict(err):
		s.warn(eventNodeKept, "Node %s stays in the engine: it does not belong to this host", id)
		return nil
	case s.host.Status.ErrorCount+1 < deleteAttempts:
		s.working(v1alpha1.DeletingReason, messageNotDeleted)
		return &failure{v1alpha1.ErrorRegistration, fmt.Errorf("delete node %s: %w", id, err)}
	default:
		s.warn(eventDeleteGaveUp, "Node %s stays in the engine and has to be deleted there: %s", id, cut(err.Error()))
		p.metrics.deleteGaveUp(s.host)
		return nil
	}
}
