package hardware

import (
	"strconv"
	"strings"
)

// Fact is one row of the extra-hardware collector: group, device, property and value. The value is
// text, or a number if the collector measures it as a number.
type Fact [4]any

// extraFacts returns what the extra-hardware collector of an agent reports in addition to the
// inventory, in the format of the collector. All values come from the inventory, so that both
// agree.
func (v *Inventory) extraFacts() []Fact {
	system := v.SystemVendor
	facts := []Fact{
		{"system", "product", "name", system.ProductName},
		{"system", "product", "serial", system.SerialNumber},
		{"system", "product", "vendor", system.Manufacturer},
		{"firmware", "bios", "version", system.Firmware.Version},
		{"firmware", "bios", "date", system.Firmware.BuildDate},
		{"firmware", "bios", "vendor", system.Firmware.Vendor},
		{"memory", "total", "size", v.Memory.Total},
		{"cpu", "physical", "number", v.CPU.SocketCount},
		{"cpu", "logical", "number", v.CPU.Count},
		{"disk", "logical", "count", strconv.Itoa(len(v.Disks))},
	}
	for i := range v.CPU.SocketCount {
		socket := "physical_" + strconv.Itoa(i)
		facts = append(facts, Fact{"cpu", socket, "product", v.CPU.ModelName}, Fact{"cpu", socket, "cores", v.CPU.Count / v.CPU.SocketCount})
	}
	for _, disk := range v.Disks {
		name := strings.TrimPrefix(disk.Name, "/dev/")
		facts = append(facts, Fact{"disk", name, "size", strconv.FormatInt(disk.Size/1e9, 10)})
		if disk.Serial != nil {
			facts = append(facts, Fact{"disk", name, "id", *disk.Serial})
		}
	}
	for _, nic := range v.Interfaces {
		facts = append(facts, Fact{"network", nic.Name, "serial", nic.MACAddress})
		if nic.IPv4Address != nil {
			facts = append(facts, Fact{"network", nic.Name, "ipv4", *nic.IPv4Address})
		}
		if nic.SpeedMbps != nil {
			facts = append(facts, Fact{"network", nic.Name, "speed", strconv.Itoa(*nic.SpeedMbps) + "Mbit/s"})
		}
	}
	return facts
}
