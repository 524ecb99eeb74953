package inspect

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/ingot-metal/ingot/internal/inventory"
)

// pciID is the model of a PCI device: the number of the vendor in the upper 16 bits, the vendor's
// number of the device in the lower 16 bits.
type pciID uint32

// pciDevice is one device that the ramdisk's collector pci-devices found.
type pciDevice struct {
	id  pciID
	bus string // PCI address, "0000:3b:00.0"; "" if not known
}

// maxPCIAddress is the longest address in bytes; longer ones are dropped, because addresses are
// copied to properties.
const maxPCIAddress = 64

// maxPCIDevices limits the list; a PCI segment has this many addresses.
const maxPCIDevices = 65536

// parsePCIID reads two hexadecimal numbers of up to 16 bits, with or without "0x".
func parsePCIID(vendor, device string) (pciID, bool) {
	v, okVendor := parseHex16(vendor)
	d, okDevice := parseHex16(device)
	return pciID(v<<16 | d), okVendor && okDevice
}

func parseHex16(text string) (uint64, bool) {
	text = strings.TrimPrefix(strings.ToLower(strings.TrimSpace(text)), "0x")
	number, err := strconv.ParseUint(text, 16, 16)
	return number, err == nil
}

// vendor and device return the two numbers in their usual spelling.
func (id pciID) vendor() string { return fmt.Sprintf("%04x", uint32(id)>>16) }
func (id pciID) device() string { return fmt.Sprintf("%04x", uint32(id)&0xffff) }

// pciList is the plugin data pci_devices.
type pciList struct {
	devices []pciDevice
	sent    bool // true when there was a list, even without any device
}

// pciDevices returns the list. It reads the list once for all hooks.
func (c *Context) pciDevices() pciList {
	if c.pci == nil {
		list := readPCIDevices(c)
		c.pci = &list
	}
	return *c.pci
}

// readPCIDevices reads the list, and records a remark for everything that it skips.
func readPCIDevices(ctx *Context) pciList {
	raw := ctx.PluginData["pci_devices"]
	if empty(raw) {
		ctx.Skip("The ramdisk sent no PCI devices; it lists them when its kernel parameter ipa-inspection-collectors includes pci-devices")
		return pciList{}
	}
	if raw[0] != '[' {
		ctx.Skip("The plugin data pci_devices is no list")
		return pciList{}
	}
	list := pciList{sent: true}
	for i, entry := range inventory.Elements(raw) {
		if i == maxPCIDevices {
			ctx.Skip("The plugin data pci_devices is read up to entry %d only", maxPCIDevices)
			break
		}
		device, ok := readPCIDevice(entry)
		if !ok {
			ctx.Skip("Entry %d of pci_devices has no vendor_id and product_id in hexadecimal", i)
			continue
		}
		list.devices = append(list.devices, device)
	}
	return list
}

func readPCIDevice(entry json.RawMessage) (pciDevice, bool) {
	var vendor, product, bus string
	for key, value := range inventory.Members(entry) {
		switch key {
		case "vendor_id":
			vendor, _ = inventory.Text(value)
		case "product_id":
			product, _ = inventory.Text(value)
		case "bus":
			bus, _ = inventory.Text(value)
		}
	}
	if len(bus) > maxPCIAddress {
		bus = ""
	}
	id, ok := parsePCIID(vendor, product)
	return pciDevice{id: id, bus: bus}, ok
}
