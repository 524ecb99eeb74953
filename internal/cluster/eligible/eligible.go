// Package eligible says which hosts machines can be put on. Choosing a host for a machine and
// counting hosts for a set of machines use the same functions, so that a host that is counted can
// be chosen. The functions ignore the labels that a selector asks for and the consumer of a host.
package eligible

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// Reasons why a host cannot be used, worded to follow a number of hosts: "2 paused".
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

// reason is a test and its name. A host that meets the test cannot be used.
type reason struct {
	name string
	met  func(h *v1alpha1.BareMetalHost) bool
}

// withdrawn are the reasons that people give or take back, in the order in which Withdrawn checks
// them.
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
	// Only available hosts count: recovery holds hosts in use off, too, for minutes.
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
	// An operator that does not keep this condition is trusted to set the state to available only
	// when the host is.
	{NotAvailable, func(h *v1alpha1.BareMetalHost) bool {
		return meta.IsStatusConditionFalse(h.Status.Conditions, v1alpha1.AvailableForProvisioningCondition)
	}},
}

// Unusable returns why a host cannot be given to a machine now, or nothing when it can. It does not
// check whether another consumer has the host, or whether the host is reserved.
func Unusable(h *v1alpha1.BareMetalHost) string {
	if because := Withdrawn(h); because != "" {
		return because
	}
	return first(passing, h)
}

// Withdrawn returns why a host cannot be given to a machine until a person does something, or
// nothing. A host without such a reason, for example one that is being deprovisioned, can be
// expected to become usable.
func Withdrawn(h *v1alpha1.BareMetalHost) string { return first(withdrawn, h) }

// Is reports whether one of the reasons that Unusable returns holds for a host, whatever other
// reasons hold.
func Is(because string, h *v1alpha1.BareMetalHost) bool {
	return slices.ContainsFunc(slices.Concat(withdrawn, passing), func(r reason) bool { return r.name == because && r.met(h) })
}

// Reasons returns all reasons that Unusable can return, in the order in which it checks them.
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

// hasAgent reports whether the agent in the ramdisk of a host waits for work. Without a BMC, only
// the agent can begin a deployment.
func hasAgent(h *v1alpha1.BareMetalHost) bool {
	return meta.IsStatusConditionTrue(h.Status.Conditions, v1alpha1.AvailableForProvisioningCondition)
}

func annotated(key string) func(*v1alpha1.BareMetalHost) bool {
	return func(h *v1alpha1.BareMetalHost) bool { _, there := h.Annotations[key]; return there }
}
