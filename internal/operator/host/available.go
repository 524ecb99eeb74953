package host

import (
	"context"
	"fmt"
	"time"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// available keeps an unused host in sync with its node.
type available struct{}

// availableStep is what an available host has to do next.
type availableStep int

const (
	availableStay    availableStep = iota // nothing
	availableLeave                        // the machine is externally provisioned
	availablePrepare                      // the node is not available any more
)

// decideAvailable is pure.
func decideAvailable(h *v1alpha1.BareMetalHost, n provisioner.Node) availableStep {
	switch {
	case h.Spec.ExternallyProvisioned:
		return availableLeave
	case n.State != node.Available:
		return availablePrepare
	default:
		return availableStay
	}
}

func (available) reconcile(_ context.Context, s *scope) (result, error) {
	switch s.state() {
	case v1alpha1.StateReady:
		return s.moveTo(v1alpha1.StateAvailable), nil
	case v1alpha1.StateAvailable:
	default:
		return result{}, nil
	}
	switch decideAvailable(s.host, *s.node) {
	case availableLeave:
		s.host.Status.Provisioning.RAID = nil
		s.host.Status.Provisioning.RootDeviceHints = nil
		s.host.Status.Provisioning.Image = v1alpha1.Image{}
		return s.moveTo(v1alpha1.StateExternallyProvisioned), nil
	case availablePrepare:
		why := withReason(fmt.Sprintf("Node %s changed to state %q without a request of this host", s.node.ID, s.node.State), s.node.LastError)
		s.warn(eventNodeLeftAvailable, "%s", cut(why))
		s.working(v1alpha1.PreparingReason, "%s", cut(why))
		return s.moveTo(v1alpha1.StatePreparing), nil
	}
	s.clearError()
	if s.host.Spec.Image != nil && s.host.Spec.Image.URL != "" || s.host.Spec.CustomDeploy != nil && s.host.Spec.CustomDeploy.Method != "" {
		s.waiting("Deployment is not available in this version; spec.image and spec.customDeploy have no effect")
	}
	return result{requeueAfter: untilSilent(s)}, nil
}

// untilSilent is the time until the ramdisk counts as gone unless it sends another
// heartbeat. A ramdisk that comes back triggers a reconciliation.
func untilSilent(s *scope) time.Duration {
	if !s.agentAlive() {
		return 0
	}
	return s.node.Agent.LastHeartbeat.Add(s.agentWindow).Sub(s.now) + time.Second
}

// unsupported reports hosts in states that this version does not handle: externally
// provisioned ones, and states that other operators have set.
type unsupported struct{}

func (unsupported) reconcile(_ context.Context, s *scope) (result, error) {
	switch s.state() {
	case v1alpha1.StateAvailable:
	case v1alpha1.StateExternallyProvisioned:
		if !s.host.Spec.ExternallyProvisioned {
			s.waiting("Leaving the state externally provisioned is not available in this version")
		}
		return result{requeueAfter: untilSilent(s)}, nil
	default:
		s.waiting("State %q is not supported by this version; the host is not changed", s.state())
	}
	return result{}, nil
}
