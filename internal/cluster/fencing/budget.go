package fencing

import (
	"slices"
	"time"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// ConfirmTimeout is how long a host may take until it is proven to be off, and how long its Node may
// take to be deleted after that. A cycle that takes longer gives its place in the budget back, and
// is shown as stuck.
const ConfirmTimeout = 10 * time.Minute

// age is how far a hold is from now. It was set in what is the future now if the clock has been set
// back since; that must not keep it for so long.
func (h *hold) age(now time.Time) time.Duration { return now.Sub(h.RequestedAt.Time).Abs() }

// isStuck reports whether a hold has not been confirmed in time, or not been removed in time after that.
func isStuck(h *v1alpha1.BareMetalHost, held *hold, now time.Time) bool {
	if ProvenOff(h, holdKey, h.Annotations[holdKey]) != nil {
		return held.age(now) >= ConfirmTimeout
	}
	return isOverdue(h, now)
}

// confirmedAt is when the hold of a host that is proven to be off was confirmed.
func confirmedAt(h *v1alpha1.BareMetalHost) time.Time {
	for _, record := range h.Status.PowerOffHolds {
		if record.Key == holdKey && record.ConfirmedAt != nil {
			return record.ConfirmedAt.Time
		}
	}
	return time.Time{}
}

// isOverdue reports whether a host that is proven to be off is so for too long.
func isOverdue(h *v1alpha1.BareMetalHost, now time.Time) bool {
	return now.Sub(confirmedAt(h)).Abs() >= ConfirmTimeout
}

// occupied are the names of the hosts that take the places of a cluster's budget, in their
// order.
func occupied(hosts []v1alpha1.BareMetalHost, cluster string, now time.Time) []string {
	var names []string
	for i := range hosts {
		held := holdOf(&hosts[i])
		if held != nil && held.Cluster == cluster && !isStuck(&hosts[i], held, now) {
			names = append(names, hosts[i].Name)
		}
	}
	slices.Sort(names)
	return names
}
