package redfish

import (
	"slices"
	"strconv"
	"strings"

	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/hardware"
)

// instructionSets has the names of architectures in Redfish.
var instructionSets = map[string][2]string{"x86_64": {"x86", "x86-64"}, "aarch64": {"ARM", "ARM-A64"}}

// numberOf returns the number from 1 to n whose ID, in a format, is id; 0 means that there is none.
func numberOf(format string, n int, id string) int {
	for i := 1; i <= n; i++ {
		if numbered(format, i) == id {
			return i
		}
	}
	return 0
}

// members returns the paths of n resources.
func members(path, format string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = path + "/" + numbered(format, i+1)
	}
	return all
}

func (s *Service) listProcessors(*request) answer {
	path := s.shape.systemPath() + "/Processors"
	n := s.bmc.Hardware().Inspection.Inventory.CPU.SocketCount
	return resource(s.shape.collection(path, "ProcessorCollection.ProcessorCollection", "Processors",
		members(path, s.shape.processorID, n)))
}

func (s *Service) showProcessor(q *request) answer {
	cpu := s.bmc.Hardware().Inspection.Inventory.CPU
	if numberOf(s.shape.processorID, cpu.SocketCount, q.PathValue("id")) == 0 {
		return s.missing(q.Request)
	}
	id, set := q.PathValue("id"), instructionSets[cpu.Architecture]
	document := s.shape.document(s.shape.systemPath()+"/Processors/"+id, "Processor.v1_7_0.Processor", object{
		"Id": id, "Name": id, "Socket": id, "ProcessorType": "CPU", "Model": cpu.ModelName,
		"ProcessorArchitecture": set[0], "InstructionSet": set[1],
		"TotalThreads": cpu.Count / max(1, cpu.SocketCount), "Status": ok(),
	})
	if cpu.Frequency != nil {
		if mhz, err := strconv.ParseFloat(*cpu.Frequency, 64); err == nil {
			document["MaxSpeedMHz"] = int(mhz)
		}
	}
	return resource(document)
}

// port is an interface with its place on an adapter.
type port struct {
	hardware.Interface
	adapter, number int // from 1
}

func (s *Service) ports() []port {
	var all []port
	for i, adapter := range bmc.Adapters(s.bmc.Hardware()) {
		for j, p := range adapter.Ports {
			all = append(all, port{p, i + 1, j + 1})
		}
	}
	return all
}

// portIDs returns the IDs of all interfaces, in their order.
func (s *Service) portIDs(ports []port) []string {
	ids := make([]string, len(ports))
	for i, p := range ports {
		if ids[i] = strconv.Itoa(i + 1); s.shape.portID != nil {
			ids[i] = s.shape.portID(p.adapter, p.number)
		}
	}
	return ids
}

func (s *Service) listPorts(*request) answer {
	path := s.shape.systemPath() + "/EthernetInterfaces"
	ids := s.portIDs(s.ports())
	for i, id := range ids {
		ids[i] = path + "/" + id
	}
	return resource(s.shape.collection(path, "EthernetInterfaceCollection.EthernetInterfaceCollection", "Ethernet Interfaces", ids))
}

func (s *Service) showPort(q *request) answer {
	ports := s.ports()
	for i, id := range s.portIDs(ports) {
		if id != q.PathValue("id") {
			continue
		}
		p, link := ports[i], "LinkDown"
		if p.HasCarrier {
			link = "LinkUp"
		}
		mac := strings.ToUpper(p.MACAddress)
		document := s.shape.document(s.shape.systemPath()+"/EthernetInterfaces/"+id, "EthernetInterface.v1_5_0.EthernetInterface", object{
			"Id": id, "Name": "Ethernet Interface", "MACAddress": mac, "PermanentMACAddress": mac,
			"InterfaceEnabled": true, "LinkStatus": link, "Status": ok(),
		})
		if p.SpeedMbps != nil {
			document["SpeedMbps"] = *p.SpeedMbps
		}
		return resource(document)
	}
	return s.missing(q.Request)
}

func (s *shape) storagePath() string { return s.systemPath() + "/Storage/" + s.storageID }

// drivePath returns the path of a drive. Positions count from 0.
func (s *shape) drivePath(position int) string {
	return s.storagePath() + "/Drives/" + numbered(s.driveID, position+1)
}

// disks returns the drives that the BMC shows.
func (s *Service) disks() []hardware.Disk {
	if !s.bmc.KnowsStorage() {
		return nil
	}
	return s.bmc.Hardware().Inspection.Inventory.Disks
}

func (s *Service) showStorage(*request) answer {
	x := s.shape
	drives := members(x.storagePath()+"/Drives", x.driveID, len(s.disks()))
	return resource(x.document(x.storagePath(), "Storage.v1_8_0.Storage", object{
		"Id": x.storageID, "Name": "Storage", "Drives": x.links(drives...), "Drives@odata.count": len(drives), "Status": ok(),
		"Volumes": x.link(x.volumesPath()),
		"StorageControllers": []object{{
			"MemberId": "0", "Name": x.controller, "Model": x.controller,
			"SupportedRAIDTypes": bmc.RAIDTypes, "Status": ok(),
		}},
	}))
}

func (s *Service) showDrive(q *request) answer {
	x, disks := s.shape, s.disks()
	n := numberOf(x.driveID, len(disks), q.PathValue("id"))
	if n == 0 {
		return s.missing(q.Request)
	}
	disk, media := disks[n-1], "SSD"
	if disk.Rotational {
		media = "HDD"
	}
	volumes := []string{}
	for _, v := range s.volumes() {
		if slices.Contains(v.Drives, n-1) {
			volumes = append(volumes, x.volumePath(v.Number))
		}
	}
	id := q.PathValue("id")
	return resource(x.document(x.drivePath(n-1), "Drive.v1_9_0.Drive", object{
		"Id": id, "Name": id, "CapacityBytes": disk.Size, "BlockSizeBytes": 512, "MediaType": media, "Protocol": protocolOf(disk),
		"Model": disk.Model, "Manufacturer": disk.Vendor, "SerialNumber": disk.Serial, "Status": ok(),
		"Links": object{"Volumes": x.links(volumes...), "Volumes@odata.count": len(volumes)},
	}))
}

// protocolOf returns the protocol of a disk, which the kernel's path of the disk tells.
func protocolOf(disk hardware.Disk) string {
	path := ""
	if disk.ByPath != nil {
		path = *disk.ByPath
	}
	switch {
	case strings.Contains(path, "-nvme-"):
		return "NVMe"
	case strings.Contains(path, "-sas-"), strings.Contains(path, "-scsi-"):
		return "SAS"
	}
	return "SATA"
}
