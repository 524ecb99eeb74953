package firmware

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// maxObject is the largest request that etcd accepts, which also limits the API server's objects.
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

// TestSettingsAndComponentsThatAreNotShownAreTheMachinesAllTheSame asks for settings and components
// that the objects have no room for.
func TestSettingsAndComponentsThatAreNotShownAreTheMachinesAllTheSame(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	long, host := "nic:"+strings.Repeat("x", 300), &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "web", UID: "u1"}}
	s := pass{host: host, node: provisioner.Node{ID: "n1"}, now: time.Unix(1, 0)}
	h := &v1alpha1.HostFirmwareSettings{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "web"}, Spec: v1alpha1.HostFirmwareSettingsSpec{
		Settings: map[string]intstr.IntOrString{"Boot": intstr.FromString("Off"), "Banner": intstr.FromString("b")},
	}}
	c := &v1alpha1.HostFirmwareComponents{ObjectMeta: h.ObjectMeta, Spec: v1alpha1.HostFirmwareComponentsSpec{Updates: []v1alpha1.FirmwareUpdate{{Component: long, URL: "http://h/1"}}}}
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(h, c).WithStatusSubresource(h, c).Build()
	recorder := events.NewFakeRecorder(10)
	written, err := settings{objects: objects{client: api, live: api}, schemas: schemas{client: api, live: api}, recorder: recorder}.write(t.Context(), s, h, settingsReading{found: []provisioner.Setting{
		{Name: "Boot", Value: "On"}, {Name: "Banner", Value: strings.Repeat("a", 5000), Schema: v1alpha1.SettingSchema{AttributeType: v1alpha1.AttributeString}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (components{objects: objects{client: api, live: api}, recorder: recorder}).write(t.Context(), s, true, []provisioner.Component{{Name: "bmc"}, {Name: long}}); err != nil {
		t.Fatal(err)
	}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
		t.Fatal(err)
	}
	if len(written.Status.Settings) != 1 || len(c.Status.Components) != 1 {
		t.Errorf("%d settings and %d components are shown, want one of two each", len(written.Status.Settings), len(c.Status.Components))
	}
	for kind, conditions := range map[string][]metav1.Condition{"settings": written.Status.Conditions, "components": c.Status.Conditions} {
		for _, condition := range conditions {
			if condition.Status != metav1.ConditionTrue {
				t.Errorf("%s: %+v, want that spec can be applied and is to be", kind, condition)
			}
		}
	}
}
