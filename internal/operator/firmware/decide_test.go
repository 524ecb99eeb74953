package firmware

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

func found() []provisioner.Setting {
	yes, highest := true, 10
	return []provisioner.Setting{
		{Name: "Boot", Value: "5", Schema: v1alpha1.SettingSchema{AttributeType: v1alpha1.AttributeInteger, UpperBound: &highest}},
		{Name: "Net", Value: "True", Schema: v1alpha1.SettingSchema{AttributeType: v1alpha1.AttributeBoolean}},
		{Name: "Serial", Value: "S1", Schema: v1alpha1.SettingSchema{AttributeType: v1alpha1.AttributeString, ReadOnly: &yes}},
		{Name: "Virt", Value: "On", Schema: v1alpha1.SettingSchema{AttributeType: v1alpha1.AttributeEnumeration, AllowableValues: []string{"On", "Off"}}},
		{Name: "Odd", Value: "x", Schema: v1alpha1.SettingSchema{AttributeType: "Colour"}},
		{Name: "AdminPassword", Value: "secret"},
		{Name: "Pin", Value: "1234", Schema: v1alpha1.SettingSchema{AttributeType: v1alpha1.AttributePassword}},
	}
}

func TestVerdictOfSettingsNamesWhatDiffersAndWhatIsWrong(t *testing.T) {
	text, number := intstr.FromString, intstr.FromInt32
	many := map[string]intstr.IntOrString{}
	for i := range 7 {
		many[fmt.Sprintf("S%d", i)] = text("x")
	}
	const empty, same, differ = "spec.settings is empty", "The machine has all settings of spec", "These settings of the machine differ from spec: "
	for name, tt := range map[string]struct {
		wanted   map[string]intstr.IntOrString
		found    []provisioner.Setting
		none     bool
		changing string
		invalid  string
	}{
		"nothing is wanted":               {nil, found(), false, empty, ""},
		"what the machine has":            {map[string]intstr.IntOrString{"Boot": number(5), "Net": text("true"), "Virt": text("On")}, found(), false, same, ""},
		"another value":                   {map[string]intstr.IntOrString{"Boot": text("7"), "Virt": text("On")}, found(), false, differ + "Boot", ""},
		"a type that is unknown":          {map[string]intstr.IntOrString{"Odd": text("y")}, found(), false, differ + "Odd", ""},
		"a value beyond a bound":          {map[string]intstr.IntOrString{"Boot": number(11)}, found(), false, differ + "Boot", `setting "Boot" cannot be "11": the most is 10`},
		"a value that is not listed":      {map[string]intstr.IntOrString{"Virt": text("Auto")}, found(), false, differ + "Virt", `setting "Virt" cannot be "Auto": allowed are On, Off`},
		"a setting that does not exist":   {map[string]intstr.IntOrString{"New": number(1)}, found(), false, differ + "New", `setting "New" does not exist on this machine; remove it from spec.settings`},
		"a read-only setting as it is":    {map[string]intstr.IntOrString{"Serial": text("S1"), "Boot": number(6)}, found(), false, differ + "Boot", ""},
		"a read-only setting":             {map[string]intstr.IntOrString{"Serial": text("S2")}, found(), false, differ + "Serial", `setting "Serial" is read-only; remove it from spec.settings`},
		"a password, also the right one":  {map[string]intstr.IntOrString{"Pin": text("1234")}, found(), false, differ + "Pin", `setting "Pin" is a password, which cannot be set; remove it from spec.settings`},
		"two mistakes":                    {map[string]intstr.IntOrString{"A": text("x"), "Boot": number(99)}, found(), false, differ + "A, Boot", `setting "A" does not exist on this machine; remove it from spec.settings; setting "Boot" cannot be "99": the most is 10`},
		"many mistakes":                   {many, found(), false, differ + "S0, S1, S2, S3, S4, and 2 more", "; and 2 more"},
		"a driver without settings":       {map[string]intstr.IntOrString{"Boot": number(1)}, nil, true, differ + "Boot", "the driver of this machine has no BIOS settings; remove all settings from spec.settings"},
		"settings that nobody has read":   {map[string]intstr.IntOrString{"Boot": number(1)}, nil, false, differ + "Boot", "the engine has not read the BIOS settings of this machine"},
		"nothing of a driver without any": {nil, nil, true, empty, ""},
	} {
		t.Run(name, func(t *testing.T) {
			v := decideSettings(tt.wanted, tt.found, schemaOf(tt.found, nil), tt.none)
			var conditions []metav1.Condition
			setConditions(&conditions, v, 3, time.Unix(1, 0))
			change, valid := conditions[0], conditions[1]
			if change.Message != tt.changing || (change.Status == metav1.ConditionTrue) != strings.HasPrefix(tt.changing, differ) || change.Reason != "Success" {
				t.Errorf("ChangeDetected = %+v, want message %q", change, tt.changing)
			}
			if tt.invalid == "" && (valid.Status != metav1.ConditionTrue || valid.Reason != "Success") {
				t.Errorf("Valid = %+v, want true", valid)
			}
			if tt.invalid != "" && (valid.Status != metav1.ConditionFalse || valid.Reason != "ConfigurationError" || !strings.Contains(valid.Message, tt.invalid)) {
				t.Errorf("Valid = %+v, want false with %q", valid, tt.invalid)
			}
			if change.ObservedGeneration != 3 || valid.ObservedGeneration != 3 {
				t.Errorf("generations = %d and %d, want 3", change.ObservedGeneration, valid.ObservedGeneration)
			}
		})
	}
}

