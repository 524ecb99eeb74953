package subscription

import (
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// step is what to do next about a subscription.
type step int

const (
	stay        step = iota // the BMC has the subscription
	wait                    // nothing can be done before the host changes
	subscribe               // the BMC has to be asked for the subscription
	unsubscribe             // the BMC has to end the subscription
	release                 // the deleted object has left nothing on the BMC, or the BMC cannot be reached
)

// decide returns the next step for a subscription. The text says why nothing can be done. h is nil
// if there is no host.
func decide(s *v1alpha1.BMCEventSubscription, h *v1alpha1.BareMetalHost) (step, string) {
	deleted := !s.DeletionTimestamp.IsZero()
	switch {
	case deleted && s.Status.SubscriptionID == "" && s.Status.RequestedAt == nil:
		return release, ""
	case !deleted && s.Status.SubscriptionID != "":
		return stay, ""
	}
	unreachable, why := reach(s.Spec.HostName, h)
	switch {
	case unreachable == gone && deleted:
		return release, ""
	case unreachable != no:
		return wait, why
	case deleted:
		return unsubscribe, ""
	default:
		return subscribe, ""
	}
}

// obstacle says whether the BMC of a host can be asked.
type obstacle int

const (
	no    obstacle = iota // it can be asked
	later                 // it cannot be asked now
	gone                  // its subscriptions can no longer be ended through this host
)

func reach(name string, h *v1alpha1.BareMetalHost) (obstacle, string) {
	if h == nil {
		return gone, "There is no BareMetalHost " + name + " in this namespace; create it, or delete the subscription"
	}
	registered := h.Status.Provisioning.ID != "" && !unregistered[h.Status.Provisioning.State]
	switch {
	case h.IsPaused():
		return later, "Host " + name + " is paused"
	case h.Status.OperationalStatus == v1alpha1.OperationalStatusDetached:
		return gone, "Host " + name + " is detached, so that its BMC cannot be reached"
	case !h.HasBMC():
		return gone, "Host " + name + " has no BMC"
	case !h.DeletionTimestamp.IsZero() && !registered:
		return gone, "Host " + name + " is being deleted"
	case !registered:
		return later, "Host " + name + " is not registered with the engine yet"
	default:
		return no, ""
	}
}

// unregistered are the states in which the engine does not know whether it reaches the BMC.
var unregistered = map[v1alpha1.ProvisioningState]bool{
	v1alpha1.StateNone:        true,
	v1alpha1.StateUnmanaged:   true,
	v1alpha1.StateImporting:   true,
	v1alpha1.StateRegistering: true,
	v1alpha1.StateDeleting:    true,
}
