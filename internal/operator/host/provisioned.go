package host

import (
	"context"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// provisioned keeps a host in use: one that was deployed, or an externally provisioned
// one. The node is adopted when the engine has it anew.
type provisioned struct {
	work
	power    power
	capacity capacity
}

// useStep is what a host in use has to do next.
type useStep int

const (
	useStay   useStep = iota // its power is steered
	useRemove                // what is deployed has to be removed
	useTake                  // an externally provisioned host becomes a provisioned one
)

// decideUse is pure.
func decideUse(h *v1alpha1.BareMetalHost) useStep {
	externally := h.Status.Provisioning.State == v1alpha1.StateExternallyProvisioned
	switch {
	case externally && !h.Spec.ExternallyProvisioned:
		return useTake
	case !externally && !h.Spec.ExternallyProvisioned && isGone(h):
		return useRemove
	default:
		return useStay
	}
}

func (p provisioned) reconcile(ctx context.Context, s *scope) (result, error) {
	switch decideUse(s.host) {
	case useTake:
		effective := &s.host.Status.Provisioning
		effective.CustomDeploy = s.host.Spec.CustomDeploy.DeepCopy()
		if s.host.Spec.Image != nil {
			effective.Image = *s.host.Spec.Image.DeepCopy()
		}
		return s.moveTo(v1alpha1.StateProvisioned), nil
	case useRemove:
		if free, res, err := p.capacity.take(ctx, s, v1alpha1.OperationDeprovision); !free {
			return res, err
		}
		return s.moveTo(v1alpha1.StateDeprovisioning), nil
	}
	if !s.host.HasBMC() && s.state() == v1alpha1.StateExternallyProvisioned {
		return result{requeueAfter: untilSilent(s)}, nil // its node stays as it is
	}
	adopted, res, err := p.advance(ctx, s, task{
		operation: v1alpha1.OperationAdopt, workflow: adoptWorkflow, reason: v1alpha1.RegisteringReason,
		message: "The engine takes over the machine, which is in use",
		failed:  "The engine did not take the machine over, and is asked again after a wait; the machine is not changed",
	})
	if !adopted {
		return res, err
	}
	settled, res, err := p.power.steer(ctx, s)
	if err != nil || !settled {
		return res, err
	}
	s.clearError()
	return res, nil
}
