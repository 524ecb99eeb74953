package host

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
)

// summarize derives the summary from the outcome of the pass: the
// operational status, the power and the conditions.
func summarize(s *scope) {
	status := &s.host.Status
	status.OperationalStatus = operationalStatus(s)
	status.PoweredOn = poweredOn(s)
	status.PowerOffHolds = unrefuted(status.PowerOffHolds, s.node)
	switch {
	case !s.host.HasBMC():
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.IdentityVerifiedCondition)
	case s.identity != nil:
		s.set(*s.identity)
	}
	for _, c := range []metav1.Condition{
		manageable(s), deployed(s), ready(s), availableForProvisioning(s),
		progressing(s), healthy(s), powerManagement(s),
	} {
		s.set(c)
	}
	setUpdatePending(s)
	warnOfMisread(s)
}

func (s *scope) set(c metav1.Condition) {
	c.ObservedGeneration = s.host.Generation
	c.LastTransitionTime = metav1.NewTime(s.now)
	meta.SetStatusCondition(&s.host.Status.Conditions, c)
}

// poweredOn returns the power that was observed last. For a host without a BMC it says only whether
// a ramdisk or a deployed system runs.
func poweredOn(s *scope) bool {
	before := s.host.Status.PoweredOn
	switch {
	case s.node == nil:
		return before
	case !s.host.HasBMC():
		return s.agentAlive() || hasDeployment[s.state()]
	case s.node.Power == node.PowerOn:
		return true
	case s.node.Power == node.PowerOff:
		return false
	default:
		return before
	}
}

func operationalStatus(s *scope) v1alpha1.OperationalStatus {
	status := &s.host.Status
	switch {
	case s.detached, s.keptDetached():
		return v1alpha1.OperationalStatusDetached
	case status.ErrorType != v1alpha1.ErrorNone:
		return v1alpha1.OperationalStatusError
	case s.delayed:
		return v1alpha1.OperationalStatusDelayed
	}
	if servicing(s) {
		return v1alpha1.OperationalStatusServicing
	}
	switch status.Provisioning.State {
	case v1alpha1.StateNone, v1alpha1.StateUnmanaged, v1alpha1.StateImporting:
		if !s.host.HasBMC() {
			return v1alpha1.OperationalStatusDiscovered
		}
	}
	return v1alpha1.OperationalStatusOK
}

// servicing reports whether a live update runs, including one that another client started. A pass
// that did not read the node keeps the former answer.
func servicing(s *scope) bool {
	switch {
	case !hasDeployment[s.state()]:
		return false
	case isServiced(s.host):
		return true
	case s.node == nil:
		return s.before.Status.OperationalStatus == v1alpha1.OperationalStatusServicing
	default:
		return inService[s.node.State]
	}
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: node.CutText(message)}
}

func manageable(s *scope) metav1.Condition {
	const kind = v1alpha1.ManageableCondition
	switch {
	case s.engineError != "":
		return condition(kind, metav1.ConditionUnknown, s.engineReason, s.engineError)
	case s.host.Status.ErrorType == v1alpha1.ErrorRegistration:
		return condition(kind, metav1.ConditionFalse, v1alpha1.RegistrationFailedReason, s.host.Status.ErrorMessage)
	case s.host.Status.ErrorType == v1alpha1.ErrorPowerManagement:
		return condition(kind, metav1.ConditionFalse, v1alpha1.PowerFailureReason, s.host.Status.ErrorMessage)
	case s.state() == v1alpha1.StateRegistering:
		return condition(kind, metav1.ConditionFalse, v1alpha1.RegisteringReason, "The engine checks the access to the BMC")
	case s.host.Status.Provisioning.ID == "", s.nodeLost:
		return condition(kind, metav1.ConditionFalse, v1alpha1.NotManagedReason, "The engine has no node for this host")
	default:
		return condition(kind, metav1.ConditionTrue, v1alpha1.ManageableReason, "The engine knows this host as node "+s.host.Status.Provisioning.ID)
	}
}

// hasDeployment are the states of hosts that run a deployed system.
var hasDeployment = map[v1alpha1.ProvisioningState]bool{
	v1alpha1.StateProvisioned:           true,
	v1alpha1.StateExternallyProvisioned: true,
}

func deployed(s *scope) metav1.Condition {
	if s.state() == v1alpha1.StateProvisioning {
		return condition(v1alpha1.ProvisionedCondition, metav1.ConditionFalse, v1alpha1.ProvisioningReason, "The engine deploys")
	}
	if hasDeployment[s.state()] {
		return condition(v1alpha1.ProvisionedCondition, metav1.ConditionTrue, v1alpha1.ProvisionedReason, "The machine runs a deployed system")
	}
	return condition(v1alpha1.ProvisionedCondition, metav1.ConditionFalse, v1alpha1.NotProvisionedReason, "Nothing is deployed")
}

