package inspect

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/inventory"
	"github.com/ingot-metal/ingot/internal/node"
)

// withPCI returns a document with the plugin data pci_devices, and without it if
// devices is empty.
func withPCI(t testing.TB, devices string) *inventory.Document {
	t.Helper()
	if devices != "" {
		devices = `,"pci_devices":` + devices
	}
	return document(t, `{"inventory":{"interfaces":[`+nic("eth0", "01")+`]}`+devices+`}`)
}

// pci is a device as the ramdisk sends it.
func pci(vendor, product, bus string) string {
	return fmt.Sprintf(`{"vendor_id":%q,"product_id":%q,"class":"030200","revision":"a1","bus":%q,"numa_node_id":0}`, vendor, product, bus)
}

// unusablePCILists are lists without a device, with what both PCI hooks say of them.
var unusablePCILists = map[string]string{
	``:                                       "The ramdisk sent no PCI devices; it lists them when its kernel parameter ipa-inspection-collectors includes pci-devices",
	`null`:                                   "The ramdisk sent no PCI devices; it lists them when its kernel parameter ipa-inspection-collectors includes pci-devices",
	`[]`:                                     "The ramdisk sent no PCI devices; it lists them when its kernel parameter ipa-inspection-collectors includes pci-devices",
	`"10de:1eb8"`:                            "The plugin data pci_devices is no list",
	`{"vendor_id":"10de"}`:                   "The plugin data pci_devices is no list",
	`5`:                                      "The plugin data pci_devices is no list",
	`[null]`:                                 "Entry 0 of pci_devices has no vendor_id and product_id in hexadecimal",
	`["10de:1eb8",7,[],{}]`:                  "Entry 0 of pci_devices has no vendor_id and product_id in hexadecimal; Entry 1 of pci_devices has no vendor_id and product_id in hexadecimal; Entry 2 of pci_devices has no vendor_id and product_id in hexadecimal; Entry 3 of pci_devices has no vendor_id and product_id in hexadecimal",
	`[{"vendor_id":"10de"}]`:                 "Entry 0 of pci_devices has no vendor_id and product_id in hexadecimal",
	`[{"vendor_id":4318,"product_id":7864}]`: "Entry 0 of pci_devices has no vendor_id and product_id in hexadecimal",
	`[{"vendor_id":"NVIDIA","product_id":"1eb8"}]`:   "Entry 0 of pci_devices has no vendor_id and product_id in hexadecimal",
	`[{"vendor_id":"110de","product_id":"1eb8"}]`:    "Entry 0 of pci_devices has no vendor_id and product_id in hexadecimal",
	`[{"vendor_id":"-1","product_id":"1eb8"}]`:       "Entry 0 of pci_devices has no vendor_id and product_id in hexadecimal",
	`[{"vendor_id":null,"product_id":null,"bus":1}]`: "Entry 0 of pci_devices has no vendor_id and product_id in hexadecimal",
}

func TestPCIDevicesAreCounted(t *testing.T) {
	t4, nic1 := pci("10de", "1eb8", "0000:3b:00.0"), pci("8086", "1572", "0000:18:00.0")
	for name, tc := range map[string]struct {
		aliases               []string
		devices, before, want string
	}{
		"two of one":         {[]string{"10de:1eb8:t4"}, t4 + "," + nic1 + "," + t4, "", "t4:2"},
		"two names":          {[]string{"8086:1572:nic", "10de:1eb8:t4"}, t4 + "," + nic1 + "," + t4, "boot_mode:uefi", "boot_mode:uefi,nic:1,t4:2"},
		"one name for both":  {[]string{"8086:1572:card,10de:1eb8:card"}, t4 + "," + nic1 + "," + t4, "", "card:3"},
		"both names for one": {[]string{"10de:1eb8:t4", "10de:1eb8:gpu"}, t4, "", "t4:1,gpu:1"},
		"spelling":           {[]string{" 0x10DE : 1EB8 : t4 "}, pci("0x10de", " 1Eb8", "") + "," + t4, "", "t4:2"},
		"leading zeros":      {[]string{"1:2:x"}, pci("0001", "0002", ""), "", "x:1"},
		"fewer than before":  {[]string{"10de:1eb8:t4"}, t4, "t4:4,a:1", "t4:1,a:1"},
		"none left":          {[]string{"10de:1eb8:t4"}, nic1, "t4:4", "t4:4"},
		"other ones between": {[]string{"10de:1eb8:t4"}, t4 + `,null,{"vendor_id":5},` + t4, "", "t4:2"},
		"no aliases":         {nil, t4, "", ""},
		"thousands":          {[]string{"10de:1eb8:t4"}, strings.Repeat(nic1+",", 9000) + t4, "", "t4:1"},
	} {
		t.Run(name, func(t *testing.T) {
			p := pipeline(t, func(c *Config) { c.Hooks, c.PCIDeviceAlias = []string{"pci-devices"}, tc.aliases })
			result := run(t, p, Input{Document: withPCI(t, "["+tc.devices+"]"), Properties: node.ObjectOf(map[string]any{"capabilities": tc.before})})
			got, changed := result.Properties["capabilities"]
			if !changed {
				got = tc.before
			}
			if got != tc.want {
				t.Errorf("capabilities = %v, want %s", got, tc.want)
			}
		})
	}
}

