package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// holding powers off the machine of a host that has to be off, if the pass ended before it steered
// the power. Such a pass found no Secret with the credentials, for example, or its host waits for a
// slot, or its work fails again and again. Whoever holds a host off must not wait for any of that,
// and the engine has all that it needs to power the machine off.
type holding struct {
	owners ownership
	power  power
}

// decideHolding reports whether a machine is to be powered off after a pass that did not steer its
// power. The host must have the same node as in the pass before, and the engine must have had
// access to the BMC.
func decideHolding(s *scope, requests powerRequests) bool {
	before, h := &s.before.Status, s.host
	_, detaches := h.Annotations[v1alpha1.DetachedAnnotation]
	switch {
	case s.steered, s.claimed, detaches, !h.HasBMC():
		return false
	case !steersPower[s.state()] && !failsAtWork(h, s.node), s.state() != before.Provisioning.State:
		return false
	case h.Status.Provisioning.ID == "", h.Status.Provisioning.ID != before.Provisioning.ID, h.Status.GoodCredentials.Reference == nil:
		return false
	case s.node != nil && isServiced(h):
		return false // the live update has had its turn
	case !steersPower[s.state()]:
		return h.IsHeldOff()
	default:
		return requests.wantsOff()
	}
}

// heldNodes are the states in which the machine of a node is powered off while the host waits for
// something else. In other states the engine works on the node, or has to take it over first.
var heldNodes = map[node.State]bool{node.Available: true, node.Active: true}

// reconcile completes a pass that ended with res and err. It shows what the pass waits for or could
// not do. That counts as a failure only when the power is as it should be. Otherwise each of the
// frequent passes during a change of power would count it.
func (p holding) reconcile(ctx context.Context, s *scope, res result, err error) (result, error) {
	requests, _ := powerRequestsOf(s.host)
	status := &s.host.Status
	status.PowerOffHolds = requests.existing(status.PowerOffHolds)
	switch {
	case holdsNext(s, err):
		return stoppedFor(soon), err
	case !decideHolding(s, requests), !p.readNode(ctx, s, err):
		return res, err
	}
	shown := s.progress
	// later: the pass has not found out whether something has to begin with the restart.
	done, next, failed := p.power.steerAs(ctx, s, steering{later: true})
	s.progress = shown
	if done {
		p.endPowerOperation(s)
		return res, err
	}
	if err != nil {
		s.waiting("%s", node.CutText(err.Error()))
	}
	return next, joinFailures(failed, err)
}

// readNode reads the node if the pass has not done so. It returns false when the engine cannot be
// asked, when the node is not the host's, and when its machine cannot be powered off now.
func (p holding) readNode(ctx context.Context, s *scope, err error) bool {
	if isTemporary(err) && !errors.Is(err, errNoTurn) || errors.Is(err, provisioner.ErrDenied) {
		return false
	}
	if s.node == nil {
		n, err := p.owners.read(ctx, s, s.host.Status.Provisioning.ID, s.state())
		if err != nil || n.Mark != p.owners.mark(s.host) || n.Released != "" {
			return false
		}
		s.node = &n
	}
	if !steersPower[s.state()] {
		// The node may show that the next try has succeeded.
		return failsAtWork(s.host, s.node) && failedNodes[s.node.State]
	}
	return heldNodes[s.node.State]
}

// endPowerOperation ends the operation on the power. The host keeps its place in the queue.
func (holding) endPowerOperation(s *scope) {
	record := &s.host.Status.Operation
	operation, works := workOf[s.state()]
	switch {
	case record.Name != v1alpha1.OperationPower:
	case works:
		keepFailure(s, operation)
		showWork(s, operation)
	default:
		*record = v1alpha1.OperationStatus{QueuedAt: record.QueuedAt}
	}
	if s.host.Status.ErrorType == v1alpha1.ErrorPowerManagement {
		s.clearError()
	}
}

// joinFailures returns the failure of a change of power, extended by the failure that the pass had
// ended with.
func joinFailures(power, other error) error {
	var failed, besides *failure
	if errors.As(power, &failed) && errors.As(other, &besides) {
		return &failure{failed.operation, fmt.Errorf("%w; besides, %w", failed, besides)}
	}
	return power
}
