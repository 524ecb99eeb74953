package redfish

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// biosInterface is the BIOS interface of the driver.
type biosInterface struct{ Driver }

var (
	_ driver.BIOS    = biosInterface{}
	_ driver.Stepper = biosInterface{}
)

// BIOSSettings reads the BIOS attributes and describes them from the attribute registry of the BMC.
// If the registry cannot be read, the settings have only names and values.
func (b biosInterface) BIOSSettings(ctx context.Context, n *node.Node) ([]node.BIOSSetting, error) {
	var settings []node.BIOSSetting
	err := b.with(ctx, n, "read BIOS settings", driver.Turn{}, func(c *call) error {
		bios, err := c.bios(n)
		if err != nil {
			return err
		}
		registry, err := c.registry(bios.AttributeRegistry)
		if err != nil && ctx.Err() != nil {
			return err
		}
		settings = settingsOf(bios.Attributes, registry)
		return nil
	})
	return settings, err
}

func (c *call) bios(n *node.Node) (*schemas.Bios, error) {
	system, err := c.system()
	if err != nil {
		return nil, err
	}
	bios, err := system.Bios()
	if err == nil && bios == nil {
		err = &node.NotSupportedError{Node: n.UUID, Interface: node.BIOSInterface.Field(), Name: "redfish", What: "BIOS settings"}
	}
	return bios, err
}

// settingsOf joins attributes with their registry, in the order of their names.
func settingsOf(values schemas.SettingsAttributes, registry map[string]attribute) []node.BIOSSetting {
	settings := make([]node.BIOSSetting, 0, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		setting := node.BIOSSetting{Name: name, Value: valueText(values[name])}
		if attribute, ok := registry[name]; ok {
			describeSetting(&setting, attribute)
		}
		settings = append(settings, setting)
	}
	return settings
}

func describeSetting(s *node.BIOSSetting, a attribute) {
	s.AttributeType = string(a.Type)
	s.ReadOnly, s.ResetRequired, s.Unique = &a.ReadOnly, &a.ResetRequired, &a.IsSystemUniqueProperty
	for _, value := range a.Value {
		s.AllowableValues = append(s.AllowableValues, value.ValueName)
	}
	s.LowerBound, s.UpperBound = boundOf(a.LowerBound), boundOf(a.UpperBound)
	s.MinLength, s.MaxLength = a.MinLength, a.MaxLength
}

// boundOf returns a bound of an attribute as the integer that the Bare Metal API has. It returns
// nil for a bound that is missing or no 64-bit integer.
func boundOf(number json.Number) *int64 {
	value, err := number.Int64()
	if err != nil {
		return nil
	}
	return &value
}

// valueText writes a value as the Bare Metal API does: numbers and booleans as text.
func valueText(value any) string {
	switch value := value.(type) {
	case nil:
		return ""
	case string:
		return value
	}
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(text)
}
