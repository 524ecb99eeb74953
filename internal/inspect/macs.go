package inspect

import (
	"regexp"
	"slices"

	"github.com/ingot-metal/ingot/internal/inventory"
)

// FirstMACs returns at most limit of the MAC addresses that identify the machine, and how many it
// left out. The order is: the interface from which the ramdisk was booted, physical functions, the
// rest; each in the order of the inventory.
func FirstMACs(machine *inventory.Inventory, limit int) (first []string, leftOut int) {
	macs := machine.IdentifyingMACs()
	if len(macs) <= limit {
		return macs, 0
	}
	bootMAC, rank := machine.BootMAC(), make(map[string]int, len(macs))
	for i := range machine.Interfaces {
		nic := &machine.Interfaces[i]
		place := macRank(nic, bootMAC)
		if before, ranked := rank[nic.MACAddress]; !ranked || place < before {
			rank[nic.MACAddress] = place
		}
	}
	slices.SortStableFunc(macs, func(a, b string) int { return rank[a] - rank[b] })
	return macs[:limit], len(macs) - limit
}

// virtualFunction matches the names that udev gives to SR-IOV virtual functions, such as
// enp5s0f0v3 (systemd.net-naming-scheme, "SR-IOV").
var virtualFunction = regexp.MustCompile(`[0-9a-z]v[0-9]+$`)

// macRank returns the rank of an interface in FirstMACs. Bridges, bonds and VLANs have no PCI
// device.
func macRank(nic *inventory.Interface, bootMAC string) int {
	device := nic.PCIAddress != "" || nic.Vendor != "" || nic.BIOSDevName != ""
	switch {
	case nic.MACAddress == bootMAC:
		return 0
	case device && !virtualFunction.MatchString(nic.Name):
		return 1
	case device:
		return 2
	}
	return 3
}
