// Package eligible says which hosts machines can be put on. Choosing a host for a machine and
// counting hosts for a set of machines ask the same functions, so that what is counted can be
// chosen. They are pure, and say nothing about labels that a selector asks for or about who
// consumes a host.
package eligible

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// Why a host cannot be used, as it is said of some after their number: "2 paused".
const (
	Deleted               = "being deleted"
	Paused                = "paused"
	Detached              = "detached"
	Unhealthy             = "marked as unhealthy"
	ExternallyProvisioned = "externally provisioned"
	Unreviewed            = "waiting for a review"
	Held                  = "held off by an annotation"
	Failed                = "with an error"
	NotAvailable          = "not available yet"
	Deployed              = "with an image of their own"
	NoAgent               = "without a BMC whose ramdisk does not answer"
)

// reason is a test that a host must not meet.
type reason struct {
	name string
	met  func(h *v1alpha1.BareMetalHost) bool
}

// withdrawn are the reasons that people give or take back, in the order in which they are named.
var withdrawn = []reason{
	{Deleted, func(h *v1alpha1.BareMetalHost) bool { return !h.DeletionTimestamp.IsZero() }},
	{Paused, (*v1alpha1.BareMetalHost).IsPaused},
	{Detached, func(h *v1alpha1.BareMetalHost) bool {
		return annotated(v1alpha1.DetachedAnnotation)(h) || h.Status.OperationalStatus == v1alpha1.OperationalStatusDetached
	}},
	{Unhealthy, func(h *v1alpha1.BareMetalHost) bool {
		return annotated(v1alpha1.UnhealthyAnnotation)(h) || annotated(v1beta2.LegacyUnhealthyAnnotation)(h)
	}},
	{ExternallyProvisioned, func(h *v1alpha1.BareMetalHost) bool {
		return h.Spec.ExternallyProvisioned || h.Status.Provisioning.State == v1alpha1.StateExternallyProvisioned
	}},
	{Unreviewed, func(h *v1alpha1.BareMetalHost) bool { _, there := h.Labels[v1alpha1.UnreviewedLabel]; return there }},
	// Recovery holds hosts in use, for minutes.
	{Held, func(h *v1alpha1.BareMetalHost) bool { return isAvailable(h) && h.IsHeldOff() }},
}

// passing are the reasons that end when the operator gets on with a host or somebody helps it.
var passing = []reason{
	{Failed, func(h *v1alpha1.BareMetalHost) bool {
		return h.Status.ErrorMessage != "" || h.Status.ErrorType != v1alpha1.ErrorNone || h.Status.OperationalStatus == v1alpha1.OperationalStatusError
	}},
	{NotAvailable, func(h *v1alpha1.BareMetalHost) bool { return !isAvailable(h) }},
	{Deployed, func(h *v1alpha1.BareMetalHost) bool {
		return h.Spec.Image != nil && h.Spec.Image.URL != "" || h.Spec.CustomDeploy != nil && h.Spec.CustomDeploy.Method != ""
	}},
	{NoAgent, func(h *v1alpha1.BareMetalHost) bool { return !h.HasBMC() && !hasAgent(h) }},
	// A host operator that keeps no such condition is believed by the state.
	{NotAvailable, func(h *v1alpha1.BareMetalHost) bool {
		return meta.IsStatusConditionFalse(h.Status.Conditions, v1alpha1.AvailableForProvisioningCondition)
	}},
}

// Unusable returns why a host cannot be given to a machine now, or nothing when it can. Whether
// another consumer has the host or it is reserved is another question.
func Unusable(h *v1alpha1.BareMetalHost) string {
	if because := Withdrawn(h); because != "" {
		return because
	}
	return first(passing, h)
}

// Withdrawn returns why a host cannot be given to a machine until a person does something, or
// nothing. A host without such a reason, such as one that is deprovisioned, can be expected to become
// usable.
func Withdrawn(h *v1alpha1.BareMetalHost) string { return first(withdrawn, h) }

// Is reports whether one of the reasons that Unusable returns holds for a host, whatever others there are.
func Is(because string, h *v1alpha1.BareMetalHost) bool {
	return slices.ContainsFunc(slices.Concat(withdrawn, passing), func(r reason) bool { return r.name == because && r.met(h) })
}

// Reasons are all that Unusable returns, in the order in which it looks for them.
func Reasons() []string {
	var names []string
	for _, r := range slices.Concat(withdrawn, passing) {
		if !slices.Contains(names, r.name) {
			names = append(names, r.name)
		}
	}
	return names
}

func first(reasons []reason, h *v1alpha1.BareMetalHost) string {
	for _, r := range reasons {
		if r.met(h) {
			return r.name
		}
	}
	return ""
}

func isAvailable(h *v1alpha1.BareMetalHost) bool {
	return h.Status.Provisioning.State == v1alpha1.StateAvailable || h.Status.Provisioning.State == v1alpha1.StateReady
}

// hasAgent reports whether the ramdisk of a host waits for work: without a BMC nobody but it can
// begin a deployment.
func hasAgent(h *v1alpha1.BareMetalHost) bool {
	return meta.IsStatusConditionTrue(h.Status.Conditions, v1alpha1.AvailableForProvisioningCondition)
}

func annotated(key string) func(*v1alpha1.BareMetalHost) bool {
	return func(h *v1alpha1.BareMetalHost) bool { _, there := h.Annotations[key]; return there }
}
