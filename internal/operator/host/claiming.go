package host

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// claiming marks the host as managed by this operator before anything else: the
// finalizer, and the label of hosts without power management. It
// ends the pass if it changed something, so that this is written first, and alone.
type claiming struct{}

func (claiming) reconcile(_ context.Context, s *scope) (result, error) {
	h := s.host
	if h.HasBMC() {
		delete(h.Labels, v1alpha1.PowerManagementLabel)
	}
	if !h.DeletionTimestamp.IsZero() {
		return result{}, nil
	}
	changed := controllerutil.AddFinalizer(h, v1alpha1.HostFinalizer)
	if !h.HasBMC() && h.Labels[v1alpha1.PowerManagementLabel] != v1alpha1.PowerManagementNone {
		if h.Labels == nil {
			h.Labels = map[string]string{}
		}
		h.Labels[v1alpha1.PowerManagementLabel] = v1alpha1.PowerManagementNone
		changed = true
	}
	if !changed {
		return result{}, nil
	}
	s.claimed = true
	return stoppedFor(soon), nil
}

// entering begins the registration of a host that has a BMC and no node.
type entering struct{}

func (entering) reconcile(_ context.Context, s *scope) (result, error) {
	begins := s.state() == v1alpha1.StateNone || s.state() == v1alpha1.StateUnmanaged
	if begins && s.host.HasBMC() && s.host.DeletionTimestamp.IsZero() {
		s.moveTo(v1alpha1.StateRegistering)
	}
	return result{}, nil
}
