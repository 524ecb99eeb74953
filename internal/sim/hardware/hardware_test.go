package hardware_test

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/sim/hardware"
)

func TestDocumentDependsOnlyOnSeedAndIndex(t *testing.T) {
	const machines = 200
	inOrder := make([][]byte, machines)
	for i := range inOrder {
		inOrder[i] = hardware.Document(7, i)
	}
	var wg sync.WaitGroup
	for i := machines - 1; i >= 0; i-- {
		wg.Go(func() {
			if got := hardware.Document(7, i); !bytes.Equal(got, inOrder[i]) {
				t.Errorf("machine %d differs when generated alone", i)
			}
		})
	}
	wg.Wait()
	if bytes.Equal(hardware.Document(8, 0), inOrder[0]) {
		t.Error("seeds 7 and 8 give the same first machine")
	}
}

func TestIdentitiesAreUniqueWithinASeed(t *testing.T) {
	const machines = 3_000
	seen := map[string]int{}
	claim := func(kind, value string, machine int) {
		t.Helper()
		if first, taken := seen[kind+value]; taken {
			t.Fatalf("machines %d and %d share %s %s", first, machine, kind, value)
		}
		seen[kind+value] = machine
	}
	for i := range machines {
		inventory := hardware.Options{}.Machine(3, i).Inspection.Inventory
		for _, nic := range inventory.Interfaces {
			claim("MAC", nic.MACAddress, i)
			if nic.IPv4Address != nil {
				claim("IPv4", *nic.IPv4Address, i)
			}
		}
		for _, disk := range inventory.Disks {
			if disk.Serial != nil {
				claim("disk serial of "+*disk.Model, *disk.Serial, i)
			}
			if disk.WWN != nil {
				claim("WWN", *disk.WWN, i)
			}
		}
		if inventory.BMCAddress != "0.0.0.0" {
			claim("BMC", inventory.BMCAddress, i)
		}
		if inventory.BMCV6Address != "::/0" {
			claim("BMC", inventory.BMCV6Address, i)
		}
		if s := inventory.SystemVendor.SerialNumber; s != "" && s != "To Be Filled By O.E.M." {
			claim("serial", s, i)
		}
	}
}

func TestHardwareOfMachinesVaries(t *testing.T) {
	counts := map[string]int{}
	for i := range 2_000 {
		m := hardware.Options{}.Machine(1, i)
		inv := m.Inspection.Inventory
		for _, fact := range []string{
			"vendor " + inv.SystemVendor.Manufacturer, "kind " + string(m.Kind),
			"arch " + inv.CPU.Architecture, "boot " + inv.Boot.CurrentBootMode,
		} {
			counts[fact]++
		}
		for fact, holds := range map[string]bool{
			"no BMC":           inv.BMCAddress == "0.0.0.0",
			"IPv6 BMC":         inv.BMCV6Address != "::/0",
			"virtual media":    inv.Boot.PXEInterface == nil,
			"nameless":         inv.Hostname == "localhost.localdomain",
			"one NIC":          len(inv.Interfaces) == 1,
			"eight NICs":       len(inv.Interfaces) == 8,
			"PCI collector":    m.Inspection.PCIDevices != nil,
			"LLDP":             slices.ContainsFunc(inv.Interfaces, func(n hardware.Interface) bool { return len(n.LLDP) > 5 }),
			"rotational disk":  slices.ContainsFunc(inv.Disks, func(d hardware.Disk) bool { return d.Rotational }),
			"placeholder name": inv.SystemVendor.SerialNumber == "To Be Filled By O.E.M.",
		} {
			if holds {
				counts[fact]++
			}
		}
	}
	for _, fact := range []string{
		"vendor Dell Inc.", "vendor HPE", "vendor Supermicro", "vendor Lenovo", "vendor FUJITSU", "vendor QEMU",
		"kind server", "kind edge", "kind virtual", "arch x86_64", "arch aarch64", "boot uefi", "boot bios",
		"no BMC", "IPv6 BMC", "virtual media", "nameless", "one NIC", "eight NICs", "PCI collector", "LLDP",
		"rotational disk", "placeholder name",
	} {
		if counts[fact] < 5 {
			t.Errorf("%q holds for %d of 2000 machines, want at least 5", fact, counts[fact])
		}
	}
}

