package hardware

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/inventory"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

func decode(t *testing.T, hardware, plugins string) *provisioner.Inventory {
	t.Helper()
	inv, err := provisioner.DecodeInventory([]byte(hardware), []byte(plugins))
	if err != nil {
		t.Fatal(err)
	}
	return inv
}

const serverInventory = `{
 "interfaces":[
  {"name":"eno1","mac_address":"52:54:00:12:34:56","ipv4_address":"192.0.2.101","ipv6_address":"2001:db8::1%eno1","has_carrier":true,
   "vendor":"0x8086","product":"0x1533","speed_mbps":25000,"pci_address":"0000:17:00.0"},
  {"name":"eno2","mac_address":"52:54:00:12:34:57","ipv4_address":null,"vendor":"0x8086","product":null,"speed_mbps":null}],
 "cpu":{"model_name":"ACME 9000","frequency":"3100.0","count":16,"architecture":"x86_64","flags":["vmx","aes"]},
 "memory":{"total":67108864000,"physical_mb":65536},
 "disks":[
  {"name":"/dev/sda","model":"ACME SSD","size":480103981056,"rotational":false,"wwn":"0x5000c500a1","serial":"S1","vendor":"ACME","hctl":"0:0:0:0",
   "by_path":"/dev/disk/by-path/pci-0000:00:1f.2-ata-1"},
  {"name":"/dev/sdb","size":4000787030016,"rotational":true},
  {"name":"/dev/nvme0n1","size":1000,"rotational":false}],
 "hostname":"ramdisk",
 "system_vendor":{"product_name":"Box 1","serial_number":"SN42","manufacturer":"ACME","firmware":{"vendor":"ACME","version":"1.2","build_date":"01/02/2030"}},
 "boot":{"current_boot_mode":"uefi","pxe_interface":"01-52-54-00-12-34-57"}}`

const serverPlugins = `{
 "auto_discovered":true,
 "all_interfaces":{"eno1":{"name":"eno1","pxe_enabled":false},"eno2":{"name":"eno2","pxe_enabled":true}},
 "parsed_lldp":{"eno1":{"switch_chassis_id":"11:22:33:aa:bb:01","switch_port_id":"Eth1","switch_system_name":"leaf1",
  "switch_port_untagged_vlan_id":10,"switch_port_vlans":[{"id":10,"name":"prov"},{"id":5000,"name":"bogus"},{"id":20,"name":"data"}]}}}`

func TestDetailsHoldTheWholeInventory(t *testing.T) {
	lldp := &v1alpha1.LLDP{SwitchID: "11:22:33:aa:bb:01", PortID: "Eth1", SwitchSystemName: "leaf1"}
	vlans := []v1alpha1.VLAN{{ID: 10, Name: "prov"}, {ID: 20, Name: "data"}}
	eno1 := v1alpha1.NIC{
		Name: "eno1", Model: "0x8086 0x1533", MAC: "52:54:00:12:34:56", PCIAddress: "0000:17:00.0", SpeedGbps: 25,
		IP: "192.0.2.101", VLANs: vlans, VLANID: 10, LLDP: lldp,
	}
	eno1v6 := eno1
	eno1v6.IP = "2001:db8::1"
	want := &v1alpha1.HardwareDetails{
		SystemVendor: v1alpha1.HardwareSystemVendor{Manufacturer: "ACME", ProductName: "Box 1", SerialNumber: "SN42"},
		Firmware:     v1alpha1.Firmware{BIOS: v1alpha1.BIOS{Date: "01/02/2030", Vendor: "ACME", Version: "1.2"}},
		RAMMebibytes: 65536,
		NICs:         []v1alpha1.NIC{eno1, eno1v6, {Name: "eno2", Model: "0x8086", MAC: "52:54:00:12:34:57", PXE: true}},
		Storage: []v1alpha1.Storage{
			{
				Name: "/dev/disk/by-path/pci-0000:00:1f.2-ata-1", AlternateNames: []string{"/dev/sda", "/dev/disk/by-path/pci-0000:00:1f.2-ata-1"},
				Type: v1alpha1.DiskSSD, SizeBytes: 480103981056, Vendor: "ACME", Model: "ACME SSD", SerialNumber: "S1", WWN: "0x5000c500a1", HCTL: "0:0:0:0",
			},
			{Name: "/dev/sdb", Type: v1alpha1.DiskHDD, Rotational: true, SizeBytes: 4000787030016},
			{Name: "/dev/nvme0n1", Type: v1alpha1.DiskNVMe, SizeBytes: 1000},
		},
		CPU:      v1alpha1.CPU{Arch: "x86_64", Model: "ACME 9000", ClockMegahertz: 3100, Count: 16, Flags: []string{"aes", "vmx"}},
		Hostname: "ramdisk",
	}
	if diff := cmp.Diff(want, Details(decode(t, serverInventory, serverPlugins))); diff != "" {
		t.Errorf("details differ (-want +got):\n%s", diff)
	}
}

