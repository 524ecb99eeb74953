package host

import (
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/node"
)

func TestMachinesAreComparedByWhatBothTell(t *testing.T) {
	t.Parallel()
	const uuid, swapped, otherUUID = "00112233-4455-6677-8899-aabbccddeeff", "33221100-5544-7766-8899-aabbccddeeff", "90112233-4455-6677-8899-aabbccddeeff"
	facts := func(uuid, serial string, macs ...string) node.MachineFacts {
		return node.MachineFacts{MachineIdentity: node.NewMachineIdentity(uuid, serial), MACAddresses: macs}
	}
	sku := facts("", "BOARD7")
	sku.SKU = "sn1"
	for name, tt := range map[string]struct {
		expected, told node.MachineFacts
		want           verdict
		says           []string
	}{
		"nothing":                        {facts("", ""), facts("", ""), verdictUnknown, nil},
		"nothing in common":              {facts(uuid, ""), facts("", "SN1", "m1"), verdictUnknown, nil},
		"placeholders":                   {facts("", "To Be Filled By O.E.M."), facts("", "Default string"), verdictUnknown, nil},
		"a placeholder and a number":     {facts("", "None"), facts("", "SN1"), verdictUnknown, nil},
		"zeroes":                         {facts("00000000-0000-0000-0000-000000000000", "0000000"), facts(uuid, "SN1"), verdictUnknown, nil},
		"everything":                     {facts(uuid, "SN1", "m1", "m2"), facts(uuid, "SN1", "m2", "m3"), verdictSame, nil},
		"UUID in the order of SMBIOS":    {facts(swapped, ""), facts(uuid, ""), verdictSame, nil},
		"serial number in another case":  {facts("", "sn1"), facts("", "SN1"), verdictSame, nil},
		"serial number as SKU":           {facts("", "SN1"), sku, verdictSame, nil},
		"only an address":                {facts("", "", "m1"), facts("", "", "m9", "m1"), verdictSame, nil},
		"BMC tells no addresses":         {facts("", "SN1", "m1"), facts("", "SN1"), verdictSame, nil},
		"other UUID":                     {facts(uuid, ""), facts(otherUUID, ""), verdictOther, []string{otherUUID, uuid}},
		"other serial number":            {facts("", "SN1"), facts("", "SN2"), verdictOther, []string{"serial number SN2, expected SN1"}},
		"no address in common":           {facts("", "", "m1", "m2"), facts("", "", "m3"), verdictOther, []string{"m3", "m1, m2"}},
		"same number, no common address": {facts("", "SN1", "m1"), facts("", "SN1", "m3"), verdictOther, []string{"m3"}},
		"all differ":                     {facts(uuid, "SN1", "m1"), facts(otherUUID, "SN2", "m2"), verdictOther, []string{otherUUID, "SN2", "m2"}},
	} {
		v, says := decideIdentity(tt.expected, tt.told)
		if v != tt.want || (says == "") != (tt.says == nil) {
			t.Errorf("%s: verdict %d, %q; want %d", name, v, says, tt.want)
		}
		for _, part := range tt.says {
			if !strings.Contains(says, part) {
				t.Errorf("%s: %q does not tell %q", name, says, part)
			}
		}
	}
}
