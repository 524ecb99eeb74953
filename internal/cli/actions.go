package cli

import (
	"net/http"
	"slices"
)

var powerTimeout = Field{Flag: "power-timeout", Name: "timeout", Kind: Number, Help: "let the change take at most this many `seconds`"}

func soft(target string) Field {
	return Field{Flag: "soft", Name: "target", Kind: Constant, Value: target, Help: "ask the operating system of the node to shut down"}
}

var nodeActions = []Action{
	{Command: "power on", Method: http.MethodPut, Path: "states/power", Power: "power on", Done: "power on accepted", Short: "Power nodes on", Fixed: map[string]any{"target": "power on"}, Fields: []Field{powerTimeout}},
	{Command: "power off", Method: http.MethodPut, Path: "states/power", Power: "power off", Done: "power off accepted", Short: "Power nodes off", Fixed: map[string]any{"target": "power off"}, Fields: []Field{soft("soft power off"), powerTimeout}},
	{Command: "power reboot", Also: "reboot", Method: http.MethodPut, Path: "states/power", Power: "power on", Done: "reboot accepted", Short: "Reboot nodes", Fixed: map[string]any{"target": "rebooting"}, Fields: []Field{soft("soft rebooting"), powerTimeout}},
	{Command: "maintenance set", Method: http.MethodPut, Path: "maintenance", Done: "in maintenance", Short: "Put nodes into maintenance", Fields: []Field{{Flag: "reason", Name: "reason", Help: "reason for the maintenance"}}},
	{Command: "maintenance unset", Method: http.MethodDelete, Path: "maintenance", Done: "out of maintenance", Short: "Take nodes out of maintenance"},
	{
		Command: "boot device set", Method: http.MethodPut, Path: "management/boot_device", Args: []Arg{{Name: "DEVICE", Field: "boot_device"}},
		Done: "boot device set", Short: "Set the boot device of a node",
		Fields: []Field{{Flag: "persistent", Name: "persistent", Kind: Bool, Help: "use the device for all future boots, not only for the next one"}},
	},
	{Command: "boot mode set", Method: http.MethodPut, Path: "states/boot_mode", Args: []Arg{{Name: "MODE", Field: "target"}}, Done: "boot mode accepted", Short: "Set the boot mode of a node: uefi or bios"},
	{Command: "secure boot on", Method: http.MethodPut, Path: "states/secure_boot", Fixed: map[string]any{"target": true}, Done: "secure boot on accepted", Short: "Enable secure boot on nodes"},
	{Command: "secure boot off", Method: http.MethodPut, Path: "states/secure_boot", Fixed: map[string]any{"target": false}, Done: "secure boot off accepted", Short: "Disable secure boot on nodes"},
	{Command: "console enable", Method: http.MethodPut, Path: "states/console", Fixed: map[string]any{"enabled": true}, Done: "console on accepted", Short: "Enable the consoles of nodes"},
	{Command: "console disable", Method: http.MethodPut, Path: "states/console", Fixed: map[string]any{"enabled": false}, Done: "console off accepted", Short: "Disable the consoles of nodes"},
	{
		Command: "raid set", Method: http.MethodPut, Path: "states/raid", Done: "target RAID configuration set", Short: "Set the RAID configuration that the next cleaning of nodes creates",
		Fields: []Field{{Flag: "config", Name: wholeBody, Kind: JSON, Required: true, Help: "RAID configuration as JSON, a `FILE` with JSON or YAML, or - for standard input; {} for none"}},
	},
	{Command: "inject nmi", Method: http.MethodPut, Path: "management/inject_nmi", Done: "NMI injected", Short: "Send nodes a non-maskable interrupt"},
	{Command: "trait add", Also: "add trait", Method: http.MethodPut, Path: "traits", Args: []Arg{{Name: "TRAIT", Many: true}}, Done: "trait added", Short: "Add traits to a node"},
	{Command: "trait remove", Also: "remove trait", Method: http.MethodDelete, Path: "traits", Args: []Arg{{Name: "TRAIT", Many: true}}, All: true, Done: "trait removed", Short: "Remove traits from a node"},
	{Command: "trait set", Method: http.MethodPut, Path: "traits", Args: []Arg{{Name: "TRAIT", Field: "traits", Many: true}}, Done: "traits set", Short: "Replace the traits of a node"},
	{
		Command: "vif attach", Method: http.MethodPost, Path: "vifs", Args: []Arg{{Name: "VIF", Field: "id"}},
		Done: "virtual interface attached", Short: "Attach a virtual interface to a node",
		Fields: []Field{
			{Flag: "port-uuid", Name: "port_uuid", Help: "`UUID` of the port to attach it to"},
			{Flag: "port-group-uuid", Name: "portgroup_uuid", Help: "`UUID` of the port group to attach it to"},
			{Flag: "vif-info", Kind: Members, Help: "setting `KEY=VALUE` for the network service; may be repeated"},
		},
	},
	{Command: "vif detach", Method: http.MethodDelete, Path: "vifs", Args: []Arg{{Name: "VIF"}}, Done: "virtual interface detached", Short: "Detach a virtual interface from a node"},
	{
		Command: "vmedia attach", Method: http.MethodPost, Path: "vmedia", Done: "virtual media accepted",
		Args:   []Arg{{Name: "TYPE", Field: "device_type"}, {Name: "URL", Field: "image_url"}},
		Short:  "Attach an image to a virtual media device: cdrom, disk or floppy",
		Fields: []Field{{Flag: "image-download-source", Name: "image_download_source", Help: "source that the BMC downloads the image from: http, local or swift"}},
	},
	{
		Command: "vmedia detach", Method: http.MethodDelete, Path: "vmedia", Done: "virtual media detached",
		Short:  "Detach images from virtual media devices",
		Fields: []Field{{Flag: "device-type", Name: "device_types", Kind: Repeated, Help: "only devices of this `TYPE`; may be repeated"}},
	},
}

// NodeActions returns the commands that make one request for each node.
func NodeActions() []Action { return slices.Clone(nodeActions) }
