package duplicate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// Names of the indexes of hosts in the cache.
const (
	macField = "duplicate.bootMACAddress"
	bmcField = "duplicate.bmc"
	nicField = "duplicate.nics"

	discoveredField = "duplicate.discoveredBMC"
)

// indexes say by which values each index finds a host.
var indexes = map[string]func(*v1alpha1.BareMetalHost) []string{
	macField: bootMAC,
	bmcField: bmcKey,
	nicField: otherNICs,

	discoveredField: discoveredBMCs,
}

// IndexFields registers the indexes that a [Finder] needs.
func IndexFields(ctx context.Context, indexer client.FieldIndexer) error {
	for name, values := range indexes {
		err := indexer.IndexField(ctx, &v1alpha1.BareMetalHost{}, name, func(obj client.Object) []string {
			if h, ok := obj.(*v1alpha1.BareMetalHost); ok {
				return values(h)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("index hosts by %s: %w", name, err)
		}
	}
	return nil
}

// query asks for hosts by an index.
type query struct{ field, value string }

// queries returns the queries for hosts that may have something in common with h.
func queries(h *v1alpha1.BareMetalHost) []query {
	var list []query
	for _, mac := range bootMAC(h) {
		list = append(list, query{macField, mac}, query{nicField, mac})
	}
	if endpoint := endpointOf(h); endpoint != nil {
		list = append(list, query{bmcField, endpoint.BMC()}, query{discoveredField, endpoint.Host})
	}
	return list
}

func bootMAC(h *v1alpha1.BareMetalHost) []string {
	if h.Spec.BootMACAddress == "" {
		return nil
	}
	return []string{strings.ToLower(h.Spec.BootMACAddress)}
}

func bmcKey(h *v1alpha1.BareMetalHost) []string {
	endpoint := endpointOf(h)
	if endpoint == nil {
		return nil
	}
	return []string{endpoint.BMC()}
}

// discoveredBMCs returns the BMC addresses that the machine of a host without a BMC reported.
func discoveredBMCs(h *v1alpha1.BareMetalHost) []string {
	if h.HasBMC() || h.Status.HardwareDetails == nil {
		return nil
	}
	return h.Status.HardwareDetails.BMCAddresses
}

// otherNICs returns the MAC addresses of the machine's NICs, except that of the boot NIC. Each
// address is returned once, although a NIC with two IP addresses is in the inventory twice.
func otherNICs(h *v1alpha1.BareMetalHost) []string {
	if h.Status.HardwareDetails == nil {
		return nil
	}
	var macs []string
	for _, nic := range h.Status.HardwareDetails.NICs {
		mac := strings.ToLower(nic.MAC)
		if mac != "" && !strings.EqualFold(mac, h.Spec.BootMACAddress) && !slices.Contains(macs, mac) {
			macs = append(macs, mac)
		}
	}
	return macs
}