func ready(s *scope) metav1.Condition {
	switch {
	case s.host.Status.OperationalStatus == v1alpha1.OperationalStatusDetached:
		return condition(v1alpha1.ReadyCondition, metav1.ConditionFalse, v1alpha1.DetachedReason, "The host is detached from the engine")
	case s.host.Status.ErrorType != v1alpha1.ErrorNone:
		return condition(v1alpha1.ReadyCondition, metav1.ConditionFalse, v1alpha1.ErrorReason, s.host.Status.ErrorMessage)
	case s.host.Status.OperationalStatus == v1alpha1.OperationalStatusServicing:
		return condition(v1alpha1.ReadyCondition, metav1.ConditionFalse, v1alpha1.ServicingReason, "The machine is being updated")
	case isUnknown(s):
		return condition(v1alpha1.ReadyCondition, metav1.ConditionFalse, v1alpha1.NotManageableReason, "The engine cannot adopt the machine of this host")
	case hasDeployment[s.state()]:
		return condition(v1alpha1.ReadyCondition, metav1.ConditionTrue, v1alpha1.ProvisionedReason, "The machine runs a deployed system")
	default:
		return condition(v1alpha1.ReadyCondition, metav1.ConditionFalse, v1alpha1.NotProvisionedReason, "Nothing is deployed")
	}
}

// isUnknown reports whether the node of a host in use is in a state that the adoption workflow does
// not know, so that nothing adopts the machine. A pass that did not read the node keeps the former
// answer.
func isUnknown(s *scope) bool {
	switch {
	case !hasDeployment[s.state()], !s.host.HasBMC() && s.state() == v1alpha1.StateExternallyProvisioned:
		return false
	case s.node == nil:
		return conditionOf(s.before.Status.Conditions, v1alpha1.ReadyCondition).Reason == v1alpha1.NotManageableReason
	default:
		_, known := adoption(s.state())[s.node.State]
		return !known
	}
}

func availableForProvisioning(s *scope) metav1.Condition {
	const kind = v1alpha1.AvailableForProvisioningCondition
	switch {
	case s.host.Status.Provisioning.ID == "", s.host.Status.ErrorType == v1alpha1.ErrorRegistration:
		return condition(kind, metav1.ConditionFalse, v1alpha1.NotManageableReason, "The engine cannot work on this host")
	case s.state() == v1alpha1.StateInspecting:
		return condition(kind, metav1.ConditionFalse, v1alpha1.InspectingReason, "The engine reads the hardware")
	case s.state() != v1alpha1.StateAvailable:
		return condition(kind, metav1.ConditionFalse, v1alpha1.NotAvailableReason, "The host is in state "+string(s.state()))
	case s.node == nil && s.engineError != "":
		return condition(kind, metav1.ConditionUnknown, s.engineReason, s.engineError)
	case s.node == nil: // the engine was not read in this pass
		if last := conditionOf(s.before.Status.Conditions, kind); last.Type != "" {
			return last
		}
		return condition(kind, metav1.ConditionUnknown, v1alpha1.NotAvailableReason, "The node has not been read yet")
	case s.node.State != node.Available:
		return condition(kind, metav1.ConditionFalse, v1alpha1.NotAvailableReason, "The node is in state "+string(s.node.State))
	case s.node.Maintenance:
		return condition(kind, metav1.ConditionFalse, v1alpha1.NotAvailableReason, withReason("The node is in maintenance", node.CutText(s.node.MaintenanceReason)))
	case s.host.HasBMC():
		return condition(kind, metav1.ConditionTrue, v1alpha1.AvailableReason, "The host is free")
	case !s.agentAlive():
		return condition(kind, metav1.ConditionFalse, v1alpha1.AgentNotConnectedReason, silence(s.node.Agent.LastHeartbeat))
	default:
		return condition(kind, metav1.ConditionTrue, v1alpha1.AvailableReason, "The machine's ramdisk is waiting for work")
	}
}

// bootByHand says how a machine without a BMC gets into its ramdisk.
const bootByHand = "; boot the machine into the ramdisk, because without a BMC nobody else can"

// silence says since when a ramdisk has been silent. The text stays the same until the next
// heartbeat, so that the condition does not change meanwhile.
func silence(last time.Time) string {
	if last.IsZero() {
		return "The machine's ramdisk has sent no heartbeat" + bootByHand
	}
	return "The machine's ramdisk sent its last heartbeat at " + last.UTC().Format(time.RFC3339) + bootByHand +
		"; if it runs, compare the clocks of the engine and the operator"
}

func progressing(s *scope) metav1.Condition {
	p := s.progress
	switch {
	case s.engineError != "":
		p = &progress{reason: v1alpha1.NotProgressingReason, message: "The engine cannot be used: " + s.engineError}
	case s.node != nil && s.node.Suspended && isUnknown(s):
		p = &progress{reason: v1alpha1.NotProgressingReason, message: fmt.Sprintf("The machine is in use, and the engine has suspended work on it that would "+
			"remove or overwrite what runs there, as after it was started on an older database: give that up with `ingot suspension drop %s`", s.node.ID)}
	case s.node != nil && s.node.Suspended:
		p = &progress{reason: v1alpha1.NotProgressingReason, message: fmt.Sprintf("The engine has suspended its work on this machine: see `ingot suspension list`, "+
			"then let it go on with `ingot suspension resume %[1]s`, or give it up with `ingot suspension drop %[1]s`", s.node.ID)}
	case p == nil && s.node != nil && isMaintained(*s.node):
		p = &progress{reason: v1alpha1.NotProgressingReason, message: capitalized(maintenanceOf(*s.node))}
	case p == nil:
		p = &progress{reason: v1alpha1.NotProgressingReason, message: idleMessage(s.host)}
	}
	status := metav1.ConditionFalse
	if p.active {
		status = metav1.ConditionTrue
	}
	return condition(v1alpha1.ProgressingCondition, status, p.reason, p.message)
}

