package inventory

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"
)

// tlvParser adds the value of one TLV to l. On an error it leaves l unchanged.
type tlvParser func(l *LLDP, value []byte) error

// basicTLVs are the parsers for the types of IEEE 802.1AB §8.5. Type 3, the time to live, says
// nothing about the switch.
var basicTLVs = map[int]tlvParser{
	1: chassisID,
	2: func(l *LLDP, v []byte) error { return setOnce(&l.PortID, v, portIDForms.render) },
	4: func(l *LLDP, v []byte) error { return setOnce(&l.PortDescription, v, lldpText) },
	5: func(l *LLDP, v []byte) error { return setOnce(&l.SystemName, v, lldpText) },
	6: func(l *LLDP, v []byte) error { return setOnce(&l.SystemDescription, v, lldpText) },
	7: systemCapabilities,
	8: managementAddress,
}

// organizationTLVs are the parsers by organization (24 bits) and subtype (8 bits).
var organizationTLVs = map[uint32]tlvParser{
	// IEEE 802.1Q Annex D.
	0x0080c2_01: func(l *LLDP, v []byte) error { return setVLAN(&l.UntaggedVLAN, v) },
	0x0080c2_02: protocolVLAN,
	0x0080c2_03: vlanName,
	0x0080c2_04: protocolIdentity,
	0x0080c2_06: func(l *LLDP, v []byte) error { return setVLAN(&l.ManagementVLAN, v) },
	0x0080c2_07: linkAggregation,
	// IEEE 802.3 §79.3. Its link aggregation TLV is the predecessor of the one in 802.1.
	0x00120f_01: macPhyConfiguration,
	0x00120f_03: linkAggregation,
	0x00120f_04: maximumFrameSize,
}

// idForms maps the subtypes of a chassis or port ID to functions that read their form.
type idForms map[byte]func([]byte) (string, error)

var (
	chassisIDForms = idForms{1: lldpText, 2: lldpText, 3: lldpText, chassisMACForm: lldpMAC, 5: networkAddress, 6: lldpText, 7: lldpText}
	portIDForms    = idForms{1: lldpText, 2: lldpText, 3: lldpMAC, 4: networkAddress, 5: lldpText, 6: lldpText, 7: lldpText}
)

func (forms idForms) render(value []byte) (string, error) {
	if err := atLeast(value, 2); err != nil {
		return "", err
	}
	form := forms[value[0]]
	if form == nil {
		return "", fmt.Errorf("unknown form %d of an ID", value[0])
	}
	return form(value[1:])
}

// chassisMACForm is the subtype of a chassis ID that is a MAC address.
const chassisMACForm = 4

func chassisID(l *LLDP, value []byte) error {
	id, err := chassisIDForms.render(value)
	if err != nil || l.ChassisID != "" {
		return err
	}
	if l.ChassisID = id; value[0] == chassisMACForm && id != zeroMAC {
		l.ChassisMAC = id
	}
	return nil
}

// setOnce stores the text of value in dst unless an earlier TLV has set it.
func setOnce(dst *string, value []byte, render func([]byte) (string, error)) error {
	text, err := render(value)
	if err == nil && *dst == "" {
		*dst = text
	}
	return err
}

// lldpText reads text; switches pad it with zero bytes.
func lldpText(value []byte) (string, error) {
	text := strings.TrimRight(string(value), "\x00")
	if !utf8.ValidString(text) {
		return "", errors.New("text is not UTF-8")
	}
	return text, nil
}

func lldpMAC(value []byte) (string, error) {
	if len(value) != 6 {
		return "", fmt.Errorf("want a MAC address of 6 bytes, got %d", len(value))
	}
	return net.HardwareAddr(value).String(), nil
}

// networkAddress reads an address that follows its family (IANA address family numbers).
func networkAddress(value []byte) (string, error) {
	if err := atLeast(value, 2); err != nil {
		return "", err
	}
	family, value := value[0], value[1:]
	addr, ok := netip.AddrFromSlice(value)
	switch {
	case family == 1 && ok && addr.Is4(), family == 2 && ok && addr.Is6():
		return addr.String(), nil
	case family == 6:
		return lldpMAC(value)
	default:
		return "", fmt.Errorf("no address of family %d has %d bytes, or the family is unknown", family, len(value))
	}
}