func TestPasswordsAreNotShown(t *testing.T) {
	want := map[string]string{"Boot": "5", "Net": "True", "Serial": "S1", "Virt": "On", "Odd": "x"}
	if diff := cmp.Diff(want, valuesOf(found())); diff != "" {
		t.Errorf("settings differ (-want +got):\n%s", diff)
	}
}

func TestVerdictOfComponents(t *testing.T) {
	machine := []provisioner.Component{{Name: "nic:a"}, {Name: "bios"}, {Name: "bmc"}}
	bmc, bios := v1alpha1.FirmwareUpdate{Component: "bmc", URL: "http://h/1"}, v1alpha1.FirmwareUpdate{Component: "bios", URL: "http://h/2"}
	nic := v1alpha1.FirmwareUpdate{Component: "nic:b", URL: "http://h/3"}
	updates := func(list ...v1alpha1.FirmwareUpdate) []v1alpha1.FirmwareUpdate { return list }
	for name, tt := range map[string]struct {
		wanted, begun []v1alpha1.FirmwareUpdate
		machine       []provisioner.Component
		changing      bool
		invalid       string
	}{
		"nothing":                       {nil, nil, machine, false, ""},
		"nothing after an update":       {nil, updates(bmc), machine, false, ""},
		"an update":                     {updates(bmc), nil, machine, true, ""},
		"an update that was begun":      {updates(bmc, bios), updates(bmc, bios), machine, false, ""},
		"the same in another order":     {updates(bios, bmc), updates(bmc, bios), machine, true, ""},
		"one more":                      {updates(bmc, bios), updates(bmc), machine, true, ""},
		"another file":                  {updates(bmc), updates(v1alpha1.FirmwareUpdate{Component: "bmc", URL: "http://h/0"}), machine, true, ""},
		"an unknown component":          {updates(bmc, nic), nil, machine, true, `component "nic:b" does not exist on this machine: it has bios, bmc, nic:a`},
		"a machine without components":  {updates(bmc), nil, nil, true, `component "bmc" does not exist on this machine: the engine reports no firmware of it; remove the component from spec.updates`},
		"a file that nobody can read":   {updates(bmc, v1alpha1.FirmwareUpdate{Component: "bios", URL: "ftp://h/2"}), nil, machine, true, `the firmware of component "bios" with "ftp": write a URL`},
		"an unknown one that was begun": {updates(nic), updates(nic), machine, false, `component "nic:b" does not exist`},
	} {
		t.Run(name, func(t *testing.T) {
			var conditions []metav1.Condition
			setConditions(&conditions, decideComponents(tt.wanted, tt.begun, tt.machine), 1, time.Unix(1, 0))
			if got := isChanging(conditions); got != tt.changing || conditions[0].Reason != "OK" {
				t.Errorf("ChangeDetected = %+v, want %t", conditions[0], tt.changing)
			}
			valid, reason := conditions[1], "OK"
			if tt.invalid != "" {
				reason = "InvalidComponent"
			}
			if (valid.Status == metav1.ConditionTrue) != (tt.invalid == "") || valid.Reason != reason || !strings.Contains(valid.Message, tt.invalid) {
				t.Errorf("Valid = %+v, want %q", valid, tt.invalid)
			}
		})
	}
}

