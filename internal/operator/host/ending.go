package host

import (
	"errors"
	"fmt"
	"time"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// ending bounds the phases of a deletion that come before the node is deleted. A pass without a
// usable answer of the engine counts as a failure of the phase, whether the engine fails for this
// node only or is away altogether. After deleteAttempts failures the deletion goes on without the
// phase, and an event names the node and what was not done to its machine. The last phase bounds
// itself, see [deleting].
type ending struct {
	metrics    *Metrics
	maxBackoff time.Duration
}

// endingOf are the operations of the states in which a deletion still uses the node of a host with
// a BMC.
var endingOf = map[v1alpha1.ProvisioningState]v1alpha1.OperationName{
	v1alpha1.StateProvisioned:             v1alpha1.OperationDeprovision,
	v1alpha1.StateDeprovisioning:          v1alpha1.OperationDeprovision,
	v1alpha1.StatePoweringOffBeforeDelete: v1alpha1.OperationPower,
}

// reconcile completes a pass that ended with res and err.
func (p ending) reconcile(s *scope, res result, err error) (result, error) {
	if err == nil || !isLeaving(s.host) {
		return res, err
	}
	if needsNode(s.host) {
		s.operation(v1alpha1.OperationRegister)                 // the record of the node that it had would hide the failures
		return p.count(s, v1alpha1.OperationRegister, res, err) // the guard deletion gives that up
	}
	operation, known := endingOf[s.state()]
	if !known {
		return res, err
	}
	res, err = p.count(s, operation, res, err)
	var failed *failure
	if !errors.As(err, &failed) || s.operation(failed.operation).Failures+1 < deleteAttempts {
		return res, err
	}
	return p.skipPhase(s, err), nil
}

// count turns an error of the engine into a failure of an operation. It does not count the first
// call without an answer, because the engine may only have missed that one. Nor does it count an
// error during the pause after a failure, or that the engine is at work on the node: that ends by
// itself.
func (p ending) count(s *scope, operation v1alpha1.OperationName, res result, err error) (result, error) {
	var failed *failure
	unanswered, denied := errors.Is(err, provisioner.ErrUnreachable), errors.Is(err, provisioner.ErrDenied)
	pause := s.wait(operation, p.maxBackoff)
	switch {
	case errors.As(err, &failed) && failed.operation == v1alpha1.OperationRegister:
		// A registration does not replace the record of a request, so its failures would not be
		// counted.
		return res, &failure{operation, failed.err}
	case failed != nil, !unanswered && !denied:
		return res, err
	case denied && pause > 0:
		return stoppedFor(pause), nil
	case pause > 0, unanswered && conditionOf(s.before.Status.Conditions, v1alpha1.ManageableCondition).Reason != v1alpha1.EngineUnreachableReason:
		return res, err
	}
	if unanswered {
		s.engineReason, s.engineError = v1alpha1.EngineUnreachableReason, node.CutText(err.Error())
	}
	return res, &failure{operation, fmt.Errorf("node %s: %w", nodeIDOrName(s.host), err)}
}

// skipPhase moves the host to the next phase of its deletion and reports what remains.
func (p ending) skipPhase(s *scope, err error) result {
	id, why := nodeIDOrName(s.host), node.CutText(err.Error())
	if s.state() == v1alpha1.StatePoweringOffBeforeDelete {
		s.warn(eventPowerManagementError, "The host is deleted and the machine of node %s may still be on, because it could not be powered off: %s", id, why)
		count(p.metrics.poweredOn, s.host)
		return s.moveTo(v1alpha1.StateDeleting)
	}
	s.warn(eventDeletedWithoutCleaning, "The deployment on node %s could not be removed, so data stays on the disks: %s", id, why)
	count(p.metrics.uncleaned, s.host)
	return s.moveTo(v1alpha1.StatePoweringOffBeforeDelete)
}

// nodeIDOrName returns the ID of the node of a host, or the name that the node would have: a host
// that is being deleted may have no node.
func nodeIDOrName(h *v1alpha1.BareMetalHost) string {
	if id := h.Status.Provisioning.ID; id != "" {
		return id
	}
	return provisioner.NodeName(h.Namespace, h.Name)
}
