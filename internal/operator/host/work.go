package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

const (
	// workPoll is how often a host is reconciled while the engine works on its node. A change
	// that the shared cache sees triggers a reconciliation earlier, and after a request
	// the cache looks for one soon.
	workPoll = 10 * time.Second
	// idlePoll is how often the node is read while a person has to act. A change of the node
	// triggers a reconciliation at once.
	idlePoll = time.Minute
)

// Requests to the engine, by the names of their verbs.
const (
	askManage   = "manage"
	askInspect  = "inspect"
	askClean    = "clean"
	askProvide  = "provide"
	askAdopt    = "adopt"
	askDeploy   = "deploy"
	askUndeploy = "undeploy"
	askAbort    = "abort"
)

// action is what an operation does about a state of the node.
type action int

const (
	workBlocked action = iota // another client uses the node: a person has to act
	workDone                  // the operation is complete
	workWait                  // the engine is at work
	workAsk                   // the engine has to be asked for something
	workFailed                // the engine could not do it; asking is the way out
	workHold                  // a failure was shown; its wait is not over
)

// workStep is what an operation does in one state of the node: an action, and the request
// that goes with it.
type workStep struct {
	action  action
	request string
}

// workflow maps the states of a node to what an operation does there. A state that is missing means
// that another client uses the node.
type workflow map[node.State]workStep

// tolerance says which failures count, and what may be removed.
type tolerance struct {
	// waiting is true while a failure that was shown is not tried again yet.
	waiting bool
	// outdated is true when the last request was made with other inputs than there are now.
	outdated bool
	// leaving is true while the host is being deleted. Its deletion has to end even if its BMC
	// never answers again.
	leaving bool
	// rebuild is true while a person asks to remove the deployment, whatever it is.
	rebuild bool
}

// decideWork returns the next step of an operation with this workflow, and a message for the steps
// blocked and failed.
func decideWork(w workflow, n provisioner.Node, record v1alpha1.OperationStatus, t tolerance) (workStep, string) {
	next, known := w[n.State]
	switch {
	case known && next.action == workDone:
		return next, ""
	case isMaintained(n):
		return decideMaintenance(n, t), withReason("The node is in maintenance", n.MaintenanceReason)
	case !known:
		return workStep{action: workBlocked}, withReason(fmt.Sprintf("The node is in state %q: %s", n.State, userOf(w, n)), n.LastError)
	case isDeployedAgain(record, n) && !t.rebuild:
		return workStep{action: workBlocked}, messageDeployedAgain
	case next.action == workWait:
		return next, ""
	case t.waiting:
		return workStep{action: workHold}, ""
	case next.request != "" && (t.outdated || next.action == workFailed && record.Request == askAbort):
		return workStep{workAsk, next.request}, ""
	case next.action == workFailed && record.Request == next.request && record.Request != "" && !arrived(record, n):
		return workStep{workAsk, next.request}, "" // it was recorded and is still to be sent
	case next.action == workFailed && (record.Failures == 0 || record.Request != "" || next.request == ""):
		return next, withReason(fmt.Sprintf("The node is in state %q", n.State), n.LastError)
	case next.action == workFailed:
		return workStep{workAsk, next.request}, "" // the way out
	case n.LastError != "" && !node.IsAddressesTaken(n.LastError) && record.Request == next.request && arrived(record, n):
		return workStep{action: workFailed}, n.LastError // the node is back where the request found it
	default:
		return next, ""
	}
}

// userOf returns who may have brought the host's node into a state that the workflow does not know,
// and what to do about it.
func userOf(w workflow, n provisioner.Node) string {
	const unknownUse = "the machine is in use, and the engine does not know, as after it was started on an older database; have it adopted "
	_, expectsUse := w[node.Active]
	adopts := w[node.Manageable].request == askAdopt
	switch {
	case adopts && (n.State == node.Available || n.State == node.CleanFailed || n.State == node.InspectFailed):
		return unknownUse + "with `ingot node manage " + n.ID + "`"
	case adopts && (n.State == node.ErrorState || n.State == node.DeployFailed):
		return unknownUse + "under a new node: give the host the annotation " + v1alpha1.DetachedAnnotation + " with the value {\"force\": true}, " +
			"and remove it when the host is detached"
	case !expectsUse && (atWork(n) || adoptWorkflow[n.State].action == workDone):
		return "another client uses it, or it was deployed for this host, whose status was lost, for example because the cluster's database was restored; " +
			"to keep that, delete the host while it is detached, and create it with spec.externallyProvisioned"
	default:
		return "another client uses it"
	}
}

