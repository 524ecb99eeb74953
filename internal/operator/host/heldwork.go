package host

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// workOf are the operations of the states in which the engine works on the machine and powers it as
// the work requires. A hold waits for the end of that work. Work that failed is not tried again
// while the host is held off: nobody knows when another attempt would end, so the machine is
// powered off instead.
var workOf = map[v1alpha1.ProvisioningState]v1alpha1.OperationName{
	v1alpha1.StateInspecting:     v1alpha1.OperationInspect,
	v1alpha1.StateMatchProfile:   v1alpha1.OperationPrepare,
	v1alpha1.StatePreparing:      v1alpha1.OperationPrepare,
	v1alpha1.StateProvisioning:   v1alpha1.OperationProvision,
	v1alpha1.StateDeprovisioning: v1alpha1.OperationDeprovision,
}

// failsAtWork reports whether the work of a host has failed and is to be tried again. The record of
// a hold, or a failure to power off, exists in these states only after such a failure. When the
// engine has got the next try, the status still shows the error of the try before, and the end of
// the new one has yet to be recorded.
func failsAtWork(h *v1alpha1.BareMetalHost, n *provisioner.Node) bool {
	operation, works := workOf[h.Status.Provisioning.State]
	record := h.Status.Operation
	triedAgain := record.Name == operation && n != nil && arrived(record, *n)
	switch {
	case !works, isLeaving(h):
		return false
	case h.Status.ErrorType == errorOf[operation] && !triedAgain, h.Status.ErrorType == v1alpha1.ErrorPowerManagement, hasFailed(record, operation):
		return true
	default:
		return len(h.Status.PowerOffHolds) > 0
	}
}

// hasFailed reports whether a record is that of an operation which failed and was not requested
// again.
func hasFailed(record v1alpha1.OperationStatus, operation v1alpha1.OperationName) bool {
	return record.Name == operation && record.Failures > 0 && record.Request == ""
}

// failedNodes are the states in which a node is after its work failed, and in which its machine can
// be powered off.
var failedNodes = map[node.State]bool{
	node.Manageable: true, node.Available: true, node.Active: true, node.InspectFailed: true, node.CleanFailed: true,
	node.AdoptFailed: true, node.DeployFailed: true, node.ErrorState: true,
}

// heldWork keeps failed work from being tried again while the host is held off. It also keeps work
// from powering the machine on while a stored record says that the machine is off.
type heldWork struct {
	live       client.Reader
	maxBackoff time.Duration
}

// waits reports whether the pass ends here, with res and err.
func (p heldWork) waits(ctx context.Context, s *scope) (waits bool, res result, err error) {
	if !s.host.HasBMC() || !failsAtWork(s.host, s.node) || s.node == nil || atWork(*s.node) {
		return false, result{}, nil
	}
	operation := workOf[s.state()]
	switch {
	case s.host.IsHeldOff():
		requests, _ := powerRequestsOf(s.host)
		s.waiting("What failed is tried again when the host is not kept powered off any more by %s", requests.holders())
		return true, stoppedFor(idlePoll), nil
	case len(s.before.Status.PowerOffHolds) > 0:
		s.host.Status.PowerOffHolds = nil
		return true, stoppedFor(soon), nil
	case s.wait(operation, p.maxBackoff) > 0:
		return false, result{}, nil
	}
	showWork(s, operation) // the power is the engine's again
	read, err := readsLatest(ctx, p.live, s.before)
	return err != nil || !read, stoppedFor(soon), err
}

// holdsNext reports whether a pass found that the work of a held host failed, so that the next pass
// powers the machine off.
func holdsNext(s *scope, err error) bool {
	var failed *failure
	return errors.As(err, &failed) && failed.operation == workOf[s.state()] && s.host.IsHeldOff() && !isLeaving(s.host)
}

// showWork shows again that work has failed, if a failure to power the machine off has hidden it.
func showWork(s *scope, operation v1alpha1.OperationName) {
	if status := &s.host.Status; status.ErrorType == v1alpha1.ErrorPowerManagement {
		status.ErrorType = errorOf[operation]
		status.ErrorMessage = "What failed before the machine was to be powered off is tried again when nothing keeps it off any more"
	}
}

// keepFailure replaces the record of a power operation by one of the work that failed before. That
// record has a pause, during which hosts that wait for a slot do not queue behind this one.
func keepFailure(s *scope, operation v1alpha1.OperationName) {
	now := metav1.NewTime(s.now)
	s.host.Status.Operation = v1alpha1.OperationStatus{
		Name: operation, Failures: max(s.host.Status.ErrorCount, 1), FailedAt: &now,
		Generation: s.host.Generation, Inputs: s.inputs(operation), QueuedAt: s.host.Status.Operation.QueuedAt, RAID: s.host.Status.Operation.RAID,
	}
}

// keepsWork reports whether the host has a record that a registration must not replace: the record
// of a request, or of work that failed.
func keepsWork(s *scope) bool {
	record := &s.host.Status.Operation
	operation, works := workOf[s.state()]
	if works && record.Name == v1alpha1.OperationPower {
		keepFailure(s, operation) // the machine is powered off because that failed
	}
	return record.Name != v1alpha1.OperationRegister && (record.Request != "" || hasFailed(*record, operation))
}

// showFailed shows again that work has failed, after an error of the registration has hidden that.
func showFailed(s *scope) {
	if record := s.host.Status.Operation; hasFailed(record, workOf[s.state()]) {
		s.show(&failure{record.Name, errors.New(withReason("What failed is tried again after a wait", s.node.LastError))}, record.Failures)
	}
}

// hiddenFailures remembers, for each host, a failure of the registration that is only shown,
// because the record of the operation is that of other work. A process that does not remember it
// tries to register once before it waits.
type hiddenFailures struct{ memo[v1alpha1.OperationStatus] }

// note stores what a pass knows of such a failure, and forgets it when the host does not show the
// failure any more.
func (f *hiddenFailures) note(s *scope) {
	if s.failedRegistration.Name == "" || s.host.Status.ErrorType != errorOf[s.failedRegistration.Name] {
		f.forget(s.host.UID)
		return
	}
	f.put(s.host.UID, s.failedRegistration)
}
