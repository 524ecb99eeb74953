package firmware

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// maxListed is how many settings or components a message names.
const maxListed = 5

// verdict is what the conditions of an object are to say.
type verdict struct {
	// changing is true if the spec asks for something that the machine does not have.
	changing        bool
	changingMessage string
	// invalid says why the machine cannot be given what the spec asks for; nil means that it can.
	invalid []string
	// leftOut is added to the message of the condition Valid. It says what is not shown; "" means
	// nothing.
	leftOut string
	// determined and refused are the reasons of the conditions.
	determined, refused string
}

// decideSettings judges the wanted settings for a machine whose settings were found. It does not
// check a setting that the machine already has, so that a spec may repeat what the status shows.
// none says that the machine's driver has no BIOS settings.
func decideSettings(wanted map[string]intstr.IntOrString, found []provisioner.Setting, schema v1alpha1.FirmwareSchemaSpec, none bool) verdict {
	v := verdict{
		changingMessage: "The machine has all settings of spec",
		determined:      v1alpha1.SettingsSuccessReason, refused: v1alpha1.SettingsConfigurationErrorReason,
	}
	values := make(map[string]provisioner.Setting, len(found))
	for _, s := range found {
		values[s.Name] = s
	}
	var differing []string
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		value := wanted[name]
		present, known := values[name]
		if known && !isPassword(present) && present.Schema.SameValue(present.Value, value.String()) {
			continue
		}
		differing = append(differing, name)
		if err := schema.CheckSetting(name, value); err != nil {
			v.invalid = append(v.invalid, err.Error())
		}
	}
	switch {
	case len(wanted) == 0:
		v.changingMessage = "spec.settings is empty"
	case len(differing) > 0:
		v.changing, v.changingMessage = true, "These settings of the machine differ from spec: "+list(differing, ", ")
	}
	switch {
	case len(differing) > 0 && none:
		v.invalid = []string{"the driver of this machine has no BIOS settings; remove all settings from spec.settings"}
	case len(differing) > 0 && len(found) == 0:
		v.invalid = []string{"the engine has not read the BIOS settings of this machine; it does that when it registers, cleans or services the machine, " +
			"and its log says why it could not"}
	}
	return v
}

// valuesOf returns the settings that are shown: all but passwords.
func valuesOf(found []provisioner.Setting) map[string]string {
	values := make(map[string]string, len(found))
	for _, s := range found {
		if !isPassword(s) {
			values[s.Name] = s.Value
		}
	}
	return values
}

func isPassword(s provisioner.Setting) bool {
	return strings.Contains(s.Name, "Password") || s.Schema.AttributeType == v1alpha1.AttributePassword
}

// attributeTypes are the types that schemas may have.
var attributeTypes = map[v1alpha1.AttributeType]bool{
	v1alpha1.AttributeEnumeration: true, v1alpha1.AttributeString: true, v1alpha1.AttributeInteger: true,
	v1alpha1.AttributeBoolean: true, v1alpha1.AttributePassword: true,
}

// schemaOf returns the schema of the settings that were found. Without settings, the schema is
// empty. A type that the API does not have counts as unknown.
func schemaOf(found []provisioner.Setting, hardware *v1alpha1.HardwareDetails) v1alpha1.FirmwareSchemaSpec {
	schema := v1alpha1.FirmwareSchemaSpec{Schema: make(map[string]v1alpha1.SettingSchema, len(found))}
	for _, s := range found {
		setting := s.Schema
		if !attributeTypes[setting.AttributeType] {
			setting.AttributeType = ""
		}
		schema.Schema[s.Name] = setting
	}
	if hardware != nil {
		schema.HardwareVendor, schema.HardwareModel = hardware.SystemVendor.Manufacturer, hardware.SystemVendor.ProductName
	}
	return schema
}

// list joins the first maxListed words and says how many more there are.
func list(words []string, separator string) string {
	if len(words) <= maxListed {
		return strings.Join(words, separator)
	}
	return fmt.Sprintf("%s%sand %d more", strings.Join(words[:maxListed], separator), separator, len(words)-maxListed)
}
