package host

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// updatePending is the content of the condition UpdatePending. The zero value removes it.
type updatePending struct {
	pending         bool
	reason, message string
}

func pendingUpdate(reason, format string, args ...any) *updatePending {
	return &updatePending{pending: true, reason: reason, message: fmt.Sprintf(format, args...)}
}

func failedUpdate(problem string) *updatePending {
	return pendingUpdate(v1alpha1.UpdateFailedReason, "%s", capitalized(problem))
}

// blockedByHolds returns the condition of a host that is held off by the annotations in holds.
func blockedByHolds(c changes, holds string) *updatePending {
	return pendingUpdate(v1alpha1.UpdateBlockedByFencingReason, "%s waits until the host is not held powered off any more by %s", capitalized(c.names()), holds)
}

// nothingPending returns the condition of a host for which nothing is pending. It removes the
// condition from a host without objects that can ask for BIOS settings or firmware.
func nothingPending(c changes) *updatePending {
	if !c.exist() {
		return &updatePending{}
	}
	return &updatePending{reason: v1alpha1.UpToDateReason, message: "The machine was given the BIOS settings and firmware that were asked for"}
}

// preparingUpdate returns the condition of a host that is not in use, where changes are applied at
// once.
func preparingUpdate(h *v1alpha1.BareMetalHost, c changes) *updatePending {
	switch {
	case !h.HasBMC():
		return withoutBMC(c)
	case c.problem() != "":
		return failedUpdate(c.problem())
	case c.wanted() && h.Status.ErrorType == v1alpha1.ErrorPreparation:
		return failedUpdate("preparation with " + c.names() + " failed and is tried again: " + h.Status.ErrorMessage)
	case c.wanted():
		return pendingUpdate(v1alpha1.UpdateRunningReason, "%s is applied while the host is prepared", capitalized(c.names()))
	case c.unseen():
		return pendingUpdate(v1alpha1.UpdateNotComparedReason, "%s has not been compared with the machine yet", capitalized(c.unseenNames()))
	default:
		return nothingPending(c)
	}
}

// detachedUpdate returns the condition of a detached host, nil if it has had none so far.
func detachedUpdate(h *v1alpha1.BareMetalHost) *updatePending {
	before := meta.FindStatusCondition(h.Status.Conditions, v1alpha1.UpdatePendingCondition)
	if before == nil {
		return nil
	}
	return &updatePending{
		pending: before.Status == metav1.ConditionTrue, reason: v1alpha1.UpdateHostDetachedReason,
		message: "Nothing is compared with the machine or applied to it while the host is detached; remove the annotation " + v1alpha1.DetachedAnnotation + " first",
	}
}

// withoutBMC returns the condition of a host without a BMC, which cannot be given anything.
func withoutBMC(c changes) *updatePending {
	settings, components := c.objects.settings, c.objects.components
	asked := settings != nil && len(settings.Spec.Settings) > 0 || components != nil && len(components.Spec.Updates) > 0
	if !asked {
		return &updatePending{}
	}
	return &updatePending{
		reason:  v1alpha1.NoBMCReason,
		message: "A host without a BMC cannot be given BIOS settings or firmware; empty the specs of its HostFirmwareSettings and HostFirmwareComponents",
	}
}

// names lists the objects whose versions have to be applied, for a sentence.
func (c changes) names() string { return c.namesBy(change.version) }

// unseenNames lists the objects whose newest versions nobody has compared with the machine.
func (c changes) unseenNames() string {
	return c.namesBy(func(c change) int64 {
		if c.state != changeUnseen {
			return 0
		}
		return c.generation
	})
}

// namesBy lists the objects for which version is not 0, each with that version.
func (c changes) namesBy(version func(change) int64) string {
	var names []string
	for _, part := range c.both() {
		if v := version(part); v != 0 {
			names = append(names, fmt.Sprintf("generation %d of %s", v, part.kind))
		}
	}
	return strings.Join(names, " and ")
}

// setUpdatePending writes the condition that the pass has set.
func setUpdatePending(s *scope) {
	if s.updatePending == nil {
		return
	}
	if s.updatePending.reason == "" {
		meta.RemoveStatusCondition(&s.host.Status.Conditions, v1alpha1.UpdatePendingCondition)
		return
	}
	status := metav1.ConditionFalse
	if s.updatePending.pending {
		status = metav1.ConditionTrue
	}
	s.set(condition(v1alpha1.UpdatePendingCondition, status, s.updatePending.reason, s.updatePending.message))
}
