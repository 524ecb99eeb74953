package redfish

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/internal/sim/bmc"
)

// dell is an iDRAC9 with firmware 7.
var dell = shape{
	served:  new(served),
	profile: &dellProfile, product: "Integrated Dell Remote Access Controller", vendor: "Dell", oem: "Dell", version: "1.17.0",
	silent: true,
	system: "System.Embedded.1", manager: "iDRAC.Embedded.1", chassis: "System.Embedded.1",
	bios: "Bios", settings: "Settings", applyTimes: []string{"OnReset"},
	attributeRegistry: "BiosAttributeRegistry.v1_0_0", registryFile: "/Systems/System.Embedded.1/Bios/BiosRegistry",
	base: "Base.1.12", registry: "IDRAC.2.8", severity: "Severity", counts: true,
	errorCode: "Base.1.12.GeneralError", errorText: "A general error has occurred. See ExtendedInfo for more information",
	messages: map[string]message{
		"PSU501":  {"Server is already powered ON.", "Informational", "None needed."},
		"PSU502":  {"Server is already powered OFF.", "Informational", "None needed."},
		"SYS011":  {"Pending configuration values are already committed.", "Warning", "Wait for the scheduled job, or delete it."},
		"SYS402":  {"The session or the credentials are not valid.", "Critical", "Log in."},
		"RAC0218": {"The maximum number of user sessions is reached.", "Critical", "Close sessions that are not needed."},
		"VRM0021": {"The virtual media image is connected already.", "Critical", "Disconnect it first."},
		"VRM0009": {"No virtual media devices are connected.", "Critical", "Connect one first."},
		"RED007":  {"The update package could not be verified.", "Critical", "Use a package for this machine."},
		"RED016":  {"The update package could not be fetched.", "Critical", "Check the URI."},
		"PR21":    {"The job failed.", "Critical", "See the log."},
		"JCP001":  {"The task was scheduled.", "Informational", "None needed."},
		"JCP031":  {"There are no pending values to make a job of.", "Warning", "Set values first."},
	},
	problems: map[bmc.Reason]problem{
		bmc.AlreadyOn:        {http.StatusConflict, "PSU501"},
		bmc.AlreadyOff:       {http.StatusConflict, "PSU502"},
		bmc.PendingBIOSJob:   {http.StatusBadRequest, "SYS011"},
		bmc.PendingVolumeJob: {http.StatusBadRequest, "SYS011"},
		bmc.NothingPending:   {http.StatusBadRequest, "JCP031"},
		bmc.SlotOccupied:     {http.StatusInternalServerError, "VRM0021"},
		bmc.SlotEmpty:        {http.StatusInternalServerError, "VRM0009"},
	},
	unauthorized: "SYS402", tooManySessions: problem{http.StatusServiceUnavailable, "RAC0218"},
	targets: []bmc.Target{
		bmc.TargetNone, bmc.TargetPXE, bmc.TargetFloppy, bmc.TargetCD, bmc.TargetDisk, bmc.TargetBIOSSetup,
		bmc.TargetUtilities, bmc.TargetUEFITarget, bmc.TargetSDCard, bmc.TargetHTTP,
	},
	media: []mediaList{
		{"/Systems/System.Embedded.1", []string{"1", "2"}},
		{"/Managers/iDRAC.Embedded.1", []string{"CD", "RemovableDisk"}},
	},
	processorID: "CPU.Socket.%d", storageID: "RAID.Integrated.1-1", controller: "PERC H740P Mini",
	volumeID: "Disk.Virtual.%d:RAID.Integrated.1-1", volumeOffset: 1, driveID: "Disk.Bay.%d", adapterID: "NIC.Integrated.%d",
	portID: func(adapter, port int) string { return fmt.Sprintf("NIC.Integrated.%d-%d-1", adapter, port) },
	inventory: func(c bmc.Component) (id, name string) {
		switch c.ID {
		case bmc.BIOSComponent:
			return "Installed-159-" + c.Version + "__BIOS.Setup.1-1", "BIOS"
		case bmc.BMCComponent:
			return "Installed-25227-" + c.Version + "__iDRAC.Embedded.1-1", "Integrated Dell Remote Access Controller"
		}
		number := strings.TrimPrefix(c.ID, "nic:")
		return "Installed-101548-" + c.Version + "__NIC.Integrated." + number + "-1-1", "Network Adapter " + number
	},
	taskID: func(number int64) string { return fmt.Sprintf("JID_%012d", number) },
	taskStates: map[bmc.TaskState]string{
		bmc.Running: "Running", bmc.Scheduled: "Starting", bmc.Completed: "Completed", bmc.Failed: "Exception",
	},
	failures: map[bmc.Failure]string{bmc.FetchFailed: "RED016", bmc.ImageInvalid: "RED007", bmc.TaskWentWrong: "PR21"},
	extendTask: func(s *Service, t bmc.Task, document object) {
		document["Oem"] = object{"Dell": s.dellJob(t)}
	},
	updated: func(s *Service, t *bmc.Task) answer { return s.accepted(t) },
	configured: func(s *Service, job *bmc.Task) answer {
		if job == nil {
			return s.shape.said("Success")
		}
		return s.accepted(job)
	},
	volumeMade:    func(s *Service, _ *bmc.Volume, t *bmc.Task) answer { return s.acceptedVolume(t) },
	volumeDeleted: func(s *Service, t *bmc.Task) answer { return s.acceptedVolume(t) },
	more: []route{
		{"GET", "/Managers/iDRAC.Embedded.1" + dellJobs, handler{answer: (*Service).listDellJobs}},
		{"GET", "/Managers/iDRAC.Embedded.1" + dellJobs + "/{id}", handler{answer: (*Service).showDellJob}},
		{"POST", "/Managers/iDRAC.Embedded.1" + dellJobs, handler{answer: (*Service).createDellJob}},
	},
	extend: map[string]func(*Service, object){"Manager": func(s *Service, document object) {
		document["Links"].(object)["Oem"] = object{"Dell": object{"Jobs": s.shape.link(s.shape.managerPath() + dellJobs)}}
	}},
}

