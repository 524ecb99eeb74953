package demo

import (
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/internal/inventory"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// behaviour is how a node differs from one that works.
type behaviour struct {
	unknown     bool          // the engine never knows it
	noInventory bool          // its inspection never ends
	stuck       bool          // verifying never ends
	cleanFails  bool          // cleaning fails
	undeletable bool          // deleting fails
	silence     time.Duration // time since the last heartbeat of its ramdisk
}

// behaviours maps prefixes of host names to behaviours.
var behaviours = []struct {
	prefix string
	behaviour
}{
	{"demo-unmanaged", behaviour{unknown: true}},
	{"demo-importing", behaviour{noInventory: true}},
	{"demo-preparing", behaviour{stuck: true}},
	{"demo-preparation-error", behaviour{cleanFails: true}},
	{"demo-disconnected", behaviour{silence: 24 * time.Hour}},
	{"demo-delete-error", behaviour{undeletable: true}},
}

func behaviourOf(host string) behaviour {
	for _, b := range behaviours {
		if strings.HasPrefix(host, b.prefix) {
			return b.behaviour
		}
	}
	return behaviour{}
}

// SampleInventory returns a small machine, the same for the same seed and
// another for another.
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
