package host

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/requeue"
)

const (
	// soon is the wait before the next pass after a change of state.
	soon = requeue.Soon
	// blipWait is the wait after the first call without an answer. The engine may only have missed
	// that call, and then nothing announces its return.
	blipWait = 10 * time.Second
)

// result is the outcome of a phase.
type result struct {
	// requeueAfter is the longest wait before the next pass; 0 means that only
	// a change brings one.
	requeueAfter time.Duration
	// stop ends the pass.
	stop bool
}

// stopped ends the pass. Only a change or an error brings the next one.
func stopped() result { return result{stop: true} }

// stoppedFor ends the pass. The next one comes after the wait at the latest.
func stoppedFor(wait time.Duration) result { return result{requeueAfter: wait, stop: true} }

// scope is the state of one pass.
type scope struct {
	// host is changed by the phases; before is the host as it was read.
	host, before *v1alpha1.BareMetalHost
	// now is the time of the pass.
	now time.Time
	// agentWindow is how long after its last heartbeat a ramdisk is alive.
	agentWindow time.Duration
	// node is the engine's node, nil until the pass knows it. It is set by the guards registration
	// and linked, by lookup if the guard restoring has read it, by holding if nothing before has
	// read it, and by deleteNodeOf if it could not be deleted.
	node *provisioner.Node
	// credentials are those of the BMC, set by the guard of that name, and
	// credentialsVersion is the version of their Secret.
	credentials        *secretContents
	credentialsVersion string
	// dataVersions are the versions of the Secrets that a deployment uses, by their names, "0" for
	// one that does not exist. They are set by the guard of that name.
	dataVersions map[string]string
	// changes are those of BIOS settings and firmware, set by the handlers that apply them.
	changes changes
	// updatePending is the content of the condition UpdatePending. Passes that do not set it
	// leave the condition as it is.
	updatePending *updatePending
	// ramdiskMissing is why the ramdisk of the host cannot be booted yet, because its image or its
	// network configuration is missing; "" if it can. It is set by the guard registration.
	ramdiskMissing string
	// detached is true when the host is detached, waitsToDetach when it will be, and
	// delayed when it waits for a slot.
	detached, waitsToDetach, delayed bool
	// steered is true when the pass has steered the power of the machine.
	steered bool
	// hasSlot is true when the host got a slot in this pass.
	hasSlot bool
	// found is the node that the guard restoring has read. restored is true when the status of the
	// host came from the annotation of the stored host and the node that this names, if any, may be
	// the host's.
	found    *provisioner.Node
	restored bool
	// claimed is true when the pass only makes the host one of this operator.
	claimed bool
	// nodeLost is true when the engine has no node for a host that keeps its state.
	nodeLost bool
	// failedRegistration is the record of the last failed registration, if it must not replace the
	// record of other work.
	failedRegistration v1alpha1.OperationStatus
	// requested is true when the engine has accepted a request for work.
	requested bool
	// collected are the hardware details that are stored with the pass; nil for none.
	collected *v1alpha1.HardwareDetails
	// passed are the states that the host has left in this pass, in their order.
	passed []v1alpha1.ProvisioningState
	// progress, if set, is the content of the condition Progressing.
	progress *progress
	// unrestored is true while the status annotation cannot be checked. The status
	// that the pass writes then does not count as one, so that it is restored later.
	unrestored bool
	// engineError is why the engine could not be used, and engineReason the reason of
	// the conditions that say so.
	engineReason, engineError string
	// bmc is the BMC that spec.bmc.address names, once the node has it, as in status.goodBMC.
	bmc string
	// identity, if set, is the condition IdentityVerified that this pass found out.
	identity *metav1.Condition
	// ignoredHolds are reboot annotations that cannot be fulfilled.
	ignoredHolds []string
	// events are published when the pass is written.
	events []hostEvent
}

// progress is the reason and the message of the condition Progressing.
type progress struct {
	active          bool
	reason, message string
}

func newScope(host *v1alpha1.BareMetalHost, now time.Time, agentWindow time.Duration) *scope {
	return &scope{host: host, before: host.DeepCopy(), now: now, agentWindow: agentWindow}
}

// state is the host's provisioning state.
func (s *scope) state() v1alpha1.ProvisioningState { return s.host.Status.Provisioning.State }

// moveTo changes the state and ends the pass. It ends all that belongs to the old state: its
// errors, the record of its operation, and the records of holds, because the new state may power
// the machine on.
func (s *scope) moveTo(state v1alpha1.ProvisioningState) result {
	s.clearError()
	return s.moveKeepingError(state)
}

// moveKeepingError is moveTo for a new state that removes what the old one could not complete: the
// error stays, to show why.
func (s *scope) moveKeepingError(state v1alpha1.ProvisioningState) result {
	status := &s.host.Status
	s.passed = append(s.passed, status.Provisioning.State)
	s.end(status.Provisioning.State)
	status.Provisioning.State = state
	s.begin(state)
	status.Operation = v1alpha1.OperationStatus{}
	if state == v1alpha1.StatePreparing {
		status.Operation.Generation = s.host.Generation // see doubtVolumes
	}
	status.Updates.UncomparedSince = nil
	if !steersPower[state] {
		status.PowerOffHolds = nil
	}
	if state == v1alpha1.StateDeprovisioning {
		status.Updates = v1alpha1.UpdateStatus{Written: status.Updates.Written}
		s.updatePending = &updatePending{}
	}
	return stoppedFor(soon)
}

