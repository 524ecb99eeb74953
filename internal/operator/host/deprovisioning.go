package host

import (
	"context"
	"errors"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// deprovisioning removes what is deployed, and cleans the machine as the host asks.
type deprovisioning struct {
	work
	nodes nodeView
}

func (p deprovisioning) reconcile(ctx context.Context, s *scope) (result, error) {
	if s.node == nil { // the engine has lost the node, and a host that is being deleted gets no other
		s.warn(eventDeletedWithoutCleaning, "The engine has lost the node of this host; its disks are not cleaned")
		return p.complete(s), nil
	}
	if err := p.matchWaiting(ctx, s, v1alpha1.OperationDeprovision); err != nil {
		return stopped(), err
	}
	if res, waits, err := p.awaitMachine(ctx, s); waits || err != nil {
		return res, err
	}
	if s.operation(v1alpha1.OperationDeprovision).Request == "" && s.host.Status.Operation.Failures == 0 {
		s.note(eventDeprovisioningStarted, "Removal of the deployment started")
	}
	steps := deprovisionWorkflow
	if begun := s.host.Status.OperationHistory.Deprovision.Start; s.now.Sub(begun.Time) > abortTimeout {
		steps = overdueWorkflow
	}
	if waitsForBoot(s) {
		steps = manualBootWorkflow(steps)
	}
	complete, res, err := p.advance(ctx, s, task{
		operation: v1alpha1.OperationDeprovision, workflow: steps, reason: v1alpha1.DeprovisioningReason,
		message: "The engine removes the deployment and cleans the machine",
		failed:  "Removal of the deployment failed and is tried again after a wait; change spec to try at once",
	})
	if !complete {
		return res, err
	}
	return p.complete(s), nil
}

func (deprovisioning) complete(s *scope) result {
	delete(s.host.Annotations, v1alpha1.ConfirmedOffAnnotation) // it was about this removal
	effective := &s.host.Status.Provisioning
	effective.Image, effective.CustomDeploy = v1alpha1.Image{}, nil
	if hasSoftwareVolumes(s.host.Spec.RAID) && !skipsCleaning(s.host) {
		showRAID(effective, nil) // the deployed system may have changed them, so they are made again
	}
	s.note(eventDeprovisioningComplete, "The deployment is removed")
	switch {
	case isLeaving(s.host):
		return s.moveTo(v1alpha1.StatePoweringOffBeforeDelete)
	case s.node != nil && s.node.State != node.Available:
		return s.moveTo(v1alpha1.StatePreparing) // until somebody boots its machine
	default:
		return s.moveTo(v1alpha1.StateAvailable)
	}
}

// awaitMachine handles a machine without a BMC, which only a person can boot. It also handles a
// machine that got its BMC during the wait. Engines know the ramdisk of a machine in use only after
// they were asked to remove the deployment. Then they wait for the ramdisk, and change nothing
// before it calls: the deployed system may still run.
func (p deprovisioning) awaitMachine(ctx context.Context, s *scope) (res result, waits bool, err error) {
	if s.host.HasBMC() && !isLeaving(s.host) && takesOver(s.host, *s.node) && s.node.State == node.CleanWait {
		res, err := p.interrupt(ctx, s)
		return res, true, err
	}
	if s.host.HasBMC() || s.agentAlive() {
		return result{}, false, nil
	}
	if _, abandoned := s.host.Annotations[v1alpha1.AbandonedAnnotation]; abandoned {
		res, err := p.deleteAbandoned(ctx, s)
		return res, true, err
	}
	if !atWork(*s.node) && !waitsForBoot(s) {
		return result{}, false, nil
	}
	record := s.operation(v1alpha1.OperationDeprovision)
	if record.Request == "" && record.Failures == 0 {
		// This removal has no record yet, so the confirmation that the machine is off was made
		// before it. The engine may have got the request although its answer was lost.
		delete(s.host.Annotations, v1alpha1.ConfirmedOffAnnotation)
		if deprovisionWorkflow[s.node.State].action == workWait {
			s.asked(v1alpha1.OperationDeprovision, askUndeploy, *s.node)
		}
	}
	if _, off := s.host.Annotations[v1alpha1.ConfirmedOffAnnotation]; off && skipsCleaning(s.host) {
		return p.complete(s), true, nil
	}
	if !atWork(*s.node) {
		return result{}, false, nil
	}
	message := silence(s.node.Agent.LastHeartbeat) + "; annotation " + v1alpha1.AbandonedAnnotation + " ends the wait for a machine that is gone"
	if skipsCleaning(s.host) && record.Request != "" {
		message += ", and " + v1alpha1.ConfirmedOffAnnotation + " that for one which somebody has made sure from now on to be off"
	}
	s.progress = &progress{active: true, reason: v1alpha1.WaitingForManualBootReason, message: message}
	return stoppedFor(idlePoll), true, nil
}

// waitsForBoot reports whether a node waits for a ramdisk that only a person can boot, or its
// engine has given up that wait. Such a wait has no limit.
func waitsForBoot(s *scope) bool {
	return !s.host.HasBMC() && !s.agentAlive() && (s.node.State == node.CleanWait || s.node.State == node.CleanFailed)
}

// interrupt ends the wait for a person, because the machine has got a BMC meanwhile and the engine
// can boot it. The node cannot get that BMC while the engine waits, nor while the host is being
// deleted.
func (p deprovisioning) interrupt(ctx context.Context, s *scope) (result, error) {
	s.working(v1alpha1.DeprovisioningReason, "The engine stops waiting for somebody to boot the machine, and boots it through its BMC")
	if err := p.engine.Abort(ctx, s.node.ID); err != nil {
		return stopped(), refused(v1alpha1.OperationDeprovision, askAbort, s.node.ID, err)
	}
	s.asked(v1alpha1.OperationDeprovision, askAbort, *s.node)
	return stoppedFor(workPoll), nil
}

// deleteAbandoned deletes the node of a machine that is gone. The host waits without a node.
func (p deprovisioning) deleteAbandoned(ctx context.Context, s *scope) (result, error) {
	err := p.engine.Delete(ctx, s.node.ID, s.node.Mark)
	if err != nil && !errors.Is(err, provisioner.ErrNotFound) {
		return stopped(), refused(v1alpha1.OperationDeprovision, "delete", s.node.ID, err)
	}
	p.nodes.Forget(s.node.ID)
	s.warn(eventAbandoned, "The machine is given up with data on its disks; node %s was deleted", s.node.ID)
	return forgetMachine(s), nil
}
