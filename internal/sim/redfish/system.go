package redfish

import (
	"net/http"
	"strings"

	"github.com/ingot-metal/ingot/internal/sim/bmc"
)

func (s *Service) showSystem(*request) answer { return resource(s.systemDocument()) }

func (s *Service) systemDocument() object {
	x, m := s.shape, s.bmc.Hardware()
	path, inventory := x.systemPath(), m.Inspection.Inventory
	model, _, _ := strings.Cut(inventory.SystemVendor.ProductName, " (")
	biosVersion := ""
	for _, c := range s.bmc.Components() {
		if c.ID == bmc.BIOSComponent {
			biosVersion = c.Version
		}
	}
	document := x.document(path, "ComputerSystem.v1_12_0.ComputerSystem", object{
		"Id": x.system, "Name": "System", "SystemType": "Physical", "HostName": "",
		"UUID": s.uuid(), "SerialNumber": inventory.SystemVendor.SerialNumber, "SKU": inventory.SystemVendor.SerialNumber,
		"Manufacturer": inventory.SystemVendor.Manufacturer, "Model": model,
		"BiosVersion": biosVersion, "PowerState": s.bmc.Power(), "Status": ok(),
		"ProcessorSummary": object{
			"Count": inventory.CPU.SocketCount, "LogicalProcessorCount": inventory.CPU.Count,
			"Model": inventory.CPU.ModelName, "Status": ok(),
		},
		"MemorySummary": object{"TotalSystemMemoryGiB": inventory.Memory.PhysicalMB / 1024, "Status": ok()},
		"Boot":          s.bootDocument(),
		"Bios":          x.link(x.biosPath()),
		"SecureBoot":    x.link(path + "/SecureBoot"),
		"Processors":    x.link(path + "/Processors"), "EthernetInterfaces": x.link(path + "/EthernetInterfaces"),
		"Storage": x.link(path + "/Storage"),
		"Links":   object{"Chassis": x.links(x.chassisPath()), "ManagedBy": x.links(x.managerPath())},
		"Actions": object{"#ComputerSystem.Reset": object{
			"target": x.id(path + "/Actions/ComputerSystem.Reset"), "ResetType@Redfish.AllowableValues": x.profile.Resets,
		}},
	})
	for _, media := range x.media {
		if media.owner == path {
			document["VirtualMedia"] = x.link(path + "/VirtualMedia")
		}
	}
	return s.complete("ComputerSystem", document)
}

func (s *Service) bootDocument() object {
	o := s.bmc.Override()
	document := object{
		"BootSourceOverrideTarget": o.Target, "BootSourceOverrideEnabled": o.Enabled, "BootSourceOverrideMode": o.Mode,
		"BootSourceOverrideTarget@Redfish.AllowableValues":  s.shape.targets,
		"BootSourceOverrideEnabled@Redfish.AllowableValues": []bmc.Enabled{bmc.Disabled, bmc.Once, bmc.Continuous},
		"BootSourceOverrideMode@Redfish.AllowableValues":    []bmc.Mode{bmc.UEFI, bmc.Legacy},
	}
	if s.shape.httpBoot {
		document["HttpBootUri"] = o.URL
	}
	return document
}

func (s *Service) reset(q *request) answer {
	kind, isText := q.body.text("ResetType")
	if kind == "" || !isText {
		return s.problem(problem{http.StatusBadRequest, "ActionParameterMissing"}, "ResetType", "")
	}
	if err := s.bmc.Reset(q.call, bmc.ResetType(kind)); err != nil {
		return s.refused(err)
	}
	return s.shape.done()
}

// overrideProperties are the boot settings that can be changed.
var overrideProperties = []string{"BootSourceOverrideTarget", "BootSourceOverrideEnabled", "BootSourceOverrideMode"}

// changeBoot changes the boot settings. Nothing else of a system can be changed.
func (s *Service) changeBoot(q *request) answer {
	if refused := s.precondition(q); refused != nil {
		return *refused
	}
	boot := q.body.object("Boot")
	for name := range q.body {
		if name != "Boot" || boot == nil {
			return s.problem(problem{http.StatusBadRequest, "PropertyUnknown"}, name, "")
		}
	}
	values := [3]string{}
	for i, name := range overrideProperties {
		value, isText := boot.text(name)
		if !isText {
			return s.problem(problem{http.StatusBadRequest, "PropertyValueTypeError"}, name, "")
		}
		if value == "" && s.shape.wholeBoot {
			return s.problem(problem{http.StatusBadRequest, "PropertyMissing"}, name, "")
		}
		values[i] = value
		delete(boot, name)
	}
	uri, noURI := "", false
	if s.shape.httpBoot {
		value, named := boot["HttpBootUri"]
		uri, _ = boot.text("HttpBootUri")
		noURI = named && value == nil
		delete(boot, "HttpBootUri")
	}
	for name := range boot {
		return s.problem(problem{http.StatusBadRequest, "PropertyUnknown"}, name, "")
	}
	override := bmc.Override{Target: bmc.Target(values[0]), Enabled: bmc.Enabled(values[1]), Mode: bmc.Mode(values[2]), URL: uri, NoURL: noURI}
	if err := s.bmc.SetOverride(q.call, override); err != nil {
		return s.refused(err)
	}
	return s.shape.said("Success")
}

// precondition compares the header If-Match with the ETag of the system.
func (s *Service) precondition(q *request) *answer {
	tag := q.Header.Get("If-Match")
	switch {
	case tag == "" && s.shape.needsTag:
		refused := s.problem(problem{http.StatusPreconditionRequired, "PreconditionRequired"}, "", "")
		return &refused
	case tag != "" && !matches(tag, s.systemDocument()):
		refused := s.problem(problem{http.StatusPreconditionFailed, "PreconditionFailed"}, "", "")
		return &refused
	}
	return nil
}
