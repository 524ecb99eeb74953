package host

import (
	"errors"
	"fmt"
	"time"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// ending bounds the phases of a deletion that come before the node is deleted. A pass that got no usable answer
// of the engine counts as a failure of the phase, whether the engine fails for this node only or is away as
// a whole, and after deleteAttempts failures the deletion goes on without the phase. An event names the node then, and
// what was not done to its machine. The last phase bounds itself, see [deleting].
type ending struct {
	metrics    *Metrics
	maxBackoff time.Duration
}

// endingOf are the operations of the states that a host with a BMC is in while it is deleted and its node is used.
var endingOf = map[v1alpha1.ProvisioningState]v1alpha1.OperationName{
	v1alpha1.StateProvisioned:             v1alpha1.OperationDeprovision,
	v1alpha1.StateDeprovisioning:          v1alpha1.OperationDeprovision,
	v1alpha1.StatePoweringOffBeforeDelete: v1alpha1.OperationPower,
}

// reconcile completes a pass with that outcome.
func (p ending) reconcile(s *scope, res result, err error) (result, error) {
	if err == nil || !isLeaving(s.host) {
		return res, err
	}
	if needsNode(s.host) {
		s.operation(v1alpha1.OperationRegister)                 // a record of the node that it had would hide the failures
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
	return p.giveUp(s, err), nil
}

// count makes an error of the engine a failure of an operation. A first call without an answer is not
// counted, because the engine may only have missed that one, and neither is one that comes while the host
// pauses after a failure. That the engine is at work on the node ends by itself.
func (p ending) count(s *scope, operation v1alpha1.OperationName, res result, err error) (result, error) {
	var failed *failure
	unanswered, denied := errors.Is(err, provisioner.ErrUnreachable), errors.Is(err, provisioner.ErrDenied)
	pause := s.wait(operation, p.maxBackoff)
	switch {
	case errors.As(err, &failed) && failed.operation == v1alpha1.OperationRegister:
		// Its record would not be kept while that of a request is.
		return res, &failure{operation, failed.err}
	case failed != nil, !unanswered && !denied:
		return res, err
	case denied && pause > 0:
		return result{requeueAfter: pause, stop: true}, nil
	case pause > 0, unanswered && conditionOf(s.before.Status.Conditions, v1alpha1.ManageableCondition).Reason != v1alpha1.EngineUnreachableReason:
		return res, err
	}
	if unanswered {
		s.engineReason, s.engineError = v1alpha1.EngineUnreachableReason, node.CutText(err.Error())
	}
	return res, &failure{operation, fmt.Errorf("node %s: %w", nodeIDOrName(s.host), err)}
}

// giveUp goes on with the next phase.
func (p ending) giveUp(s *scope, err error) result {
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

// nodeIDOrName names the node of a host that is deleted; there may be none.
func nodeIDOrName(h *v1alpha1.BareMetalHost) string {
	if id := h.Status.Provisioning.ID; id != "" {
		return id
	}
	return provisioner.NodeName(h.Namespace, h.Name)
}
