package redfish

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/ingot-metal/ingot/internal/sim/bmc"
)

// supermicro is a BMC of the X12 generation.
var supermicro = shape{
	served:  new(served),
	profile: &supermicroProfile, product: "X12", vendor: "Supermicro", oem: "Supermicro", version: "1.11.0",
	system: "1", manager: "1", chassis: "1",
	bios: "Bios", settings: "SD", applyTimes: []string{"OnReset"},
	attributeRegistry: "BiosAttributeRegistry.v1_0_0", registryFile: "/Registries/BiosAttributeRegistry.v1_0_0/BiosAttributeRegistry.en.json",
	base: "Base.1.10", registry: "SMC.1.0", severity: "Severity",
	errorCode: "Base.v1_10_3.GeneralError", errorText: "A general error has occurred. See ExtendedInfo for more information.",
	messages: map[string]message{
		"OemSimpleupdateAcceptedMessage": {"The task is %v.", "Ok", "None"},
		"OemFetchFailed":                 {"The firmware file could not be fetched.", "Critical", "Check the URI."},
		"OemImageInvalid":                {"The firmware file is not for this machine.", "Critical", "Use another file."},
		"OemUpdateFailed":                {"The update failed.", "Critical", "Try again."},
	},
	unauthorized: "NoValidSession", tooManySessions: problem{http.StatusServiceUnavailable, "SessionLimitExceeded"},
	targets: []bmc.Target{
		bmc.TargetNone, bmc.TargetPXE, bmc.TargetFloppy, bmc.TargetCD, bmc.TargetUSB, bmc.TargetDisk, bmc.TargetBIOSSetup,
		bmc.TargetVirtualCD, bmc.TargetHTTP,
	},
	wholeBoot: true, httpBoot: true, needsTag: true, silent: true, plainMedia: true,
	media:       []mediaList{{"/Managers/1", []string{"VirtualMedia1", "VirtualMedia2"}}},
	processorID: "%d", storageID: "1", controller: "AOC-S3108L-H8iR", volumeID: "%d", driveID: "%d", adapterID: "%d",
	inventory: func(c bmc.Component) (id, name string) {
		switch c.ID {
		case bmc.BMCComponent:
			return "BMC", "BMC"
		case bmc.BIOSComponent:
			return "BIOS", "BIOS"
		}
		number := strings.TrimPrefix(c.ID, "nic:")
		return "NIC" + number, "Network Adapter " + number
	},
	taskID: func(number int64) string { return strconv.FormatInt(number, 10) },
	taskStates: map[bmc.TaskState]string{
		bmc.Running: "Running", bmc.Scheduled: "Pending", bmc.Completed: "Completed", bmc.Failed: "Exception",
	},
	failures: map[bmc.Failure]string{
		bmc.FetchFailed: "OemFetchFailed", bmc.ImageInvalid: "OemImageInvalid", bmc.TaskWentWrong: "OemUpdateFailed",
	},
	updated: func(s *Service, t *bmc.Task) answer {
		out := s.accepted(t)
		out.body = object{"Accepted": object{
			"code": "Base.v1_10_3.Accepted", "Message": "The request was accepted. See the Location header and ExtendedInfo.",
			"@Message.ExtendedInfo": []object{s.shape.render("OemSimpleupdateAcceptedMessage", "", s.shape.id(s.shape.taskPath(t.Number)))},
		}}
		return out
	},
	configured: func(s *Service, _ *bmc.Task) answer { return s.shape.said("Success") },
	volumeMade: func(s *Service, made *bmc.Volume, _ *bmc.Task) answer {
		if made == nil { // the BMC lies
			return s.shape.said("Success")
		}
		return answer{
			status: http.StatusCreated, location: s.shape.id(s.shape.volumePath(made.Number)),
			body: s.volumeDocument(*made),
		}
	},
	volumeDeleted: func(s *Service, _ *bmc.Task) answer { return s.shape.done() },
}

var supermicroProfile = bmc.Profile{
	Vendor: "supermicro", Manufacturer: "Supermicro",
	Resets: []bmc.ResetType{
		bmc.ResetOn, bmc.ResetForceOff, bmc.ResetGracefulShutdown, bmc.ResetGracefulRestart, bmc.ResetForceRestart,
		bmc.ResetNMI, bmc.ResetPowerCycle,
	},
	SamePower: true,
	Targets: map[bmc.Target]bmc.Source{
		bmc.TargetPXE: bmc.FromNetwork, bmc.TargetHTTP: bmc.FromNetwork, bmc.TargetDisk: bmc.FromDisk,
		bmc.TargetVirtualCD: bmc.FromCD, bmc.TargetCD: bmc.FromElsewhere, bmc.TargetUSB: bmc.FromUSB,
		bmc.TargetFloppy: bmc.FromElsewhere, bmc.TargetBIOSSetup: bmc.FromElsewhere,
	},
	Slots: []bmc.Slot{
		{ID: "VirtualMedia1", Types: []string{"CD", "DVD"}, Sources: []bmc.Source{bmc.FromCD}},
		{ID: "VirtualMedia2", Types: []string{"USBStick", "Floppy"}, Sources: []bmc.Source{bmc.FromUSB}},
	},
	EjectsNothing: true,
	RAID:          bmc.RAID{ApplyTimes: []bmc.ApplyTime{bmc.Immediate}},
	BMCVersion:    "01.01.45", AdapterVersion: "8.70",
	Attributes: []bmc.Attribute{
		{Name: "BootModeSelect", Label: "Boot Mode Select", Type: bmc.Enumeration, Values: []string{"UEFI", "Legacy", "DUAL"}, Default: "UEFI"},
		{Name: "HyperThreadingALL", Label: "Hyper-Threading [ALL]", Type: bmc.Enumeration, Values: []string{"Enable", "Disable"}, Default: "Enable"},
		{Name: "IntelVirtualizationTechnology", Label: "Intel Virtualization Technology", Type: bmc.Enumeration, Values: []string{"Enable", "Disable"}, Default: "Enable"},
		{Name: "SR_IOVSupport", Label: "SR-IOV Support", Type: bmc.Enumeration, Values: []string{"Enabled", "Disabled"}, Default: "Enabled"},
		{Name: "QuietBoot", Label: "Quiet Boot", Type: bmc.Enumeration, Values: []string{"Enabled", "Disabled"}, Default: "Enabled"},
		{Name: "SetupPromptTimeout", Label: "Setup Prompt Timeout", Type: bmc.Integer, Max: 65535, Default: int64(1)},
		{Name: "AssetTag", Label: "Asset Tag", Type: bmc.Text, Max: 32, Default: ""},
		{Name: "BIOSVersion", Label: "BIOS Version", Type: bmc.Text, Max: 16, Default: "factory", ReadOnly: true},
	},
}
