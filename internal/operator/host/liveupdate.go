package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/requeue"
)

// liveUpdate gives a machine in use its BIOS settings and firmware, when its owner restarts it and
// a policy allows that. It decides before the power is steered. Steering the power then does the
// rest: it powers the machine off for the update, and on again afterwards.
type liveUpdate struct {
	work
	updater updater
	media   media
	// maxAttempts is how often the same update is tried; 0 is no limit.
	maxAttempts int
	metrics     *Metrics
}

// Results of live updates, as the metric counts them.
const (
	serviceSucceeded    = "succeeded"
	serviceUnsuccessful = "failed"
	serviceAborted      = "aborted"
)

// steering says how the power is steered after a step.
type steering struct {
	result
	// cycle is true when the machine has to be powered off once.
	cycle bool
	// later is true when a request for one power cycle is kept while the machine has to be off.
	later bool
}

// step takes the next step of a live update. If the result has stop, the power is left alone.
func (p liveUpdate) step(ctx context.Context, s *scope) (steering, error) {
	var err error
	if s.changes, err = p.updater.read(ctx, s.host); err != nil {
		return steering{result: stopped()}, err
	}
	if !s.host.HasBMC() {
		s.updatePending = withoutBMC(s.changes)
		return steering{}, nil
	}
	if id := s.host.Status.Updates.NodeID; id != "" && id != s.node.ID {
		return p.end(ctx, s, "the engine has lost node "+id+", and with it what became of the update")
	}
	permitted := s.changes.permitted()
	v, tooOld, err := p.view(ctx, s, permitted)
	if err != nil {
		return steering{result: stopped()}, err
	}
	next := decideService(v)
	s.updatePending = p.pending(s, v, permitted, next, tooOld)
	done, err := p.take(ctx, s, permitted, v, next)
	done.later = v.explicit && v.wanted // the update begins with it, and with nothing else
	return done, err
}

// view gathers what decides about the next step. tooOld is true when the engine does not support
// live updates.
func (p liveUpdate) view(ctx context.Context, s *scope, permitted changes) (v serviceView, tooOld bool, err error) {
	requests, _ := powerRequestsOf(s.host)
	record := *s.operation(v1alpha1.OperationService)
	_, explicit := policyAnnotations(permitted)[v1alpha1.RequireAnnotationAnnotation]
	kept := !permitted.any(func(c change) bool { return !c.kept() })
	v = serviceView{
		node: *s.node, record: record, requests: requests, explicit: explicit,
		wanted: permitted.wanted() && !s.waitsToDetach, ready: permitted.ready(), kept: kept && !s.waitsToDetach,
		observed:  isObserved(s.changes) || record.NodeChangedAt != nil && requeue.Left(observeTimeout, record.NodeChangedAt.Time, s.now) == 0,
		waiting:   s.wait(v1alpha1.OperationService, p.maxBackoff) > 0 || p.outOfAttempts(s, record),
		inherited: inheritsFailure(s), noRamdisk: s.ramdiskMissing != "",
	}
	if v.wanted && s.node.State == node.Active && record.Request == "" {
		able, err := p.engine.CanService(ctx)
		if err != nil {
			return v, false, err
		}
		v.wanted, tooOld = able, !able
	}
	return v, tooOld, nil
}

// inheritsFailure reports whether the node shows a failed live update of Metal3's operator. That
// operator shows the failure in the status and keeps no record of it. The service of another client
// is nobody's failure here.
func inheritsFailure(s *scope) bool {
	record := s.host.Status.Updates.Service
	return s.node.State == node.ServiceFailed && s.before.Status.ErrorType == v1alpha1.ErrorServicing && record.Request == "" && record.Failures == 0
}

// inheritFailure records that failure as one of this operator, so that a pause follows before the
// machine is restarted for the next attempt.
func inheritFailure(s *scope) {
	record, now := s.operation(v1alpha1.OperationService), metav1.NewTime(s.now)
	record.Failures, record.FailedAt = max(s.host.Status.ErrorCount, 1), &now
	record.Generation, record.Inputs = s.host.Generation, s.inputs(v1alpha1.OperationService)
}

