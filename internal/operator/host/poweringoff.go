package host

import (
	"context"
	"fmt"
	"time"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// poweringOff powers off the machine of a host that is being deleted, if that is possible and
// allowed.
type poweringOff struct {
	work
}

// abortTimeout is how long the removal of a deployment, or the power off before a deletion, waits
// for the engine to abort a live update or a cleaning.
const abortTimeout = 15 * time.Minute

// offStep is what has to be done about the power of a deleted host next.
type offStep int

const (
	offDone   offStep = iota // the machine is off, or stays as it is
	offWait                  // it is being powered off
	offAsk                   // it has to be powered off
	offFailed                // the engine could not do it
	offAbort                 // a live update or a cleaning has to end first
)

// decideOff returns the next step of powering off the machine of a host that is being deleted.
// asked reports that the engine accepted the request to power off. inTime reports that a live
// update or a cleaning still has time to end: engines do not change the power of a machine during
// either.
func decideOff(h *v1alpha1.BareMetalHost, n *provisioner.Node, asked, inTime bool) offStep {
	switch {
	case n == nil, !reachesMachine(h), h.Spec.DisablePowerOff:
		return offDone
	case n.Busy || n.TargetPower != "", inTime && (n.State == node.Servicing || n.State == node.Cleaning):
		return offWait
	case inTime && (n.State == node.ServiceWait || n.State == node.ServiceHold || n.State == node.CleanWait || n.State == node.CleanHold):
		return offAbort
	case n.Power == node.PowerOff && n.LastError == "":
		return offDone
	case asked && n.LastError != "":
		return offFailed
	default:
		return offAsk
	}
}

func (p poweringOff) reconcile(ctx context.Context, s *scope) (result, error) {
	if pause := s.wait(v1alpha1.OperationPower, p.maxBackoff); pause > 0 {
		return stoppedFor(pause), nil
	}
	record := *s.operation(v1alpha1.OperationPower)
	s.working(v1alpha1.PoweringOffBeforeDeleteReason, "Powering the machine off before the host is deleted")
	var err error
	inTime := s.now.Sub(s.host.DeletionTimestamp.Time) < abortTimeout
	switch decideOff(s.host, s.node, record.Request == askOff && record.Accepted, inTime) {
	case offDone:
		return s.moveTo(v1alpha1.StateDeleting), nil
	case offWait:
		return stoppedFor(powerPoll), nil
	case offAbort:
		if err = p.engine.Abort(ctx, s.node.ID); err == nil {
			return stoppedFor(workPoll), nil
		}
		err = refused(v1alpha1.OperationPower, askAbort, s.node.ID, err)
	case offAsk:
		// A hard power off: nothing that runs on the machine is needed any more.
		if err = p.engine.SetPower(ctx, s.node.ID, provisioner.PowerChange{Action: provisioner.PowerActionOff}); err == nil {
			s.asked(v1alpha1.OperationPower, askOff, *s.node)
			return stoppedFor(powerPoll), nil
		}
		err = refused(v1alpha1.OperationPower, "power off", s.node.ID, err)
	default:
		err = &failure{v1alpha1.OperationPower, fmt.Errorf("power off node %s: %s", s.node.ID, node.CutText(s.node.LastError))}
	}
	return stopped(), err
}
