package inspect

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/inventory"
)

// TLVs of the switch leaf-12a at its port swp7; leaf is what they say.
const (
	tlvChassis = `[1,"04102233445501"]`
	tlvPort    = `[2,"0573777037"]`
	tlvName    = `[5,"6c6561662d313261"]`
)

var leaf = map[string]any{"switch_chassis_id": "10:22:33:44:55:01", "switch_port_id": "swp7", "switch_system_name": "leaf-12a"}

// tlvs makes a list of TLVs.
func tlvs(list ...string) string { return "[" + strings.Join(list, ",") + "]" }

// lldpMachine is a machine whose interfaces eth0, eth1, … have the given members
// lldp, with plugin data lldp_raw unless that is empty.
func lldpMachine(t testing.TB, raw string, lldp ...string) *inventory.Document {
	t.Helper()
	nics := make([]string, len(lldp))
	for i, list := range lldp {
		nics[i] = nicWith(fmt.Sprintf("eth%d", i), fmt.Sprintf("%02x", i+1), `"lldp":`+list)
	}
	body := `{"inventory":{"interfaces":[` + strings.Join(nics, ",") + `]}`
	if raw != "" {
		body += `,"lldp_raw":` + raw
	}
	return document(t, body+`}`)
}

func TestLLDPIsParsedByInterface(t *testing.T) {
	full := tlvs(tlvChassis, tlvPort, tlvName, `[0,""]`)
	other := tlvs(`[5,"6f74686572"]`)
	otherName := map[string]any{"switch_system_name": "other"}
	for name, tc := range map[string]struct {
		raw     string
		lldp    []string
		want    map[string]any
		skipped []string
	}{
		"inventory":                {lldp: []string{full, other}, want: map[string]any{"eth0": leaf, "eth1": otherName}},
		"collector before it":      {raw: `{"eth0":` + full + `}`, lldp: []string{other}, want: map[string]any{"eth0": leaf}},
		"collector alone":          {raw: `{"eth0":` + full + `}`, lldp: []string{"null"}, want: map[string]any{"eth0": leaf}},
		"collector knows others":   {raw: `{"eth9":` + full + `}`, lldp: []string{other}, want: map[string]any{"eth0": otherName}},
		"collector has empty list": {raw: `{"eth0": [] }`, lldp: []string{other}, want: map[string]any{"eth0": otherName}},
		"collector has null":       {raw: `{"eth0":null}`, lldp: []string{other}, want: map[string]any{"eth0": otherName}},
		"collector is null":        {raw: `null`, lldp: []string{other}, want: map[string]any{"eth0": otherName}},
		"collector is empty":       {raw: `{}`, lldp: []string{other}, want: map[string]any{"eth0": otherName}},
		"collector is a list": {
			raw: `[["eth0",1]]`, lldp: []string{other}, want: map[string]any{"eth0": otherName},
			skipped: []string{"The plugin data lldp_raw is not an object of interfaces; LLDP is read from the inventory only"},
		},
		"collector has text": {
			raw: `{"eth0":"04"}`, lldp: []string{other}, want: map[string]any{"eth0": otherName},
			skipped: []string{`The plugin data lldp_raw has no list of TLVs for interface "eth0"`},
		},
		"nothing at all": {
			lldp:    []string{"null", "[]", "null"},
			skipped: []string{`LLDP data is missing for 3 of 3 interfaces, such as "eth0"`},
		},
		"only things without a name": {lldp: []string{tlvs(`[3,"0078"]`, `[9,"aa"]`, `[127,"0012bb0105"]`, `[0,""]`)}},
		"nothing but rubbish": {
			lldp:    []string{`[1,null,{"a":[]},"x"]`},
			skipped: []string{`LLDP of interface "eth0": TLV 0: want a list, got the number 1, and 3 more like it`},
		},
		"truncated": {
			lldp:    []string{tlvs(`[1,"0410223344"]`, tlvPort, tlvName)},
			want:    map[string]any{"eth0": map[string]any{"switch_port_id": "swp7", "switch_system_name": "leaf-12a"}},
			skipped: []string{`LLDP of interface "eth0": TLV 0: type 1: want a MAC address of 6 bytes, got 4`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			result := run(t, pipeline(t, func(c *Config) { c.Hooks = []string{"parse-lldp"} }), Input{Document: lldpMachine(t, tc.raw, tc.lldp...)})
			got, _ := pluginValue(t, result, "parsed_lldp").(map[string]any)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("parsed_lldp (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.skipped, result.Skipped); diff != "" {
				t.Errorf("skipped (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParsedLLDPFromTheRamdiskIsDropped(t *testing.T) {
	doc := document(t, `{"inventory":{"interfaces":[`+nic("eth0", "01")+`]},"parsed_lldp":{"eth0":{"switch_port_id":"forged"}}}`)
	result := run(t, pipeline(t, func(c *Config) { c.Hooks = []string{"parse-lldp"} }), Input{Document: doc})
	if got := pluginValue(t, result, "parsed_lldp"); got != nil {
		t.Errorf("parsed_lldp = %v, want none", got)
	}
}

func TestLLDPIsReadOnALimitedNumberOfInterfaces(t *testing.T) {
	var nics []string
	for i := range inventory.MaxInterfaces {
		lldp := `null`
		if i%2 == 1 { // virtual functions without LLDP do not count
			lldp = tlvs(tlvChassis, tlvPort)
		}
		nics = append(nics, fmt.Sprintf(`{"name":"eth%d","mac_address":"02:00:00:00:%02x:%02x","lldp":%s}`, i, i>>8, i&0xff, lldp))
	}
	doc := machine(t, strings.Join(nics, ","), "")
	result := run(t, pipeline(t, func(c *Config) { c.Hooks = []string{"parse-lldp"} }), Input{Document: doc})
	if got := len(pluginValue(t, result, "parsed_lldp").(map[string]any)); got != maxNeighbours {
		t.Errorf("%d interfaces in parsed_lldp, want %d", got, maxNeighbours)
	}
	want := []string{
		`LLDP data is read for 64 interfaces at most; that of 1984 more is left out`,
		`LLDP data is missing for 2048 of 4096 interfaces, such as "eth0"`,
	}
	if diff := cmp.Diff(want, result.Skipped); diff != "" {
		t.Errorf("skipped (-want +got):\n%s", diff)
	}
}

func TestLLDPHandlesMissingAndDuplicateInterfaceNames(t *testing.T) {
	full := `"lldp":` + tlvs(tlvChassis, tlvPort, tlvName)
	doc := machine(t, strings.Join([]string{
		`{"name":null,"mac_address":"02:00:00:00:00:01",` + full + `}`,
		nicWith(`ü"\\`, "02", full),
		nicWith("same", "03", full),
		nicWith("same", "04", `"lldp":`+tlvs(`[5,"6f74686572"]`)),
	}, ","), "")
	result := run(t, pipeline(t, func(c *Config) { c.Hooks = []string{"parse-lldp"} }), Input{Document: doc})
	want := map[string]any{`ü"\\`: leaf, "same": leaf}
	if diff := cmp.Diff(want, pluginValue(t, result, "parsed_lldp").(map[string]any)); diff != "" {
		t.Errorf("parsed_lldp (-want +got):\n%s", diff)
	}
}
