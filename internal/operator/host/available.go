package host

import (
	"context"
	"fmt"
	"time"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// available keeps the host in step with its node while nobody uses it.
type available struct{}

// availableStep is what an available host has to do next.
type availableStep int

const (
	availableStay    availableStep = iota // nothing
	availableLeave                        // the machine runs what somebody else deployed
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
		why := withReason(fmt.Sprintf("Node %s went to state %q without being asked by this host", s.node.ID, s.node.State), s.node.LastError)
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

// untilSilent is when the host has to look whether its ramdisk is still alive.
// A ramdisk that comes back wakes the host.
func untilSilent(s *scope) time.Duration {
	if !s.agentAlive() {
		return 0
	}
	return s.node.Agent.LastHeartbeat.Add(s.agentWindow).Sub(s.now) + time.Second
}

// settled tells what can be told of hosts in states that this version does not
// steer: externally provisioned ones, and what other operators left behind.
type settled struct{}

func (settled) reconcile(_ context.Context, s *scope) (result, error) {
	switch s.state() {
	case v1alpha1.StateAvailable:
	case v1alpha1.StateExternallyProvisioned:
		if !s.host.Spec.ExternallyProvisioned {
			s.waiting("Leaving the state externally provisioned is not available in this version")
		}
		return result{requeueAfter: untilSilent(s)}, nil
	default:
		s.waiting("State %q is not steered by this version; the host is left as it is", s.state())
	}
	return result{}, nil
}