func managementAddress(l *LLDP, value []byte) error {
	if err := atLeast(value, 1); err != nil {
		return err
	}
	length := int(value[0]) // length of family and address
	if err := atLeast(value, 1+length); err != nil {
		return err
	}
	text, err := networkAddress(value[1 : 1+length])
	if err == nil {
		l.ManagementAddresses = append(l.ManagementAddresses, text)
	}
	return err
}

func systemCapabilities(l *LLDP, value []byte) error {
	if err := exactly(value, 4); err != nil {
		return err
	}
	if l.CapabilitiesSupported == nil {
		l.CapabilitiesSupported = bitNames(binary.BigEndian.Uint16(value), capabilityNames)
		l.CapabilitiesEnabled = bitNames(binary.BigEndian.Uint16(value[2:]), capabilityNames)
	}
	return nil
}

// bitNames returns the names of the bits that are set, lowest bit first. The result is never nil.
func bitNames(bits uint16, names []string) []string {
	set := []string{}
	for i, name := range names {
		if name != "" && bits&(1<<i) != 0 {
			set = append(set, name)
		}
	}
	return set
}

func setVLAN(dst **int, value []byte) error {
	if err := atLeast(value, 2); err != nil {
		return err
	}
	if *dst == nil {
		*dst = new(int(binary.BigEndian.Uint16(value)))
	}
	return nil
}

func protocolVLAN(l *LLDP, value []byte) error {
	if err := exactly(value, 3); err != nil {
		return err
	}
	if l.ProtocolVLANEnabled == nil {
		l.ProtocolVLANSupported = new(value[0]&0x02 != 0)
		l.ProtocolVLANEnabled = new(value[0]&0x04 != 0)
	}
	l.ProtocolVLANs = append(l.ProtocolVLANs, int(binary.BigEndian.Uint16(value[1:])))
	return nil
}

func vlanName(l *LLDP, value []byte) error {
	if err := atLeast(value, 3); err != nil {
		return err
	}
	length := int(value[2])
	if err := atLeast(value, 3+length); err != nil {
		return err
	}
	name, err := lldpText(value[3 : 3+length])
	if err == nil {
		l.VLANs = append(l.VLANs, LLDPVLAN{ID: int(binary.BigEndian.Uint16(value)), Name: name})
	}
	return err
}

func protocolIdentity(l *LLDP, value []byte) error {
	if err := atLeast(value, 1); err != nil {
		return err
	}
	length := int(value[0])
	if err := atLeast(value, 1+length); err != nil {
		return err
	}
	l.ProtocolIdentities = append(l.ProtocolIdentities, hex.EncodeToString(value[1:1+length]))
	return nil
}

func linkAggregation(l *LLDP, value []byte) error {
	if err := exactly(value, 5); err != nil {
		return err
	}
	if l.AggregationEnabled == nil {
		l.AggregationSupported = new(value[0]&0x01 != 0)
		l.AggregationEnabled = new(value[0]&0x02 != 0)
		l.AggregationID = new(int64(binary.BigEndian.Uint32(value[1:])))
	}
	return nil
}

func macPhyConfiguration(l *LLDP, value []byte) error {
	if err := exactly(value, 5); err != nil {
		return err
	}
	if l.AutonegotiationEnabled != nil {
		return nil
	}
	l.AutonegotiationSupport = new(value[0]&0x01 != 0)
	l.AutonegotiationEnabled = new(value[0]&0x02 != 0)
	l.PhysicalCapabilities = bitNames(binary.BigEndian.Uint16(value[1:]), physicalCapabilityNames)
	slices.Sort(l.PhysicalCapabilities)
	l.MAUType = mauTypeName(int(binary.BigEndian.Uint16(value[3:])))
	return nil
}

func maximumFrameSize(l *LLDP, value []byte) error {
	if err := atLeast(value, 2); err != nil {
		return err
	}
	if l.MTU == nil {
		l.MTU = new(int(binary.BigEndian.Uint16(value)))
	}
	return nil
}
