package provisioner

import (
	"maps"
	"slices"
	"strconv"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
)

// RAIDSteps returns the clean steps that give a machine the volumes of raid, which
// [Worker.SetTargetRAID] has to know before. The steps first delete all volumes, because a volume
// cannot be changed. A list that is null in raid asks for nothing, so there may be no steps. At
// most one of the lists may be non-null: the RAID interface that deletes volumes of one kind leaves
// the other kind alone.
func RAIDSteps(raid *v1alpha1.RAIDConfig) []node.Step {
	if raid == nil || raid.HardwareRAIDVolumes == nil && raid.SoftwareRAIDVolumes == nil {
		return nil
	}
	steps := []node.Step{{Interface: "raid", Step: "delete_configuration"}}
	if raid.SoftwareRAIDVolumes != nil {
		// Old partition tables would be in the way of new volumes on the same disks.
		steps = append(steps, node.Step{Interface: "deploy", Step: "erase_devices_metadata"})
	}
	if len(raid.HardwareRAIDVolumes)+len(raid.SoftwareRAIDVolumes) > 0 {
		steps = append(steps, node.Step{Interface: "raid", Step: "create_configuration"})
	}
	return steps
}

// SettingSteps returns the steps that change the BIOS settings which differ from the wanted ones:
// one step, or none. Values get the type from the setting's schema, because BMCs refuse the number
// 5 as text. A setting that is not in current is written as text.
func SettingSteps(current []Setting, wanted map[string]string) []node.Step {
	known := make(map[string]Setting, len(current))
	for _, s := range current {
		known[s.Name] = s
	}
	var changes []map[string]any
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		s, ok := known[name]
		if ok && s.Schema.SameValue(s.Value, wanted[name]) {
			continue
		}
		changes = append(changes, map[string]any{"name": name, "value": typed(s.Schema.AttributeType, wanted[name])})
	}
	if changes == nil {
		return nil
	}
	return []node.Step{{Interface: "bios", Step: "apply_configuration", Args: map[string]any{"settings": changes}}}
}

// typed converts a value to the type of its setting. A value that does not fit stays text.
func typed(kind v1alpha1.AttributeType, value string) any {
	switch kind {
	case v1alpha1.AttributeInteger:
		if n, err := strconv.Atoi(value); err == nil {
			return n
		}
	case v1alpha1.AttributeBoolean:
		if b, err := strconv.ParseBool(value); err == nil {
			return b
		}
	}
	return value
}

// FirmwareUpdate asks for new firmware for a component.
type FirmwareUpdate struct {
	// Component is the Name of a [Component]. URL says where the firmware is.
	Component, URL string
}

// FirmwareSteps returns the steps that write the firmware of components in this order: one step, or
// none.
func FirmwareSteps(updates []FirmwareUpdate) []node.Step {
	if len(updates) == 0 {
		return nil
	}
	settings := make([]map[string]any, len(updates))
	for i, u := range updates {
		settings[i] = map[string]any{"component": u.Component, "url": u.URL}
	}
	return []node.Step{{Interface: "firmware", Step: "update", Args: map[string]any{"settings": settings}}}
}

// FirmwareURLs returns the URLs in steps for firmware. Other steps have none.
func FirmwareURLs(steps []node.Step) []string {
	var urls []string
	for _, step := range steps {
		settings, _ := step.Args["settings"].([]map[string]any)
		for _, setting := range settings {
			if url, ok := setting["url"].(string); ok {
				urls = append(urls, url)
			}
		}
	}
	return urls
}
