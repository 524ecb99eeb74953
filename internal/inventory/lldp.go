package inventory

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
)

// LLDP is what a switch announced about itself and its port at the other end of the cable. The JSON
// names are those of inspection data. A zero value or nil means that the switch did not send the
// TLV. If it sent several TLVs of a type that may appear only once, the first one counts. Sources:
// IEEE 802.1AB-2016 §8 (basic), IEEE 802.1Q-2018 Annex D and IEEE 802.3-2018 §79 (organizationally
// specific).
type LLDP struct {
	ChassisID             string   `json:"switch_chassis_id,omitzero"` // MAC, IP address or name
	ChassisMAC            string   `json:"-"`                          // ChassisID if it is a MAC, not zero
	PortID                string   `json:"switch_port_id,omitzero"`
	PortDescription       string   `json:"switch_port_description,omitzero"`
	SystemName            string   `json:"switch_system_name,omitzero"`
	SystemDescription     string   `json:"switch_system_description,omitzero"`
	CapabilitiesSupported []string `json:"switch_capabilities_support,omitzero"`
	CapabilitiesEnabled   []string `json:"switch_capabilities_enabled,omitzero"`
	ManagementAddresses   []string `json:"switch_mgmt_addresses,omitzero"`

	UntaggedVLAN           *int       `json:"switch_port_untagged_vlan_id,omitzero"` // 0: none
	VLANs                  []LLDPVLAN `json:"switch_port_vlans,omitzero"`
	ProtocolVLANEnabled    *bool      `json:"switch_port_protocol_vlan_enabled,omitzero"`
	ProtocolVLANSupported  *bool      `json:"switch_port_protocol_vlan_support,omitzero"`
	ProtocolVLANs          []int      `json:"switch_port_protocol_vlan_ids,omitzero"`
	ProtocolIdentities     []string   `json:"switch_protocol_identities,omitzero"` // hexadecimal
	ManagementVLAN         *int       `json:"switch_port_management_vlan_id,omitzero"`
	AggregationSupported   *bool      `json:"switch_port_link_aggregation_support,omitzero"`
	AggregationEnabled     *bool      `json:"switch_port_link_aggregation_enabled,omitzero"`
	AggregationID          *int64     `json:"switch_port_link_aggregation_id,omitzero"`
	AutonegotiationSupport *bool      `json:"switch_port_autonegotiation_support,omitzero"`
	AutonegotiationEnabled *bool      `json:"switch_port_autonegotiation_enabled,omitzero"`
	PhysicalCapabilities   []string   `json:"switch_port_physical_capabilities,omitzero"` // sorted
	MAUType                string     `json:"switch_port_mau_type,omitzero"`
	MTU                    *int       `json:"switch_port_mtu,omitzero"` // bytes, largest frame
}

// IsZero reports whether the switch announced nothing.
func (l *LLDP) IsZero() bool { return reflect.ValueOf(l).Elem().IsZero() }

// LLDPVLAN is one tagged VLAN of the switch port.
type LLDPVLAN struct {
	ID   int    `json:"id"` // as sent; the standard allows 1 to 4094
	Name string `json:"name"`
}

// Limits of LLDP data. A TLV has its length in nine bits (IEEE 802.1AB §8.4), and no frame has more
// TLVs than maxTLVs.
const (
	maxTLVs       = 512
	maxTLVBytes   = 511
	maxTLVType    = 127
	maxTLVReasons = 16
)

// TLV types with a special meaning: the end of the frame, and types that organizations define.
const (
	tlvEnd          = 0
	tlvOrganization = 127
)

