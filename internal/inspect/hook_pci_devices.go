package inspect

import (
	"fmt"
	"strconv"
	"strings"
)

// pciDevicesHook counts the PCI devices that Config.PCIDeviceAlias names, and sets a capability of
// each name to their number. A capability whose name has no devices stays as it is, as in Ironic.
var pciDevicesHook = Hook{Name: "pci-devices", Prepare: preparePCIAliases, Process: countPCIDevices}

// pciAlias is one entry of Config.PCIDeviceAlias.
type pciAlias struct {
	id   pciID
	name string
}

func preparePCIAliases(c *Config) error {
	c.pciAliases = nil
	for _, entry := range split(c.PCIDeviceAlias) {
		parts := strings.Split(entry, ":")
		if len(parts) != 3 {
			return pciAliasError(entry)
		}
		id, ok := parsePCIID(parts[0], parts[1])
		name := strings.TrimSpace(parts[2])
		if !ok || !isCapabilityName(name) {
			return pciAliasError(entry)
		}
		c.pciAliases = append(c.pciAliases, pciAlias{id: id, name: name})
	}
	return nil
}

func pciAliasError(entry string) error {
	return fmt.Errorf("inspector.pci_device_alias: want VENDOR_ID:PRODUCT_ID:NAME with IDs in hexadecimal, such as 10de:1eb8:t4, got %q", entry)
}

func countPCIDevices(ctx *Context) error {
	if len(ctx.Config.pciAliases) == 0 {
		return nil
	}
	list := ctx.pciDevices()
	found := make(map[pciID]int, len(list.devices))
	for _, device := range list.devices {
		found[device.id]++
	}
	counts := make(map[string]int, len(ctx.Config.pciAliases))
	for _, alias := range ctx.Config.pciAliases {
		counts[alias.name] += found[alias.id]
	}
	for _, alias := range ctx.Config.pciAliases {
		if count := counts[alias.name]; count > 0 {
			ctx.Properties.SetCapability(alias.name, strconv.Itoa(count))
		}
	}
	return nil
}
