package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/discovery"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// deleteAttempts is the number of errors after which a phase of a deletion is given up and the
// deletion goes on without the engine, so that it always completes.
const deleteAttempts = 3

const messageNotDeleted = "The engine did not delete the node; this is tried again after a wait"

// deletion is the guard that moves a host which is being deleted to the state in which its deletion
// begins.
type deletion struct {
	metrics *Metrics
}

// deleteStep is what the deletion of a host has to do next.
type deleteStep int

const (
	deleteIgnore      deleteStep = iota // the operator never managed the host
	deleteAfterAttach                   // it is detached, and its deletion waits until it is attached again
	deleteDefer                         // it is to be detached first, and is managed until then
	deleteAttach                        // it has to be attached again
	deleteContinue                      // the handler of its state goes on
	deleteDeprovision                   // what is deployed has to be removed
	deletePowerOff                      // its machine has to be powered off
	deleteNode                          // its node has to be deleted
)

// decideDelete returns the next step of the deletion of a host.
func decideDelete(h *v1alpha1.BareMetalHost) deleteStep {
	if !controllerutil.ContainsFinalizer(h, v1alpha1.HostFinalizer) {
		return deleteIgnore
	}
	_, annotated := h.Annotations[v1alpha1.DetachedAnnotation]
	detached := h.Status.OperationalStatus == v1alpha1.OperationalStatusDetached
	state := h.Status.Provisioning.State
	switch {
	case state == v1alpha1.StateDeleting:
		return deleteContinue
	case delaysDeletion(h) && !detached && (registeredStates[state] || linkedStates[state]):
		return deleteDefer
	case delaysDeletion(h):
		return deleteAfterAttach
	case detached && !annotated:
		return deleteAttach
	case annotated:
		return deleteNode
	case uncleaned[state] && h.Status.Provisioning.ID == "":
		if !needsNode(h) {
			return deleteNode
		}
		return deleteContinue
	}
	switch state {
	case v1alpha1.StateNone, v1alpha1.StateUnmanaged, v1alpha1.StateRegistering, v1alpha1.StateImporting:
		return deleteNode
	case v1alpha1.StateProvisioning:
		if !reachesMachine(h) {
			return deleteNode // its machine cannot be booted for cleaning
		}
		return deleteDeprovision
	case v1alpha1.StateProvisioned, v1alpha1.StateDeprovisioning, v1alpha1.StatePoweringOffBeforeDelete:
		if !reachesMachine(h) {
			return deleteNode
		}
		return deleteContinue
	default:
		return deletePowerOff
	}
}

// reachesMachine reports whether the engine can boot the machine of a host and power it off. A node
// does not get a BMC that was added to its host before the credentials have worked. If a host asks
// for the BMC of another machine, its node still has the former BMC.
func reachesMachine(h *v1alpha1.BareMetalHost) bool {
	if h.Status.Provisioning.ID == "" {
		return h.SupportsPowerControl()
	}
	return h.HasBMC() && h.Status.GoodCredentials.Reference != nil && (h.SupportsPowerControl() || h.Status.GoodBMC != "")
}

// delaysDeletion reports whether a person asks to delete the host only after it has been detached
// and attached again.
func delaysDeletion(h *v1alpha1.BareMetalHost) bool {
	return detachArguments(h).DeleteAction == v1alpha1.DetachDeleteActionDelay
}

// isLeaving reports whether a host is being deleted now. A host whose deletion waits until it is
// attached again is managed like any other until it is detached.
func isLeaving(h *v1alpha1.BareMetalHost) bool {
	return !h.DeletionTimestamp.IsZero() && decideDelete(h) != deleteDefer
}

// uncleaned are the states that a host leaves with data on its disks.
var uncleaned = map[v1alpha1.ProvisioningState]bool{
	v1alpha1.StateProvisioning:   true,
	v1alpha1.StateProvisioned:    true,
	v1alpha1.StateDeprovisioning: true,
}

// needsNode reports whether a host that is being deleted has to be registered first: it has no
// node, as after it was detached, and what is deployed has to be removed.
func needsNode(h *v1alpha1.BareMetalHost) bool {
	record := h.Status.Operation
	failedTooOften := record.Name == v1alpha1.OperationRegister && record.Failures >= deleteAttempts
	return uncleaned[h.Status.Provisioning.State] && h.Status.Provisioning.ID == "" && h.SupportsPowerControl() && !failedTooOften
}

