package host

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// claiming marks the host as the operator's before anything is done for it: the
// finalizer, and the label that tells hosts without power management apart. It
// ends the pass if it changed something, so that this is written first.
type claiming struct{}

func (claiming) reconcile(_ context.Context, s *scope) (result, error) {
	h := s.host
	if h.HasBMC() || !h.DeletionTimestamp.IsZero() {
		if h.HasBMC() {
			delete(h.Labels, v1alpha1.PowerManagementLabel)
		}
		return result{}, nil
	}
	changed := controllerutil.AddFinalizer(h, v1alpha1.HostFinalizer)
	if h.Labels[v1alpha1.PowerManagementLabel] != v1alpha1.PowerManagementNone {
		if h.Labels == nil {
			h.Labels = map[string]string{}
		}
		h.Labels[v1alpha1.PowerManagementLabel] = v1alpha1.PowerManagementNone
		changed = true
	}
	if !changed {
		return result{}, nil
	}
	s.working(v1alpha1.ImportingReason, "Looking for the engine's node of this host")
	return result{requeueAfter: soon, stop: true}, nil
}

// registration leaves hosts with a BMC alone, in whatever state they are.
type registration struct{}

func (registration) reconcile(_ context.Context, s *scope) (result, error) {
	if !s.host.HasBMC() {
		return result{}, nil
	}
	s.waiting(messageNoRegistration)
	if s.lastMessage(v1alpha1.ProgressingCondition) != messageNoRegistration {
		s.warn(eventRegistrationUnsupported, messageNoRegistration)
	}
	return result{stop: true}, nil
}

const messageNoRegistration = "Registration over a BMC is not available in this version; the host is left as it is"
