package hardware

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Accelerators, with the numbers of the PCI ID database.
var (
	gpuT4    = PCIDevice{VendorID: "10de", ProductID: "1eb8", Class: "030200", Revision: "a1"}
	gpuA100  = PCIDevice{VendorID: "10de", ProductID: "20f1", Class: "030200", Revision: "a1"}
	gpuH100  = PCIDevice{VendorID: "10de", ProductID: "2330", Class: "030200", Revision: "a1"}
	gpuL40S  = PCIDevice{VendorID: "10de", ProductID: "26b9", Class: "030200", Revision: "a1"}
	gpuGH200 = PCIDevice{VendorID: "10de", ProductID: "2342", Class: "030200", Revision: "a1"}
	fpgaU250 = PCIDevice{VendorID: "10ee", ProductID: "5004", Class: "120000", Revision: "00"}
)

// nvmeControllers maps the first word of an NVMe disk's model to its controller.
var nvmeControllers = map[string]PCIDevice{
	"SAMSUNG": {VendorID: "144d", ProductID: "a80a"},
	"INTEL":   {VendorID: "8086", ProductID: "0a54"},
	"KIOXIA":  {VendorID: "1e0f", ProductID: "0013"},
}

// PCI devices of processors and boards, as lspci shows them, by the vendor of the
// processor.
var (
	chipsetIntel = slices.Concat(
		functions("8086", "09a2", "088000", "0000:%02x:00.0", 0x00, 0x16, 0x30, 0x4a, 0x64, 0x80),
		functions("8086", "09a4", "088000", "0000:%02x:00.2", 0x00, 0x16, 0x30, 0x4a, 0x64, 0x80),
		functions("8086", "347a", "060400", "0000:%02x:02.0", 0x16, 0x30, 0x4a, 0x64, 0x97, 0xb0),
		functions("8086", "347c", "060400", "0000:%02x:04.0", 0x16, 0x30, 0x4a, 0x64),
		functions("8086", "a182", "010601", "0000:00:%02x.0", 0x17),
		functions("8086", "a1af", "0c0330", "0000:00:%02x.0", 0x14),
		functions("8086", "a1c6", "060100", "0000:00:%02x.0", 0x1f),
		functions("1a03", "2000", "030000", "0000:%02x:00.0", 0x03),
	)
	chipsetAMD = slices.Concat(
		functions("1022", "1480", "060000", "0000:%02x:00.0", 0x00, 0x20, 0x40, 0x60, 0x80, 0xa0, 0xc0, 0xe0),
		functions("1022", "1483", "060400", "0000:%02x:01.1", 0x00, 0x20, 0x40, 0x60, 0x80, 0xa0, 0xc0, 0xe0),
		functions("1022", "7901", "010601", "0000:%02x:00.0", 0x07, 0xe7),
		functions("1022", "148c", "0c0330", "0000:%02x:00.3", 0x05, 0xe5),
		functions("1022", "790e", "060100", "0000:00:%02x.3", 0x14),
		functions("1a03", "2000", "030000", "0000:%02x:00.0", 0x03),
	)
	chipsetArm = slices.Concat(
		functions("1def", "e100", "060000", "%04x:00:00.0", 0, 1, 2, 4, 5, 12, 13),
		functions("1def", "e101", "060400", "%04x:00:01.0", 0, 1, 2, 4, 5, 12, 13),
		functions("1a03", "2000", "030000", "0004:%02x:00.0", 0x02),
	)
)

// chipset returns the PCI functions of the processor and its board.
func (c CPU) chipset() []PCIDevice {
	switch {
	case c.Architecture == "aarch64":
		return chipsetArm
	case strings.HasPrefix(c.ModelName, "AMD"):
		return chipsetAMD
	default:
		return chipsetIntel
	}
}

// functions returns a PCI function several times. bus is a pattern that is filled with each number
// of at.
func functions(vendor, product, class, bus string, at ...int) []PCIDevice {
	devices := make([]PCIDevice, 0, len(at))
	for i, n := range at {
		devices = append(devices, PCIDevice{
			VendorID: vendor, ProductID: product, Class: class, Revision: "04",
			Bus: fmt.Sprintf(bus, n), NUMANodeID: strconv.Itoa(2 * i / len(at)),
		})
	}
	return devices
}

// PCI classes of devices that are also in the inventory.
const (
	classEthernet = "020000"
	classNVMe     = "010802"
)

// maxAccelerators is the largest number of accelerators in a machine.
const maxAccelerators = 4

// pciDevices returns the PCI functions of a machine whose agent has the pci-devices collector. It
// returns nil for other machines: only servers in racks can have the collector.
func (p *platform) pciDevices(rnd *random, cpu CPU, nics []Interface, disks []Disk) []PCIDevice {
	if p.kind != Server || !rnd.percent(65) {
		return nil
	}
	devices := slices.Clone(cpu.chipset())
	for i, nic := range nics {
		devices = append(devices, PCIDevice{
			VendorID:  strings.TrimPrefix(nic.Vendor, "0x"),
			ProductID: strings.TrimPrefix(nic.Product, "0x"),
			Class:     classEthernet, Revision: "01",
			Bus: fmt.Sprintf("0000:18:00.%d", i), NUMANodeID: "0",
		})
	}
	for i, disk := range disks {
		if !strings.HasPrefix(disk.Name, "/dev/nvme") {
			continue
		}
		device := nvmeControllers[strings.Fields(*disk.Model)[0]]
		device.Class, device.Revision, device.NUMANodeID = classNVMe, "00", "1"
		device.Bus = fmt.Sprintf("0000:%02x:00.0", 0x81+i)
		devices = append(devices, device)
	}
	if len(p.accelerators) > 0 && rnd.percent(60) {
		card := pick(rnd, p.accelerators)
		for i := range 1 + rnd.intN(maxAccelerators) {
			card.Bus = fmt.Sprintf("0000:%02x:00.0", 0x31+16*i)
			card.NUMANodeID = strconv.Itoa(i % 2)
			devices = append(devices, card)
		}
	}
	return devices
}
