package inspect

import (
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"os"

	"sigs.k8s.io/yaml"
)

// acceleratorsHook sets the property accelerators to the GPUs, FPGAs and the like among the PCI
// devices. The property is a list of objects: each is the entry in the list of known devices, with
// pci_address added if the ramdisk knows it.
var acceleratorsHook = Hook{Name: "accelerators", Prepare: prepareAccelerators, Process: setAccelerators}

// maxAccelerators limits the accelerators of one machine in its properties. The largest servers
// have a few dozen.
const maxAccelerators = 256

// builtInAccelerators is the list of known devices unless Config.KnownAccelerators names a file.
//
//go:embed accelerators.yaml
var builtInAccelerators []byte

func prepareAccelerators(c *Config) error {
	content, source := builtInAccelerators, "the list that comes with the engine"
	if c.KnownAccelerators != "" {
		var err error
		if content, err = os.ReadFile(c.KnownAccelerators); err != nil {
			return fmt.Errorf("inspector.known_accelerators: %w", err)
		}
		source = c.KnownAccelerators
	}
	known, err := parseAccelerators(content)
	if err != nil {
		return fmt.Errorf("inspector.known_accelerators: %s: %w", source, err)
	}
	c.accelerators = known
	return nil
}

// parseAccelerators reads a YAML file of known devices. Each needs vendor_id and
// device_id; other keys, usually type and device_info, are passed on as they are.
func parseAccelerators(content []byte) (map[pciID]map[string]any, error) {
	var file struct {
		Devices []map[string]any `json:"pci_devices"`
	}
	if err := yaml.Unmarshal(content, &file); err != nil {
		return nil, fmt.Errorf("want a key pci_devices with a list of devices: %w", err)
	}
	if len(file.Devices) == 0 {
		return nil, errors.New("want a key pci_devices with a list of devices, and at least one in it")
	}
	known := make(map[pciID]map[string]any, len(file.Devices))
	for i, device := range file.Devices {
		// YAML numbers without quotes are decoded as numbers, even "10e4" as 100000.
		vendor, _ := device["vendor_id"].(string)
		product, _ := device["device_id"].(string)
		id, ok := parsePCIID(vendor, product)
		if !ok {
			return nil, fmt.Errorf("pci_devices[%d]: want vendor_id and device_id in hexadecimal and in quotes, got %v and %v",
				i, device["vendor_id"], device["device_id"])
		}
		if known[id] != nil {
			return nil, fmt.Errorf("pci_devices[%d]: the device %s:%s is listed twice", i, id.vendor(), id.device())
		}
		device["vendor_id"], device["device_id"] = id.vendor(), id.device()
		known[id] = device
	}
	return known, nil
}

func setAccelerators(ctx *Context) error {
	list := ctx.pciDevices()
	if !list.sent {
		return nil
	}
	found := []map[string]any{}
	for _, device := range list.devices {
		known := ctx.Config.accelerators[device.id]
		if known == nil {
			continue
		}
		if len(found) == maxAccelerators {
			ctx.Skip("The machine has more than %d accelerators; the property lists the first ones", maxAccelerators)
			break
		}
		accelerator := maps.Clone(known)
		if device.bus != "" {
			accelerator["pci_address"] = device.bus
		}
		found = append(found, accelerator)
	}
	ctx.Properties.Set("accelerators", found)
	return nil
}
