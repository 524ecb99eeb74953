package inventory

import "github.com/ingot-metal/ingot/internal/node"

// MaxInterfaces is how many network interfaces an inventory may list.
const MaxInterfaces = 4096

// checkInterfaces makes sure that the machine can be identified.
func (inv *Inventory) checkInterfaces() error {
	if len(inv.Interfaces) == 0 {
		return inKey("interfaces", errorf("want a list of at least one network interface"))
	}
	for i := range inv.Interfaces {
		if inv.Interfaces[i].MACAddress != "" {
			return nil
		}
	}
	return inKey("interfaces", errorf("no interface has an Ethernet address, so the machine cannot be identified"))
}

func (r *reader) interfaces(dst *[]Interface) error {
	*dst = make([]Interface, 0, 8)
	return r.list(func(index int) error {
		if index == MaxInterfaces {
			return errorf("more than %d interfaces", MaxInterfaces)
		}
		*dst = append(*dst, Interface{})
		return r.networkInterface(&(*dst)[index])
	})
}

func (r *reader) networkInterface(dst *Interface) error {
	start := r.pos
	err := r.object(func(key string) error {
		switch key {
		case "name":
			return r.textInto(&dst.Name)
		case "mac_address":
			return r.hardwareAddress(dst)
		case "ipv4_address":
			return r.textInto(&dst.IPv4Address)
		case "ipv6_address":
			return r.textInto(&dst.IPv6Address)
		case "has_carrier":
			return r.boolInto(&dst.HasCarrier)
		case "lldp":
			return r.lldp(dst)
		case "vendor":
			return r.textInto(&dst.Vendor)
		case "product":
			return r.textInto(&dst.Product)
		case "client_id":
			return r.textInto(&dst.ClientID)
		case "biosdevname":
			return r.textInto(&dst.BIOSDevName)
		case "speed_mbps":
			return r.intInto(&dst.SpeedMbps)
		case "pci_address":
			return r.textInto(&dst.PCIAddress)
		case "driver":
			return r.textInto(&dst.Driver)
		default:
			return r.skip()
		}
	})
	if err != nil {
		return err
	}
	dst.Raw = r.since(start)
	if dst.HardwareAddress == "" {
		return inKey("mac_address", errorf("is missing"))
	}
	return nil
}

// hardwareAddress refuses text that is not a hardware address. It accepts hardware addresses that
// cannot become ports, because a machine with Ethernet ports must not be refused for its InfiniBand
// adapter.
func (r *reader) hardwareAddress(dst *Interface) error {
	if r.peek() != '"' {
		return r.mismatch("a MAC address")
	}
	text, err := r.string()
	if err != nil {
		return err
	}
	address, octets := node.ParseHardwareAddress(text)
	if octets == 0 {
		return errorf("want a MAC address, got %s", Quote(text))
	}
	dst.HardwareAddress, dst.MACAddress = text, ""
	if octets == 6 && Identifies(address) {
		dst.MACAddress = address
	}
	return nil
}

func (r *reader) lldp(dst *Interface) error {
	dst.LLDP = nil
	if r.null() {
		return nil
	}
	if r.peek() != '[' {
		return r.mismatch("a list of TLVs")
	}
	raw, err := r.rawValue()
	dst.LLDP = raw
	return err
}
