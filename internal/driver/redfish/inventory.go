package redfish

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/ingot-metal/ingot/internal/node"
)

// inspection is the inspection document, with the keys of ironic-python-agent. What the BMC does
// not tell is left out.
type inspection struct {
	Inventory inventory     `json:"inventory"`
	RootDisk  *disk         `json:"root_disk,omitempty"`
	PCI       []pciIdentity `json:"pci_devices,omitempty"`
	// LeftOut says what the BMC could not show.
	LeftOut []string `json:"bmc_left_out"`
}

type inventory struct {
	Interfaces []nic         `json:"interfaces,omitempty"`
	CPU        *cpu          `json:"cpu,omitempty"`
	Memory     *memory       `json:"memory,omitempty"`
	Disks      []disk        `json:"disks,omitempty"`
	Vendor     *systemVendor `json:"system_vendor,omitempty"`
	Boot       *bootMode     `json:"boot,omitempty"`
	Hostname   string        `json:"hostname,omitempty"`
}

type nic struct {
	Name    string `json:"name"`
	MAC     string `json:"mac_address"`
	Carrier bool   `json:"has_carrier"`
	Mbps    int64  `json:"speed_mbps,omitempty"`
}

type cpu struct {
	Model        string `json:"model_name,omitempty"`
	Frequency    string `json:"frequency,omitempty"` // MHz
	Count        int64  `json:"count,omitempty"`
	Architecture string `json:"architecture,omitempty"`
	Sockets      int64  `json:"socket_count,omitempty"`
}

type memory struct {
	PhysicalMB int64 `json:"physical_mb"`
}

type disk struct {
	Name       string `json:"name"`
	Model      string `json:"model,omitempty"`
	Size       int64  `json:"size"` // bytes
	Rotational bool   `json:"rotational"`
	WWN        string `json:"wwn,omitempty"`
	Serial     string `json:"serial,omitempty"`
	Vendor     string `json:"vendor,omitempty"`
}

type systemVendor struct {
	Product      string   `json:"product_name,omitempty"`
	Serial       string   `json:"serial_number,omitempty"`
	Manufacturer string   `json:"manufacturer,omitempty"`
	SKU          string   `json:"sku,omitempty"`
	UUID         string   `json:"system_uuid,omitempty"`
	Firmware     firmware `json:"firmware"`
}

type firmware struct {
	Version string `json:"version,omitempty"`
}

type bootMode struct {
	Current string `json:"current_boot_mode"`
}

type pciIdentity struct {
	Vendor   string `json:"vendor_id"`
	Product  string `json:"product_id"`
	Class    string `json:"class,omitempty"`
	Revision string `json:"revision,omitempty"`
}

// document makes the inspection document of what a BMC has shown.
func (h hardware) document(leftOut []string) inspection {
	disks := h.disks()
	return inspection{
		Inventory: inventory{
			Interfaces: h.nics(), CPU: h.cpu(), Memory: h.memory(), Disks: disks, Vendor: h.vendor(), Boot: h.bootMode(),
			Hostname: told(h.system.HostName),
		},
		RootDisk: rootDisk(disks), PCI: h.pci(), LeftOut: append([]string{}, leftOut...),
	}
}

// told returns a text of the BMC made safe for a document, see node.CutText, and trimmed.
func told(text string) string { return strings.TrimSpace(node.CutText(text)) }

// nics lists the enabled interfaces that have an Ethernet address. Each address is listed once,
// because a VLAN has the address of its interface. Links to the BMC whose address is the same on
// each machine of a kind are left out: no machine boots from them. The address is the one that the
// machine boots with, which a chassis may have assigned. The address that the card was made with
// stands in only where the BMC shows no other.
func (h hardware) nics() []nic {
	var nics []nic
	seen := map[string]bool{}
	for i, e := range h.interfaces {
		mac, octets := node.ParseHardwareAddress(cmp.Or(told(e.MACAddress), told(e.PermanentMACAddress)))
		enabled := e.InterfaceEnabled == nil || *e.InterfaceEnabled
		if octets == 0 || seen[mac] || node.IsShared(mac) || !enabled || !e.Status.present() {
			continue
		}
		seen[mac] = true
		name := cmp.Or(told(e.ID), strconv.Itoa(i+1))
		nics = append(nics, nic{Name: name, MAC: mac, Carrier: e.LinkStatus == "LinkUp", Mbps: max(0, e.SpeedMbps)})
	}
	return nics
}

// architectures are the names that kernels give to instruction sets (DSP0268, Processor).
var architectures = map[string]string{
	"x86-64": "x86_64", "x86": "i686", "ARM-A64": "aarch64", "ARM-A32": "armv7l", "IA-64": "ia64", "MIPS64": "mips64",
	"MIPS32": "mips", "PowerISA": "ppc64le", "RV64": "riscv64", "RV32": "riscv32",
}

// processorArchitectures are the names for a BMC that tells only the architecture of a
// processor, and no instruction set.
var processorArchitectures = map[string]string{
	"x86": "x86_64", "ARM": "aarch64", "IA-64": "ia64", "MIPS": "mips64", "Power": "ppc64le", "RISC-V": "riscv64",
}

