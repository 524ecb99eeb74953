package redfish

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/ingot-metal/ingot/internal/sim/bmc"
)

// hpe is an iLO 5 with firmware 2.
var hpe = shape{
	served:  new(served),
	profile: &hpeProfile, product: "ProLiant", vendor: "HPE", oem: "Hpe", version: "1.6.0",
	slash: true, absolute: true,
	system: "1", manager: "1", chassis: "1",
	bios: "bios", settings: "settings",
	attributeRegistry: "BiosAttributeRegistryU32.v1_2_68",
	registryFile:      "/registrystore/registries/en/biosattributeregistryu32.v1_2_68", zipped: true,
	base: "Base.1.4", registry: "iLO.2.14", terse: true,
	errorCode: "iLO.0.10.ExtendedInfo", errorText: "See @Message.ExtendedInfo for more information.",
	messages: map[string]message{
		"InvalidOperationForSystemState":       {text: "%v"},
		"UnableToModifyDuringSystemPOST":       {text: "%p"},
		"SystemResetRequired":                  {},
		"UnauthorizedLoginAttempt":             {},
		"MaxVirtualMediaConnectionEstablished": {},
		"NoVirtualMediaConnectionAvailable":    {},
		"InvalidURI":                           {text: "%v"},
		"UpdateImageNotFound":                  {},
		"UpdateImageInvalid":                   {},
		"UpdateFailed":                         {},
	},
	problems: map[bmc.Reason]problem{
		bmc.AlreadyOn:    {http.StatusBadRequest, "InvalidOperationForSystemState"},
		bmc.AlreadyOff:   {http.StatusBadRequest, "InvalidOperationForSystemState"},
		bmc.DuringPOST:   {http.StatusBadRequest, "UnableToModifyDuringSystemPOST"},
		bmc.SlotOccupied: {http.StatusBadRequest, "MaxVirtualMediaConnectionEstablished"},
		bmc.SlotEmpty:    {http.StatusBadRequest, "NoVirtualMediaConnectionAvailable"},
	},
	unauthorized: "NoValidSession", tooManySessions: problem{http.StatusBadRequest, "CreateLimitReachedForResource"},
	httpBoot: true,
	targets: []bmc.Target{
		bmc.TargetNone, bmc.TargetCD, bmc.TargetDisk, bmc.TargetUSB, bmc.TargetSDCard, bmc.TargetUtilities, bmc.TargetDiags,
		bmc.TargetBIOSSetup, bmc.TargetPXE, bmc.TargetUEFIShell, bmc.TargetHTTP, bmc.TargetUEFITarget,
	},
	media:       []mediaList{{"/Managers/1", []string{"1", "2"}}},
	processorID: "%d", storageID: "DE00A000", controller: "HPE Smart Array P408i-a SR Gen10", volumeID: "%d", driveID: "%d", adapterID: "DC0%dA000",
	inventory: func(c bmc.Component) (id, name string) {
		switch c.ID {
		case bmc.BMCComponent:
			return "1", "iLO 5"
		case bmc.BIOSComponent:
			return "2", "System ROM"
		}
		number, _ := strconv.Atoi(strings.TrimPrefix(c.ID, "nic:"))
		return strconv.Itoa(number + 2), "Network Adapter " + strconv.Itoa(number)
	},
	taskID: func(number int64) string { return strconv.FormatInt(number, 10) },
	taskStates: map[bmc.TaskState]string{
		bmc.Running: "Running", bmc.Scheduled: "Pending", bmc.Completed: "Completed", bmc.Failed: "Exception",
	},
	failures: map[bmc.Failure]string{
		bmc.FetchFailed: "UpdateImageNotFound", bmc.ImageInvalid: "UpdateImageInvalid", bmc.TaskWentWrong: "UpdateFailed",
	},
	updated:       func(s *Service, _ *bmc.Task) answer { return s.shape.said("Success") },
	configured:    func(s *Service, _ *bmc.Task) answer { return s.shape.said("SystemResetRequired") },
	volumeMade:    func(s *Service, _ *bmc.Volume, _ *bmc.Task) answer { return s.shape.said("SystemResetRequired") },
	volumeDeleted: func(s *Service, _ *bmc.Task) answer { return s.shape.said("SystemResetRequired") },
	extend: map[string]func(*Service, object){
		"UpdateService": func(s *Service, document object) { document["Oem"] = object{"Hpe": s.hpeUpdate()} },
		"ComputerSystem": func(s *Service, document object) {
			document["Oem"] = object{"Hpe": object{"PostState": s.hpePOST()}}
		},
	},
}

