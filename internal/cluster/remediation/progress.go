package remediation

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/internal/node"
)

// progressOf returns the condition to show while an action is due. It returns nil if the condition
// stays as it is, because something is done or nothing may be done.
func progressOf(s *scope, a action) *metav1.Condition {
	if progress := actions[a].progress; progress != nil {
		return progress(s)
	}
	return nil
}

// isLate reports whether the attempt has waited for the timeout.
func (s *scope) isLate() bool { return s.isOver(s.since()) }

func waitsForControlPlane(s *scope) *metav1.Condition {
	if s.lasting {
		return stuck(v1beta2.WaitingForControlPlaneReason, "The host is not powered off, because the control plane has no majority without it, even if all others are ready%s", because(s.why))
	}
	return goesOn(v1beta2.WaitingForControlPlaneReason, "The host is not powered off, because the control plane would lose its majority%s", because(s.why))
}

func waitsForPowerOff(s *scope) *metav1.Condition {
	if s.isLate() {
		return stuck(v1beta2.PowerOffNotConfirmedReason, "The host is not proven to be off after %s, so that its Node stays%s", s.timeout, because(s.why))
	}
	return goesOn(v1beta2.PoweringOffReason, "The host is held off, and is not proven to be off yet%s", because(s.why))
}

func waitsForPods(s *scope) *metav1.Condition {
	return goesOn(v1beta2.WaitingForPodsReason, "The host is off, and its Node is not free of pods and volumes%s", because(s.why))
}

func waitsForPowerOn(*scope) *metav1.Condition {
	return goesOn(v1beta2.PoweringOnReason, "The host may be powered on, and is not on yet")
}

func waitsForRequest(s *scope) *metav1.Condition {
	c := goesOn(v1beta2.WaitingForOtherRecoveryReason, "Somebody else has set %s on the Machine; remove it if that recovery does not go on", v1beta2.ExternalRemediationAnnotation)
	if s.isLate() {
		c.Status = metav1.ConditionFalse
	}
	return c
}

func waitsWhileSkipped(*scope) *metav1.Condition {
	return goesOn(v1beta2.RemediationSkippedReason, "The Machine has the annotation %s, so that nothing more is begun; remove it to go on, or delete the Metal3Remediation to end it",
		clusterv1.MachineSkipRemediationAnnotation)
}

// waitsForVerdict says whose time runs: that of the machine, or that of the health check.
func waitsForVerdict(s *scope) *metav1.Condition {
	if s.extended {
		return waitsForHealthCheck(s)
	}
	return waitsForHealth(s)
}

func waitsForHealth(s *scope) *metav1.Condition {
	return goesOn(v1beta2.WaitingForHealthReason, "The host was powered off and on, and the machine has %s to become healthy", s.timeout)
}

func waitsForHealthCheck(s *scope) *metav1.Condition {
	return goesOn(v1beta2.WaitingForHealthCheckReason, "The machine had its time to become healthy and its Node is Ready, and the health check has %s to see that", s.timeout)
}

// beforeRecovery are the reasons that recovery by annotation shows while it does not power a host
// off yet. Such a recovery is not late, because it waits for others or for its turn.
var beforeRecovery = map[string]bool{
	v1beta2.WaitingForHostReason: true, v1beta2.WaitingForControlPlaneReason: true, v1beta2.WaitingForBudgetReason: true,
}

// waitsForRecovery says how far recovery by annotation is.
func waitsForRecovery(s *scope) *metav1.Condition {
	if shown := recoveryOf(s.metal3Machine); shown != nil && !s.recovering && beforeRecovery[shown.Reason] {
		return goesOn(v1beta2.RecoveringReason, "The recovery that %s asks for has not begun (%s)%s", v1beta2.ExternalRemediationAnnotation, shown.Reason, because(shown.Message))
	}
	if s.isLate() {
		return stuck(v1beta2.RecoveryNotFinishedReason, "The recovery that %s asks for has not ended after %s; see the events and conditions of the Machine and its host",
			v1beta2.ExternalRemediationAnnotation, s.timeout)
	}
	return goesOn(v1beta2.RecoveringReason, "The Machine has the annotation %s; see the condition %s of its Metal3Machine", v1beta2.ExternalRemediationAnnotation, v1beta2.RemediatingCondition)
}

// recoveryOf returns the condition by which a Metal3Machine shows recovery by annotation, or nil. m
// may be nil.
func recoveryOf(m *v1beta2.Metal3Machine) *metav1.Condition {
	if m == nil {
		return nil
	}
	return meta.FindStatusCondition(m.Status.Conditions, v1beta2.RemediatingCondition)
}

// waitsForStart says how far a machine is that has no Node yet.
func waitsForStart(s *scope) *metav1.Condition {
	switch {
	case s.obstacle == noHost:
		return goesOn(v1beta2.WaitingForHostReason, "The Metal3Machine has no host yet; see its condition %s", v1beta2.AssociateBareMetalHostCondition)
	case s.undeployable:
		return stuck(v1beta2.HostErrorReason, "It is unknown whether the host, which has an error, was deployed. The machine may be running; it is replaced only once it is known to have no Node%s", because(s.why))
	case s.metal3Machine.Spec.ProviderID == "" && s.host.Status.ErrorType != "":
		return stuck(v1beta2.HostErrorReason, "The host is not deployed and has an error. If that does not end, the owner of the machine has to replace it after %s%s", s.timeout, because(s.host.Status.ErrorMessage))
	case s.metal3Machine.Spec.ProviderID == "":
		return goesOn(v1beta2.WaitingForHostReason, "The host is being deployed")
	default:
		return goesOn(v1beta2.WaitingForHealthReason, "The host was deployed, and the machine has %s to become healthy", s.timeout)
	}
}

