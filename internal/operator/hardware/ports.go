package hardware

import (
	"slices"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// NICs returns the machine's own NICs with an Ethernet address, each address once. It leaves out
// NICs whose address other machines may share, except those that the machine booted from.
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
	macs := make([]string, len(nics))
	for i, nic := range nics {
		macs[i] = nic.MAC
	}
	identifying := node.IdentifyingMACs(macs, "")
	return slices.DeleteFunc(nics, func(nic provisioner.NIC) bool { return !nic.PXE && !slices.Contains(identifying, nic.MAC) })
}