func TestComponentsAreShownInOrderAndAsTheyAreStored(t *testing.T) {
	got := statusOf([]provisioner.Component{
		{Name: "bmc", InitialVersion: "1", CurrentVersion: "2", LastFlashed: "2", UpdatedAt: time.Unix(7, 5)}, {Name: "bios", InitialVersion: "3"},
	})
	want := []v1alpha1.FirmwareComponentStatus{
		{Component: "bios", InitialVersion: "3"},
		{Component: "bmc", InitialVersion: "1", CurrentVersion: "2", LastVersionFlashed: "2", UpdatedAt: metav1.NewTime(time.Unix(7, 0).UTC())},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("components differ (-want +got):\n%s", diff)
	}
}

func TestTransitionTimeIsThatOfTheFlip(t *testing.T) {
	var conditions []metav1.Condition
	setConditions(&conditions, verdict{determined: "OK"}, 1, time.Unix(1, 0))
	setConditions(&conditions, verdict{determined: "OK", changingMessage: "again"}, 2, time.Unix(2, 0))
	setConditions(&conditions, verdict{determined: "OK", changing: true}, 3, time.Unix(3, 0))
	for i, want := range []int64{3, 1} {
		if got := conditions[i].LastTransitionTime.Unix(); got != want || conditions[i].ObservedGeneration != 3 {
			t.Errorf("%s changed at %d for generation %d, want at %d for 3", conditions[i].Type, got, conditions[i].ObservedGeneration, want)
		}
	}
}

func TestSchemaIsSharedAndRepaired(t *testing.T) {
	wanted := schemaOf(found(), nil)
	name, err := v1alpha1.FirmwareSchemaName(wanted.Schema)
	if err != nil {
		t.Fatal(err)
	}
	shared := func(change func(*v1alpha1.FirmwareSchema)) *v1alpha1.FirmwareSchema {
		s := &v1alpha1.FirmwareSchema{Spec: *wanted.DeepCopy()}
		s.Name, s.OwnerReferences = name, []metav1.OwnerReference{{UID: "other"}, {UID: "me"}}
		change(s)
		return s
	}
	vendor := wanted
	vendor.HardwareVendor = "ACME"
	for what, tt := range map[string]struct {
		present *v1alpha1.FirmwareSchema
		wanted  v1alpha1.FirmwareSchemaSpec
		want    schemaStep
	}{
		"as it should be":       {shared(func(*v1alpha1.FirmwareSchema) {}), wanted, schemaKeep},
		"of others":             {shared(func(s *v1alpha1.FirmwareSchema) { s.OwnerReferences = s.OwnerReferences[:1] }), wanted, schemaOwn},
		"of very many":          {shared(func(s *v1alpha1.FirmwareSchema) { s.OwnerReferences = slices.Repeat(s.OwnerReferences[:1], maxOwners) }), wanted, schemaKeep},
		"of nobody":             {shared(func(s *v1alpha1.FirmwareSchema) { s.OwnerReferences = nil }), wanted, schemaRewrite},
		"before the vendor":     {shared(func(*v1alpha1.FirmwareSchema) {}), vendor, schemaRewrite},
		"edited":                {shared(func(s *v1alpha1.FirmwareSchema) { delete(s.Spec.Schema, "Boot") }), wanted, schemaRewrite},
		"in another order":      {shared(func(s *v1alpha1.FirmwareSchema) { slices.Reverse(s.Spec.Schema["Virt"].AllowableValues) }), wanted, schemaKeep},
		"of a machine like it":  {shared(func(s *v1alpha1.FirmwareSchema) { s.Name = "schema-00000000" }), wanted, schemaKeep},
		"of the same hash only": {collision(), v1alpha1.FirmwareSchemaSpec{Schema: map[string]v1alpha1.SettingSchema{"B": {}}}, schemaRefuse},
	} {
		if got := decideSchema(tt.present, tt.wanted, "me"); got != tt.want {
			t.Errorf("%s: step %d, want %d", what, got, tt.want)
		}
	}
}