func TestDetailsTolerateWhatIsMissingOrOdd(t *testing.T) {
	inv := decode(t, `{"interfaces":[{"name":"eth0","mac_address":"02:fc:00:00:00:01"}]}`, `{"parsed_lldp":[],"all_interfaces":{"eth0":7},"auto_discovered":"yes"}`)
	want := &v1alpha1.HardwareDetails{NICs: []v1alpha1.NIC{{Name: "eth0", MAC: "02:fc:00:00:00:01"}}, CPU: v1alpha1.CPU{Flags: []string{}}}
	if diff := cmp.Diff(want, Details(inv)); diff != "" {
		t.Errorf("details differ (-want +got):\n%s", diff)
	}
	for _, plugins := range []string{"", "null", "[]", "{"} {
		if _, err := provisioner.DecodeInventory([]byte(serverInventory), []byte(plugins)); err != nil {
			t.Errorf("plugin data %q: %v, want it to count as absent", plugins, err)
		}
	}
}

func TestDetailsAreBoundedAndClean(t *testing.T) {
	hw := inventory.Inventory{Hostname: "a\x00b\n" + strings.Repeat("ä", 1000), CPU: inventory.CPU{Frequency: "NaN", Count: -3}}
	for range 2 * maxNICs {
		hw.Interfaces = append(hw.Interfaces, inventory.Interface{Name: "x", HardwareAddress: "not a MAC"})
	}
	got := Details(&provisioner.Inventory{Hardware: hw})
	if len([]rune(got.Hostname)) > maxText || strings.ContainsAny(got.Hostname, "\x00\n") {
		t.Errorf("host name = %q", got.Hostname)
	}
	if len(got.NICs) != maxNICs || got.NICs[0].MAC != "" {
		t.Errorf("%d NICs, first MAC %q; want %d and none", len(got.NICs), got.NICs[0].MAC, maxNICs)
	}
	if got.CPU.ClockMegahertz != 0 || got.CPU.Count != 0 {
		t.Errorf("CPU = %+v, want no clock and no count", got.CPU)
	}
}