// outOfAttempts reports whether the same update has failed so often that it is not tried again.
func (p liveUpdate) outOfAttempts(s *scope, record v1alpha1.OperationStatus) bool {
	return p.maxAttempts > 0 && record.Failures >= p.maxAttempts && record.Request == "" && !s.hasOtherInputs(record)
}

// isObserved reports whether no object shows a difference in a version that was applied.
func isObserved(c changes) bool {
	o := c.objects
	return (o.settings == nil || !differs(o.settings.Status.Conditions, c.settings)) &&
		(o.components == nil || !differs(o.components.Status.Conditions, c.components))
}

// take carries out a step that decideService chose.
func (p liveUpdate) take(ctx context.Context, s *scope, permitted changes, v serviceView, next serviceStep) (steering, error) {
	stop := steering{result: stoppedFor(soon)}
	record := s.operation(v1alpha1.OperationService)
	switch next {
	case serviceNone:
		return steering{result: result{requeueAfter: s.wait(v1alpha1.OperationService, p.maxBackoff)}}, nil
	case serviceObserve:
		s.working(v1alpha1.ServicingReason, "The live update is complete; its outcome is being read")
		return steering{result: result{requeueAfter: observePoll}}, nil
	case serviceBlocked:
		s.waiting("%s", node.CutText(withReason("The node is in state \"service failed\", and a person or another client has to end that", cmp.Or(v.node.MaintenanceReason, v.node.LastError))))
		return steering{}, nil
	case serviceUnbootable:
		s.waiting("The restart waits for the ramdisk of the update: %s", s.ramdiskMissing)
		count(p.metrics.noRamdisk, s.host)
		return steering{result: stoppedFor(ramdiskWait)}, nil
	case serviceRestart:
		return p.restart(ctx, s, permitted)
	case serviceBegin:
		if ready, res, err := p.media.reconcile(ctx, s); err != nil || !ready {
			return steering{result: res}, err // the machine is on when the update ends
		}
		return p.begin(ctx, s, permitted)
	case serviceSend:
		return p.send(ctx, s, permitted)
	case serviceWait:
		return p.await(ctx, s, v)
	case serviceAbort:
		if v.inherited {
			inheritFailure(s)
		}
		return p.abort(ctx, s)
	case serviceDone:
		return p.complete(ctx, s)
	case serviceFailed:
		return stop, p.failed(ctx, s, errors.New(node.CutText(withReason(fmt.Sprintf("the live update failed, with the node in state %q", v.node.State), v.node.LastError))))
	case servicePause:
		record.Request, record.Accepted = "", false
		return stop, nil
	case serviceSeen:
		*record = v1alpha1.OperationStatus{}
		return stop, nil
	default: // serviceEnd
		return p.end(ctx, s, "it is not wanted any more: the specs or the policy have changed, or the host is held powered off or leaves")
	}
}

// await lets the engine work. It removes the annotation that began the update, because the engine
// shows that the update runs.
func (p liveUpdate) await(ctx context.Context, s *scope, v serviceView) (steering, error) {
	message := "Another client of the engine services the machine"
	if v.record.Request != "" {
		message = "The engine updates the machine"
		if s.node.Step != "" {
			message += "; step " + s.node.Step
		}
		delete(s.host.Annotations, v1alpha1.RebootAnnotation)
		record := s.operation(v1alpha1.OperationService)
		if record.Request != askAbort { // the abort may still have to be sent
			record.Accepted = true
		}
		seenAtWork(record, *s.node)
		if err := p.updater.begun(ctx, s); err != nil {
			return steering{result: stopped()}, err
		}
	}
	s.working(v1alpha1.ServicingReason, "%s", node.CutText(message))
	return steering{result: stoppedFor(workPoll)}, nil
}