var hpeProfile = bmc.Profile{
	Vendor: "hpe", Manufacturer: "HPE",
	Resets: []bmc.ResetType{
		bmc.ResetOn, bmc.ResetForceOff, bmc.ResetGracefulShutdown, bmc.ResetForceRestart, bmc.ResetNMI,
		bmc.ResetPushPowerButton, bmc.ResetGracefulRestart,
	},
	Targets: map[bmc.Target]bmc.Source{
		bmc.TargetPXE: bmc.FromNetwork, bmc.TargetHTTP: bmc.FromNetwork, bmc.TargetDisk: bmc.FromDisk,
		bmc.TargetCD: bmc.FromCD, bmc.TargetUSB: bmc.FromUSB, bmc.TargetBIOSSetup: bmc.FromElsewhere,
		bmc.TargetUtilities: bmc.FromElsewhere, bmc.TargetDiags: bmc.FromElsewhere, bmc.TargetUEFIShell: bmc.FromElsewhere,
		bmc.TargetUEFITarget: bmc.FromElsewhere, bmc.TargetSDCard: bmc.FromElsewhere,
	},
	OnceOnly:  []bmc.Target{bmc.TargetCD, bmc.TargetUSB, bmc.TargetBIOSSetup, bmc.TargetUEFIShell, bmc.TargetUtilities, bmc.TargetDiags},
	FixedMode: true, POSTLocksBoot: true,
	Slots: []bmc.Slot{
		{ID: "1", Types: []string{"Floppy", "USBStick"}, Sources: []bmc.Source{bmc.FromUSB}},
		{ID: "2", Types: []string{"CD", "DVD"}, Sources: []bmc.Source{bmc.FromCD}},
	},
	RAID:       bmc.RAID{ApplyTimes: []bmc.ApplyTime{bmc.OnReset}, HiddenInPOST: true},
	BMCVersion: "iLO 5 v2.95", AdapterVersion: "20.23.1",
	Attributes: []bmc.Attribute{
		{Name: "BootMode", Label: "Boot Mode", Type: bmc.Enumeration, Values: []string{"Uefi", "LegacyBios"}, Default: "Uefi"},
		{Name: "ProcHyperthreading", Label: "Hyper-Threading", Type: bmc.Enumeration, Values: []string{"Enabled", "Disabled"}, Default: "Enabled"},
		{Name: "ProcVirtualization", Label: "Virtualization Technology", Type: bmc.Enumeration, Values: []string{"Enabled", "Disabled"}, Default: "Enabled"},
		{Name: "Sriov", Label: "SR-IOV", Type: bmc.Enumeration, Values: []string{"Enabled", "Disabled"}, Default: "Enabled"},
		{Name: "WorkloadProfile", Label: "Workload Profile", Type: bmc.Enumeration, Values: []string{"GeneralPowerEfficientCompute", "Virtualization-MaxPerformance", "Custom"}, Default: "GeneralPowerEfficientCompute"},
		{Name: "ProcCoreDisable", Label: "Enabled Cores per Processor", Type: bmc.Integer, Max: 64, Default: int64(0)},
		{Name: "AdminName", Label: "Administrator Name", Type: bmc.Text, Max: 28, Default: ""},
		{Name: "ProductId", Label: "Product ID", Type: bmc.Text, Max: 16, Default: "867959-B21", ReadOnly: true},
	},
}

// hpePOST returns how far the machine has booted.
func (s *Service) hpePOST() string {
	switch {
	case s.bmc.InPOST():
		return "InPost"
	case s.bmc.Power() == bmc.On:
		return "FinishedPost"
	}
	return "PowerOff"
}

// hpeUpdate returns the state of the newest update. As far as the BMC can tell, an update that
// waits for a boot is complete.
func (s *Service) hpeUpdate() object {
	state := object{"State": "Idle"}
	for _, t := range s.allTasks() {
		if t.Kind != bmc.FlashTask {
			continue
		}
		state = object{"State": "Complete", "FlashProgressPercent": 100, "Result": s.shape.render("Success", "", "")}
		switch t.State {
		case bmc.Running:
			state = object{"State": "Updating", "FlashProgressPercent": percents[bmc.Running]}
		case bmc.Failed:
			state = object{"State": "Error", "Result": s.shape.render(s.shape.failures[t.Failure], "", "")}
		}
	}
	return state
}
