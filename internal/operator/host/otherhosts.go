package host

import (
	"context"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/duplicate"
)

// otherHosts finds the host to which another one has to leave their machine. Admission refuses the
// second host of a machine, but not where both were stored at the same moment, or without
// webhooks.
type otherHosts struct {
	hosts  duplicate.Finder
	owners ownership
}

// check returns a conflictError that names a host with the same machine for certain, which is
// older or has its node already.
func (p otherHosts) check(ctx context.Context, h *v1alpha1.BareMetalHost) error {
	return p.checkWith(ctx, h, func(*v1alpha1.BareMetalHost) (bool, error) { return false, nil })
}

// checkWith is check that also asks whether a host which was discovered with the BMC of h is
// the same machine.
func (p otherHosts) checkWith(ctx context.Context, h *v1alpha1.BareMetalHost, isSame func(discovered *v1alpha1.BareMetalHost) (bool, error)) error {
	matches, err := p.hosts.Find(ctx, h)
	if err != nil {
		return err
	}
	for _, m := range matches {
		refused := m.Reason.Certain() && (older(m.Host, h) || p.owners.holds(m.Host))
		if m.Reason == duplicate.DiscoveredBMC {
			if refused, err = isSame(m.Host); err != nil {
				return err
			}
		}
		if refused {
			return &conflictError{claimOf[m.Reason] + ": " + m.String()}
		}
	}
	return nil
}

// claimOf are the fields by which hosts claim a machine.
var claimOf = map[duplicate.Reason]string{
	duplicate.SameMAC: "spec.bootMACAddress", duplicate.SameBMC: "spec.bmc.address", duplicate.DiscoveredBMC: "spec.bmc.address",
}
