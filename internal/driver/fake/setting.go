package fake

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// biosInterface is the BIOS interface of fake hardware.
type biosInterface struct{ stepper }

var (
	_ driver.BIOS    = biosInterface{}
	_ driver.Stepper = biosInterface{}
)

// factorySettings are the default BIOS settings of a fake machine.
var factorySettings = func() []node.BIOSSetting {
	yes, no := true, false
	low, high := int64(0), int64(3600)
	return []node.BIOSSetting{
		{
			Name: "BootMode", Value: "Uefi", AttributeType: "Enumeration", AllowableValues: []string{"Bios", "Uefi"},
			ReadOnly: &no, ResetRequired: &yes,
		},
		{
			Name: "ProcVirtualization", Value: "Enabled", AttributeType: "Enumeration", AllowableValues: []string{"Enabled", "Disabled"},
			ReadOnly: &no, ResetRequired: &yes,
		},
		{Name: "PowerOnDelay", Value: "0", AttributeType: "Integer", LowerBound: &low, UpperBound: &high, ReadOnly: &no},
	}
}()

// settings returns the changed settings: those of the machine, or without a machine
// those that are stored in the node.
func (h Hardware) settings(ctx context.Context, n *node.Node) (Settings, error) {
	if machine, ok := h.machine(n); ok {
		settings, err := machine.Settings(ctx)
		return settings, read(err)
	}
	var settings Settings
	recall(n, "bios", &settings.BIOS)
	recall(n, "firmware", &settings.Firmware)
	return settings, nil
}

// BIOSSettings returns the present settings.
func (b biosInterface) BIOSSettings(ctx context.Context, n *node.Node) ([]node.BIOSSetting, error) {
	known, err := b.settings(ctx, n)
	if err != nil {
		return nil, err
	}
	changed := maps.Clone(known.BIOS)
	settings := slices.Clone(factorySettings)
	for i, setting := range settings {
		if value, ok := changed[setting.Name]; ok {
			settings[i].Value = value
			delete(changed, setting.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(changed)) {
		settings = append(settings, node.BIOSSetting{Name: name, Value: changed[name]})
	}
	return settings, nil
}

// firmwareInterface is the firmware interface of fake hardware.
type firmwareInterface struct{ stepper }

var (
	_ driver.Firmware = firmwareInterface{}
	_ driver.Stepper  = firmwareInterface{}
)

// FirmwareComponents returns the versions that are installed.
func (f firmwareInterface) FirmwareComponents(ctx context.Context, n *node.Node) ([]node.FirmwareComponent, error) {
	known, err := f.settings(ctx, n)
	if err != nil {
		return nil, err
	}
	components := []node.FirmwareComponent{
		{Component: "bios", InitialVersion: "1.0.0", CurrentVersion: "1.0.0"},
		{Component: "bmc", InitialVersion: "2.0.0", CurrentVersion: "2.0.0"},
	}
	for i, component := range components {
		if version := known.Firmware[component.Component]; version != "" {
			components[i].CurrentVersion, components[i].LastVersionFlashed = version, version
		}
	}
	return components, nil
}

// textOf returns a JSON value as text, strings without quotes.
func textOf(value any) string {
	if text, ok := value.(string); ok {
		return text
	}
	text, err := json.Marshal(value)
	if err != nil {
		return ""
	}
	return string(text)
}
