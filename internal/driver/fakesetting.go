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

var (
	_ RAID    = fakeRAID{}
	_ Stepper = fakeRAID{}
)

// LogicalDiskProperties describes the keys of a logical disk.
func (fakeRAID) LogicalDiskProperties() map[string]string { return maps.Clone(logicalDiskProperties) }

// logicalDiskProperties is every key of a logical disk that the API knows.
var logicalDiskProperties = map[string]string{
	"size_gb":                  "Size in GiB, or MAX for all the space there is. Required.",
	"raid_level":               "RAID level: 0, 1, 2, 5, 6, 1+0, 5+0, 6+0 or JBOD. Required.",
	"is_root_volume":           "Whether the system is deployed to this disk; true for one disk at most.",
	"volume_name":              "Name of the volume. Optional.",
	"disk_type":                "hdd or ssd. Optional.",
	"interface_type":           "sata, scsi or sas. Optional.",
	"controller":               "The controller that builds the disk; software for RAID by the operating system. Optional.",
	"number_of_physical_disks": "How many physical disks are used. Optional.",
	"physical_disks":           "List of the physical disks to use, by name or by hints. Optional.",
	"share_physical_disks":     "Whether other logical disks may use the same physical disks. The default is false.",
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
