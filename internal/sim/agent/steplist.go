package agent

import "slices"

// stepKind is a kind of steps.
type stepKind struct {
	name     string // "clean", "deploy" or "service"
	class    string // name of the class in error messages
	managers map[string][]stepInfo
}

// stepInfo describes one step in a step list.
type stepInfo struct {
	Step            string                  `json:"step"`
	Interface       string                  `json:"interface"`
	Priority        int                     `json:"priority"` // 0: only on request
	RebootRequested bool                    `json:"reboot_requested"`
	Abortable       bool                    `json:"abortable,omitempty"`
	ArgsInfo        map[string]argumentInfo `json:"argsinfo,omitempty"`
}

type argumentInfo struct {
	Description string `json:"description"`
	Required    bool   `json:"required"`
}

// Names of the hardware managers. The recorded agent lists the steps of both for every kind.
const (
	generic  = "GenericHardwareManager"
	proliant = "ProliantHardwareManager"
)

// abortable returns steps of the deploy interface that can be aborted.
func abortable(names ...string) []stepInfo {
	steps := make([]stepInfo, 0, len(names))
	for _, name := range names {
		steps = append(steps, stepInfo{Step: name, Interface: "deploy", Abortable: true})
	}
	return steps
}

var cleanSteps = stepKind{name: "clean", class: "CleanExtension", managers: map[string][]stepInfo{
	proliant: {
		{Step: createConfigurationStep, Interface: "raid"},
		{Step: "delete_configuration", Interface: "raid"},
		{Step: "erase_devices", Interface: "deploy"},
		{Step: "update_firmware_sum", Interface: "management"},
	},
	generic: append([]stepInfo{
		{Step: "erase_devices_metadata", Interface: "deploy", Priority: 99, Abortable: true},
	}, abortable("erase_devices_express", "erase_pstore", "burnin_cpu", "burnin_disk", "burnin_memory", "burnin_network")...),
}}

var deploySteps = stepKind{name: "deploy", class: "DeployExtension", managers: map[string][]stepInfo{
	proliant: {
		applyConfiguration,
		{Step: "flash_firmware_sum", Interface: "management", ArgsInfo: map[string]argumentInfo{
			"url":        {"Address of the service pack's ISO image.", true},
			"checksum":   {"MD5 checksum of the ISO image.", true},
			"components": {"File names of the components to update; all without it.", false},
		}},
	},
	generic: {
		{Step: "erase_devices_metadata", Interface: "deploy"},
		{Step: "write_image", Interface: "deploy"},
		injectFiles,
	},
}}

// serviceSteps has one manager only. The most specific manager inherits all steps of the generic
// one, and of steps with the same name the real list keeps that of the most specific manager.
var serviceSteps = stepKind{name: "service", class: "ServiceExtension", managers: map[string][]stepInfo{
	proliant: slices.Concat(
		[]stepInfo{
			{Step: "delete_configuration", Interface: "raid", Abortable: true},
			applyConfiguration,
			{Step: createConfigurationStep, Interface: "raid", Abortable: true},
		},
		abortable("burnin_cpu", "burnin_memory", "burnin_network"),
		[]stepInfo{{Step: "write_image", Interface: "deploy"}, injectFiles},
	),
}}

var applyConfiguration = stepInfo{Step: "apply_configuration", Interface: "raid", ArgsInfo: map[string]argumentInfo{
	"raid_config":     {"The logical disks to create.", true},
	"delete_existing": {"Whether existing logical disks go first; true without it.", false},
}}

var injectFiles = stepInfo{Step: "inject_files", Interface: "deploy", ArgsInfo: map[string]argumentInfo{
	"files":     {"Files to write: path, partition, base64 content, mode and directory mode of each.", false},
	"verify_ca": {"Whether certificates of the servers are verified.", false},
}}

// defaultStepDuration is the duration of steps that are not in stepDurations.
var defaultStepDuration = seconds(1, 3)

// stepDurations are the durations of steps. They are long enough for an engine to see that a step
// is running, and short enough for tests.
var stepDurations = map[string]span{
	"erase_devices":          seconds(20, 60),
	"erase_devices_express":  seconds(2, 6),
	"erase_devices_metadata": seconds(2, 4),
	"burnin_cpu":             seconds(10, 20),
	"burnin_disk":            seconds(10, 30),
	"burnin_memory":          seconds(10, 20),
	"burnin_network":         seconds(5, 10),
	createConfigurationStep:  seconds(5, 10),
	"delete_configuration":   seconds(3, 6),
	"apply_configuration":    seconds(5, 10),
	"update_firmware_sum":    seconds(30, 60),
	"flash_firmware_sum":     seconds(30, 60),
	"write_image":            seconds(8, 20),
	"install_coreos":         seconds(8, 20),
}