var dellProfile = bmc.Profile{
	Vendor: "dell", Manufacturer: "Dell Inc.",
	Resets: []bmc.ResetType{
		bmc.ResetOn, bmc.ResetForceOff, bmc.ResetForceRestart, bmc.ResetGracefulRestart, bmc.ResetGracefulShutdown,
		bmc.ResetPushPowerButton, bmc.ResetNMI, bmc.ResetPowerCycle,
	},
	Targets: map[bmc.Target]bmc.Source{
		bmc.TargetPXE: bmc.FromNetwork, bmc.TargetHTTP: bmc.FromNetwork, bmc.TargetDisk: bmc.FromDisk,
		bmc.TargetCD: bmc.FromCD, bmc.TargetFloppy: bmc.FromUSB, bmc.TargetBIOSSetup: bmc.FromElsewhere,
		bmc.TargetUtilities: bmc.FromElsewhere, bmc.TargetUEFITarget: bmc.FromElsewhere, bmc.TargetSDCard: bmc.FromElsewhere,
	},
	Slots: []bmc.Slot{
		{ID: "CD", Types: []string{"CD", "DVD", "USBStick"}, Sources: []bmc.Source{bmc.FromCD, bmc.FromUSB}},
		{ID: "RemovableDisk", Types: []string{"USBStick", "CD", "DVD"}, Sources: []bmc.Source{bmc.FromCD, bmc.FromUSB}},
	},
	RAID:     bmc.RAID{ApplyTimes: []bmc.ApplyTime{bmc.Immediate, bmc.OnReset}, Tasks: true},
	BIOSJobs: true, BMCVersion: "7.00.60.00", AdapterVersion: "22.31.6",
	Attributes: []bmc.Attribute{
		{Name: "BootMode", Label: "Boot Mode", Type: bmc.Enumeration, Values: []string{"Uefi", "Bios"}, Default: "Uefi"},
		{Name: "LogicalProc", Label: "Logical Processor", Type: bmc.Enumeration, Values: []string{"Enabled", "Disabled"}, Default: "Enabled"},
		{Name: "ProcVirtualization", Label: "Virtualization Technology", Type: bmc.Enumeration, Values: []string{"Enabled", "Disabled"}, Default: "Enabled"},
		{Name: "SriovGlobalEnable", Label: "SR-IOV Global Enable", Type: bmc.Enumeration, Values: []string{"Enabled", "Disabled"}, Default: "Disabled"},
		{Name: "SysProfile", Label: "System Profile", Type: bmc.Enumeration, Values: []string{"PerfPerWattOptimizedDapc", "PerfOptimized", "Custom"}, Default: "PerfPerWattOptimizedDapc"},
		{Name: "AcPwrRcvryUserDelay", Label: "User Defined Delay (60s to 600s)", Type: bmc.Integer, Min: 60, Max: 600, Default: int64(60)},
		{Name: "AssetTag", Label: "Asset Tag", Type: bmc.Text, Max: 63, Default: ""},
		{Name: "SystemModelName", Label: "System Model Name", Type: bmc.Text, Max: 63, Default: "PowerEdge", ReadOnly: true},
	},
}

