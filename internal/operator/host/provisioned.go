package host

import (
	"context"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/requeue"
)

// provisioned keeps a host in use, whether it was deployed or is externally provisioned. It has the
// engine adopt the machine if the engine has a new node for it.
type provisioned struct {
	work
	power power
	live  liveUpdate
}

// useStep is what a host in use has to do next.
type useStep int

const (
	useStay    useStep = iota // its power is steered
	useRemove                 // what is deployed has to be removed
	useRebuild                // the same, to be deployed anew
	useTake                   // an externally provisioned host becomes a provisioned one
)

// decideUse returns the next step of a host in use.
func decideUse(h *v1alpha1.BareMetalHost) useStep {
	externally := h.Status.Provisioning.State == v1alpha1.StateExternallyProvisioned
	switch {
	case externally && !h.Spec.ExternallyProvisioned:
		return useTake
	case !externally && !h.Spec.ExternallyProvisioned && deploymentChanged(h):
		return useRemove
	case !externally && rebuilds(h) && wantsDeployment(h):
		return useRebuild
	default:
		return useStay
	}
}

// rebuilds reports whether a person asks to deploy the host anew.
func rebuilds(h *v1alpha1.BareMetalHost) bool {
	_, there := h.Annotations[v1alpha1.RebuildAnnotation]
	return there
}

func (p provisioned) reconcile(ctx context.Context, s *scope) (result, error) {
	if isLeaving(s.host) {
		return p.end(ctx, s)
	}
	switch decideUse(s.host) {
	case useTake:
		effective := &s.host.Status.Provisioning
		effective.CustomDeploy = s.host.Spec.CustomDeploy.DeepCopy()
		if s.host.Spec.Image != nil {
			effective.Image = *s.host.Spec.Image.DeepCopy()
		}
		return s.moveTo(v1alpha1.StateProvisioned), nil
	case useRemove, useRebuild:
		if adopts, res, err := p.adoptUnknown(ctx, s); adopts {
			return res, err
		}
		if free, res, err := p.slots.take(ctx, s, v1alpha1.OperationDeprovision); !free {
			return res, err
		}
		return p.remove(ctx, s)
	}
	if !s.host.HasBMC() && s.state() == v1alpha1.StateExternallyProvisioned {
		return result{requeueAfter: untilSilent(s)}, nil // its node stays as it is
	}
	// The record of the operation is that of the power operation, unless the machine has to be
	// adopted.
	if adopt := adoption(s.state()); adopt[s.node.State].action != workDone {
		return p.adopt(ctx, s, adopt)
	}
	next, err := p.live.step(ctx, s)
	if err != nil || next.stop {
		return next.result, err
	}
	done, res, err := p.power.steerAs(ctx, s, next)
	if err != nil || !done {
		return res, err
	}
	s.host.Status.Operation = v1alpha1.OperationStatus{} // the power is as it should be
	p.live.showFailure(s)
	res.requeueAfter = requeue.Soonest(res.requeueAfter, next.requeueAfter)
	return res, nil
}

// remove begins to remove what is deployed. That also fulfils a request to deploy anew, even if
// another image is asked for at the same time.
func (p provisioned) remove(ctx context.Context, s *scope) (result, error) {
	res, err := p.live.leave(ctx, s, v1alpha1.StateDeprovisioning)
	if err == nil && rebuilds(s.before) && wantsDeployment(s.host) {
		s.note(eventRebuildStarted, "What is deployed is removed, and %s is deployed anew", deploymentName(s.host.Spec.Image, s.host.Spec.CustomDeploy))
	}
	return res, err
}

// adopt has the engine adopt a machine in use.
func (p provisioned) adopt(ctx context.Context, s *scope, steps workflow) (result, error) {
	_, res, err := p.advance(ctx, s, task{
		operation: v1alpha1.OperationAdopt, workflow: steps, reason: v1alpha1.RegisteringReason,
		message: "The engine takes over the machine, which is in use",
		failed:  "The engine did not take the machine over, and is asked again after a wait; the machine is not changed",
	})
	return res, err
}

// adoptUnknown has the engine adopt a machine before its deployment is removed. It does so when the
// engine has a new node for the machine, or shows the node as free because its database is older.
// The engine cannot remove a deployment that it does not know, and would leave the data of a free
// node. A free node does not mean here that the deployment is removed already: nobody asks for that
// before the host is deprovisioning.
func (p provisioned) adoptUnknown(ctx context.Context, s *scope) (adopts bool, res result, err error) {
	if s.node == nil {
		return false, result{}, nil
	}
	if next, known := adoptFreeWorkflow[s.node.State]; !known || next.action == workDone {
		return false, result{}, nil
	}
	res, err = p.adopt(ctx, s, adoptFreeWorkflow)
	return true, res, err
}

// end begins to remove the deployment of a host that is being deleted.
func (p provisioned) end(ctx context.Context, s *scope) (result, error) {
	if adopts, res, err := p.adoptUnknown(ctx, s); adopts {
		return res, err
	}
	if free, res, err := p.slots.take(ctx, s, v1alpha1.OperationDeprovision); !free {
		return res, err
	}
	return s.moveTo(v1alpha1.StateDeprovisioning), nil
}