// restart powers the machine off for another attempt, unless nothing is left to do.
func (p liveUpdate) restart(ctx context.Context, s *scope, permitted changes) (steering, error) {
	steps, err := p.updater.steps(ctx, s, permitted)
	if err != nil {
		return p.refused(ctx, s, err)
	}
	if len(steps) == 0 {
		return p.nothingLeft(ctx, s, permitted)
	}
	s.working(v1alpha1.ServicingReason, "The machine is powered off for the next attempt at its update")
	return steering{cycle: true}, nil
}

// begin plans an update and records its request. From here on the machine is about to be
// powered on, so that no record may say that it is held off.
func (p liveUpdate) begin(ctx context.Context, s *scope, permitted changes) (steering, error) {
	steps, err := p.updater.steps(ctx, s, permitted)
	if err != nil {
		return p.refused(ctx, s, err)
	}
	if len(steps) == 0 {
		return p.nothingLeft(ctx, s, permitted)
	}
	record := s.operation(v1alpha1.OperationService)
	if s.hasOtherInputs(*record) {
		record.Failures, record.FailedAt = 0, nil
	}
	p.updater.request(s, permitted)
	s.intends(v1alpha1.OperationService, askService, fingerprint(steps), *s.node)
	// The machine is off as requested, so a later failure is not one of the power.
	s.host.Status.Operation = v1alpha1.OperationStatus{}
	s.host.Status.PowerOffHolds = nil
	s.clearError()
	delete(s.host.Annotations, v1alpha1.RebootAnnotation)
	s.working(v1alpha1.ServicingReason, "The engine is asked to update the machine")
	s.note(eventServicingStarted, "Live update started: %s", permitted.names())
	return steering{result: stoppedFor(soon)}, nil
}

// send sends the recorded request.
func (p liveUpdate) send(ctx context.Context, s *scope, permitted changes) (steering, error) {
	stop := steering{result: stoppedFor(soon)}
	steps, err := p.updater.steps(ctx, s, permitted)
	if err == nil && len(steps) == 0 {
		return p.nothingLeft(ctx, s, permitted)
	}
	if err == nil {
		if read, err := readsLatest(ctx, p.media.live, s.before); err != nil || !read {
			return stop, err
		}
		err = p.service(ctx, s, steps)
	}
	if err != nil {
		return p.refused(ctx, s, err)
	}
	s.operation(v1alpha1.OperationService).Accepted = true
	s.working(v1alpha1.ServicingReason, "The engine updates the machine")
	return stop, nil
}

// service asks the engine to run the steps. If the engine has put the node into maintenance because
// work failed, that maintenance is ended first.
func (p liveUpdate) service(ctx context.Context, s *scope, steps []node.Step) error {
	if s.node.Maintenance {
		if err := p.engine.SetMaintenance(ctx, s.node.ID, ""); err != nil {
			return err
		}
	}
	return p.engine.Service(ctx, s.node.ID, steps)
}

// abort has the engine end what it does. A node whose service has failed becomes active. The
// request is recorded before it is sent, because a node that is active again would otherwise count
// as one whose update has succeeded.
func (p liveUpdate) abort(ctx context.Context, s *scope) (steering, error) {
	stop := steering{result: stoppedFor(workPoll)}
	s.working(v1alpha1.ServicingReason, "The engine ends the live update")
	record := s.operation(v1alpha1.OperationService)
	if record.Request != askAbort {
		record.Request, record.Accepted = askAbort, false
		stop.requeueAfter = soon
		return stop, nil
	}
	if s.node.State == node.ServiceFailed && s.node.Maintenance {
		if err := p.engine.SetMaintenance(ctx, s.node.ID, ""); err != nil {
			return stop, refused(v1alpha1.OperationService, "end the maintenance of", s.node.ID, err)
		}
	}
	if err := p.engine.Abort(ctx, s.node.ID); errors.Is(err, provisioner.ErrConflict) {
		return stop, nil // the engine has just gone on with the work; it is asked again
	} else if err != nil {
		return stop, refused(v1alpha1.OperationService, askAbort, s.node.ID, err)
	}
	record.Accepted = true
	stop.requeueAfter = soon
	return stop, nil
}

