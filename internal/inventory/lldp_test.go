package inventory

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// frame builds TLVs as an agent sends them.
type frame [][2]any

func (f *frame) add(kind int, parts ...any) {
	var value []byte
	for _, part := range parts {
		switch part := part.(type) {
		case int:
			value = append(value, byte(part))
		case uint16:
			value = binary.BigEndian.AppendUint16(value, part)
		case uint32:
			value = binary.BigEndian.AppendUint32(value, part)
		case string:
			value = append(value, part...)
		case []byte:
			value = append(value, part...)
		}
	}
	*f = append(*f, [2]any{kind, hex.EncodeToString(value)})
}

func (f *frame) raw(t testing.TB) json.RawMessage {
	t.Helper()
	text, err := json.Marshal(*f)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

const (
	ieee8021 = "\x00\x80\xc2"
	ieee8023 = "\x00\x12\x0f"
)

func TestLLDPFrameOfASwitchIsDecoded(t *testing.T) {
	var f frame
	f.add(1, 4, []byte{0x11, 0x22, 0x33, 0xaa, 0xbb, 0x01})
	f.add(2, 5, "Ethernet1/7")
	f.add(3, uint16(120))
	f.add(4, "server 7 port 1\x00\x00")
	f.add(5, "leaf-12a")
	f.add(6, "Example NOS 9.3")
	f.add(7, uint16(0b111_1111_1111), uint16(0b1_0100))
	f.add(8, 5, 1, []byte{192, 0, 2, 10}, 2, uint32(1), 0)
	f.add(8, 17, 2, netip.MustParseAddr("2001:db8::10").AsSlice(), 2, uint32(1), 0)
	f.add(127, ieee8021, 1, uint16(100))
	f.add(127, ieee8021, 2, 0x06, uint16(25))
	f.add(127, ieee8021, 2, 0x02, uint16(26))
	f.add(127, ieee8021, 3, uint16(101), 7, "vlan101")
	f.add(127, ieee8021, 3, uint16(102), 0)
	f.add(127, ieee8021, 4, 3, []byte{0x88, 0x8e, 0x01})
	f.add(127, ieee8021, 6, uint16(4094))
	f.add(127, ieee8021, 7, 0x03, uint32(1<<31))
	f.add(127, ieee8023, 1, 0x03, uint16(0x6c11), uint16(30))
	f.add(127, ieee8023, 3, 0x00, uint32(9))
	f.add(127, ieee8023, 4, uint16(9216))
	f.add(127, "\x00\x12\xbb", 1, 5) // LLDP-MED: not for us
	f.add(0)
	f.add(127, ieee8021, 3, uint16(103), 14, "behind the end")

	lldp, skipped := ParseLLDP(f.raw(t))
	if skipped != nil {
		t.Errorf("skipped = %q, want nothing", skipped)
	}
	text, err := json.Marshal(lldp)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"switch_chassis_id":           "11:22:33:aa:bb:01",
		"switch_port_id":              "Ethernet1/7",
		"switch_port_description":     "server 7 port 1",
		"switch_system_name":          "leaf-12a",
		"switch_system_description":   "Example NOS 9.3",
		"switch_capabilities_support": []any{"Repeater", "Bridge", "WLAN", "Router", "Telephone", "DOCSIS cable device", "Station only", "C-Vlan", "S-Vlan", "TPMR"},
		"switch_capabilities_enabled": []any{"Bridge", "Router"},
		"switch_mgmt_addresses":       []any{"192.0.2.10", "2001:db8::10"},

		"switch_port_untagged_vlan_id":      100.0,
		"switch_port_protocol_vlan_enabled": true,
		"switch_port_protocol_vlan_support": true,
		"switch_port_protocol_vlan_ids":     []any{25.0, 26.0},
		"switch_port_vlans":                 []any{map[string]any{"id": 101.0, "name": "vlan101"}, map[string]any{"id": 102.0, "name": ""}},
		"switch_protocol_identities":        []any{"888e01"},
		"switch_port_management_vlan_id":    4094.0,

		"switch_port_link_aggregation_support": true,
		"switch_port_link_aggregation_enabled": true,
		"switch_port_link_aggregation_id":      float64(1 << 31),
		"switch_port_autonegotiation_support":  true,
		"switch_port_autonegotiation_enabled":  true,
		"switch_port_physical_capabilities":    []any{"1000BASE-T fdx", "100BASE-TX fdx", "100BASE-TX hdx", "10BASE-T fdx", "10BASE-T hdx", "Asym and Sym PAUSE fdx"},
		"switch_port_mau_type":                 "1000BASE-T full duplex",
		"switch_port_mtu":                      9216.0,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("parsed LLDP (-want +got):\n%s", diff)
	}
}