func TestMalformedPCIDevicesAreNotCounted(t *testing.T) {
	p := pipeline(t, func(c *Config) {
		c.Hooks, c.PCIDeviceAlias = []string{"pci-devices"}, []string{"10de:1eb8:t4", "0:0:zero"}
	})
	for devices, reason := range unusablePCILists {
		result := run(t, p, Input{Document: withPCI(t, devices)})
		if len(result.Properties) != 0 {
			t.Errorf("pci_devices %s sets %v", devices, result.Properties)
		}
		if got := strings.Join(result.Skipped, "; "); got != reason {
			t.Errorf("pci_devices %s\n got: %s\nwant: %s", devices, got, reason)
		}
	}
}

func TestPCIDevicesAreBounded(t *testing.T) {
	one := `{"vendor_id":"1","product_id":"2"},`
	p := pipeline(t, func(c *Config) { c.Hooks, c.PCIDeviceAlias = []string{"pci-devices"}, []string{"1:2:x"} })
	result := run(t, p, Input{Document: withPCI(t, "["+strings.TrimSuffix(strings.Repeat(one, maxPCIDevices+5), ",")+"]")})
	if got := result.Properties["capabilities"]; got != "x:65536" {
		t.Errorf("capabilities = %v, want x:65536", got)
	}
	if got := strings.Join(result.Skipped, "; "); got != "The plugin data pci_devices is read up to entry 65536 only" {
		t.Errorf("skipped %s", got)
	}
}

func TestBadPCIAliasesAreRefusedAtStart(t *testing.T) {
	for _, entry := range []string{"10de:1eb8", "10de:1eb8:", "10de:1eb8:t4:x", "nvidia:1eb8:t4", "10de:11eb8:t4", "10de::t4", "10de:1eb8:my gpu"} {
		cfg := DefaultConfig()
		cfg.Hooks, cfg.PCIDeviceAlias = []string{"pci-devices"}, []string{entry}
		_, err := NewPipeline(cfg)
		want := `inspector.pci_device_alias: want VENDOR_ID:PRODUCT_ID:NAME with IDs in hexadecimal, such as 10de:1eb8:t4, got "` + entry + `"`
		if errorText(err) != want {
			t.Errorf("entry %q: error %v, want %s", entry, err, want)
		}
	}
}

func TestPCIProblemIsReportedOnceForBothHooks(t *testing.T) {
	p := pipeline(t, func(c *Config) {
		c.Hooks, c.PCIDeviceAlias = []string{"accelerators", "pci-devices"}, []string{"1:2:x"}
	})
	result := run(t, p, Input{Document: withPCI(t, `[{"vendor_id":"1","product_id":"2"},5]`)})
	if got := strings.Join(result.Skipped, "; "); got != "Entry 1 of pci_devices has no vendor_id and product_id in hexadecimal" {
		t.Errorf("skipped %s", got)
	}
	if result.Properties["capabilities"] != "x:1" || result.Properties["accelerators"] == nil {
		t.Errorf("properties %v, want what both hooks set", result.Properties)
	}
}