// waitsForNode says what is missing of the Node.
func waitsForNode(s *scope) *metav1.Condition {
	switch {
	case s.node == unknownNode && s.recorded && s.hold != noHold:
		return stuck(v1beta2.NodeUnknownReason, "It is not known whether the Node has the taint %s, and the host stays off until it is%s", outOfService.Key, because(s.why))
	case s.node == unknownNode && s.phase == v1beta2.RemediationWaiting && s.expired:
		return stuck(v1beta2.NodeUnknownReason, "The machine's time to become healthy is over. Nothing more is done until it is known whether it is healthy%s", because(s.why))
	case s.node == unknownNode:
		return stuck(v1beta2.NodeUnknownReason, "It is not known whether the machine has a Node%s", because(s.why))
	case s.leaving:
		return goesOn(v1beta2.WaitingForNodeDeletionReason, "The Node is not gone%s", because(s.why))
	default:
		return goesOn(v1beta2.WaitingForNodeReason, "The Node is not back yet; when it is, its labels and annotations are restored")
	}
}

// atTheEnd says how a remediation ended for which nothing is left to do.
func atTheEnd(s *scope) *metav1.Condition {
	switch {
	case s.paused:
		return nil
	case s.phase == v1beta2.RemediationDeletingMachine && shownReason(s.remediation) == v1beta2.MachineHandedOverReason:
		return nil // what the condition showed before says why
	case s.phase == v1beta2.RemediationDeletingMachine:
		return goesOn(v1beta2.MachineHandedOverReason, "%s, and its owner has to replace it", s.replacementReason())
	case s.phase == v1beta2.RemediationFailed && s.obstacle != "":
		return stuck(string(s.obstacle), "%s", explain(s.obstacle))
	default:
		return nil
	}
}

func stuck(reason, format string, args ...any) *metav1.Condition {
	return &metav1.Condition{Type: v1beta2.ProgressingCondition, Status: metav1.ConditionFalse, Reason: reason, Message: cut(fmt.Sprintf(format, args...))}
}

func goesOn(reason, format string, args ...any) *metav1.Condition {
	c := stuck(reason, format, args...)
	c.Status = metav1.ConditionTrue
	return c
}

// since returns when the wait of an attempt began: with its hold, with the hold of recovery by
// annotation, or else with the attempt.
func (s *scope) since() *metav1.Time {
	began := s.remediation.Status.LastRemediated
	if s.hold == currentHold {
		if held := holdOf(s.host.Annotations[holdKey(s.remediation)]); held != nil && held.RequestedAt != nil {
			return held.RequestedAt
		}
	}
	if s.recovering {
		if at := recoveryHeldAt(s.host); at != nil && began.Before(at) { // not left from an earlier recovery
			return at
		}
	}
	return began
}

// show writes the condition if it changed, or if its time has to begin anew; see setCondition.
// changed reports whether its reason or status differ from before, and not only its message.
func (r *Reconciler) show(ctx context.Context, s *scope, c *metav1.Condition) (changed bool, err error) {
	if c == nil {
		return false, nil
	}
	m := s.remediation
	before := meta.FindStatusCondition(m.Status.Conditions, c.Type)
	changed = before == nil || before.Reason != c.Reason || before.Status != c.Status
	if !changed && !s.isUnseen(s.blockedSince()) && before.Message == c.Message && before.ObservedGeneration == m.Generation {
		return false, nil
	}
	return changed, r.patchStatus(ctx, m, func() { s.setCondition(c) })
}

// setCondition sets the condition. Its time is that of its reason, and not only of its status,
// because a machine may be handed over when it has shown a reason for long. If no pass ran when that
// was over, the time begins anew.
func (s *scope) setCondition(c *metav1.Condition) {
	m := s.remediation
	if shownReason(m) != c.Reason || s.isUnseen(s.blockedSince()) {
		meta.RemoveStatusCondition(&m.Status.Conditions, c.Type)
	}
	c.ObservedGeneration, c.LastTransitionTime = m.Generation, metav1.NewTime(s.now)
	meta.SetStatusCondition(&m.Status.Conditions, *c)
}

// shownReason is the reason that the condition has, or "".
func shownReason(m *v1beta2.Metal3Remediation) string {
	if c := meta.FindStatusCondition(m.Status.Conditions, v1beta2.ProgressingCondition); c != nil {
		return c.Reason
	}
	return ""
}

// isStuck reports whether the condition shows that a remediation needs a person.
func isStuck(m *v1beta2.Metal3Remediation) bool {
	return meta.IsStatusConditionFalse(m.Status.Conditions, v1beta2.ProgressingCondition)
}

// maxNote is the longest message of a condition or an event, in bytes.
const maxNote = 1024

// cut shortens text to maxNote and makes it safe to show, because it may repeat what a workload
// cluster answered.
func cut(text string) string { return node.CutTextTo(text, maxNote) }

// publishProgress publishes an event for a condition that changed, if a person should act.
func (r *Reconciler) publishProgress(s *scope, a action, c *metav1.Condition) {
	if a != rest && c.Status == metav1.ConditionFalse { // the end has events of its own
		r.event(s, corev1.EventTypeWarning, c.Reason, c.Message)
	}
}