const messageDeployedAgain = "The machine was deployed again since this host asked to remove what ran there, as when the cluster's database was restored; " +
	"annotation " + v1alpha1.RebuildAnnotation + " removes it all the same"

// isDeployedAgain reports whether a node runs a deployment that is younger than the accepted
// request to remove one. Whoever wrote the status of the host did not know of that deployment.
func isDeployedAgain(record v1alpha1.OperationStatus, n provisioner.Node) bool {
	return record.Request == askUndeploy && record.Accepted && changedSince(record, n) && adoptWorkflow[n.State].action == workDone
}

// isRemovalLost reports whether a node shows its machine in use as before the accepted request
// to remove the deployment. That happens when the engine was started on an older database. What is
// then to be removed is still the same deployment.
func isRemovalLost(record v1alpha1.OperationStatus, n provisioner.Node) bool {
	at, use := changedAt(n), adoptWorkflow[n.State]
	return record.Request == askUndeploy && record.Accepted && record.NodeChangedAt != nil && at != nil && at.Before(record.NodeChangedAt) &&
		(use.action == workDone || use.action == workWait)
}

// decideMaintenance is decideWork for a node in maintenance that a request for other work does not
// end.
func decideMaintenance(n provisioner.Node, t tolerance) workStep {
	switch {
	case n.Fault != node.FaultPowerFailure || !t.leaving:
		return workStep{action: workBlocked}
	case t.waiting:
		return workStep{action: workHold}
	default:
		return workStep{action: workFailed}
	}
}

// ownFaults are the faults for which an engine puts a node into maintenance when requested work
// fails. A request for other work ends that maintenance. It does not end maintenance set by a
// person, nor that for a power failure, which the engine ends by itself.
var ownFaults = map[string]bool{"clean failure": true, "service failure": true, "rescue abort failure": true}

// isMaintained reports whether a node is in maintenance that a request for work does not end.
func isMaintained(n provisioner.Node) bool { return n.Maintenance && !ownFaults[n.Fault] }

// maintenanceOf says why such a node is in maintenance, and who ends it.
func maintenanceOf(n provisioner.Node) string {
	way := "`ingot node maintenance unset " + n.ID + "` ends that"
	if n.Fault == node.FaultPowerFailure {
		way = "the engine ends that when it can read the power of the machine again"
	}
	return withReason("the node is in maintenance, and "+way, n.MaintenanceReason)
}

func withReason(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}

// work moves nodes along the workflows of operations.
type work struct {
	engine     engine
	slots      capacity
	maxBackoff time.Duration
	metrics    *Metrics
}

// task is an operation on the node of a host.
type task struct {
	operation v1alpha1.OperationName
	workflow  workflow
	// reason and message are those of the condition Progressing while the task is under way. failed
	// is its message after a failure. advice, if not empty, is added to what the engine says about
	// a failure.
	reason, message, failed, advice string
	// recorded is a request that is sent after its record was written, "" for none. It must not be
	// repeated only because the operator ended in between.
	recorded string
	// send has the functions that send the task's own requests. Requests without a function here are
	// sent as every operation sends them.
	send map[string]func(ctx context.Context) error
}

