package hardware

import (
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"slices"
)

// Types of LLDP elements (IEEE 802.1AB, table 8-1).
const (
	tlvEnd             = 0
	tlvChassisID       = 1
	tlvPortID          = 2
	tlvTimeToLive      = 3
	tlvPortDescription = 4
	tlvSystemName      = 5
	tlvSystemDesc      = 6
	tlvCapabilities    = 7
	tlvManagement      = 8
	tlvOrganization    = 127
)

// Subtypes used inside the elements above.
const (
	chassisMACAddress  = 4
	portInterfaceName  = 5
	addressFamilyIPv4  = 1
	ifNumberingIfIndex = 2
	capBridge          = 1 << 2
	capRouter          = 1 << 4
	lldpTTLSeconds     = 120
)

// Organizations that define further elements, followed by their subtypes.
var (
	org8021PortVLAN  = []byte{0x00, 0x80, 0xc2, 1}
	org8021DCBXETS   = []byte{0x00, 0x80, 0xc2, 9}
	org8021DCBXPFC   = []byte{0x00, 0x80, 0xc2, 11}
	org8021VLANName  = []byte{0x00, 0x80, 0xc2, 3}
	org8023Autoneg   = []byte{0x00, 0x12, 0x0f, 1}
	org8023Aggregate = []byte{0x00, 0x12, 0x0f, 3}
	org8023Power     = []byte{0x00, 0x12, 0x0f, 2}
	org8023MaxFrame  = []byte{0x00, 0x12, 0x0f, 4}
)

// lldp returns the LLDP elements that the switch sends on the port, in the usual order: the
// mandatory elements, the optional ones and the end marker.
func (p switchPort) lldp() []TLV {
	management := managementAddress(p.rack, p.leaf)
	tlvs := []TLV{
		tlv(tlvChassisID, slices.Concat([]byte{chassisMACAddress}, p.chassis[:])),
		tlv(tlvPortID, slices.Concat([]byte{portInterfaceName}, []byte(p.name))),
		tlv(tlvTimeToLive, be16(lldpTTLSeconds)),
		tlv(tlvPortDescription, []byte(p.name)),
		tlv(tlvSystemName, []byte(p.system)),
		tlv(tlvSystemDesc, []byte(p.model.description)),
		tlv(tlvCapabilities, slices.Concat(be16(capBridge|capRouter), be16(capBridge|capRouter))),
		tlv(tlvManagement, managementValue(management, p.leaf+1)),
		tlv(tlvOrganization, slices.Concat(org8021PortVLAN, be16(p.vlan))),
	}
	if p.model.vlanName {
		name := "provisioning"
		tlvs = append(tlvs, tlv(tlvOrganization,
			slices.Concat(org8021VLANName, be16(p.vlan), []byte{byte(len(name))}, []byte(name))))
	}
	return append(tlvs,
		// Auto-negotiation not supported, no advertised modes, MAU type 0.
		tlv(tlvOrganization, slices.Concat(org8023Autoneg, []byte{0, 0, 0, 0, 0})),
		// Power over Ethernet not supported.
		tlv(tlvOrganization, slices.Concat(org8023Power, []byte{0, 1, 0})),
		// Three traffic classes with 60, 20 and 20 % of the bandwidth, pause for class 3.
		tlv(tlvOrganization, slices.Concat(org8021DCBXETS,
			[]byte{0x03, 0, 0x01, 0x02, 0, 60, 20, 20, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2})),
		tlv(tlvOrganization, slices.Concat(org8021DCBXPFC, []byte{0x08, 1 << 3})),
		// Aggregation capable but not in an aggregate: status bit 0, port ID 0.
		tlv(tlvOrganization, slices.Concat(org8023Aggregate, []byte{1, 0, 0, 0, 0})),
		tlv(tlvOrganization, slices.Concat(org8023MaxFrame, be16(p.model.mtu))),
		tlv(tlvEnd, nil),
	)
}

// managementAddress returns the management address of a leaf switch, in 10.255.0.0/16.
func managementAddress(rack, leaf int) netip.Addr {
	n := rack*leafSwitches + leaf + 1
	return netip.AddrFrom4([4]byte{10, 255, byte(n >> 8), byte(n)})
}

// managementValue encodes a management address without an object identifier
// (IEEE 802.1AB, 8.5.9).
func managementValue(addr netip.Addr, ifIndex int) []byte {
	v4 := addr.As4()
	b := []byte{byte(1 + len(v4)), addressFamilyIPv4}
	b = append(b, v4[:]...)
	b = append(b, ifNumberingIfIndex)
	b = binary.BigEndian.AppendUint32(b, uint32(ifIndex))
	return append(b, 0)
}

func tlv(typ int, value []byte) TLV {
	return TLV{Type: typ, Value: hex.EncodeToString(value)}
}

func be16(n int) []byte { return binary.BigEndian.AppendUint16(nil, uint16(n)) }
