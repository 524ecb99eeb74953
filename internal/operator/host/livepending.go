package host

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
)

// pending returns the condition UpdatePending of a host in use; nil leaves it as it is.
func (p liveUpdate) pending(s *scope, v serviceView, permitted changes, next serviceStep, tooOld bool) *updatePending {
	all := s.changes
	switch {
	case next == serviceObserve || next == serviceDone:
		return pendingUpdate(v1alpha1.UpdateRunningReason, "The update is applied; its outcome is being read")
	case runs(v, next):
		return pendingUpdate(v1alpha1.UpdateRunningReason, "%s is applied", capitalized(cmp.Or(permitted.names(), "an update that is not wanted any more")))
	case v.wanted && v.node.State == node.Active && isMaintained(v.node):
		return pendingUpdate(v1alpha1.UpdateNodeInMaintenanceReason, "%s cannot be applied: %s", capitalized(permitted.names()), maintenanceOf(v.node))
	case v.record.Failures > 0 && permitted.wanted(), next == serviceFailed:
		return failedUpdate(p.failureText(s, v, permitted))
	case all.problem() != "":
		return failedUpdate(all.problem())
	case all.unseen():
		return nil // somebody is about to look
	case !all.wanted():
		return nothingPending(all)
	case !permitted.wanted():
		return blockedByPolicy(s, all)
	case tooOld:
		return pendingUpdate(v1alpha1.UpdateEngineTooOldReason, "%s cannot be applied to a host in use by this engine, which is older than API version 1.87; upgrade it, or deprovision the host", capitalized(permitted.names()))
	case s.ramdiskMissing != "":
		return pendingUpdate(v1alpha1.UpdateWaitingForRamdiskReason, "%s waits for the ramdisk that the machine boots for it: %s", capitalized(permitted.names()), s.ramdiskMissing)
	case len(v.requests.holds) > 0:
		return blockedByHolds(permitted, v.requests.holders())
	default:
		return pendingUpdate(v1alpha1.UpdateWaitingForRebootReason, "%s is applied at the next restart: %s", capitalized(permitted.names()), howToRestart(v))
	}
}

// runs reports whether a live update of this host is under way, or begins.
func runs(v serviceView, next serviceStep) bool {
	switch next {
	case serviceRestart, serviceBegin, serviceSend:
		return true
	case serviceWait:
		return v.record.Request != ""
	case serviceAbort:
		return v.record.Failures == 0
	default:
		return false
	}
}

func howToRestart(v serviceView) string {
	const annotate = "set the annotation " + v1alpha1.RebootAnnotation
	switch {
	case v.requests.neverOff:
		return annotate + "; the engine restarts the machine, because spec.disablePowerOff is set"
	case v.explicit:
		return annotate + ", which the policy demands"
	case !v.requests.online:
		return "set spec.online"
	default:
		return annotate + ", or power the host off and on with spec.online"
	}
}

// failureText says how an update failed and what happens next.
func (p liveUpdate) failureText(s *scope, v serviceView, permitted changes) string {
	text := fmt.Sprintf("%s could not be applied", permitted.names())
	if p.outOfAttempts(s, v.record) {
		return fmt.Sprintf("%s in %d attempts, and is not tried again; change the specs, the policy or the host, or set the annotation %s", text, v.record.Failures, v1alpha1.RebootAnnotation)
	}
	return text + "; it is tried again after a wait, with another restart, unless the specs or the policy withdraw it"
}

// blockedByPolicy says which policy keeps a change from a host in use.
func blockedByPolicy(s *scope, all changes) *updatePending {
	name := s.host.Name
	var fields, unknown []string
	for _, part := range []struct {
		change change
		field  string
		value  func(v1alpha1.HostUpdatePolicySpec) v1alpha1.UpdatePolicy
	}{
		{all.settings, "firmwareSettings", func(p v1alpha1.HostUpdatePolicySpec) v1alpha1.UpdatePolicy { return p.FirmwareSettings }},
		{all.components, "firmwareUpdates", func(p v1alpha1.HostUpdatePolicySpec) v1alpha1.UpdatePolicy { return p.FirmwareUpdates }},
	} {
		if part.change.version() == 0 {
			continue
		}
		fields = append(fields, "spec."+part.field)
		if policy := all.objects.policy; policy != nil && !slices.Contains(knownPolicies, part.value(policy.Spec)) {
			unknown = append(unknown, fmt.Sprintf("spec.%s is %q", part.field, part.value(policy.Spec)))
		}
	}
	pending := pendingUpdate(v1alpha1.UpdateBlockedByPolicyReason,
		"%s waits until the host is prepared for its next use; to apply it at the next restart, set %s of HostUpdatePolicy %s to %s",
		capitalized(all.names()), strings.Join(fields, " and "), name, v1alpha1.UpdateOnReboot)
	if len(unknown) > 0 {
		pending.message += "; " + strings.Join(unknown, " and ") + ", which is unknown and counts as " + string(v1alpha1.UpdateOnPreparing)
		if s.lastMessage(v1alpha1.UpdatePendingCondition) != pending.message {
			s.warn(eventUnknownUpdatePolicy, "HostUpdatePolicy %s: %s, which counts as %s", name, node.CutText(strings.Join(unknown, " and ")), v1alpha1.UpdateOnPreparing)
		}
	}
	return pending
}

// knownPolicies are the policies that this version knows.
var knownPolicies = []v1alpha1.UpdatePolicy{"", v1alpha1.UpdateOnPreparing, v1alpha1.UpdateOnReboot}

// policyAnnotations are the annotations of the policy, if there is one.
func policyAnnotations(c changes) map[string]string {
	if c.objects.policy == nil {
		return nil
	}
	return c.objects.policy.Annotations
}

// differs reports whether conditions show a difference in the version of an object that was
// applied. A difference in another version says nothing about the one that was applied.
func differs(conditions []metav1.Condition, c change) bool {
	detected := conditionOf(conditions, v1alpha1.ChangeDetectedCondition)
	return c.record.Applied == c.generation && detected.Status == metav1.ConditionTrue
}
