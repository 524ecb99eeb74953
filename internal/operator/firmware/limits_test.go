package firmware

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// maxObject is the largest request that etcd takes, by which the API server's objects are limited.
const maxObject = 3 << 19

func TestListsWithoutEndAreCutToWhatAnObjectCanHold(t *testing.T) {
	long := strings.Repeat("x", 5000)
	many := func(n int, name, value string) (all []provisioner.Setting) {
		for i := range n {
			all = append(all, provisioner.Setting{Name: fmt.Sprintf("%s%06d", name, i), Value: value, Schema: v1alpha1.SettingSchema{AttributeType: "String"}})
		}
		return all
	}
	endless := provisioner.Setting{Name: "Choice", Value: "a", Schema: v1alpha1.SettingSchema{AllowableValues: strings.Split(strings.Repeat("value ", 1<<18), " ")}}
	for name, tt := range map[string]struct {
		lies []provisioner.Setting
	}{
		"many settings":             {many(1<<17, "Z", "")},
		"many settings with values": {many(1<<12, "Z", long[:4000])},
		"names that are escaped":    {many(1<<14, strings.Repeat("\x01", 40)+"Z", "")},
		"a long name":               {many(1, "Z"+long, "")},
		"a long value":              {many(1, "Z", long)},
		"an enumeration":            {[]provisioner.Setting{endless}},
	} {
		t.Run(name, func(t *testing.T) {
			honest := []provisioner.Setting{{Name: "Boot", Value: "On"}}
			shown, note := cutSettings(append(tt.lies, honest...))
			_, kept := valuesOf(shown)["Boot"]
			if !strings.Contains(note, fmt.Sprintf("%d of the %d", len(tt.lies)+1-len(shown), len(tt.lies)+1)) || !kept && name != "names that are escaped" {
				t.Errorf("note %q, honest setting kept: %t", note, kept)
			}
			for what, object := range map[string]any{"values": valuesOf(shown), "schema": schemaOf(shown, nil)} {
				text, err := json.Marshal(object)
				if managed := len(text) + len(shown)*200; err != nil || managed > maxObject*3/4 {
					t.Errorf("%s of %d settings have %d bytes, %v", what, len(shown), managed, err)
				}
			}
		})
	}
}

func TestListsOfRealMachinesAreShownWhole(t *testing.T) {
	var all []provisioner.Setting
	for i := range 1500 {
		all = append(all, provisioner.Setting{Name: fmt.Sprintf("ProcessorPowerManagementSetting%04d", i), Value: "Enabled", Schema: v1alpha1.SettingSchema{
			AttributeType: "Enumeration", AllowableValues: []string{"Enabled", "Disabled", "Automatic", "As the operating system wants"},
		}})
	}
	if shown, note := cutSettings(all); len(shown) != len(all) || note != "" {
		t.Errorf("%d of %d settings are shown: %q", len(shown), len(all), note)
	}
	if shown, note := cutComponents([]provisioner.Component{{Name: "nic:a", CurrentVersion: "1"}, {Name: "bios"}}); len(shown) != 2 || note != "" {
		t.Errorf("%d of 2 components are shown: %q", len(shown), note)
	}
}

func TestCutListIsSaidInTheCondition(t *testing.T) {
	shown, note := cutComponents([]provisioner.Component{{Name: "bmc"}, {Name: "nic:" + strings.Repeat("x", 300)}, {Name: "bios", CurrentVersion: strings.Repeat("1", 5000)}})
	for _, wanted := range [][]v1alpha1.FirmwareUpdate{nil, {{Component: "bios", URL: "http://h/1"}}} {
		v := decideComponents(wanted, nil, shown)
		v.leftOut = note
		var conditions []metav1.Condition
		setConditions(&conditions, v, 1, time.Unix(1, 0))
		if valid := conditions[1]; !strings.Contains(valid.Message, "; 2 of the 3 that the engine reports are not shown") || (valid.Status == metav1.ConditionTrue) != (wanted == nil) {
			t.Errorf("Valid = %+v, want that it tells of what is not shown", valid)
		}
	}
}