func (p deletion) reconcile(_ context.Context, s *scope) (result, error) {
	if s.host.DeletionTimestamp.IsZero() {
		return result{}, nil
	}
	switch decideDelete(s.host) {
	case deleteIgnore:
		return stopped(), nil
	case deleteAfterAttach:
		s.progress = &progress{reason: v1alpha1.DetachedReason, message: "Deletion waits until the host is attached again"}
		count(p.metrics.heldBack, s.host)
		return stopped(), nil
	case deleteAttach:
		return s.attach(), nil
	case deleteDeprovision:
		return s.moveTo(v1alpha1.StateDeprovisioning), nil
	case deletePowerOff:
		return s.moveTo(v1alpha1.StatePoweringOffBeforeDelete), nil
	case deleteNode:
		if _, annotated := s.host.Annotations[v1alpha1.DetachedAnnotation]; !annotated && uncleaned[s.state()] {
			s.warn(eventDeletedWithoutCleaning, "Host is deleted with data on its disks, because its machine cannot be booted for cleaning")
			count(p.metrics.uncleaned, s.host)
		}
		s.working(v1alpha1.DeletingReason, "Deleting the node from the engine")
		return s.moveTo(v1alpha1.StateDeleting), nil
	}
	return result{}, nil
}

// deleting deletes the host's node from the engine and then releases the host.
type deleting struct {
	owners      ownership
	data        hardwareData
	credentials credentials
	images      ramdiskImages
	metrics     *Metrics
	maxBackoff  time.Duration
}

func (p deleting) reconcile(ctx context.Context, s *scope) (result, error) {
	if wait := s.wait(v1alpha1.OperationDelete, p.maxBackoff); wait > 0 {
		s.working(v1alpha1.DeletingReason, messageNotDeleted)
		return stoppedFor(wait), nil
	}
	if err := discovery.RecordDeletion(ctx, p.data.live, p.data.client, s.host, s.now); err != nil {
		return stopped(), err
	}
	if err := p.forget(ctx, s); err != nil {
		return stopped(), err
	}
	if err := errors.Join(p.data.release(ctx, s.host), p.credentials.releaseAll(ctx, s.host), p.images.release(ctx, s.host)); err != nil {
		return result{}, err
	}
	s.working(v1alpha1.DeletingReason, "The engine has deleted the node")
	controllerutil.RemoveFinalizer(s.host, v1alpha1.HostFinalizer)
	return stopped(), nil
}

// forget deletes the host's node from the engine, and no other: the node is read and has to carry
// the host's mark. After deleteAttempts errors it gives up and reports what remains. The mark keeps
// that node from becoming the node of another host.
func (p deleting) forget(ctx context.Context, s *scope) error {
	id := nodeIDOrName(s.host)
	err := deleteNodeOf(ctx, s, p.owners)
	switch {
	case err == nil, errors.Is(err, provisioner.ErrNotFound):
		return nil
	case errors.Is(err, provisioner.ErrBusy):
		return err
	case isConflict(err):
		s.warn(eventNodeKept, "Node %s stays in the engine: it does not belong to this host", id)
		return nil
	case s.operation(v1alpha1.OperationDelete).Failures+1 < deleteAttempts:
		s.working(v1alpha1.DeletingReason, messageNotDeleted)
		return &failure{v1alpha1.OperationDelete, fmt.Errorf("delete node %s: %w", id, err)}
	default:
		s.warn(eventDeleteGaveUp, "Node %s may still be in the engine and has to be deleted there: %s", id, node.CutText(err.Error()))
		count(p.metrics.deleteGaveUp, s.host)
		return nil
	}
}

// deleteNodeOf deletes the node of a host from the engine if it carries the host's mark. A node
// that could not be deleted becomes that of the pass, so that the conditions tell of it.
func deleteNodeOf(ctx context.Context, s *scope, owners ownership) error {
	n, err := owners.nodeOf(ctx, s.host)
	if err != nil {
		return err
	}
	if err := owners.engine.Delete(ctx, n.ID, n.Mark); err != nil {
		s.node = &n
		return err
	}
	owners.nodes.Forget(n.ID)
	return nil
}
