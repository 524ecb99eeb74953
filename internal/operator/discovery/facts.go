package discovery

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/hardware"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// facts is what discovery needs to know about a machine.
type facts struct {
	nameFacts

	Chassis        chassis
	MACs           []string // of all its NICs
	BMCAddresses   []netip.Addr
	Architecture   string
	BootMode       string // in which the ramdisk was started, "uefi" or "bios"
	AutoDiscovered bool
}

// candidate is an unused node with the facts about its machine.
type candidate struct {
	node provisioner.Node
	// facts is nil if the machine has no inventory. macs are known anyway.
	facts *facts
	macs  []string
	// details is set if the inventory was read since the last poll.
	details *v1alpha1.HardwareDetails
	// err says why the node cannot be read. It is read again later.
	err error
}

func factsOf(n provisioner.Node, inv *provisioner.Inventory) *facts {
	f := &facts{
		nameFacts: nameFacts{
			NodeID:   n.ID,
			BootMAC:  hardware.BootMAC(inv, n.Agent.URL),
			Hostname: inv.Hardware.Hostname,
			Serial:   inv.Hardware.SystemVendor.SerialNumber,
		},
		Chassis:        chassisOf(inv.Hardware.SystemVendor.Manufacturer, inv.Hardware.SystemVendor.SerialNumber),
		MACs:           hardware.UsableMACs(inv),
		BMCAddresses:   inv.Hardware.BMCAddresses(),
		Architecture:   inv.Hardware.CPU.Architecture,
		BootMode:       inv.Hardware.Boot.CurrentBootMode,
		AutoDiscovered: inv.AutoDiscovered,
	}
	if ip := hardware.FirstAddress(inv); ip.IsValid() {
		f.IP = ip.String()
	}
	if n.AutoDiscovered != nil {
		f.AutoDiscovered = *n.AutoDiscovered
	}
	return f
}

// chassis identifies a machine by vendor and serial number. It is empty if the firmware shows no
// serial number.
type chassis struct{ vendor, serial string }

func chassisOf(vendor, serial string) chassis {
	serial = node.NewMachineIdentity("", serial).SerialNumber
	if serial == "" {
		return chassis{}
	}
	return chassis{strings.TrimSpace(vendor), serial}
}

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}