// complete records that an update has succeeded.
func (p liveUpdate) complete(ctx context.Context, s *scope) (steering, error) {
	at := changedAt(*s.node)
	if err := p.updater.applied(ctx, s); err != nil {
		return steering{result: stopped()}, err
	}
	s.host.Status.Updates.Service = v1alpha1.OperationStatus{
		Name: v1alpha1.OperationService, Request: askObserve, Accepted: true, NodeChangedAt: at,
	}
	delete(s.host.Annotations, v1alpha1.RebootAnnotation)
	s.clearError()
	s.note(eventServicingComplete, "The machine has got its BIOS settings and firmware")
	count(p.metrics.servicing, s.host, serviceSucceeded)
	return steering{result: stoppedFor(soon)}, nil
}

// nothingLeft records that the machine has what is asked for, without an update.
func (p liveUpdate) nothingLeft(ctx context.Context, s *scope, permitted changes) (steering, error) {
	p.updater.request(s, permitted)
	if err := p.updater.applied(ctx, s); err != nil {
		return steering{result: stopped()}, err
	}
	s.clearError()
	return steering{result: stoppedFor(soon)}, nil
}

// end forgets an update that does not run any more. why completes the text of the event.
func (p liveUpdate) end(ctx context.Context, s *scope, why string) (steering, error) {
	if err := p.updater.withdrawn(ctx, s); err != nil {
		return steering{result: stopped()}, err
	}
	s.clearError()
	s.note(eventServicingAborted, "The live update ended: %s", why)
	count(p.metrics.servicing, s.host, serviceAborted)
	return steering{result: stoppedFor(soon)}, nil
}

// refused handles a refusal of the engine. The machine is off for the update, and the next pass
// powers it on.
func (p liveUpdate) refused(ctx context.Context, s *scope, err error) (steering, error) {
	var failed *failure
	if err = refused(v1alpha1.OperationService, askService, s.node.ID, err); errors.As(err, &failed) {
		return steering{result: stoppedFor(soon)}, p.failed(ctx, s, failed.err)
	}
	return steering{result: stopped()}, err
}

// failed returns the failure of an update. What was requested stays recorded, and is tried again.
func (p liveUpdate) failed(ctx context.Context, s *scope, why error) error {
	if s.host.Status.Updates.Components.Requested != 0 {
		if err := p.updater.show(ctx, s, nil); err != nil {
			return err
		}
	}
	count(p.metrics.servicing, s.host, serviceUnsuccessful)
	return &failure{v1alpha1.OperationService, why}
}

// showFailure shows the last failure when the power is as the host asks: a failure stays until an
// update succeeds or is not wanted any more.
func (p liveUpdate) showFailure(s *scope) {
	status := &s.host.Status
	record := status.Updates.Service
	switch {
	case inheritsFailure(s): // a person keeps the engine from ending that
	case record.Failures == 0:
		s.clearError()
	case status.ErrorType != v1alpha1.ErrorServicing:
		status.ErrorType, status.ErrorCount = v1alpha1.ErrorServicing, record.Failures
		status.ErrorMessage = fmt.Sprintf("The live update failed %d times; the machine is in use without it", record.Failures)
	}
}

// leave moves a host out of use. The next state ends a live update that still runs. The object must
// not show the firmware of a failed update afterwards as if another operator had written it.
func (p liveUpdate) leave(ctx context.Context, s *scope, state v1alpha1.ProvisioningState) (result, error) {
	if updates := s.host.Status.Updates; updates.Service.Request != "" || updates.Components.Requested != 0 {
		var err error
		if s.changes, err = p.updater.read(ctx, s.host); err != nil {
			return stopped(), err
		}
		if _, err := p.end(ctx, s, "the deployment is removed"); err != nil {
			return stopped(), err
		}
	}
	return s.moveTo(state), nil
}
