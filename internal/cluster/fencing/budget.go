package fencing

import (
	"slices"
	"time"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// ConfirmTimeout is how long a held host may take until it is proven to be off, and how long its
// Node may take after that to be deleted. A cycle that takes longer gives its place in the budget
// back, and is shown as stuck.
const ConfirmTimeout = 10 * time.Minute

// age returns the time between the request of the hold and now, in either direction. If the clock
// was set back after the request, the time of the request is in the future. The hold must not last
// until the clock has caught up.
func (h *hold) age(now time.Time) time.Duration { return now.Sub(h.RequestedAt.Time).Abs() }

// isStuck reports whether the host was not proven to be off in time after its hold was set, or
// whether the hold was not removed in time after that proof.
func isStuck(h *v1alpha1.BareMetalHost, held *hold, now time.Time) bool {
	if ProvenOff(h, holdKey, h.Annotations[holdKey]) != nil {
		return held.age(now) >= ConfirmTimeout
	}
	return isOverdue(h, now)
}

// confirmedAt returns when the host operator confirmed that the host is off for the hold, or the
// zero time if it has not.
func confirmedAt(h *v1alpha1.BareMetalHost) time.Time {
	for _, record := range h.Status.PowerOffHolds {
		if record.Key == holdKey && record.ConfirmedAt != nil {
			return record.ConfirmedAt.Time
		}
	}
	return time.Time{}
}

// isOverdue reports whether a host that is proven to be off has been so for ConfirmTimeout.
func isOverdue(h *v1alpha1.BareMetalHost, now time.Time) bool {
	return now.Sub(confirmedAt(h)).Abs() >= ConfirmTimeout
}

// occupied returns the names, sorted, of the hosts that take up places in the budget of a cluster.
// A stuck hold takes up none.
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