func (h hardware) cpu() *cpu {
	all := cpu{Model: told(h.system.ProcessorSummary.Model)}
	threads := int64(0)
	for _, p := range h.processors {
		if p.ProcessorType != "" && p.ProcessorType != "CPU" || !p.Status.present() {
			continue
		}
		all.Sockets++
		threads += max(0, p.TotalThreads)
		all.Model = cmp.Or(all.Model, told(p.Model))
		all.Architecture = cmp.Or(all.Architecture, architectures[p.InstructionSet], processorArchitectures[p.ProcessorArchitecture])
		if all.Frequency == "" && p.MaxSpeedMHz > 0 {
			all.Frequency = strconv.FormatInt(p.MaxSpeedMHz, 10)
		}
	}
	summary := h.system.ProcessorSummary
	all.Sockets = cmp.Or(all.Sockets, max(0, summary.Count))
	all.Count = cmp.Or(max(0, summary.LogicalProcessorCount), threads)
	if all == (cpu{}) {
		return nil
	}
	return &all
}

func (h hardware) memory() *memory {
	const mibPerGiB = 1024
	if gib := h.system.MemorySummary.TotalSystemMemoryGiB; gib > 0 && gib < 1<<40 {
		return &memory{PhysicalMB: int64(gib * mibPerGiB)}
	}
	return nil
}

func (h hardware) vendor() *systemVendor {
	s := h.system
	return &systemVendor{
		Product: told(s.Model), Serial: told(s.SerialNumber), Manufacturer: told(s.Manufacturer), SKU: told(s.SKU),
		UUID: told(s.UUID), Firmware: firmware{Version: told(s.BiosVersion)},
	}
}

// inventoryBootModes are the modes of the boot override as inventories name them.
var inventoryBootModes = map[string]string{"UEFI": "uefi", "Legacy": "bios"}

func (h hardware) bootMode() *bootMode {
	if mode := inventoryBootModes[h.system.Boot.BootSourceOverrideMode]; mode != "" {
		return &bootMode{mode}
	}
	return nil
}

// disks lists what an operating system would find: the volumes of RAID controllers, and
// the drives that are in none. Where the BMC knows no drives, it lists simple devices.
func (h hardware) disks() []disk {
	var disks []disk
	for _, unit := range h.units {
		inVolume := map[string]bool{}
		for _, v := range unit.volumes {
			if !v.isRAID() || !v.Status.present() {
				continue
			}
			for _, path := range v.drives() {
				inVolume[path] = true
			}
			disks = append(disks, disk{Name: cmp.Or(told(v.ID), told(v.Name)), Model: told(v.Name), Size: v.CapacityBytes, WWN: wwnOf(v.Identifiers)})
		}
		for _, d := range unit.drives {
			if !inVolume[trimmed(d.path)] {
				disks = append(disks, disk{
					Name: cmp.Or(told(d.ID), told(d.Name)), Model: told(d.Model), Size: d.CapacityBytes, Rotational: d.MediaType == "HDD",
					Serial: told(d.SerialNumber), Vendor: told(d.Manufacturer), WWN: wwnOf(d.Identifiers),
				})
			}
		}
	}
	if len(disks) == 0 {
		for _, d := range h.simple {
			if d.Status.present() {
				disks = append(disks, disk{Name: told(d.Name), Model: told(d.Model), Size: d.CapacityBytes, Vendor: told(d.Manufacturer)})
			}
		}
	}
	return slices.DeleteFunc(disks, func(d disk) bool { return d.Size <= 0 })
}

// wwnOf returns the world wide name as kernels write it, empty when the BMC tells none.
func wwnOf(identifiers []struct{ DurableName, DurableNameFormat string }) string {
	for _, id := range identifiers {
		if id.DurableNameFormat == "NAA" && id.DurableName != "" {
			return "0x" + strings.TrimPrefix(strings.ToLower(told(id.DurableName)), "0x")
		}
	}
	return ""
}

// smallestRoot is the smallest disk that an agent would install to, in bytes.
const smallestRoot = 4 << 30

// rootDisk returns the disk that an agent would choose: the smallest that is large enough, and the
// first of equal ones. It returns nil when none is large enough.
func rootDisk(disks []disk) *disk {
	var root *disk
	for i := range disks {
		if disks[i].Size >= smallestRoot && (root == nil || disks[i].Size < root.Size) {
			root = &disks[i]
		}
	}
	return root
}

// pci lists the PCIe functions in the spelling of agents.
func (h hardware) pci() []pciIdentity {
	var all []pciIdentity
	digits := func(text string) string { return strings.TrimPrefix(strings.ToLower(told(text)), "0x") }
	for _, f := range h.functions {
		if f.VendorID != "" && f.DeviceID != "" {
			all = append(all, pciIdentity{digits(f.VendorID), digits(f.DeviceID), digits(f.ClassCode), digits(f.Revision)})
		}
	}
	return all
}
