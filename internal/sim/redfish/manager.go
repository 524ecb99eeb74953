package redfish

import (
	"net/http"
	"strings"

	"github.com/ingot-metal/ingot/internal/sim/bmc"
)

func (s *Service) showManager(*request) answer {
	x, path := s.shape, s.shape.managerPath()
	version := ""
	for _, c := range s.bmc.Components() {
		if c.ID == bmc.BMCComponent {
			version = c.Version
		}
	}
	document := x.document(path, "Manager.v1_5_0.Manager", object{
		"Id": x.manager, "Name": "Manager", "ManagerType": "BMC", "Model": x.product, "FirmwareVersion": version,
		"UUID": s.uuid(), "PowerState": bmc.On, "Status": ok(),
		"EthernetInterfaces": x.link(path + "/EthernetInterfaces"),
		"Links":              object{"ManagerForServers": x.links(x.systemPath()), "ManagerForChassis": x.links(x.chassisPath())},
	})
	for _, media := range x.media {
		if media.owner == path {
			document["VirtualMedia"] = x.link(path + "/VirtualMedia")
		}
	}
	return resource(s.complete("Manager", document))
}

func (s *Service) showManagerPort(*request) answer {
	x := s.shape
	address := s.bmc.Hardware().Inspection.Inventory.BMCAddress
	return resource(x.document(x.managerPath()+"/EthernetInterfaces/1", "EthernetInterface.v1_5_0.EthernetInterface", object{
		"Id": "1", "Name": "Manager Ethernet Interface", "InterfaceEnabled": true, "LinkStatus": "LinkUp",
		"MACAddress":    "02:" + strings.ToUpper(strings.Join(pairs(s.uuid()[24:34]), ":")),
		"IPv4Addresses": []object{{"Address": address, "AddressOrigin": "DHCP"}}, "Status": ok(),
	}))
}

// pairs splits text into pieces of two bytes.
func pairs(text string) []string {
	var all []string
	for ; len(text) >= 2; text = text[2:] {
		all = append(all, text[:2])
	}
	return all
}

func (s *Service) showChassis(*request) answer {
	x, vendor := s.shape, s.bmc.Hardware().Inspection.Inventory.SystemVendor
	model, _, _ := strings.Cut(vendor.ProductName, " (")
	return resource(x.document(x.chassisPath(), "Chassis.v1_11_0.Chassis", object{
		"Id": x.chassis, "Name": "Chassis", "ChassisType": "RackMount", "Manufacturer": vendor.Manufacturer,
		"Model": model, "SerialNumber": vendor.SerialNumber, "PowerState": s.bmc.Power(), "Status": ok(),
		"NetworkAdapters": x.link(x.chassisPath() + "/NetworkAdapters"),
		"Links":           object{"ComputerSystems": x.links(x.systemPath()), "ManagedBy": x.links(x.managerPath())},
	}))
}

func (s *Service) listAdapters(*request) answer {
	path := s.shape.chassisPath() + "/NetworkAdapters"
	n := len(bmc.Adapters(s.bmc.Hardware()))
	return resource(s.shape.collection(path, "NetworkAdapterCollection.NetworkAdapterCollection", "Network Adapters",
		members(path, s.shape.adapterID, n)))
}

func (s *Service) showAdapter(q *request) answer {
	x, adapters := s.shape, bmc.Adapters(s.bmc.Hardware())
	n := numberOf(x.adapterID, len(adapters), q.PathValue("id"))
	if n == 0 {
		return s.missing(q.Request)
	}
	id, version := q.PathValue("id"), ""
	for _, c := range s.bmc.Components() {
		if c.ID == numbered("nic:%d", n) {
			version = c.Version
		}
	}
	return resource(x.document(x.chassisPath()+"/NetworkAdapters/"+id, "NetworkAdapter.v1_5_0.NetworkAdapter", object{
		"Id": id, "Name": "Network Adapter", "Manufacturer": adapters[n-1].Vendor, "Model": adapters[n-1].Product,
		"Controllers": []object{{
			"FirmwarePackageVersion": version,
			"ControllerCapabilities": object{"NetworkPortCount": len(adapters[n-1].Ports)},
		}},
		"Status": ok(),
	}))
}

func (s *Service) updateService(*request) answer {
	x := s.shape
	return resource(s.complete("UpdateService", x.document("/UpdateService", "UpdateService.v1_6_0.UpdateService", object{
		"Id": "UpdateService", "Name": "Update Service", "ServiceEnabled": true, "Status": ok(),
		"FirmwareInventory": x.link("/UpdateService/FirmwareInventory"),
		"Actions": object{"#UpdateService.SimpleUpdate": object{
			"target": x.id("/UpdateService/Actions/UpdateService.SimpleUpdate"),
			"TransferProtocol@Redfish.AllowableValues": []string{"HTTP", "HTTPS"},
		}},
	})))
}

func (s *Service) listFirmware(*request) answer {
	path := "/UpdateService/FirmwareInventory"
	var all []string
	for _, one := range s.group.services {
		for _, c := range one.bmc.Components() {
			id, _ := one.shape.inventory(c)
			all = append(all, path+"/"+id)
		}
	}
	return resource(s.shape.collection(path, "SoftwareInventoryCollection.SoftwareInventoryCollection", "Firmware Inventory", all))
}

func (s *Service) showFirmware(q *request) answer {
	for _, c := range s.bmc.Components() {
		if id, name := s.shape.inventory(c); id == q.PathValue("id") {
			return resource(s.shape.document("/UpdateService/FirmwareInventory/"+id, "SoftwareInventory.v1_2_0.SoftwareInventory", object{
				"Id": id, "Name": name, "Version": c.Version, "Updateable": true, "Status": ok(),
			}))
		}
	}
	return s.missing(q.Request)
}

// simpleUpdate begins an update. A target is a member of the firmware inventory or a system. If the
// BMC has several systems, a request must name a target.
func (s *Service) simpleUpdate(q *request) answer {
	uri, isText := q.body.text("ImageURI")
	if uri == "" || !isText {
		return s.problem(problem{http.StatusBadRequest, "ActionParameterMissing"}, "ImageURI", "")
	}
	if _, named := q.body["Targets"]; !named && len(s.group.services) > 1 {
		return s.problem(problem{http.StatusBadRequest, "ActionParameterMissing"}, "Targets", "")
	}
	s = s.group.targeted(s, q.body)
	component, refused := s.target(q.body)
	if refused != nil {
		return *refused
	}
	task, err := s.bmc.Update(q.Context(), q.call, uri, component)
	if err != nil {
		return s.refused(err)
	}
	if task == nil {
		task = &bmc.Task{} // the BMC lies
	}
	return s.shape.updated(s, task)
}

// target returns the component that an update is for. It is empty if the target is the whole
// system, or if there is no target; the firmware file then says what it is for.
func (s *Service) target(body object) (component string, refused *answer) {
	targets, _ := body["Targets"].([]any)
	for _, target := range targets {
		uri, _ := target.(string)
		uri = strings.TrimRight(uri, "/")
		found := uri == root+s.shape.systemPath()
		for _, c := range s.bmc.Components() {
			if id, _ := s.shape.inventory(c); uri == root+"/UpdateService/FirmwareInventory/"+id {
				component, found = c.ID, true
			}
		}
		if !found || len(targets) > 1 {
			out := s.problem(problem{http.StatusBadRequest, "ActionParameterValueNotInList"}, "Targets", uri)
			return "", &out
		}
	}
	return component, nil
}
