package hardware

import (
	"slices"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// NICs returns the machine's own NICs with an Ethernet address, each address once. If any has an assigned address, a
// locally administered one counts only when the machine booted from it: machines of a kind may have it in common.
func NICs(details *v1alpha1.HardwareDetails) []provisioner.NIC {
	var nics []provisioner.NIC
	for _, found := range details.NICs {
		mac, ok := node.ParseMAC(found.MAC)
		if !ok || virtualName.MatchString(found.Name) {
			continue
		}
		// An interface has an entry for each of its IP addresses.
		same := slices.IndexFunc(nics, func(other provisioner.NIC) bool { return other.MAC == mac })
		if same < 0 {
			nics = append(nics, provisioner.NIC{MAC: mac, PXE: found.PXE})
		} else if found.PXE {
			nics[same].PXE = true
		}
	}
	if slices.ContainsFunc(nics, func(nic provisioner.NIC) bool { return !node.IsLocallyAdministered(nic.MAC) }) {
		nics = slices.DeleteFunc(nics, func(nic provisioner.NIC) bool { return node.IsLocallyAdministered(nic.MAC) && !nic.PXE })
	}
	return nics
}
