package demo

import (
	"fmt"
	"hash/fnv"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/inventory"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// SampleInventory returns the inventory of a small machine. Equal seeds give equal machines, other
// seeds give other machines.
func SampleInventory(seed string) provisioner.Inventory {
	h := fnv.New32a()
	_, _ = h.Write([]byte(seed))
	sum := h.Sum32()
	mac := func(nic byte) string {
		return fmt.Sprintf("00:1b:21:%02x:%02x:%02x", byte(sum>>16), byte(sum>>8), byte(sum)<<1|nic)
	}
	return provisioner.Inventory{
		AutoDiscovered: true,
		PXE:            map[string]bool{"eno1": true},
		LLDP: map[string]provisioner.LLDP{
			"eno1": {ChassisID: "00:1c:73:00:00:01", PortID: "Ethernet1", SystemName: "leaf1", UntaggedVLAN: 10},
		},
		Hardware: inventory.Inventory{
			Hostname: seed,
			Interfaces: []inventory.Interface{
				{
					Name: "eno1", MACAddress: mac(0), PCIAddress: "0000:17:00.0", HasCarrier: true,
					IPv4Address: fmt.Sprintf("192.0.2.%d", sum%250+1), Vendor: "0x8086", Product: "0x1533", SpeedMbps: 10000,
				},
				{Name: "eno2", MACAddress: mac(1), PCIAddress: "0000:17:00.1", Vendor: "0x8086", Product: "0x1533"},
			},
			CPU:    inventory.CPU{ModelName: "Demo CPU", Frequency: "2400.0", Count: 16, Architecture: "x86_64", Flags: []string{"vmx", "aes"}},
			Memory: inventory.Memory{PhysicalMB: 65536},
			Disks:  []inventory.Disk{{Name: "/dev/nvme0n1", Model: "Demo SSD", Size: 960 << 30, Serial: fmt.Sprintf("D%08X", sum)}},
			SystemVendor: inventory.SystemVendor{
				Manufacturer: "Demo Inc.", ProductName: "Box 1", SerialNumber: fmt.Sprintf("SN%08X", sum),
				Firmware: inventory.Firmware{Vendor: "Demo Inc.", Version: "1.2.3", BuildDate: "01/02/2025"},
			},
		},
	}
}

// sampleSettings returns the BIOS settings of a machine that nobody has changed, one of each type.
func sampleSettings() []provisioner.Setting {
	yes, no := true, false
	lowest, highest, longest := 0, 300, 32
	return []provisioner.Setting{
		{Name: "AssetTag", Value: "", Schema: v1alpha1.SettingSchema{AttributeType: v1alpha1.AttributeString, MaxLength: &longest, ReadOnly: &no}},
		{Name: "BootTimeout", Value: "5", Schema: v1alpha1.SettingSchema{AttributeType: v1alpha1.AttributeInteger, LowerBound: &lowest, UpperBound: &highest}},
		{Name: "NetworkStack", Value: "true", Schema: v1alpha1.SettingSchema{AttributeType: v1alpha1.AttributeBoolean}},
		{Name: "ProcVirtualization", Value: "Enabled", Schema: v1alpha1.SettingSchema{AttributeType: v1alpha1.AttributeEnumeration, AllowableValues: []string{"Enabled", "Disabled"}}},
		{Name: "SerialNumber", Value: "SN1", Schema: v1alpha1.SettingSchema{AttributeType: v1alpha1.AttributeString, ReadOnly: &yes, Unique: &yes}},
		{Name: "SetupPassword", Value: "", Schema: v1alpha1.SettingSchema{AttributeType: v1alpha1.AttributePassword}},
	}
}

// sampleComponents returns the firmware components of a new machine.
func sampleComponents() []provisioner.Component {
	return []provisioner.Component{
		{Name: "bios", InitialVersion: "1.2.3", CurrentVersion: "1.2.3"},
		{Name: "bmc", InitialVersion: "4.5.6", CurrentVersion: "4.5.6"},
		{Name: "nic:eno1", InitialVersion: "7.8.9", CurrentVersion: "7.8.9"},
	}
}