// collision returns a schema whose name is the hash of its own settings.
func collision() *v1alpha1.FirmwareSchema {
	s := &v1alpha1.FirmwareSchema{Spec: v1alpha1.FirmwareSchemaSpec{Schema: map[string]v1alpha1.SettingSchema{"A": {}}}}
	s.Name, _ = v1alpha1.FirmwareSchemaName(s.Spec.Schema)
	return s
}

func TestHostOwnsWhatHasItsName(t *testing.T) {
	host := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "now"}}
	ref := func(group, kind, uid string, controller bool) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: group + "/v1alpha1", Kind: kind, Name: "web", UID: types.UID(uid), Controller: &controller}
	}
	own := *metav1.NewControllerRef(host, v1alpha1.GroupVersion.WithKind(hostKind))
	beside := own
	beside.Controller = nil
	plain := own
	plain.Controller, plain.BlockOwnerDeletion = nil, nil
	for name, tt := range map[string]struct{ refs, want []metav1.OwnerReference }{
		"nobody's":                   {nil, []metav1.OwnerReference{own}},
		"its own":                    {[]metav1.OwnerReference{own}, []metav1.OwnerReference{own}},
		"its own, plainly":           {[]metav1.OwnerReference{plain}, []metav1.OwnerReference{plain}},
		"that of a former host":      {[]metav1.OwnerReference{ref("metal3.io", hostKind, "old", true)}, []metav1.OwnerReference{own}},
		"that of somebody else, too": {[]metav1.OwnerReference{ref("apps", "Deployment", "x", false)}, []metav1.OwnerReference{ref("apps", "Deployment", "x", false), own}},
		"that of another controller": {[]metav1.OwnerReference{ref("apps", "Deployment", "x", true)}, []metav1.OwnerReference{ref("apps", "Deployment", "x", true), beside}},
	} {
		if diff := cmp.Diff(tt.want, ownedBy(tt.refs, host)); diff != "" {
			t.Errorf("%s: owners differ (-want +got):\n%s", name, diff)
		}
	}
}

func TestMarkNamesTheHostOfThisCluster(t *testing.T) {
	for mark, want := range map[provisioner.Mark]string{
		provisioner.MarkOf("c1", "ns", "web"): "ns/web", provisioner.MarkOf("c2", "ns", "web"): "", "": "", "c1/ns": "", "other": "",
	} {
		name, ok := Config{Cluster: "c1"}.hostOf(mark)
		if got := name.String(); ok != (want != "") || ok && got != want {
			t.Errorf("%q: host %q, %t; want %q", mark, got, ok, want)
		}
	}
}

func TestMarkOfAHostInANamespaceThatIsNotWatchedNamesNone(t *testing.T) {
	watching := Config{Cluster: "c1", Namespaces: []string{"a", "b"}}
	for namespace, want := range map[string]bool{"a": true, "b": true, "c": false} {
		if name, ok := watching.hostOf(provisioner.MarkOf("c1", namespace, "web")); ok != want {
			t.Errorf("host %s, %t; want %t", name, ok, want)
		}
	}
}
