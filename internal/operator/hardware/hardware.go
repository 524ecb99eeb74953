// Package hardware turns an engine's inventory into what Kubernetes shows: the
// hardware details of a host, and the MAC address it is known by.
//
// Inventories come from untrusted machines. Everything here
// limits and cleans what it copies, so that no inventory produces an object
// that the API server refuses.
package hardware

import (
	"cmp"
	"encoding/json"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/inventory"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// Limits of what is copied, well above any real machine.
const (
	maxText  = 256 // characters of one text
	maxNICs  = 256
	maxDisks = 1024
	maxFlags = 512
	maxVLANs = 128

	maxSize = 256 << 10 // bytes of all details as JSON; an object may have 1.5 MiB
	maxFew  = 32        // entries of a list that made the details too large
)

// highestVLAN is the highest number of a VLAN (IEEE 802.1Q).
const highestVLAN = 4094

// Details returns the hardware details of a machine with this inventory.
func Details(inv *provisioner.Inventory) *v1alpha1.HardwareDetails {
	hw := &inv.Hardware
	return fit(&v1alpha1.HardwareDetails{
		SystemVendor: v1alpha1.HardwareSystemVendor{
			Manufacturer: clean(hw.SystemVendor.Manufacturer),
			ProductName:  clean(hw.SystemVendor.ProductName),
			SerialNumber: clean(hw.SystemVendor.SerialNumber),
		},
		Firmware: v1alpha1.Firmware{BIOS: v1alpha1.BIOS{
			Date:    clean(hw.SystemVendor.Firmware.BuildDate),
			Vendor:  clean(hw.SystemVendor.Firmware.Vendor),
			Version: clean(hw.SystemVendor.Firmware.Version),
		}},
		RAMMebibytes: ramMebibytes(hw.Memory),
		NICs:         nics(inv),
		Storage:      disks(hw.Disks),
		CPU:          cpu(hw.CPU),
		Hostname:     clean(hw.Hostname),
		BMCAddresses: texts(hw.BMCAddresses()),
	})
}

// texts returns the addresses in their canonical form.
func texts(addrs []netip.Addr) []string {
	var list []string
	for _, addr := range addrs {
		list = append(list, addr.String())
	}
	return list
}

// fit removes details, the least important first, until the rest fits into an API object.
func fit(d *v1alpha1.HardwareDetails) *v1alpha1.HardwareDetails {
	for _, leaveOut := range []func(){
		func() {
			for i := range d.NICs {
				d.NICs[i].VLANs = nil
			}
		},
		func() { d.CPU.Flags = nil },
		func() { d.Storage = d.Storage[:min(len(d.Storage), maxFew)] },
		func() { d.NICs = d.NICs[:min(len(d.NICs), maxFew)] },
	} {
		if text, err := json.Marshal(d); err == nil && len(text) <= maxSize {
			break
		}
		leaveOut()
	}
	return d
}

// ramMebibytes returns the installed memory or, if it is unknown, what the kernel can use.
func ramMebibytes(m inventory.Memory) int {
	if m.PhysicalMB > 0 {
		return natural(m.PhysicalMB)
	}
	return natural(m.Total >> 20)
}

func cpu(c inventory.CPU) v1alpha1.CPU {
	flags := make([]string, 0, min(len(c.Flags), maxFlags))
	for _, f := range c.Flags[:min(len(c.Flags), maxFlags)] {
		flags = append(flags, clean(f))
	}
	slices.Sort(flags)
	mhz, err := strconv.ParseFloat(c.Frequency, 64)
	if err != nil || math.IsNaN(mhz) || math.IsInf(mhz, 0) || mhz < 0 {
		mhz = 0
	}
	return v1alpha1.CPU{
		Arch: clean(c.Architecture), Model: clean(c.ModelName), Count: natural(c.Count),
		ClockMegahertz: v1alpha1.ClockSpeed(mhz), Flags: flags,
	}
}

// nics returns one entry per address of each interface.
func nics(inv *provisioner.Inventory) []v1alpha1.NIC {
	bootMAC := inv.Hardware.BootMAC()
	var all []v1alpha1.NIC
	for i := range inv.Hardware.Interfaces {
		iface := &inv.Hardware.Interfaces[i]
		nic := v1alpha1.NIC{
			Name:       clean(iface.Name),
			Model:      strings.TrimSpace(clean(iface.Vendor) + " " + clean(iface.Product)),
			MAC:        macOf(iface),
			PCIAddress: clean(iface.PCIAddress),
			SpeedGbps:  natural(iface.SpeedMbps / 1000),
			PXE:        inv.PXE[iface.Name] || bootMAC != "" && iface.MACAddress == bootMAC,
		}
		if lldp, ok := inv.LLDP[iface.Name]; ok {
			addLLDP(&nic, lldp)
		}
		for _, ip := range addresses(iface) {
			if len(all) == maxNICs {
				return all
			}
			nic.IP = ip
			all = append(all, nic)
		}
	}
	return all
}

// macOf returns the address of an interface in the form that the schema demands, or "" if it has
// none.
func macOf(iface *inventory.Interface) string {
	address, _ := node.ParseHardwareAddress(cmp.Or(iface.MACAddress, iface.HardwareAddress))
	return address
}

// addresses returns the interface's addresses, or one empty text if it has none.
func addresses(iface *inventory.Interface) []string {
	var found []string
	for _, text := range []string{iface.IPv4Address, iface.IPv6Address} {
		if addr, err := netip.ParseAddr(strings.TrimSpace(text)); err == nil {
			found = append(found, addr.WithZone("").String())
		}
	}
	if len(found) == 0 {
		return []string{""}
	}
	return found
}

func addLLDP(nic *v1alpha1.NIC, lldp provisioner.LLDP) {
	announced := v1alpha1.LLDP{
		SwitchID: clean(lldp.ChassisID), PortID: clean(lldp.PortID), SwitchSystemName: clean(lldp.SystemName),
	}
	if announced != (v1alpha1.LLDP{}) {
		nic.LLDP = &announced
	}
	if lldp.UntaggedVLAN > 0 && lldp.UntaggedVLAN <= highestVLAN {
		nic.VLANID = v1alpha1.VLANID(lldp.UntaggedVLAN)
	}
	for _, v := range lldp.VLANs {
		if v.ID >= 0 && v.ID <= highestVLAN && len(nic.VLANs) < maxVLANs {
			nic.VLANs = append(nic.VLANs, v1alpha1.VLAN{ID: v1alpha1.VLANID(v.ID), Name: clean(v.Name)})
		}
	}
}

func disks(found []inventory.Disk) []v1alpha1.Storage {
	var all []v1alpha1.Storage
	for _, d := range found[:min(len(found), maxDisks)] {
		disk := v1alpha1.Storage{
			Name: clean(d.Name), Rotational: d.Rotational, Type: diskType(d),
			SizeBytes: v1alpha1.Capacity(max(d.Size, 0)),
			Vendor:    clean(d.Vendor), Model: clean(d.Model), SerialNumber: clean(d.Serial),
			WWN: clean(d.WWN), WWNVendorExtension: clean(d.WWNVendorExtension),
			WWNWithExtension: clean(d.WWNWithExtension), HCTL: clean(d.HCTL),
		}
		if path := clean(d.ByPath); path != "" {
			disk.AlternateNames = []string{disk.Name, path}
			disk.Name = path // kernel names change from boot to boot
		}
		all = append(all, disk)
	}
	return all
}

func diskType(d inventory.Disk) v1alpha1.DiskType {
	switch {
	case d.Transport == "nvme", strings.HasPrefix(d.Name, "/dev/nvme"):
		return v1alpha1.DiskNVMe
	case d.Rotational:
		return v1alpha1.DiskHDD
	default:
		return v1alpha1.DiskSSD
	}
}

// natural converts a count to int. The result is never negative and fits into 32 bits.
func natural(n int64) int { return int(min(max(n, 0), math.MaxInt32)) }

// clean makes text from outside suitable for an API object: valid, printable, short, and
// without white space at the ends.
func clean(text string) string {
	text = strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text)
	if runes := []rune(text); len(runes) > maxText {
		text = string(runes[:maxText])
	}
	return strings.TrimSpace(text)
}
