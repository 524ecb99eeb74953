package host

import (
	"context"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/duplicate"
)

// otherHosts finds the host that takes precedence over another host of the same machine. Admission
// refuses the second host of a machine, but not when both are stored at the same moment, or where
// there are no webhooks.
type otherHosts struct {
	hosts  duplicate.Finder
	owners ownership
}

// check returns a conflictError that names a host which has the same machine for certain, if that
// host is older or has its node already.
func (p otherHosts) check(ctx context.Context, h *v1alpha1.BareMetalHost) error {
	return p.checkWith(ctx, h, func(*v1alpha1.BareMetalHost) (bool, error) { return false, nil })
}

// checkWith is check, and calls isSame for a host without a BMC whose machine told the address of
// h's BMC: isSame reports whether both hosts are one machine.
func (p otherHosts) checkWith(ctx context.Context, h *v1alpha1.BareMetalHost, isSame func(discovered *v1alpha1.BareMetalHost) (bool, error)) error {
	matches, err := p.hosts.Find(ctx, h)
	if err != nil {
		return err
	}
	for _, m := range matches {
		refused := m.Reason.Certain() && (older(m.Host, h) || p.owners.hasMarkedNode(m.Host))
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

// claimOf maps a reason to the field by which a host claims a machine.
var claimOf = map[duplicate.Reason]string{
	duplicate.SameMAC: "spec.bootMACAddress", duplicate.SameBMC: "spec.bmc.address", duplicate.DiscoveredBMC: "spec.bmc.address",
}
