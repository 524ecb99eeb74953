package v1alpha1

import (
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestCheckSettingSaysWhatIsWrong(t *testing.T) {
	yes, no := true, false
	schema := FirmwareSchemaSpec{Schema: map[string]SettingSchema{
		"Turbo":         {AttributeType: AttributeEnumeration, AllowableValues: []string{"Enabled", "Disabled"}, ReadOnly: &no},
		"Cores":         {AttributeType: AttributeEnumeration, AllowableValues: []string{"8", "16"}},
		"Many":          {AttributeType: AttributeEnumeration, AllowableValues: strings.Fields(strings.Repeat("value ", 1000))},
		"Timeout":       {AttributeType: AttributeInteger, LowerBound: new(1), UpperBound: new(600)},
		"AtLeast":       {AttributeType: AttributeInteger, LowerBound: new(-5)},
		"AtMost":        {AttributeType: AttributeInteger, UpperBound: new(5)},
		"Free":          {AttributeType: AttributeInteger},
		"Tag":           {AttributeType: AttributeString, MinLength: new(2), MaxLength: new(4)},
		"Text":          {AttributeType: AttributeString},
		"NumLock":       {AttributeType: AttributeBoolean},
		"Version":       {AttributeType: AttributeString, ReadOnly: &yes},
		"SetupPassword": {AttributeType: AttributeString},
		"Secret":        {AttributeType: AttributePassword},
		"Unknown":       {},
		"Newer":         {AttributeType: "Colour"},
	}}
	text, number := intstr.FromString, intstr.FromInt32
	for _, tt := range []struct {
		name    string
		value   intstr.IntOrString
		message string // "" means that the value is allowed
	}{
		{"Turbo", text("Disabled"), ""},
		{"Turbo", text("disabled"), `setting "Turbo" cannot be "disabled": allowed are Enabled, Disabled`},
		{"Cores", number(16), ""},
		{"Cores", number(4), `setting "Cores" cannot be "4": allowed are 8, 16`},
		{"Many", text("other"), `setting "Many" cannot be "other": allowed are ` + strings.Repeat("value, ", 28) + "valu…"},
		{"Timeout", number(1), ""},
		{"Timeout", text("600"), ""},
		{"Timeout", number(0), `setting "Timeout" cannot be "0": the least is 1`},
		{"Timeout", text("601"), `setting "Timeout" cannot be "601": the most is 600`},
		{"Timeout", text("1.5"), `setting "Timeout" cannot be "1.5": it is no whole number`},
		{"Timeout", text("1e99"), `setting "Timeout" cannot be "1e99": it is no whole number`},
		{"AtLeast", number(1000), ""},
		{"AtLeast", number(-6), `setting "AtLeast" cannot be "-6": the least is -5`},
		{"AtMost", number(-1000), ""},
		{"AtMost", number(6), `setting "AtMost" cannot be "6": the most is 5`},
		{"Free", number(7), ""},
		{"Free", text(""), `setting "Free" cannot be "": it is no whole number`},
		{"Tag", text("ab"), ""},
		{"Tag", text("äöüß"), ""},
		{"Tag", text("a"), `setting "Tag" cannot be "a": the least is 2 characters`},
		{"Tag", text("abcde"), `setting "Tag" cannot be "abcde": the most is 4 characters`},
		{"Tag", number(12345), `setting "Tag" cannot be "12345": the most is 4 characters`},
		{"Text", text(""), ""},
		{"NumLock", text("true"), ""},
		{"NumLock", text("True"), `setting "NumLock" cannot be "True": allowed are "true" and "false", in quotes`},
		{"NumLock", number(1), `setting "NumLock" cannot be "1": allowed are "true" and "false", in quotes`},
		{"Version", text("2"), `setting "Version" is read-only; remove it from spec.settings`},
		{"SetupPassword", text("hunter2"), `setting "SetupPassword" is a password, which cannot be set; remove it from spec.settings`},
		{"Secret", text("hunter2"), `setting "Secret" is a password, which cannot be set; remove it from spec.settings`},
		{"Unknown", text("anything"), ""},
		{"Newer", text("red"), `setting "Newer" cannot be "red": its type "Colour" is unknown to this version`},
		{"AdminPassword", text("hunter2"), `setting "AdminPassword" is a password, which cannot be set; remove it from spec.settings`},
		{"Missing", text("1"), `setting "Missing" does not exist on this machine; remove it from spec.settings`},
	} {
		got := ""
		if err := schema.CheckSetting(tt.name, tt.value); err != nil {
			got = err.Error()
		}
		if got != tt.message {
			t.Errorf("%s = %s: got %q, want %q", tt.name, tt.value.String(), got, tt.message)
		}
	}
}

func TestErrorOfALongValueIsShort(t *testing.T) {
	schema := FirmwareSchemaSpec{Schema: map[string]SettingSchema{"NumLock": {AttributeType: AttributeBoolean}}}
	err := schema.CheckSetting("NumLock", intstr.FromString(strings.Repeat("ä", 1_000_000)))
	if err == nil || len(err.Error()) > 1000 {
		t.Errorf("got %.2000v", err)
	}
}

func TestNameOfASchemaDependsOnItsContentOnly(t *testing.T) {
	name := func(schema map[string]SettingSchema) string {
		t.Helper()
		got, err := FirmwareSchemaName(schema)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	schema := func() map[string]SettingSchema {
		return map[string]SettingSchema{
			"Turbo":   {AttributeType: AttributeEnumeration, AllowableValues: []string{"Enabled", "Disabled"}},
			"Timeout": {AttributeType: AttributeInteger, LowerBound: new(1), UpperBound: new(600)},
		}
	}
	want := name(schema())
	if !regexp.MustCompile(`^schema-[0-9a-f]{8}$`).MatchString(want) {
		t.Errorf("got %q", want)
	}
	other := schema()
	other["Turbo"] = SettingSchema{AttributeType: AttributeEnumeration, AllowableValues: []string{"Disabled", "Enabled"}}
	if got := name(other); got != want {
		t.Errorf("with values in another order: got %q, want %q", got, want)
	}
	if order := other["Turbo"].AllowableValues; order[0] != "Disabled" {
		t.Errorf("the name changed the schema: %v", order)
	}
	for change, edit := range map[string]func(map[string]SettingSchema){
		"a setting less": func(s map[string]SettingSchema) { delete(s, "Turbo") },
		"a value more": func(s map[string]SettingSchema) {
			s["Turbo"] = SettingSchema{AttributeType: AttributeEnumeration, AllowableValues: []string{"Auto", "Disabled", "Enabled"}}
		},
		"another bound": func(s map[string]SettingSchema) {
			s["Timeout"] = SettingSchema{AttributeType: AttributeInteger, LowerBound: new(0), UpperBound: new(600)}
		},
		"another name": func(s map[string]SettingSchema) { s["Boost"] = s["Turbo"]; delete(s, "Turbo") },
	} {
		changed := schema()
		edit(changed)
		if got := name(changed); got == want {
			t.Errorf("%s: got the same name %q", change, got)
		}
	}
}

func TestValuesAreComparedByTheTypeOfTheSetting(t *testing.T) {
	for _, tt := range []struct {
		kind AttributeType
		a, b string
		want bool
	}{
		{AttributeBoolean, "True", "true", true},
		{AttributeBoolean, "True", "false", false},
		{AttributeInteger, "05", "5", true},
		{AttributeInteger, "5", "6", false},
		{AttributeInteger, "five", "five", true},
		{AttributeString, "A", "a", false},
		{AttributeEnumeration, "On", "On", true},
		{"", "True", "true", false},
	} {
		if got := (SettingSchema{AttributeType: tt.kind}).SameValue(tt.a, tt.b); got != tt.want {
			t.Errorf("%s: %q and %q: same = %t, want %t", tt.kind, tt.a, tt.b, got, tt.want)
		}
	}
}
