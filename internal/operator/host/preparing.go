package host

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

const (
	messagePreparing = "The engine makes the node available"
	messageFailed    = "Preparation failed and is tried again after a wait; change spec to try at once"
)

// preparing configures the hardware as the host asks, and makes its node available.
type preparing struct{ work }

// configuration is what has to be configured before the node becomes available.
type configuration struct {
	steps []node.Step
	raid  *v1alpha1.RAIDConfig
	// plan is the fingerprint of all that.
	plan string
}

// configurationOf is pure: what differs between what a host asks for and what its machine
// has been given.
func configurationOf(h *v1alpha1.BareMetalHost) configuration {
	if h.Spec.RAID == nil || equality.Semantic.DeepEqual(h.Spec.RAID, h.Status.Provisioning.RAID) {
		return configuration{}
	}
	c := configuration{steps: provisioner.RAIDSteps(h.Spec.RAID), raid: h.Spec.RAID}
	c.plan = fingerprint(c.steps, c.raid)
	return c
}

// configureStep is what has to be done about a configuration next.
type configureStep int

const (
	configureWork   configureStep = iota // the engine is at work, or has to be asked
	configureIntend                      // the request is recorded before it is sent
	configureAbort                       // the steps that run are not wanted any more
	configureDone                        // the steps have run
)

// decideConfiguration is pure.
func decideConfiguration(c configuration, n provisioner.Node, record v1alpha1.OperationStatus, waiting bool) configureStep {
	asked := record.Request == askClean
	switch {
	case asked && record.Plan != c.plan && n.State == node.CleanWait:
		return configureAbort
	case n.State != node.Manageable, waiting:
		return configureWork
	case !asked || record.Plan != c.plan:
		return configureIntend
	case arrived(record, n) && n.LastError == "":
		return configureDone
	default:
		return configureWork
	}
}

func (p preparing) reconcile(ctx context.Context, s *scope) (result, error) {
	if s.state() == v1alpha1.StateMatchProfile {
		return s.moveTo(v1alpha1.StatePreparing), nil
	}
	if !s.host.HasBMC() && unsupportedRAID(s.host.Spec.RAID) && s.node.State != node.Available {
		s.waiting(messageFailed)
		if pause := s.wait(v1alpha1.OperationPrepare, p.maxBackoff); pause > 0 {
			return result{requeueAfter: pause, stop: true}, nil
		}
		return result{stop: true}, &failure{v1alpha1.OperationPrepare, errors.New("RAID cannot be configured on a host without a BMC in this version; remove spec.raid")}
	}
	if c := configurationOf(s.host); s.host.HasBMC() && len(c.steps) > 0 {
		configured, res, err := p.configure(ctx, s, c)
		if !configured {
			return res, err
		}
	}
	complete, res, err := p.advance(ctx, s, task{
		operation: v1alpha1.OperationPrepare, workflow: prepareWorkflow, reason: v1alpha1.PreparingReason,
		message: messagePreparing, failed: messageFailed,
	})
	if !complete {
		return res, err
	}
	effective := &s.host.Status.Provisioning
	effective.RootDeviceHints = s.host.Spec.RootDeviceHints.DeepCopy()
	effective.BootMode = s.host.Spec.BootMode
	effective.RAID = s.host.Spec.RAID.DeepCopy()
	return s.moveTo(v1alpha1.StateAvailable), nil
}

// configure runs the steps of a configuration.
func (p preparing) configure(ctx context.Context, s *scope, c configuration) (configured bool, res result, err error) {
	record := s.operation(v1alpha1.OperationPrepare)
	switch decideConfiguration(c, *s.node, *record, s.wait(v1alpha1.OperationPrepare, p.maxBackoff) > 0) {
	case configureDone:
		s.host.Status.Provisioning.RAID = c.raid.DeepCopy()
		return true, result{}, nil
	case configureIntend:
		s.intends(v1alpha1.OperationPrepare, askClean, c.plan, *s.node)
		s.working(v1alpha1.PreparingReason, "The engine configures the hardware")
		return false, result{requeueAfter: soon, stop: true}, nil
	case configureAbort:
		if err := p.engine.Abort(ctx, s.node.ID); err != nil {
			return false, result{stop: true}, refused(v1alpha1.OperationPrepare, askAbort, s.node.ID, err)
		}
		s.asked(v1alpha1.OperationPrepare, askAbort, *s.node)
		return false, result{requeueAfter: workPoll, stop: true}, nil
	}
	return p.advance(ctx, s, task{
		operation: v1alpha1.OperationPrepare, workflow: configureWorkflow, reason: v1alpha1.PreparingReason,
		message: "The engine configures the hardware", failed: messageFailed,
		send: map[string]func(context.Context) error{askClean: func(ctx context.Context) error {
			if err := p.engine.SetTargetRAID(ctx, s.node.ID, c.raid); err != nil {
				return err
			}
			return p.engine.Clean(ctx, s.node.ID, c.steps, provisioner.StepOptions{})
		}},
	})
}

// unsupportedRAID reports whether there are volumes to create. Empty lists ask to
// delete volumes; Ingot creates none on hosts without a BMC.
func unsupportedRAID(raid *v1alpha1.RAIDConfig) bool {
	return raid != nil && len(raid.HardwareRAIDVolumes)+len(raid.SoftwareRAIDVolumes) > 0
}