// idleMessage returns what a host shows that has nothing to do now. It explains why a request of a
// person has no effect, or what that request waits for.
func idleMessage(h *v1alpha1.BareMetalHost) string {
	value, inspect := h.Annotations[v1alpha1.InspectAnnotation]
	state := h.Status.Provisioning.State
	switch {
	case h.Spec.ExternallyProvisioned && state == v1alpha1.StateProvisioned:
		return "spec.externallyProvisioned has no effect on a host that was provisioned, nor has a change of its image meanwhile; set it to false"
	case !inspect || value != "":
		return "There is nothing to do"
	case h.Spec.InspectionMode == v1alpha1.InspectionModeDisabled:
		return "The annotation " + v1alpha1.InspectAnnotation + " has no effect, because spec.inspectionMode disables inspection"
	case hasDeployment[state]:
		return "The annotation " + v1alpha1.InspectAnnotation + " waits until the host is available: a machine in use is not inspected"
	default:
		return "The annotation " + v1alpha1.InspectAnnotation + " waits for the machine; boot it into its ramdisk"
	}
}

// healths maps the health that a BMC reports to the condition Healthy.
var healths = map[string]struct {
	status          metav1.ConditionStatus
	reason, message string
}{
	"OK":       {metav1.ConditionTrue, v1alpha1.HealthyReason, "The hardware reports no fault"},
	"Warning":  {metav1.ConditionFalse, v1alpha1.HealthWarningReason, "The hardware reports a fault that needs attention; the BMC's log has the details"},
	"Critical": {metav1.ConditionFalse, v1alpha1.HealthCriticalReason, "The hardware reports a critical fault; the BMC's log has the details"},
}

func healthy(s *scope) metav1.Condition {
	const kind = v1alpha1.HealthyCondition
	if !s.host.HasBMC() {
		return condition(kind, metav1.ConditionUnknown, v1alpha1.HealthUnknownReason, "The health of the hardware is unknown without a BMC")
	}
	if s.node == nil { // the engine was not read in this pass
		if last := conditionOf(s.before.Status.Conditions, kind); last.Type != "" {
			return last
		}
		return condition(kind, metav1.ConditionUnknown, v1alpha1.HealthUnknownReason, "The node has not been read yet")
	}
	if h, known := healths[s.node.Health]; known {
		return condition(kind, h.status, h.reason, h.message)
	}
	return condition(kind, metav1.ConditionUnknown, v1alpha1.HealthUnknownReason, "The engine does not tell the health of the hardware")
}

func powerManagement(s *scope) metav1.Condition {
	const kind = v1alpha1.PowerManagementSupportedCondition
	switch {
	case s.host.HasBMC() && !s.host.SupportsPowerControl():
		return condition(kind, metav1.ConditionFalse, v1alpha1.IdentityMismatchReason, "The BMC belongs to another machine")
	case s.host.HasBMC() && s.host.Spec.DisablePowerOff:
		return condition(kind, metav1.ConditionFalse, v1alpha1.PowerOffDisabledReason, "spec.disablePowerOff is set"+withoutEffect(s.ignoredHolds)+readAsSoft(s.host))
	case s.host.HasBMC():
		return condition(kind, metav1.ConditionTrue, v1alpha1.PowerSupportedReason, "The host has a BMC"+readAsSoft(s.host))
	case len(s.ignoredHolds) > 0:
		return condition(kind, metav1.ConditionFalse, v1alpha1.NoBMCReason, "The host has no BMC"+withoutEffect(s.ignoredHolds))
	default:
		return condition(kind, metav1.ConditionFalse, v1alpha1.NoBMCReason, "The host has no BMC, so its power cannot be controlled")
	}
}

// readAsSoft continues a sentence with the annotations whose values are not valid requests, if
// there are any.
func readAsSoft(h *v1alpha1.BareMetalHost) string {
	shown, _ := misread(h)
	if len(shown) == 0 {
		return ""
	}
	return "; these annotations have no valid value and count as soft: " + strings.Join(shown, ", ")
}

// withoutEffect continues a sentence with annotations that have no effect, if there are any.
func withoutEffect(annotations []string) string {
	if len(annotations) == 0 {
		return ""
	}
	text := "; these annotations have no effect: " + strings.Join(annotations[:min(len(annotations), namedHolds)], ", ")
	if more := len(annotations) - namedHolds; more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	return text
}