// ParseLLDP reads the TLVs that an agent received on one interface: a JSON list of [type, value in
// hexadecimal], as in Interface.LLDP or the plugin data lldp_raw. It never fails: it skips a
// malformed TLV with a reason and an unknown one silently. Nil gives the zero LLDP.
func ParseLLDP(raw json.RawMessage) (lldp LLDP, skipped []string) {
	skip := func(index int, err error) {
		if len(skipped) < maxTLVReasons {
			skipped = append(skipped, fmt.Sprintf("TLV %d: %v", index, err))
		}
	}
	done := false
	r := newReader(raw)
	if len(raw) == 0 || r.null() {
		return lldp, nil
	}
	if err := r.start(); err != nil {
		return lldp, []string{"list of TLVs: " + err.Error()}
	}
	err := r.list(func(index int) error {
		item, err := r.part()
		if err != nil || done {
			return err
		}
		if index == maxTLVs {
			skip(index, fmt.Errorf("more than %d TLVs; the rest is left out", maxTLVs))
			done = true
			return nil
		}
		kind, value, err := decodeTLV(item)
		if err == nil {
			err = lldp.apply(kind, value)
		}
		if err != nil {
			skip(index, err)
		}
		// Agents pass on the padding after the end of a frame. An end before all other TLVs is not
		// the end, because every frame begins with the chassis.
		done = err == nil && kind == tlvEnd && index > 0
		return nil
	})
	if err != nil {
		skipped = append(skipped, "list of TLVs: "+err.Error())
	}
	return lldp, skipped
}

// part consumes any value and returns a reader for it.
func (r *reader) part() (*reader, error) {
	start := r.pos
	err := r.skip()
	return &reader{raw: r.raw[:r.pos], text: r.text[:r.pos], pos: start}, err
}

// decodeTLV reads one [type, hexadecimal value].
func decodeTLV(r *reader) (kind int, value []byte, err error) {
	length, number, text := 0, int64(0), ""
	err = r.list(func(index int) error {
		length++
		switch index {
		case 0:
			if r.peek() == 'n' {
				return r.mismatch("a TLV type")
			}
			return r.intInto(&number)
		case 1:
			return r.textInto(&text)
		default:
			return r.skip()
		}
	})
	switch {
	case err != nil:
		return 0, nil, err
	case length != 2:
		return 0, nil, fmt.Errorf("want [type, value], got a list of %d", length)
	case number < 0 || number > maxTLVType:
		return 0, nil, fmt.Errorf("type %d is not between 0 and %d", number, maxTLVType)
	case len(text) > 2*maxTLVBytes:
		return 0, nil, fmt.Errorf("type %d has more than %d bytes", number, maxTLVBytes)
	}
	value, err = hex.DecodeString(text)
	if err != nil {
		return 0, nil, fmt.Errorf("type %d: want a value in hexadecimal, got %s", number, Quote(text))
	}
	return int(number), value, nil
}

// apply adds the content of one TLV.
func (l *LLDP) apply(kind int, value []byte) error {
	if kind == tlvOrganization {
		return l.applyOrganization(value)
	}
	parse := basicTLVs[kind]
	if parse == nil {
		return nil
	}
	if err := parse(l, value); err != nil {
		return fmt.Errorf("type %d: %w", kind, err)
	}
	return nil
}

func (l *LLDP) applyOrganization(value []byte) error {
	if err := atLeast(value, 4); err != nil {
		return fmt.Errorf("type %d: %w", tlvOrganization, err)
	}
	id := binary.BigEndian.Uint32(value)
	parse := organizationTLVs[id]
	if parse == nil {
		return nil
	}
	if err := parse(l, value[4:]); err != nil {
		return fmt.Errorf("type %d, organization %06x, subtype %d: %w", tlvOrganization, id>>8, id&0xff, err)
	}
	return nil
}

// exactly checks the length of a TLV that is a set of flags. If the length differs, some flags were
// read at the wrong place, or not at all.
func exactly(value []byte, n int) error {
	if len(value) != n {
		return fmt.Errorf("want %d bytes, got %d", n, len(value))
	}
	return nil
}

// atLeast checks the length of any other TLV. It may be longer, because a later edition of a
// standard may append fields (IEEE 802.1AB §9.2.8.7.1).
func atLeast(value []byte, n int) error {
	if len(value) < n {
		return fmt.Errorf("want %d bytes, got %d", n, len(value))
	}
	return nil
}
