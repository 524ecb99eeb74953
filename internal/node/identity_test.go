package node_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/node"
)

func TestIdentityLeavesOutWhatAVendorHasNotSet(t *testing.T) {
	for _, c := range []struct{ uuid, serial, wantUUID, wantSerial string }{
		{"4C4C4544-0034-5010-8052-B4C04F4A4D32", " 4PRJM2 ", "4c4c4544-0034-5010-8052-b4c04f4a4d32", "4PRJM2"},
		{"00000000-0000-0000-0000-000000000000", "To Be Filled By O.E.M.", "", ""},
		{"ffffffff-ffff-ffff-ffff-ffffffffffff", "0000000", "", ""},
		{"03000200-0400-0500-0006-000700080009", "Not Specified", "", ""},
		{"00020003-0004-0005-0006-000700080009", "None", "", ""}, // the same in SMBIOS order
		{"fefefefe-fefe-fefe-fefe-fefefefefefe", "", "", ""},
		{"no uuid", "", "", ""},
		{"", "S1", "", "S1"},
	} {
		want := node.MachineIdentity{UUID: c.wantUUID, SerialNumber: c.wantSerial}
		if got := node.NewMachineIdentity(c.uuid, c.serial); got != want {
			t.Errorf("NewMachineIdentity(%q, %q) = %+v, want %+v", c.uuid, c.serial, got, want)
		}
	}
}

func TestIdentitiesAreComparedByWhatBothHave(t *testing.T) {
	const uuid = "00112233-4455-6677-8899-aabbccddeeff"
	machine := node.MachineIdentity{UUID: uuid, SerialNumber: "S1"}
	for name, c := range map[string]struct {
		other node.MachineIdentity
		same  bool
	}{
		"same":                             {machine, true},
		"nothing known":                    {node.MachineIdentity{}, true},
		"other UUID":                       {node.MachineIdentity{UUID: "10112233-4455-6677-8899-aabbccddeeff", SerialNumber: "S1"}, false},
		"other serial number, UUID alike":  {node.MachineIdentity{UUID: uuid, SerialNumber: "S2"}, true},
		"other serial number, no UUID":     {node.MachineIdentity{SerialNumber: "S2"}, false},
		"serial number in lower case":      {node.MachineIdentity{SerialNumber: "s1"}, true},
		"UUID in SMBIOS order":             {node.MachineIdentity{UUID: "33221100-5544-7766-8899-aabbccddeeff"}, true},
		"UUID reversed":                    {node.MachineIdentity{UUID: "ffeeddcc-bbaa-9988-7766-554433221100"}, true},
		"UUID in SMBIOS order, reversed":   {node.MachineIdentity{UUID: "ffeeddcc-bbaa-9988-6677-445500112233"}, true},
		"UUID in an order that nobody has": {node.MachineIdentity{UUID: "11003322-4455-6677-8899-aabbccddeeff"}, false},
	} {
		if got := machine.Compare(c.other); (got == "") != c.same {
			t.Errorf("%s: %q, want the same: %v", name, got, c.same)
		}
		spelled := func(text string) bool {
			return text != "" && slices.ContainsFunc(machine.Spellings(), func(s string) bool { return strings.EqualFold(s, text) })
		}
		if found := spelled(c.other.UUID) || spelled(c.other.SerialNumber); c.same && c.other.Known() && !found {
			t.Errorf("%s: none of %q", name, machine.Spellings())
		}
	}
}
