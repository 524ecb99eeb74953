package host

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/requeue"
)

// errorOf maps an operation to the type that its failures have in the status.
var errorOf = map[v1alpha1.OperationName]v1alpha1.ErrorType{
	v1alpha1.OperationRegister:    v1alpha1.ErrorRegistration,
	v1alpha1.OperationImport:      v1alpha1.ErrorInspection,
	v1alpha1.OperationInspect:     v1alpha1.ErrorInspection,
	v1alpha1.OperationPrepare:     v1alpha1.ErrorPreparation,
	v1alpha1.OperationAdopt:       v1alpha1.ErrorProvisionedRegistration,
	v1alpha1.OperationProvision:   v1alpha1.ErrorProvisioning,
	v1alpha1.OperationDeprovision: v1alpha1.ErrorProvisioning,
	v1alpha1.OperationPower:       v1alpha1.ErrorPowerManagement,
	v1alpha1.OperationService:     v1alpha1.ErrorServicing,
	v1alpha1.OperationDetach:      v1alpha1.ErrorDetach,
	v1alpha1.OperationDelete:      v1alpha1.ErrorRegistration,
}

// failure is an error of an operation on the host. It is shown in the status
// and retried with growing pauses.
type failure struct {
	operation v1alpha1.OperationName
	err       error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// operation returns the record of an operation in this pass. It replaces the record of another
// operation, because an operation that follows another begins without failures. Two things stay:
// the place of the host in the queue, and the volumes of a request that has not succeeded, because
// the machine may have a part of them.
func (s *scope) operation(name v1alpha1.OperationName) *v1alpha1.OperationStatus {
	record := recordOf(&s.host.Status, name)
	if record.Name != name {
		*record = v1alpha1.OperationStatus{Name: name, QueuedAt: record.QueuedAt, RAID: record.RAID}
	}
	return record
}

// recordOf returns the place of the record of an operation. A live update has a record of its own,
// because the power is changed between its attempts.
func recordOf(status *v1alpha1.BareMetalHostStatus, name v1alpha1.OperationName) *v1alpha1.OperationStatus {
	if name == v1alpha1.OperationService {
		return &status.Updates.Service
	}
	return &status.Operation
}

// wait returns what is left of the pause before an operation that failed is tried again. A change
// of the spec, of an annotation, of the credentials or of what is deployed ends the pause.
func (s *scope) wait(name v1alpha1.OperationName, limit time.Duration) time.Duration {
	record := *recordOf(&s.before.Status, name)
	if name == v1alpha1.OperationRegister && record.Name != name && s.before.Status.ErrorType == errorOf[name] {
		record = s.failedRegistration
	}
	if record.Name != name || record.FailedAt == nil || record.Failures == 0 || record.Request != "" || s.hasOtherInputs(record) {
		return 0
	}
	return pauseOf(record, s.now, limit, s.host.UID)
}

// pauseOf returns what is left of the pause after the last failure of an operation.
func pauseOf(record v1alpha1.OperationStatus, now time.Time, limit time.Duration, host types.UID) time.Duration {
	if record.FailedAt == nil {
		return 0
	}
	return requeue.Left(requeue.Backoff(record.Failures, limit, string(host)), record.FailedAt.Time, now)
}

// fail records that an operation failed. If a registration fails while the engine is at work, or
// after that work has failed, the record of the work stays, so that nothing of the work is repeated
// or counted twice.
func (s *scope) fail(f *failure) {
	now := metav1.NewTime(s.now)
	if f.operation == v1alpha1.OperationRegister && keepsWork(s) {
		failures := 1
		if s.before.Status.ErrorType == errorOf[f.operation] {
			failures += s.before.Status.ErrorCount
		}
		s.failedRegistration = v1alpha1.OperationStatus{
			Name: f.operation, Failures: failures, FailedAt: &now,
			Generation: s.host.Generation, Inputs: s.inputs(f.operation),
		}
		s.show(f, failures)
		return
	}
	record := s.operation(f.operation)
	*record = v1alpha1.OperationStatus{
		Name: f.operation, Failures: record.Failures + 1, FailedAt: &now,
		Generation: s.host.Generation, Inputs: s.inputs(f.operation), QueuedAt: record.QueuedAt,
		RAID: record.RAID,
	}
	if s.node != nil {
		record.NodeChangedAt = changedAt(*s.node)
	}
	s.show(f, record.Failures)
}

// show writes a failure into the status, with the number of such failures in a row.
func (s *scope) show(f *failure, failures int) {
	status := &s.host.Status
	status.ErrorType = errorOf[f.operation]
	status.ErrorMessage = node.CutText(f.Error())
	status.ErrorCount = failures
}

// asked records a request that the engine accepted.
func (s *scope) asked(name v1alpha1.OperationName, request string, n provisioner.Node) {
	s.requested = true
	record := s.operation(name)
	record.Request, record.Accepted, record.NodeChangedAt = request, true, changedAt(n)
	record.Generation, record.Inputs = s.host.Generation, s.inputs(name)
}

// intends records a request before it is sent. Use it for requests that must not be sent twice when
// an answer is lost.
func (s *scope) intends(name v1alpha1.OperationName, request, plan string, n provisioner.Node) {
	record := s.operation(name)
	record.Request, record.Accepted, record.Plan, record.NodeChangedAt = request, false, plan, changedAt(n)
	record.Generation, record.Inputs = s.host.Generation, s.inputs(name)
}

// intended reports whether a request was recorded with the present inputs and has not reached
// the engine.
func (s *scope) intended(name v1alpha1.OperationName, request string) bool {
	record := s.operation(name)
	return record.Request == request && !s.hasOtherInputs(*record) && !arrived(*record, *s.node)
}

// isOutdated reports whether a request was made with another spec, other annotations or other
// credentials than there are now. Its failure says nothing about the present ones.
func (s *scope) isOutdated(record v1alpha1.OperationStatus) bool {
	return record.Request != "" && s.hasOtherInputs(record)
}

// hasOtherInputs reports whether the inputs of an operation have changed since its record.
func (s *scope) hasOtherInputs(record v1alpha1.OperationStatus) bool {
	if record.Generation != s.host.Generation {
		return true
	}
	// Earlier versions recorded the version of the Secret for every operation.
	return record.Inputs != s.inputs(record.Name) && record.Inputs != s.inputsWith(record.Name, s.credentialsVersion)
}

func changedAt(n provisioner.Node) *metav1.MicroTime {
	if n.StateChangedAt.IsZero() {
		return nil
	}
	at := metav1.NewMicroTime(n.StateChangedAt)
	return &at
}

// arrived reports whether the engine got the last request of an operation, even if its answer was
// lost: the engine is at work, or the state of the node has changed since. If the engine accepted
// the request and neither is the case, it was started on an older database.
func arrived(record v1alpha1.OperationStatus, n provisioner.Node) bool {
	switch {
	case record.Request == "":
		return false
	case atWork(n):
		return true
	case record.NodeChangedAt == nil:
		return !n.StateChangedAt.IsZero()
	default:
		return changedSince(record, n)
	}
}

// changedSince reports whether the state of a node has changed since a record that has it.
func changedSince(record v1alpha1.OperationStatus, n provisioner.Node) bool {
	// The record is cut to microseconds, and the clocks of some engines are finer.
	return record.NodeChangedAt != nil && n.StateChangedAt.Truncate(time.Microsecond).After(record.NodeChangedAt.Time)
}

// seenAtWork is for a node that the engine works on. If the node's state changed before the
// recorded time, it records that earlier time: the engine's clock was set back since the last
// request, and a time later than the recorded one would not come for long.
func seenAtWork(record *v1alpha1.OperationStatus, n provisioner.Node) {
	if at := changedAt(n); record.NodeChangedAt != nil && at != nil && at.Before(record.NodeChangedAt) {
		record.NodeChangedAt = at
	}
}

// inputs returns a fingerprint of what decides, besides the spec, whether an operation can succeed:
// annotations, the versions of Secrets, and the objects about firmware. Secrets do not count for a
// live update: a Secret also changes when it gets a label, and that must not restart an update that
// was given up. For an operation that restarts the machine, or for which BMCs are called, only the
// annotations in decisive count. A host that names no such Secrets and objects has the fingerprint
// that earlier versions recorded.
func (s *scope) inputs(name v1alpha1.OperationName) string {
	if name == v1alpha1.OperationService {
		return s.inputsWith(name, "")
	}
	return s.inputsWith(name, s.credentialsVersion)
}

func (s *scope) inputsWith(name v1alpha1.OperationName, credentials string) string {
	annotations := maps.Clone(s.before.Annotations)
	delete(annotations, v1alpha1.StatusAnnotation)
	if matters := decisive[name]; matters != nil {
		maps.DeleteFunc(annotations, func(key, _ string) bool { return !matters(key) })
	}
	if len(annotations) == 0 {
		annotations = nil // the same as none
	}
	values := []any{annotations, credentials}
	switch name {
	case v1alpha1.OperationPrepare, v1alpha1.OperationService:
		if mark := s.changes.fingerprint(); mark != "" {
			values = append(values, mark)
		}
	case v1alpha1.OperationProvision:
		if len(s.dataVersions) > 0 {
			values = append(values, s.dataVersions)
		}
	}
	return fingerprint(values...)
}

// decisive says which annotations count as inputs of an operation. For an operation that it lacks,
// all do.
var decisive = map[v1alpha1.OperationName]func(key string) bool{
	v1alpha1.OperationService:  isRebootAnnotation,
	v1alpha1.OperationRegister: func(key string) bool { return key == v1alpha1.AllowDuplicateAnnotation },
}

// fingerprint returns a short digest of values.
func fingerprint(values ...any) string {
	h := sha256.New()
	encoder := json.NewEncoder(h)
	for _, value := range values {
		_ = encoder.Encode(value)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// holdValue returns the value of an annotation as the record of a hold keeps it: the digest of a
// value that is longer than 256 bytes, and other values as they are.
func holdValue(value string) string {
	const longest = 256
	if len(value) <= longest {
		return value
	}
	digest := sha256.Sum256([]byte(value))
	return "sha256:" + hex.EncodeToString(digest[:])
}

// sortedKeys returns the keys of a map in ascending order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