func TestIDFormatFollowsItsSubtype(t *testing.T) {
	mac := []byte{2, 0, 0, 0, 0, 0x0a}
	for _, tc := range []struct {
		kind, subtype int
		value         any
		want          string
	}{
		{1, 1, "chassis", "chassis"},
		{1, 2, "alias", "alias"},
		{1, 3, "port", "port"},
		{1, 4, mac, "02:00:00:00:00:0a"},
		{1, 5, []byte{1, 192, 0, 2, 1}, "192.0.2.1"},
		{1, 5, append([]byte{2}, netip.MustParseAddr("2001:db8::1").AsSlice()...), "2001:db8::1"},
		{1, 5, append([]byte{6}, mac...), "02:00:00:00:00:0a"},
		{1, 6, "eth0", "eth0"},
		{1, 7, "local", "local"},
		{2, 1, "alias", "alias"},
		{2, 2, "component", "component"},
		{2, 3, mac, "02:00:00:00:00:0a"},
		{2, 4, []byte{1, 192, 0, 2, 1}, "192.0.2.1"},
		{2, 5, "swp1", "swp1"},
		{2, 6, "circuit", "circuit"},
		{2, 7, "17", "17"},
	} {
		var f frame
		f.add(tc.kind, tc.subtype, tc.value)
		lldp, skipped := ParseLLDP(f.raw(t))
		if got := lldp.ChassisID + lldp.PortID; got != tc.want || skipped != nil {
			t.Errorf("type %d subtype %d of %v = %q, skipped %q, want %q", tc.kind, tc.subtype, tc.value, got, skipped, tc.want)
		}
	}
}

func TestFirstTLVWinsWhereOneIsAllowed(t *testing.T) {
	var f frame
	for _, n := range []uint16{1, 2} {
		f.add(1, 7, string('a'+rune(n)))
		f.add(5, string('a'+rune(n)))
		f.add(7, n<<1, n<<1)
		f.add(127, ieee8021, 1, n)
		f.add(127, ieee8021, 6, n)
		f.add(127, ieee8021, 7, int(n), uint32(n))
		f.add(127, ieee8023, 1, int(n), uint16(1)<<n, n)
		f.add(127, ieee8023, 4, n)
	}
	one, yes, no, id := 1, true, false, int64(1)
	want := LLDP{
		ChassisID: "b", SystemName: "b", CapabilitiesSupported: []string{"Repeater"}, CapabilitiesEnabled: []string{"Repeater"},
		UntaggedVLAN: &one, ManagementVLAN: &one, MTU: &one, AggregationSupported: &yes, AggregationEnabled: &no, AggregationID: &id,
		AutonegotiationSupport: &yes, AutonegotiationEnabled: &no, PhysicalCapabilities: []string{"1000BASE-T hdx"}, MAUType: "AUI",
	}
	lldp, skipped := ParseLLDP(f.raw(t))
	if diff := cmp.Diff(want, lldp); diff != "" || skipped != nil {
		t.Errorf("skipped %q, parsed LLDP (-want +got):\n%s", skipped, diff)
	}
}