func TestBootInterfaceCarriesTheAddress(t *testing.T) {
	address := netip.MustParseAddr("127.99.0.7")
	for i := range 500 {
		m := hardware.Options{Address: address}.Machine(5, i)
		inv := m.Inspection.Inventory
		boot := inv.Interfaces[m.BootNIC]
		if boot.IPv4Address == nil || *boot.IPv4Address != address.String() || !boot.HasCarrier {
			t.Fatalf("machine %d boots from %+v, want a carrier and %s", i, boot, address)
		}
		if pxe := inv.Boot.PXEInterface; pxe != nil && len(*pxe) == 17 && *pxe != boot.MACAddress {
			t.Errorf("machine %d: pxe_interface is %s, want %s", i, *pxe, boot.MACAddress)
		}
		if got, want := m.Inspection.BootInterface, inv.Boot.PXEInterface; got != want {
			t.Errorf("machine %d: boot_interface is not the PXE interface", i)
		}
		if m.Inspection.RootDisk == nil {
			t.Errorf("machine %d has no root disk", i)
		}
	}
}

func TestNICsOptionGivesExactlySoManyInterfaces(t *testing.T) {
	for want := 1; want <= hardware.MaxNICs; want++ {
		for i := range 100 {
			m := hardware.Options{NICs: want}.Machine(2, i)
			if got := len(m.Inspection.Inventory.Interfaces); got != want {
				t.Fatalf("machine %d has %d interfaces, want %d", i, got, want)
			}
		}
	}
}

func TestServerDocumentWithFourNICsIsAboutTenKilobytes(t *testing.T) {
	total := 0
	const machines = 500
	for i := range machines {
		total += len(hardware.Options{NICs: 4, Kind: hardware.Server}.Document(1, i))
	}
	if mean := total / machines; mean < 8_000 || mean > 12_000 {
		t.Errorf("mean document has %d bytes, want about 10000", mean)
	}
}

func TestSwitchPortsAreSharedByNobody(t *testing.T) {
	owner := map[string]int{}
	for i := range 3_000 {
		for _, nic := range (hardware.Options{}).Machine(4, i).Inspection.Inventory.Interfaces {
			if len(nic.LLDP) == 0 {
				continue
			}
			port := nic.LLDP[0].Value + nic.LLDP[1].Value // chassis and port
			if first, taken := owner[port]; taken {
				t.Fatalf("machines %d and %d are plugged into one port %s", first, i, port)
			}
			owner[port] = i
		}
	}
	if len(owner) < 1_000 {
		t.Fatalf("only %d interfaces have LLDP data", len(owner))
	}
}

// keysOf lists every path of JSON keys in a document; arrays count as one.
func keysOf(t *testing.T, doc []byte) []string {
	t.Helper()
	var v any
	if err := json.Unmarshal(doc, &v); err != nil {
		t.Fatalf("decode document: %v", err)
	}
	var keys []string
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, child := range v {
				keys = append(keys, path+"/"+k)
				walk(path+"/"+k, child)
			}
		case []any:
			for _, child := range v {
				walk(path, child)
			}
		}
	}
	walk("", v)
	slices.Sort(keys)
	return slices.Compact(keys)
}

func TestDocumentHasTheKeysOfTheRecordedAgent(t *testing.T) {
	recorded := recordedDocument(t)
	doc := hardware.Options{Kind: hardware.Edge}.Document(1, 0) // without the pci-devices collector, as recorded
	if diff := cmp.Diff(keysOf(t, recorded), keysOf(t, doc)); diff != "" {
		t.Errorf("keys differ from the recording (-recorded +generated):\n%s", diff)
	}
}

func BenchmarkDocument(b *testing.B) {
	o := hardware.Options{NICs: 4, Kind: hardware.Server}
	size := 0
	for i := 0; b.Loop(); i++ {
		size += len(o.Document(1, i))
	}
	b.ReportMetric(float64(size)/float64(b.N), "bytes/doc")
}

func TestExtraHardwareFactsAgreeWithTheInventory(t *testing.T) {
	plain := hardware.Options{}.Machine(5, 3).Inspection
	if plain.Facts != nil {
		t.Errorf("facts that nobody asked for: %v", plain.Facts)
	}
	extra := hardware.Options{ExtraHardware: true}.Machine(5, 3).Inspection
	if diff := cmp.Diff(plain.Inventory, extra.Inventory); diff != "" {
		t.Errorf("the collector changed the inventory (-without +with):\n%s", diff)
	}
	if got, want := extra.Configuration.Collectors, "extra-hardware"; !slices.Contains(got, want) {
		t.Errorf("collectors = %v, want %s among them", got, want)
	}
	for _, want := range []hardware.Fact{
		{"system", "product", "serial", plain.Inventory.SystemVendor.SerialNumber},
		{"cpu", "logical", "number", plain.Inventory.CPU.Count},
		{"network", plain.Inventory.Interfaces[0].Name, "serial", plain.Inventory.Interfaces[0].MACAddress},
	} {
		if !slices.Contains(extra.Facts, want) {
			t.Errorf("no fact %v in %v", want, extra.Facts)
		}
	}
}