// advance takes the next step of a task. done reports that the task is complete; otherwise the pass
// ends with the result.
func (w work) advance(ctx context.Context, s *scope, t task) (done bool, res result, err error) {
	if t.workflow[s.node.State].action == workDone {
		return true, result{}, nil // and the record of another operation stays
	}
	wait := s.wait(t.operation, w.maxBackoff)
	record := s.operation(t.operation)
	if isRemovalLost(*record, *s.node) {
		record.Accepted = false
	}
	_, rebuild := s.host.Annotations[v1alpha1.RebuildAnnotation]
	next, message := decideWork(t.workflow, *s.node, *record, tolerance{
		waiting: wait > 0, outdated: s.isOutdated(*record), leaving: isLeaving(s.host), rebuild: rebuild,
	})
	switch next.action {
	case workDone:
		return true, result{}, nil
	case workWait:
		s.working(t.reason, "%s", t.message)
		seenAtWork(record, *s.node)
		if record.Request != "" && !arrived(*record, *s.node) {
			record.Accepted = true // the engine has got it, although its times do not show that
		}
		return false, stoppedFor(workPoll), nil
	case workBlocked:
		s.waiting("%s", node.CutText(message))
		return false, stoppedFor(idlePoll), nil
	case workHold:
		s.waiting("%s", t.failed)
		return false, stoppedFor(wait), nil
	case workFailed:
		s.waiting("%s", t.failed)
		if t.advice != "" {
			message = strings.TrimSuffix(message, ".") + ". " + t.advice
		}
		return false, stopped(), &failure{t.operation, errors.New(node.CutText(message))}
	}
	if s.ramdiskMissing != "" && bootsRamdisk(s.host, next.request) {
		s.waiting("Waiting for the ramdisk: %s", s.ramdiskMissing)
		count(w.metrics.noRamdisk, s.host)
		return false, stoppedFor(ramdiskWait), nil
	}
	if free, res, err := w.slots.keep(ctx, s, t.operation); !free {
		return false, res, err
	}
	s.working(t.reason, "%s", t.message)
	if next.request == t.recorded && !s.intended(t.operation, next.request) {
		s.intends(t.operation, next.request, "", *s.node)
		return false, stoppedFor(soon), nil
	}
	if s.node.Maintenance {
		if err := w.engine.SetMaintenance(ctx, s.node.ID, ""); err != nil {
			return false, stopped(), refused(t.operation, "end the maintenance of", s.node.ID, err)
		}
	}
	if err := w.ask(ctx, s, t, next.request); err != nil {
		return false, stopped(), refused(t.operation, next.request, s.node.ID, err)
	}
	if s.requested = true; next.request != t.recorded {
		s.asked(t.operation, next.request, *s.node)
	}
	return false, stoppedFor(workPoll), nil
}

// ask sends a request.
func (w work) ask(ctx context.Context, s *scope, t task, request string) error {
	if send := t.send[request]; send != nil {
		return send(ctx)
	}
	id := s.node.ID
	switch request {
	case askManage:
		return w.engine.Manage(ctx, id)
	case askProvide:
		if err := w.matchCleaning(ctx, s); err != nil {
			return err
		}
		return w.engine.Provide(ctx, id, provisioner.ProvideOptions{SkipCleaning: skipsCleaning(s.host)})
	case askInspect:
		return w.engine.Inspect(ctx, id)
	case askAdopt:
		return w.engine.Adopt(ctx, id)
	case askUndeploy:
		if err := w.matchCleaning(ctx, s); err != nil {
			return err
		}
		if !s.host.HasBMC() && !skipsCleaning(s.host) && !s.node.Cleans {
			// What is on the disks is somebody's data, and the engine may be configured not to
			// clean. A node with a BMC has got this setting already.
			if err := w.engine.SetAutomatedCleaning(ctx, id, true); err != nil {
				return err
			}
		}
		return w.engine.Undeploy(ctx, id)
	case askAbort:
		return w.engine.Abort(ctx, id)
	default:
		return fmt.Errorf("operation %s does not know the request %q", t.operation, request)
	}
}

// matchCleaning turns automated cleaning of a node on or off as its host asks now, right before a
// request that may clean. The registration of a host with a BMC does that as well, but since then a
// person or an older database may have changed the node.
func (w work) matchCleaning(ctx context.Context, s *scope) error {
	wanted := !skipsCleaning(s.host)
	if s.node.SkipsCleaning != wanted {
		return nil
	}
	return w.engine.SetAutomatedCleaning(ctx, s.node.ID, wanted)
}

// matchWaiting is matchCleaning for a node that waits for its ramdisk: the engine decides only
// after that wait whether it cleans.
func (w work) matchWaiting(ctx context.Context, s *scope, operation v1alpha1.OperationName) error {
	if s.node.State != node.CleanWait {
		return nil
	}
	return refused(operation, "set automated cleaning of", s.node.ID, w.matchCleaning(ctx, s))
}

// skipsCleaning reports whether the disks of the host are left as they are.
func skipsCleaning(h *v1alpha1.BareMetalHost) bool {
	return h.Spec.AutomatedCleaningMode == v1alpha1.CleaningModeDisabled
}

// refused turns a refusal of the engine, or an input that a person has to correct, into a failure
// of the operation. It returns errors that say nothing about the request as they are.
func refused(operation v1alpha1.OperationName, request, id string, err error) error {
	if err == nil || isTemporary(err) || isUnread(err) || errors.Is(err, provisioner.ErrNotFound) {
		return err
	}
	return &failure{operation, fmt.Errorf("%s node %s: %w", request, id, err)}
}

// isTemporary reports whether an error says only that the engine cannot be asked now.
func isTemporary(err error) bool {
	return errors.Is(err, provisioner.ErrBusy) || errors.Is(err, provisioner.ErrUnreachable) || errors.Is(err, context.Canceled)
}
