package redfish

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stmcginnis/gofish/schemas"

	"github.com/ingot-metal/ingot/internal/node"
)

func TestSettingsAreSentInTheTypeOfTheBMC(t *testing.T) {
	present := schemas.SettingsAttributes{"Boot": "Uefi", "Delay": 5.0, "Turbo": true, "Serial": "X", "Proc": "Enabled", "Mode": "Fast", "Fan": "Fast"}
	pending := schemas.SettingsAttributes{"Delay": nil, "Mode": "Slow", "Fan": "Fast"}
	registry := map[string]attribute{
		"Boot":   {AttributeName: "Boot", Type: schemas.EnumerationAttributeType, Value: []attributeValue{{ValueName: "Uefi"}, {ValueName: "Bios"}}},
		"Serial": {AttributeName: "Serial", ReadOnly: true},
	}
	for name, test := range map[string]struct {
		wanted  map[string]any
		want    schemas.SettingsAttributes
		refusal string
	}{
		"what differs":                {map[string]any{"Boot": "Bios", "Proc": "Enabled"}, schemas.SettingsAttributes{"Boot": "Bios"}, ""},
		"a number as text":            {map[string]any{"Delay": "7"}, schemas.SettingsAttributes{"Delay": 7.0}, ""},
		"a boolean as text":           {map[string]any{"Turbo": "False"}, schemas.SettingsAttributes{"Turbo": false}, ""},
		"nothing":                     {map[string]any{"Delay": 5.0, "Turbo": true}, schemas.SettingsAttributes{}, ""},
		"what another is pending for": {map[string]any{"Mode": "Fast", "Fan": "Fast"}, schemas.SettingsAttributes{"Mode": "Fast"}, ""},
		"an unknown setting":          {map[string]any{"Bot": "Bios", "Delay": 9.0}, nil, "nothing was changed: Bot is no setting of this BIOS"},
		"a read-only one":             {map[string]any{"Serial": "Y"}, nil, "Serial is read-only"},
		"a value it has not":          {map[string]any{"Boot": "Legacy"}, nil, `Boot cannot be "Legacy"; it can be`},
		"a text for a number":         {map[string]any{"Delay": "long"}, nil, `Delay cannot be "long": it is a number`},
		"several at the same time":    {map[string]any{"Delay": "long", "Serial": "Y"}, nil, "Serial is read-only"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := changesOf(present, pending, registry, test.wanted)
			if test.refusal == "" && err != nil || test.refusal != "" && (err == nil || !strings.Contains(err.Error(), test.refusal)) {
				t.Errorf("error = %v, want %q", err, test.refusal)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSettingsAreShownWithTheirRegistry(t *testing.T) {
	longest := int64(16)
	settings := settingsOf(schemas.SettingsAttributes{"Delay": 5.0, "Turbo": true, "Asset": "x"}, map[string]attribute{
		"Delay": {Type: schemas.IntegerAttributeType, LowerBound: "1", UpperBound: "9", ResetRequired: true},
		"Asset": {Type: schemas.StringAttributeType, MaxLength: &longest, ReadOnly: true},
	})
	if len(settings) != 3 || settings[0].Name != "Asset" || settings[1].Value != "5" || settings[2].Value != "true" {
		t.Fatalf("settings = %+v, want three by name, with values as text", settings)
	}
	if asset := settings[0]; !*asset.ReadOnly || *asset.MaxLength != 16 || asset.AttributeType != "String" {
		t.Errorf("Asset = %+v, want a read-only text of at most 16 characters", asset)
	}
	if delay := settings[1]; *delay.LowerBound != 1 || *delay.UpperBound != 9 || !*delay.ResetRequired {
		t.Errorf("Delay = %+v, want bounds 1 and 9", delay)
	}
	if turbo := settings[2]; turbo.ReadOnly != nil || turbo.AttributeType != "" {
		t.Errorf("Turbo = %+v, want nothing of a registry that does not have it", turbo)
	}
}

func TestBoundsOfAnySignAndSizeAreReadFromARegistry(t *testing.T) {
	var list attributeList
	if err := json.Unmarshal([]byte(`[
		{"AttributeName": "Offset", "LowerBound": -20, "UpperBound": 20},
		{"AttributeName": "Mask", "LowerBound": null, "UpperBound": 18446744073709551615}
	]`), &list); err != nil || len(list) != 2 {
		t.Fatalf("attributes = %+v, %v, want both", list, err)
	}
	var offset, mask node.BIOSSetting
	describeSetting(&offset, list[0])
	describeSetting(&mask, list[1])
	if offset.LowerBound == nil || *offset.LowerBound != -20 || *offset.UpperBound != 20 {
		t.Errorf("Offset = %+v, want bounds -20 and 20", offset)
	}
	if mask.LowerBound != nil || mask.UpperBound != nil {
		t.Errorf("Mask = %+v, want no bound that the API cannot have", mask)
	}
}