// steersPower are the states in which the operator steers the power of the machine.
var steersPower = map[v1alpha1.ProvisioningState]bool{
	v1alpha1.StateReady:                 true,
	v1alpha1.StateAvailable:             true,
	v1alpha1.StateProvisioned:           true,
	v1alpha1.StateExternallyProvisioned: true,
}

// history returns the entry of the operation history for a state, nil for none.
func (s *scope) history(state v1alpha1.ProvisioningState) *v1alpha1.OperationMetric {
	return historyOf(&s.host.Status, state)
}

func historyOf(status *v1alpha1.BareMetalHostStatus, state v1alpha1.ProvisioningState) *v1alpha1.OperationMetric {
	history := &status.OperationHistory
	switch state {
	case v1alpha1.StateRegistering:
		return &history.Register
	case v1alpha1.StateInspecting:
		return &history.Inspect
	case v1alpha1.StateProvisioning:
		return &history.Provision
	case v1alpha1.StateDeprovisioning:
		return &history.Deprovision
	default:
		return nil
	}
}

// fulfils are the annotations that are removed when the work of a state begins. They ask for what
// that work does anyway, because all of it restarts the machine, and what is deployed is what the
// spec asks for then. Or they say what does not hold any more, such as that the machine is off.
var fulfils = map[v1alpha1.ProvisioningState][]string{
	v1alpha1.StateInspecting:     {v1alpha1.RebootAnnotation, v1alpha1.InspectAnnotation},
	v1alpha1.StateProvisioning:   {v1alpha1.RebootAnnotation, v1alpha1.RebuildAnnotation, v1alpha1.ConfirmedOffAnnotation},
	v1alpha1.StateDeprovisioning: {v1alpha1.RebootAnnotation, v1alpha1.RebuildAnnotation, v1alpha1.ConfirmedOffAnnotation},
}

// fulfil removes the annotations that the work of a state fulfils.
func (s *scope) fulfil(state v1alpha1.ProvisioningState) {
	for _, key := range fulfils[state] {
		if key != v1alpha1.InspectAnnotation || s.host.Annotations[key] != v1alpha1.InspectDisabled {
			delete(s.host.Annotations, key)
		}
	}
}

// fulfilsFirst reports whether annotations have to be removed before the work of a state begins.
// Annotations are written after the status. If that second write failed, they are still there in
// the new state, and would ask for the same once more when its work is done.
func (s *scope) fulfilsFirst() bool {
	if record := s.host.Status.Operation; record.Request != "" || record.Failures > 0 {
		return false // they were removed then; those that are there now were added since
	}
	s.fulfil(s.state())
	return slices.ContainsFunc(fulfils[s.state()], func(key string) bool {
		_, stored := s.before.Annotations[key]
		_, kept := s.host.Annotations[key]
		return stored && !kept
	})
}

func (s *scope) begin(state v1alpha1.ProvisioningState) {
	s.fulfil(state)
	if entry := s.history(state); entry != nil {
		*entry = v1alpha1.OperationMetric{Start: metav1.NewTime(s.now)}
	}
}

func (s *scope) end(state v1alpha1.ProvisioningState) {
	if entry := s.history(state); entry != nil && entry.End.IsZero() && s.host.Status.ErrorType == v1alpha1.ErrorNone {
		entry.End = metav1.NewTime(s.now)
	}
}

// clearError records that the current operation works.
func (s *scope) clearError() {
	s.host.Status.ErrorType = v1alpha1.ErrorNone
	s.host.Status.ErrorMessage = ""
	s.host.Status.ErrorCount = 0
}

// working shows in the condition Progressing what is being done.
func (s *scope) working(reason, format string, args ...any) {
	s.progress = &progress{active: true, reason: reason, message: fmt.Sprintf(format, args...)}
}

// waiting shows in the condition Progressing what must happen before anything can be done.
func (s *scope) waiting(format string, args ...any) {
	s.progress = &progress{reason: v1alpha1.NotProgressingReason, message: fmt.Sprintf(format, args...)}
}

// agentAlive reports whether the machine's ramdisk can be given work.
func (s *scope) agentAlive() bool {
	return s.node != nil && s.node.Agent.Alive(s.now, s.agentWindow)
}

// lastMessage is the message of a condition before this pass.
func (s *scope) lastMessage(kind string) string {
	return conditionOf(s.before.Status.Conditions, kind).Message
}

func conditionOf(list []metav1.Condition, kind string) metav1.Condition {
	for _, c := range list {
		if c.Type == kind {
			return c
		}
	}
	return metav1.Condition{}
}

// keptDetached reports whether a detached host stays detached in this pass.
func (s *scope) keptDetached() bool {
	_, annotated := s.host.Annotations[v1alpha1.DetachedAnnotation]
	return annotated && s.before.Status.OperationalStatus == v1alpha1.OperationalStatusDetached
}
