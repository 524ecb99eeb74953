package ironic

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/ironic"
	"github.com/ingot-metal/ingot/internal/operator/bmc"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// credentialKeys are the keys of driver_info that hold the credentials, by driver.
var credentialKeys = map[string]struct{ username, password string }{
	"ipmi":    {"ipmi_username", "ipmi_password"},
	"redfish": {"redfish_username", "redfish_password"},
	"idrac":   {"redfish_username", "redfish_password"},
}

// credentialInfo returns the part of driver_info with the credentials.
func credentialInfo(r provisioner.Registration) map[string]any {
	keys, ok := credentialKeys[r.Access.Driver]
	if !ok {
		return nil
	}
	return map[string]any{keys.username: r.Credentials.Username, keys.password: r.Credentials.Password}
}

// driverPrefixes are the prefixes of the keys of driver_info that belong to a driver.
var driverPrefixes = map[string]string{"ipmi": "ipmi_", "redfish": "redfish_", "idrac": "redfish_"}

// locatingKeys are the keys of driver_info that an address of a BMC can set.
var locatingKeys = []string{
	"redfish_address", "redfish_system_id", "redfish_verify_ca",
	"ipmi_address", "ipmi_port", "ipmi_priv_level", "ipmi_verify_ca",
}

// outdated reports whether a key that the present address does not set comes from an earlier
// address. A CA for certificates may be from people, because hosts only turn the verification of
// certificates off.
func outdated(key string, value any) bool {
	if strings.HasSuffix(key, "_verify_ca") {
		return value == false
	}
	return slices.Contains(locatingKeys, key)
}

// Keys of driver_info for the ramdisk, which only this package writes.
const (
	kernelKey     = "deploy_kernel"
	ramdiskKey    = "deploy_ramdisk"
	isoKey        = "deploy_iso"
	bootloaderKey = "bootloader"
	paramsKey     = "kernel_append_params"
)

var ramdiskKeys = []string{kernelKey, ramdiskKey, isoKey, bootloaderKey, paramsKey}

// ramdiskInfo returns the values of ramdiskKeys for a node. If one is missing, the engine chooses.
func ramdiskInfo(access bmc.Access, image *provisioner.RamdiskImage, defaults Ramdisk) map[string]any {
	values := map[string]string{bootloaderKey: defaults.Bootloader}
	switch {
	case image != nil && image.ISO != "":
		values[isoKey] = image.ISO
	case image != nil:
		values[kernelKey], values[ramdiskKey] = cmp.Or(image.Kernel, defaults.Kernel), image.Ramdisk
	case access.Abilities.BootsISO && defaults.ISO != "":
		values[isoKey] = defaults.ISO
	default:
		values[kernelKey], values[ramdiskKey] = defaults.Kernel, defaults.Ramdisk
	}
	if image != nil && image.KernelParams != "" {
		values[paramsKey] = "%default% " + image.KernelParams
	}
	info := map[string]any{}
	for key, value := range values {
		if value != "" {
			info[key] = value
		}
	}
	return info
}

// ramdiskInfoOf returns the values of ramdiskKeys that a node has.
func ramdiskInfoOf(n ironic.Node) map[string]any {
	info := map[string]any{}
	for _, key := range ramdiskKeys {
		if value, there := n.DriverInfo[key]; there {
			info[key] = value
		}
	}
	return info
}

// bootModes are the values of the capability boot_mode, and whether secure boot is on.
var bootModes = map[v1alpha1.BootMode]struct {
	mode   string
	secure bool
}{
	"":                              {mode: "uefi"},
	v1alpha1.BootModeUEFI:           {mode: "uefi"},
	v1alpha1.BootModeUEFISecureBoot: {mode: "uefi", secure: true},
	v1alpha1.BootModeLegacy:         {mode: "bios"},
}

// mergeCapabilities sets the boot mode in capabilities of the form "key:value,…" and keeps the
// others. A text that already has the boot mode stays as it is.
func mergeCapabilities(text string, mode v1alpha1.BootMode) string {
	var kept, replaced []string
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		switch key, _, _ := strings.Cut(part, ":"); strings.TrimSpace(key) {
		case "":
		case "boot_mode", "secure_boot":
			replaced = append(replaced, part)
		default:
			kept = append(kept, part)
		}
	}
	wanted := []string{"boot_mode:" + bootModes[mode].mode}
	if bootModes[mode].secure {
		wanted = append(wanted, "secure_boot:true")
	}
	slices.Sort(replaced)
	if slices.Equal(replaced, wanted) {
		return text
	}
	return strings.Join(append(kept, wanted...), ",")
}

// firmwareSince is the microversion 1.N that has firmware interfaces.
const firmwareSince = 86

