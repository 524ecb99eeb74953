package v1alpha1

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// maxShown is how many characters of a value or of a list an error shows.
const maxShown = 200

// FirmwareSchemaName is the name of the FirmwareSchema with these settings:
// "schema-" and 8 hexadecimal digits of their hash. The order of settings and of
// allowable values does not matter. Different settings rarely have the same name, so
// whoever finds an object of that name has to compare.
func FirmwareSchemaName(schema map[string]SettingSchema) (string, error) {
	text, err := schemaText(schema)
	if err != nil {
		return "", fmt.Errorf("hash the schema of BIOS settings: %w", err)
	}
	hash := sha256.Sum256(text)
	return "schema-" + hex.EncodeToString(hash[:4]), nil
}

// SameSchema reports whether two schemas have the same settings with the same values, in
// whatever order.
func SameSchema(a, b map[string]SettingSchema) bool {
	first, errFirst := schemaText(a)
	second, errSecond := schemaText(b)
	return errFirst == nil && errSecond == nil && bytes.Equal(first, second)
}

// schemaText is the same for schemas that differ only in order.
func schemaText(schema map[string]SettingSchema) ([]byte, error) {
	sorted := make(map[string]SettingSchema, len(schema))
	for name, setting := range schema {
		setting.AllowableValues = slices.Sorted(slices.Values(setting.AllowableValues))
		sorted[name] = setting
	}
	return json.Marshal(sorted) // writes keys in their order
}

// SameValue reports whether two texts are the same value of the setting: engines write
// Booleans with and without a capital letter, and users write numbers as they like.
func (s SettingSchema) SameValue(a, b string) bool {
	switch s.AttributeType {
	case AttributeBoolean:
		return strings.EqualFold(a, b)
	case AttributeInteger:
		x, errX := strconv.Atoi(a)
		y, errY := strconv.Atoi(b)
		if errX == nil && errY == nil {
			return x == y
		}
	}
	return a == b
}

// CheckSetting says why a BIOS setting cannot have a value, or returns nil. The error is
// for users and never has the value of a password.
func (s FirmwareSchemaSpec) CheckSetting(name string, value intstr.IntOrString) error {
	setting, known := s.Schema[name]
	switch {
	case strings.Contains(name, "Password") || setting.AttributeType == AttributePassword:
		return fmt.Errorf("setting %q is a password, which cannot be set; remove it from spec.settings", cut(name))
	case !known:
		return fmt.Errorf("setting %q does not exist on this machine; remove it from spec.settings", cut(name))
	case setting.ReadOnly != nil && *setting.ReadOnly:
		return fmt.Errorf("setting %q is read-only; remove it from spec.settings", cut(name))
	}
	if err := setting.check(value); err != nil {
		return fmt.Errorf("setting %q cannot be %q: %w", cut(name), cut(value.String()), err)
	}
	return nil
}

// check says why the value does not fit the type of the setting.
func (s SettingSchema) check(value intstr.IntOrString) error {
	text := value.String()
	switch s.AttributeType {
	case "":
		return nil // the BMC does not tell what is allowed
	case AttributeEnumeration:
		if !slices.Contains(s.AllowableValues, text) {
			return fmt.Errorf("allowed are %s", cut(strings.Join(s.AllowableValues, ", ")))
		}
	case AttributeInteger:
		n, err := strconv.Atoi(text)
		if err != nil {
			return errors.New("it is no whole number")
		}
		return within(n, s.LowerBound, s.UpperBound, "")
	case AttributeString:
		return within(utf8.RuneCountInString(text), s.MinLength, s.MaxLength, " characters")
	case AttributeBoolean:
		if text != "true" && text != "false" {
			return errors.New(`allowed are "true" and "false", in quotes`)
		}
	default:
		return fmt.Errorf("its type %q is unknown to this version", cut(string(s.AttributeType)))
	}
	return nil
}

// within says which bound n violates; a bound that is nil does not exist.
func within(n int, lowest, highest *int, unit string) error {
	switch {
	case lowest != nil && n < *lowest:
		return fmt.Errorf("the least is %d%s", *lowest, unit)
	case highest != nil && n > *highest:
		return fmt.Errorf("the most is %d%s", *highest, unit)
	default:
		return nil
	}
}

// cut shortens text for an error.
func cut(text string) string {
	if utf8.RuneCountInString(text) <= maxShown {
		return text
	}
	return string([]rune(text)[:maxShown]) + "…"
}