func TestMalformedTLVsAreSkippedWithAReason(t *testing.T) {
	for name, tc := range map[string]struct{ tlv, want string }{
		"not a pair":                 {`[1]`, "want [type, value], got a list of 1"},
		"three":                      {`[1,"04",0]`, "want [type, value], got a list of 3"},
		"not a list":                 {`{"type":1}`, "want a list, got an object"},
		"type is text":               {`["one","04"]`, `[0]: want a whole number, got the text "one"`},
		"type is null":               {`[null,"04"]`, "[0]: want a TLV type, got null"},
		"type too big":               {`[128,"04"]`, "type 128 is not between 0 and 127"},
		"type negative":              {`[-1,"04"]`, "type -1 is not between 0 and 127"},
		"value is a number":          {`[1,4]`, "[1]: want text, got the number 4"},
		"value is no hex":            {`[5,"xyz"]`, `type 5: want a value in hexadecimal, got "xyz"`},
		"odd digits":                 {`[5,"abc"]`, `type 5: want a value in hexadecimal, got "abc"`},
		"value too long":             {`[5,"` + strings.Repeat("61", 512) + `"]`, "type 5 has more than 511 bytes"},
		"chassis empty":              {`[1,""]`, "type 1: want 2 bytes, got 0"},
		"chassis form":               {`[1,"09aa"]`, "type 1: unknown form 9 of an ID"},
		"chassis MAC short":          {`[1,"04aabb"]`, "type 1: want a MAC address of 6 bytes, got 2"},
		"chassis address short":      {`[1,"0501c000"]`, "type 1: no address of family 1 has 2 bytes, or the family is unknown"},
		"chassis address family":     {`[1,"0507c0000201"]`, "type 1: no address of family 7 has 4 bytes, or the family is unknown"},
		"chassis address empty":      {`[1,"0501"]`, "type 1: want 2 bytes, got 1"},
		"name is Latin-1":            {`[5,"e9"]`, "type 5: text is not UTF-8"},
		"capabilities short":         {`[7,"001400"]`, "type 7: want 4 bytes, got 3"},
		"management empty":           {`[8,""]`, "type 8: want 1 bytes, got 0"},
		"management cut":             {`[8,"0501c000"]`, "type 8: want 6 bytes, got 4"},
		"management without address": {`[8,"00"]`, "type 8: want 2 bytes, got 0"},
		"organization cut":           {`[127,"0080c2"]`, "type 127: want 4 bytes, got 3"},
		"VLAN cut":                   {`[127,"0080c20101"]`, "type 127, organization 0080c2, subtype 1: want 2 bytes, got 1"},
		"protocol VLAN cut":          {`[127,"0080c2020100"]`, "type 127, organization 0080c2, subtype 2: want 3 bytes, got 2"},
		"VLAN name cut":              {`[127,"0080c20300650976"]`, "type 127, organization 0080c2, subtype 3: want 12 bytes, got 4"},
		"VLAN name empty":            {`[127,"0080c203"]`, "type 127, organization 0080c2, subtype 3: want 3 bytes, got 0"},
		"protocol identity cut":      {`[127,"0080c20402aa"]`, "type 127, organization 0080c2, subtype 4: want 3 bytes, got 2"},
		"protocol identity empty":    {`[127,"0080c204"]`, "type 127, organization 0080c2, subtype 4: want 1 bytes, got 0"},
		"aggregation cut":            {`[127,"0080c20703000000"]`, "type 127, organization 0080c2, subtype 7: want 5 bytes, got 4"},
		"MAC/PHY cut":                {`[127,"00120f01036c1100"]`, "type 127, organization 00120f, subtype 1: want 5 bytes, got 4"},
		"capabilities long":          {`[7,"0014001400"]`, "type 7: want 4 bytes, got 5"},
		"protocol VLAN long":         {`[127,"0080c20206006500"]`, "type 127, organization 0080c2, subtype 2: want 3 bytes, got 4"},
		"aggregation long":           {`[127,"0080c207030000000100"]`, "type 127, organization 0080c2, subtype 7: want 5 bytes, got 6"},
		"old aggregation long":       {`[127,"00120f03030000000100"]`, "type 127, organization 00120f, subtype 3: want 5 bytes, got 6"},
		"MAC/PHY long":               {`[127,"00120f01036c11001000"]`, "type 127, organization 00120f, subtype 1: want 5 bytes, got 6"},
		"frame size cut":             {`[127,"00120f0405"]`, "type 127, organization 00120f, subtype 4: want 2 bytes, got 1"},
	} {
		t.Run(name, func(t *testing.T) {
			lldp, skipped := ParseLLDP(json.RawMessage(`[` + tc.tlv + `,[5,"6c656166"]]`))
			if diff := cmp.Diff([]string{"TLV 0: " + tc.want}, skipped); diff != "" {
				t.Errorf("skipped (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(LLDP{SystemName: "leaf"}, lldp); diff != "" {
				t.Errorf("the good TLV behind it (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAbsentOrBrokenLLDPGivesTheZeroValue(t *testing.T) {
	for raw, reasons := range map[string]int{``: 0, `null`: 0, `[]`: 0, `{}`: 1, `"x"`: 1, `[`: 1, `[[1,"04"`: 1, "[\"\xff\"]": 1} {
		lldp, skipped := ParseLLDP(json.RawMessage(raw))
		if diff := cmp.Diff(LLDP{}, lldp); diff != "" || len(skipped) != reasons {
			t.Errorf("ParseLLDP(%s): skipped %q, want %d reasons, (-want +got):\n%s", raw, skipped, reasons, diff)
		}
	}
}

func TestTLVsAndReasonsAreBounded(t *testing.T) {
	var f frame
	for range 2 * maxTLVs {
		f.add(127, ieee8021, 3, uint16(1), 1, "v")
	}
	lldp, skipped := ParseLLDP(f.raw(t))
	if len(lldp.VLANs) != maxTLVs || len(skipped) != 1 {
		t.Errorf("%d VLANs, skipped %q, want %d and one reason", len(lldp.VLANs), skipped, maxTLVs)
	}
	if _, skipped := ParseLLDP(json.RawMessage(`[` + strings.Repeat(`0,`, 1000) + `0]`)); len(skipped) != maxTLVReasons {
		t.Errorf("%d reasons, want %d", len(skipped), maxTLVReasons)
	}
}

func TestUnknownMAUTypesKeepTheirNumber(t *testing.T) {
	for kind, want := range map[int]string{0: "Unknown", 16: "100BASE-TX full duplex", 58: "10GBASE-KR", 88: "25GBASE-CR", 102: "100GBASE-SR4", 112: "MAU type 112", 147: "400GBASE-FR4", 148: "MAU type 148", 65535: "MAU type 65535"} {
		if got := mauTypeName(kind); got != want {
			t.Errorf("MAU type %d = %q, want %q", kind, got, want)
		}
	}
}

// TestRandomFramesAreReadBack encodes random frames with random junk between the
// TLVs and expects exactly what was put in.
func TestRandomFramesAreReadBack(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		var f frame
		var want LLDP
		junk := func() {
			for rng.IntN(3) == 0 {
				f.add(9+rng.IntN(118), make([]byte, rng.IntN(20)))
			}
		}
		mac := make(net.HardwareAddr, 6)
		for i := range mac {
			mac[i] = byte(rng.Uint32())
		}
		want.ChassisID, want.ChassisMAC = mac.String(), mac.String()
		f.add(1, 4, []byte(mac))
		junk()
		want.PortID = fmt.Sprintf("swp%d", rng.IntN(64))
		f.add(2, 5, want.PortID)
		junk()
		vlan, mtu := rng.IntN(4095), rng.IntN(65536)
		want.UntaggedVLAN, want.MTU = &vlan, &mtu
		f.add(127, ieee8021, 1, uint16(vlan))
		f.add(127, ieee8023, 4, uint16(mtu))
		for range rng.IntN(5) {
			v := LLDPVLAN{ID: 1 + rng.IntN(4094), Name: strings.Repeat("ü", rng.IntN(16))}
			want.VLANs = append(want.VLANs, v)
			f.add(127, ieee8021, 3, uint16(v.ID), len(v.Name), v.Name)
			junk()
		}
		for range rng.IntN(3) {
			var v4 [4]byte
			binary.BigEndian.PutUint32(v4[:], rng.Uint32())
			want.ManagementAddresses = append(want.ManagementAddresses, netip.AddrFrom4(v4).String())
			f.add(8, 5, 1, v4[:], 1, uint32(0), 0)
		}
		f.add(0)
		got, skipped := ParseLLDP(f.raw(t))
		if diff := cmp.Diff(want, got); diff != "" || skipped != nil {
			t.Fatalf("frame %s: skipped %q (-want +got):\n%s", f.raw(t), skipped, diff)
		}
	}
}

// FuzzLLDP checks that nothing an agent sends as TLVs can break the parser, grow
// its output or produce text that is not fit to show.
func FuzzLLDP(f *testing.F) {
	for _, raw := range []string{
		``, `null`, `[]`, `[[0,""]]`, `[[1,"04112233aabb01"],[2,"0545746831"],[0,""]]`,
		`[[7,"00140014"],[8,"0501c000020a0200000001"],[127,"0080c2010064"],[127,"00120f01036c110010"]]`,
		`[[127,"0080c203006406766c616e3130"],["5","6C656166"],[5.9,null],[1],{}]`,
	} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		lldp, skipped := ParseLLDP(raw)
		text, err := json.Marshal(lldp)
		if err != nil {
			t.Fatal(err)
		}
		// Fixed keys aside, each TLV gives at most a few characters per byte.
		if len(text) > 4096+32*len(raw) {
			t.Fatalf("%d bytes from %d", len(text), len(raw))
		}
		if len(skipped) > maxTLVReasons+1 {
			t.Fatalf("%d reasons", len(skipped))
		}
		for _, reason := range skipped {
			if !utf8.ValidString(reason) || len(reason) > 1024 {
				t.Fatalf("reason %q is not fit to show", reason)
			}
		}
	})
}