// dellJobs is the path of the list of jobs below a manager. Jobs are tasks in Dell's own format.
const dellJobs = "/Oem/Dell/Jobs"

// jobStates has the states of jobs for the states of tasks.
var jobStates = map[bmc.TaskState]string{
	bmc.Running: "Running", bmc.Scheduled: "Scheduled", bmc.Completed: "Completed", bmc.Failed: "Failed",
}

// jobTypes has the types of jobs for the kinds of tasks.
var jobTypes = map[bmc.TaskKind]string{bmc.FlashTask: "FirmwareUpdate", bmc.BIOSTask: "BIOSConfiguration", bmc.VolumeTask: "RAIDConfiguration"}

// acceptedVolume answers with the job of a change of a volume.
func (s *Service) acceptedVolume(t *bmc.Task) answer {
	if t == nil {
		t = &bmc.Task{} // the BMC lies
	}
	return s.accepted(t)
}

func (s *Service) dellJob(t bmc.Task) object {
	id := s.shape.taskID(t.Number)
	message, failed := s.shape.failures[t.Failure]
	if !failed {
		message = "JCP001"
	}
	said := s.shape.render(message, "", "")
	job := s.shape.document(s.shape.managerPath()+dellJobs+"/"+id, "DellJob.v1_4_0.DellJob", object{
		"Id": id, "Name": taskName(t), "Description": "Job Instance", "JobState": jobStates[t.State],
		"JobType": jobTypes[t.Kind], "PercentComplete": percents[t.State], "StartTime": "TIME_NOW", "EndTime": "TIME_NA",
		"CompletionTime": nil, "Message": said["Message"], "MessageId": said["MessageId"], "MessageArgs": []string{},
		"TargetSettingsURI": nil,
	})
	if t.Done() {
		job["CompletionTime"] = t.Ended.UTC().Format(time.RFC3339)
	}
	return job
}

func (s *Service) listDellJobs(*request) answer {
	path := s.shape.managerPath() + dellJobs
	var all []string
	for _, t := range s.bmc.Tasks() {
		all = append(all, path+"/"+s.shape.taskID(t.Number))
	}
	return resource(s.shape.collection(path, "DellJobCollection.DellJobCollection", "JobQueue", all))
}

func (s *Service) showDellJob(q *request) answer {
	t, found := s.task(q)
	if !found {
		return s.missing(q.Request)
	}
	return resource(s.dellJob(t))
}

// createDellJob schedules the BIOS attributes that were set without an apply time.
func (s *Service) createDellJob(q *request) answer {
	target, _ := q.body.text("TargetSettingsURI")
	if strings.TrimRight(target, "/") != root+s.shape.biosPath()+"/"+s.shape.settings {
		return s.problem(problem{http.StatusBadRequest, "PropertyValueNotInList"}, "TargetSettingsURI", target)
	}
	job, err := s.bmc.ScheduleBIOS(q.call)
	if err != nil {
		return s.refused(err)
	}
	if job == nil {
		job = &bmc.Task{} // the BMC lies
	}
	return answer{status: http.StatusOK, location: s.shape.id(s.shape.managerPath() + dellJobs + "/" + s.shape.taskID(job.Number))}
}