// interfacesOf returns the interfaces that a registration wants for its node, by field.
func interfacesOf(access bmc.Access, mode v1alpha1.InspectionMode, can engineAbilities) (map[string]string, error) {
	wanted := map[string]string{}
	switch {
	case mode == v1alpha1.InspectionModeFast && access.FastInspectInterface == "":
		return nil, fmt.Errorf("%w: a machine with the driver %s cannot be inspected through its BMC; set spec.inspectionMode to agent",
			provisioner.ErrUnsupported, access.Driver)
	case mode == v1alpha1.InspectionModeFast:
		wanted["inspect_interface"] = access.FastInspectInterface
	case can.inspection != "":
		wanted["inspect_interface"] = can.inspection
	case mode != v1alpha1.InspectionModeDisabled:
		return nil, fmt.Errorf("%w: the engine has no inspect interface for the driver %s that boots the ramdisk; enable %s there, or set spec.inspectionMode to %s",
			provisioner.ErrUnsupported, access.Driver, strings.Join(ramdiskInspections, " or "), v1alpha1.InspectionModeDisabled)
	}
	maps.Copy(wanted, access.Interfaces)
	if !can.firmware {
		delete(wanted, "firmware_interface")
	}
	return wanted, nil
}

// interfaceOf returns the interface of a node by the name of its field.
func interfaceOf(n ironic.Node, field string) string {
	return map[string]string{
		"bios_interface": n.BIOSInterface, "boot_interface": n.BootInterface, "console_interface": n.ConsoleInterface,
		"deploy_interface": n.DeployInterface, "firmware_interface": n.FirmwareInterface, "inspect_interface": n.InspectInterface,
		"management_interface": n.ManagementInterface, "network_interface": n.NetworkInterface, "power_interface": n.PowerInterface,
		"raid_interface": n.RAIDInterface, "rescue_interface": n.RescueInterface, "storage_interface": n.StorageInterface,
		"vendor_interface": n.VendorInterface,
	}[field]
}

// rootDevice returns hints for the root device in the form of the Bare Metal API: values with
// operators. It returns nil without hints.
func rootDevice(hints *v1alpha1.RootDeviceHints) map[string]any {
	if hints == nil {
		return nil
	}
	device := map[string]any{}
	for _, hint := range []struct{ key, operator, value string }{
		{"hctl", "s== ", hints.HCTL},
		{"model", "<in> ", hints.Model},
		{"vendor", "<in> ", hints.Vendor},
		{"serial", "s== ", hints.SerialNumber},
		{"wwn", "s== ", hints.WWN},
		{"wwn_with_extension", "s== ", hints.WWNWithExtension},
		{"wwn_vendor_extension", "s== ", hints.WWNVendorExtension},
	} {
		if hint.value != "" {
			device[hint.key] = hint.operator + hint.value
		}
	}
	switch {
	case strings.HasPrefix(hints.DeviceName, "/dev/disk/by-path/"):
		device["by_path"] = "s== " + hints.DeviceName
	case hints.DeviceName != "":
		device["name"] = "s== " + hints.DeviceName
	}
	if hints.MinSizeGigabytes > 0 {
		device["size"] = fmt.Sprintf(">= %d", hints.MinSizeGigabytes)
	}
	if hints.Rotational != nil {
		device["rotational"] = fmt.Sprint(*hints.Rotational)
	}
	if len(device) == 0 {
		return nil
	}
	return device
}

// networkData parses the network configuration of the ramdisk.
func networkData(text []byte) (map[string]any, error) {
	data := map[string]any{}
	if len(text) == 0 {
		return data, nil
	}
	if err := json.Unmarshal(text, &data); err != nil {
		return nil, fmt.Errorf("%w: the network data is no JSON object", provisioner.ErrInvalid)
	}
	return data, nil
}

// same reports whether two values have the same JSON.
func same(a, b any) bool {
	first, err := json.Marshal(a)
	if err != nil {
		return false
	}
	second, err := json.Marshal(b)
	return err == nil && string(first) == string(second)
}

// patch collects the operations of a JSON patch.
type patch []nodes.UpdateOperation

// set adds an operation unless the node has the value.
func (p *patch) set(path string, present, wanted any) {
	if !same(present, wanted) {
		*p = append(*p, nodes.UpdateOperation{Op: nodes.AddOp, Path: path, Value: wanted})
	}
}

func (p *patch) remove(path string) {
	*p = append(*p, nodes.UpdateOperation{Op: nodes.RemoveOp, Path: path})
}

// merge sets the wanted keys below path. It removes those of the other keys that are owned.
func (p *patch) merge(path string, present, wanted map[string]any, owned func(key string, value any) bool) {
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		p.set(path+"/"+key, present[key], wanted[key])
	}
	for _, key := range slices.Sorted(maps.Keys(present)) {
		if _, ok := wanted[key]; !ok && owned(key, present[key]) {
			p.remove(path + "/" + key)
		}
	}
}
