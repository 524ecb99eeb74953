package cli

import (
	"net/http"
	"slices"
)

var powerTimeout = Field{Flag: "power-timeout", Name: "timeout", Kind: Number, Help: "`seconds` that the change may take"}

func soft(target string) Field {
	return Field{Flag: "soft", Name: "target", Kind: Constant, Value: target, Help: "ask the operating system to do it"}
}

var nodeActions = []Action{
	{Command: "power on", Method: http.MethodPut, Path: "states/power", Power: "power on", Done: "power on accepted", Short: "Switch nodes on", Fixed: map[string]any{"target": "power on"}, Fields: []Field{powerTimeout}},
	{Command: "power off", Method: http.MethodPut, Path: "states/power", Power: "power off", Done: "power off accepted", Short: "Switch nodes off", Fixed: map[string]any{"target": "power off"}, Fields: []Field{soft("soft power off"), powerTimeout}},
	{Command: "power reboot", Also: "reboot", Method: http.MethodPut, Path: "states/power", Power: "power on", Done: "reboot accepted", Short: "Switch nodes off and on", Fixed: map[string]any{"target": "rebooting"}, Fields: []Field{soft("soft rebooting"), powerTimeout}},
	{Command: "maintenance set", Method: http.MethodPut, Path: "maintenance", Done: "in maintenance", Short: "Put nodes into maintenance", Fields: []Field{{Flag: "reason", Name: "reason", Help: "why, for people"}}},
	{Command: "maintenance unset", Method: http.MethodDelete, Path: "maintenance", Done: "out of maintenance", Short: "Take nodes out of maintenance"},
	{
		Command: "boot device set", Method: http.MethodPut, Path: "management/boot_device", Args: []Arg{{Name: "DEVICE", Field: "boot_device"}},
		Done: "boot device set", Short: "Choose what a node boots from next",
		Fields: []Field{{Flag: "persistent", Name: "persistent", Kind: Bool, Help: "for every boot from now on, not just the next"}},
	},
	{Command: "boot mode set", Method: http.MethodPut, Path: "states/boot_mode", Args: []Arg{{Name: "MODE", Field: "target"}}, Done: "boot mode accepted", Short: "Choose the boot mode of a node: uefi or bios"},
	{Command: "secure boot on", Method: http.MethodPut, Path: "states/secure_boot", Fixed: map[string]any{"target": true}, Done: "secure boot on accepted", Short: "Switch secure boot on"},
	{Command: "secure boot off", Method: http.MethodPut, Path: "states/secure_boot", Fixed: map[string]any{"target": false}, Done: "secure boot off accepted", Short: "Switch secure boot off"},
	{Command: "console enable", Method: http.MethodPut, Path: "states/console", Fixed: map[string]any{"enabled": true}, Done: "console on accepted", Short: "Switch the consoles of nodes on"},
	{Command: "console disable", Method: http.MethodPut, Path: "states/console", Fixed: map[string]any{"enabled": false}, Done: "console off accepted", Short: "Switch the consoles of nodes off"},
	{
		Command: "raid set", Method: http.MethodPut, Path: "states/raid", Done: "target RAID configuration set", Short: "Say which RAID cleaning makes of nodes",
		Fields: []Field{{Flag: "config", Name: wholeBody, Kind: JSON, Required: true, Help: "RAID configuration: JSON, a `FILE` with JSON or YAML, or - for standard input; {} for none"}},
	},
	{Command: "inject nmi", Method: http.MethodPut, Path: "management/inject_nmi", Done: "NMI injected", Short: "Interrupt nodes so that they dump their memory"},
	{Command: "trait add", Also: "add trait", Method: http.MethodPut, Path: "traits", Args: []Arg{{Name: "TRAIT", Many: true}}, Done: "trait added", Short: "Add traits to a node"},
	{Command: "trait remove", Also: "remove trait", Method: http.MethodDelete, Path: "traits", Args: []Arg{{Name: "TRAIT", Many: true}}, All: true, Done: "trait removed", Short: "Remove traits from a node"},
	{Command: "trait set", Method: http.MethodPut, Path: "traits", Args: []Arg{{Name: "TRAIT", Field: "traits", Many: true}}, Done: "traits set", Short: "Replace the traits of a node"},
	{
		Command: "vif attach", Method: http.MethodPost, Path: "vifs", Args: []Arg{{Name: "VIF", Field: "id"}},
		Done: "virtual interface attached", Short: "Attach a virtual interface to a node",
		Fields: []Field{
			{Flag: "port-uuid", Name: "port_uuid", Help: "`UUID` of the port to attach it to"},
			{Flag: "port-group-uuid", Name: "portgroup_uuid", Help: "`UUID` of the port group to attach it to"},
			{Flag: "vif-info", Kind: Members, Help: "`KEY=VALUE` for the network service; may be repeated"},
		},
	},
	{Command: "vif detach", Method: http.MethodDelete, Path: "vifs", Args: []Arg{{Name: "VIF"}}, Done: "virtual interface detached", Short: "Detach a virtual interface from a node"},
	{
		Command: "vmedia attach", Method: http.MethodPost, Path: "vmedia", Done: "virtual media accepted",
		Args:   []Arg{{Name: "TYPE", Field: "device_type"}, {Name: "URL", Field: "image_url"}},
		Short:  "Insert an image into a virtual drive: cdrom, disk or floppy",
		Fields: []Field{{Flag: "image-download-source", Name: "image_download_source", Help: "how the BMC gets the image: http, local or swift"}},
	},
	{
		Command: "vmedia detach", Method: http.MethodDelete, Path: "vmedia", Done: "virtual media detached",
		Short:  "Eject images from virtual drives",
		Fields: []Field{{Flag: "device-type", Name: "device_types", Kind: Repeated, Help: "only this `TYPE` of drive; may be repeated"}},
	},
}

// NodeActions returns the commands that make a request about nodes.
func NodeActions() []Action { return slices.Clone(nodeActions) }
