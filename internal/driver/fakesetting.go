package driver

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/ingot-metal/ingot/internal/node"
)

// fakeBIOS is the BIOS interface of fake hardware.
type fakeBIOS struct{ fakeStepper }

var (
	_ BIOS    = fakeBIOS{}
	_ Stepper = fakeBIOS{}
)

// fakeBIOSSettings is what a fake machine's BIOS has from the factory.
var fakeBIOSSettings = func() []node.BIOSSetting {
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

// BIOSSettings returns the settings that are in force.
func (fakeBIOS) BIOSSettings(_ context.Context, n *node.Node) ([]node.BIOSSetting, error) {
	changed := map[string]string{}
	if !fakeRecall(n, "bios", &changed) {
		return slices.Clone(fakeBIOSSettings), nil
	}
	settings := slices.Clone(fakeBIOSSettings)
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

// fakeFirmware is the firmware interface of fake hardware.
type fakeFirmware struct{ fakeStepper }

var (
	_ Firmware = fakeFirmware{}
	_ Stepper  = fakeFirmware{}
)

// FirmwareComponents returns the versions that are installed.
func (fakeFirmware) FirmwareComponents(_ context.Context, n *node.Node) ([]node.FirmwareComponent, error) {
	components := []node.FirmwareComponent{
		{Component: "bios", InitialVersion: "1.0.0", CurrentVersion: "1.0.0"},
		{Component: "bmc", InitialVersion: "2.0.0", CurrentVersion: "2.0.0"},
	}
	flashed := map[string]string{}
	fakeRecall(n, "firmware", &flashed)
	for i, component := range components {
		if version := flashed[component.Component]; version != "" {
			components[i].CurrentVersion, components[i].LastVersionFlashed = version, version
		}
	}
	return components, nil
}

// fakeRAID is the RAID interface of fake hardware.
type fakeRAID struct{ fakeStepper }

var _ Stepper = fakeRAID{}

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
