package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// poweringOff powers the machine of a deleted host off, unless that is not possible or
// not allowed.
type poweringOff struct {
	engine     provisioner.PowerController
	maxBackoff time.Duration
	metrics    *Metrics
}

// offStep is what has to be done about the power of a deleted host next.
type offStep int

const (
	offDone   offStep = iota // the machine is off, or stays as it is
	offWait                  // it is being powered off
	offAsk                   // it has to be powered off
	offFailed                // the engine could not do it
)

// decideOff is pure. asked reports that the engine accepted the request.
func decideOff(h *v1alpha1.BareMetalHost, n *provisioner.Node, asked bool) offStep {
	switch {
	case n == nil, !h.HasBMC(), h.Spec.DisablePowerOff:
		return offDone
	case n.Busy || n.TargetPower != "":
		return offWait
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
		return result{requeueAfter: pause, stop: true}, nil
	}
	record := *s.operation(v1alpha1.OperationPower)
	s.working(v1alpha1.PoweringOffBeforeDeleteReason, "Powering the machine off before the host is deleted")
	var err error
	switch decideOff(s.host, s.node, record.Request == askOff && record.Accepted) {
	case offDone:
		return s.moveTo(v1alpha1.StateDeleting), nil
	case offWait:
		return result{requeueAfter: powerPoll, stop: true}, nil
	case offAsk:
		// Nothing that runs on the machine is needed any more.
		if err = p.engine.SetPower(ctx, s.node.ID, provisioner.PowerChange{Action: provisioner.PowerActionOff}); err == nil {
			s.asked(v1alpha1.OperationPower, askOff, *s.node)
			return result{requeueAfter: powerPoll, stop: true}, nil
		}
		err = refused(v1alpha1.OperationPower, "power off", s.node.ID, err)
	default:
		err = &failure{v1alpha1.OperationPower, fmt.Errorf("power off node %s: %s", s.node.ID, cut(s.node.LastError))}
	}
	var failed *failure
	if errors.As(err, &failed) && record.Failures+1 >= deleteAttempts {
		s.warn(eventPowerManagementError, "The host is deleted and its machine may still be on: %s", cut(err.Error()))
		count(p.metrics.poweredOn, s.host)
		return s.moveTo(v1alpha1.StateDeleting), nil
	}
	return result{stop: true}, err
}