func TestBootMAC(t *testing.T) {
	nic := func(name, mac, pci, ip string) inventory.Interface {
		return inventory.Interface{Name: name, MACAddress: mac, PCIAddress: pci, IPv4Address: ip}
	}
	linked := func(name, mac, pci, ip string) inventory.Interface {
		i := nic(name, mac, pci, ip)
		i.HasCarrier = true
		return i
	}
	const (
		vendorA = "00:1b:21:00:00:0a"
		vendorB = "00:1b:21:00:00:0b"
		local   = "02:fc:00:00:00:01"
		shared  = "b0:3a:f2:b6:05:9f"
	)
	for _, tt := range []struct {
		name  string
		nics  []inventory.Interface
		boot  string
		pxe   map[string]bool
		agent string
		want  string
	}{
		{"NIC that booted", []inventory.Interface{nic("a", vendorA, "0000:01", ""), nic("b", vendorB, "0000:02", "")}, vendorB, nil, "", vendorB},
		{"NIC that hooks found to boot", []inventory.Interface{nic("a", vendorA, "0000:01", ""), nic("b", vendorB, "0000:02", "")}, "", map[string]bool{"b": true}, "", vendorB},
		{"NIC that the agent calls from", []inventory.Interface{nic("a", vendorA, "0000:01", ""), nic("b", vendorB, "0000:02", "192.0.2.5")}, "", nil, "https://192.0.2.5:9999", vendorB},
		{"NIC with a link and an address", []inventory.Interface{nic("a", vendorA, "0000:01", ""), linked("b", vendorB, "0000:02", "192.0.2.5")}, "", nil, "", vendorB},
		{"address without a link", []inventory.Interface{nic("a", vendorA, "0000:01", "192.0.2.4"), linked("b", vendorB, "0000:02", "192.0.2.5")}, "", nil, "", vendorB},
		{"link without an address of the network", []inventory.Interface{linked("a", vendorA, "0000:01", "169.254.1.4"), linked("b", vendorB, "0000:02", "192.0.2.5")}, "", nil, "", vendorB},
		{"made-up MAC with a link comes after others", []inventory.Interface{linked("a", local, "0000:01", "192.0.2.4"), nic("b", vendorB, "0000:02", "")}, "", nil, "", vendorB},
		{"made-up MAC with a link before others", []inventory.Interface{nic("a", "02:fc:00:00:00:02", "0000:01", ""), linked("b", local, "0000:02", "192.0.2.4")}, "", nil, "", local},
		{"first by PCI address", []inventory.Interface{nic("a", vendorA, "0000:17:00.1", ""), nic("b", vendorB, "0000:17:00.0", "")}, "", nil, "", vendorB},
		{"PCI device before others", []inventory.Interface{nic("a", vendorA, "", ""), nic("b", vendorB, "0000:17:00.0", "")}, "", nil, "", vendorB},
		{"made-up MAC comes last", []inventory.Interface{nic("a", local, "0000:01", ""), nic("b", vendorB, "0000:02", "")}, "", nil, "", vendorB},
		{"MAC of many machines comes last", []inventory.Interface{nic("a", shared, "0000:01", ""), nic("b", vendorB, "0000:02", "")}, "", nil, "", vendorB},
		{"made-up MAC when there is no other", []inventory.Interface{nic("eth0", local, "", "192.0.2.2")}, "", nil, "", local},
		{"bonds, VLANs and bridges are no NICs", []inventory.Interface{nic("bond0", vendorA, "", ""), nic("eno1.100", vendorA, "", ""), nic("br-ex", vendorA, "", ""), nic("eno1", vendorB, "0000:02", "")}, "", nil, "", vendorB},
		{"nothing usable", []inventory.Interface{nic("bond0", vendorA, "", ""), nic("ib0", "", "0000:01", "")}, "", nil, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inv := &provisioner.Inventory{PXE: tt.pxe, Hardware: inventory.Inventory{Interfaces: tt.nics, Boot: inventory.Boot{PXEInterface: tt.boot}}}
			if got := BootMAC(inv, tt.agent); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestFirstAddressSkipsLinkLocalOnes(t *testing.T) {
	inv := &provisioner.Inventory{Hardware: inventory.Inventory{Interfaces: []inventory.Interface{
		{Name: "a", IPv4Address: "169.254.1.1", IPv6Address: "fe80::1%a"},
		{Name: "b", IPv6Address: "2001:db8::1%b"},
		{Name: "c", IPv4Address: "192.0.2.1"},
	}}}
	if got := FirstAddress(inv).String(); got != "2001:db8::1" {
		t.Errorf("got %s, want 2001:db8::1", got)
	}
}

func TestUsableMACsNamesEachNICOnce(t *testing.T) {
	inv := &provisioner.Inventory{Hardware: inventory.Inventory{Interfaces: []inventory.Interface{
		{Name: "eno1", MACAddress: "00:1b:21:00:00:0a"},
		{Name: "eno2", MACAddress: "00:1b:21:00:00:0a"},
		{Name: "bond0", MACAddress: "00:1b:21:00:00:0a"},
		{Name: "eno3", MACAddress: "00:1b:21:00:00:0b"},
	}}}
	if diff := cmp.Diff([]string{"00:1b:21:00:00:0a", "00:1b:21:00:00:0b"}, UsableMACs(inv)); diff != "" {
		t.Errorf("MAC addresses differ (-want +got):\n%s", diff)
	}
}

func TestDetailsFitIntoAnObject(t *testing.T) {
	long := strings.Repeat("x", maxText)
	inv := &provisioner.Inventory{LLDP: map[string]provisioner.LLDP{}}
	for i := range maxNICs {
		name := "eno" + strings.Repeat("1", i%50)
		inv.Hardware.Interfaces = append(inv.Hardware.Interfaces, inventory.Interface{Name: name, Vendor: long})
		lldp := provisioner.LLDP{}
		for id := range maxVLANs {
			lldp.VLANs = append(lldp.VLANs, provisioner.VLAN{ID: id, Name: long})
		}
		inv.LLDP[name] = lldp
	}
	for range maxDisks {
		inv.Hardware.Disks = append(inv.Hardware.Disks, inventory.Disk{Name: "/dev/sda", Model: long, Serial: long, WWN: long})
	}
	details := Details(inv)
	text, err := json.Marshal(details)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > maxSize {
		t.Errorf("%d bytes, want at most %d", len(text), maxSize)
	}
	if len(details.NICs) == 0 || len(details.Storage) == 0 {
		t.Error("nothing is left of NICs or disks")
	}
}
