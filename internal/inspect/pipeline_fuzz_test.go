package inspect

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/inventory"
	"github.com/ingot-metal/ingot/internal/node"
)

// allHooks turns every hook on, in the order of knownHooks, each with options that
// give it something to do.
func allHooks(c *Config) {
	c.Hooks = nil
	for _, hook := range knownHooks {
		c.Hooks = append(c.Hooks, hook.Name)
	}
	c.KeepPorts = KeepPresent
	c.PCIDeviceAlias = []string{"8086:1572:nic", "10de:18b8:gpu"}
	c.PhysicalNetworkCIDRMap = []string{"192.0.2.0/24:provisioning", "2001:db8::/32:six"}
}

// knownMachine is the input for a machine that was inspected before and whose
// ports were edited by a person.
func knownMachine(t testing.TB, doc *inventory.Document) Input {
	t.Helper()
	return Input{
		Document:   doc,
		Previous:   &fixture(t, "server-4-nics.json").Hardware,
		Properties: node.ObjectOf(map[string]any{"capabilities": "profile:a, boot_mode:bios", "memory_mb": "1", "root_device": map[string]any{"size": ">= 10"}}),
		Ports: []Port{
			{UUID: "p", Address: "02:00:00:00:00:01", LocalLinkConnection: node.ObjectOf(map[string]any{"switch_id": "10:22:33:44:55:01", "port_id": "swp7"}), PortgroupUUID: "g"},
			{UUID: "q", Address: "3c:ec:ef:10:20:30", PhysicalNetwork: "old", PortgroupUUID: "g"},
			{UUID: "r", Address: "3c:ec:ef:10:20:31", LocalLinkConnection: node.ObjectOf(map[string]any{"network_type": "unmanaged"})},
		},
	}
}

func TestRecordedMachinesPassAllHooks(t *testing.T) {
	for _, name := range []string{"ironic-python-agent-9.11.0.json", "server-4-nics.json"} {
		result := run(t, pipeline(t, allHooks), Input{Document: fixture(t, name)})
		if len(result.PortsToCreate) == 0 || len(result.Properties) < 3 {
			t.Errorf("%s gives ports %v and properties %v", name, result.PortsToCreate, result.Properties)
		}
	}
}

// FuzzPipeline checks that all hooks run on every document that parses, and that
// the result is the same each time and can be stored and served.
func FuzzPipeline(f *testing.F) {
	for _, name := range []string{"ironic-python-agent-9.11.0.json", "server-4-nics.json"} {
		body, err := os.ReadFile("../inventory/testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	for _, body := range []string{
		`{"inventory":{"interfaces":[{"name":"\u0000\ud800","mac_address":"02-00-00-00-00-01","a":1,"a":2}],"cpu":{"architecture":"x"}},"":0}`,
		`{"inventory":{"interfaces":[{"name":"eth0","mac_address":"02:00:00:00:00:01","ipv4_address":"192.0.2.1","ipv6_address":"fe80::1%eth0","lldp":[[1,"04102233445501"],[2,"0573777037"]]}],` +
			`"cpu":{"architecture":"x86_64","flags":["vmx","aes",""]},"memory":{"physical_mb":"65536"},"boot":{"current_boot_mode":"UEFI"},` +
			`"disks":[{"name":"/dev/sda","size":"480103981056","serial":"S1","rotational":null},{"name":"/dev/sdb","size":-1}]},` +
			`"lldp_raw":{"eth0":[[127,"0080c203006406766c616e3130"]],"eth1":5},"root_disk":{"name":"/dev/sda"},` +
			`"pci_devices":[{"vendor_id":"10de","product_id":"18b8","class":"030200","bus":"0000:01:00.0"}],"data":[["cpu","physical_0","cores","4"],["disk"],5]}`,
	} {
		f.Add([]byte(body))
	}
	p := pipeline(f, allHooks)
	f.Fuzz(func(t *testing.T, body []byte) {
		doc, err := inventory.Parse(body)
		if err != nil {
			return
		}
		result, err := p.Run(knownMachine(t, doc))
		again, errAgain := p.Run(knownMachine(t, doc))
		if diff := cmp.Diff(result, again); diff != "" || errorText(err) != errorText(errAgain) {
			t.Fatalf("another run differs, errors %v and %v (-first +second):\n%s", err, errAgain, diff)
		}
		if err != nil {
			if !utf8.ValidString(err.Error()) || len(err.Error()) > 4096 {
				t.Fatalf("error %q is not fit to show", err)
			}
			return
		}
		checkResult(t, result)
		if _, err := inventory.Restore(doc.Inventory, result.PluginData); err != nil {
			t.Fatalf("result cannot be read back: %v", err)
		}
	})
}

// FuzzLLDPHooks checks the hooks that read LLDP data of switches, from both places where a ramdisk
// puts it.
func FuzzLLDPHooks(f *testing.F) {
	for _, list := range []string{
		`null`, `[]`, `[[0,""]]`, tlvs(tlvChassis, tlvPort, tlvName), tlvs(`[7,"00140014"]`, `[8,"0501c000020a0200000001"]`),
		tlvs(`[1,"0410"]`, tlvPort), tlvs(`[1,"0431"]`, `[2,"0700"]`, `[127,"00120f01036c110010"]`), `[5,{"a":[]},["1","0410"]]`,
	} {
		f.Add([]byte(list), []byte(`{"eth0":`+list+`}`))
		f.Add([]byte(list), []byte(list))
	}
	p := pipeline(f, func(c *Config) { c.Hooks = []string{"validate-interfaces,ports,parse-lldp,local-link-connection"} })
	f.Fuzz(func(t *testing.T, list, raw []byte) {
		doc, err := inventory.Parse([]byte(`{"inventory":{"interfaces":[` + nicWith("eth0", "01", `"lldp":`+string(list)) + `]},"lldp_raw":` + string(raw) + `}`))
		if err != nil {
			return
		}
		result, err := p.Run(Input{Document: doc})
		if err != nil && len(doc.Hardware.Interfaces) == 1 {
			t.Fatalf("LLDP %s and %s fail the inspection: %v", list, raw, err)
		}
		if err == nil {
			checkResult(t, result)
		}
	})
}

// checkResult checks properties of a result that the engine relies on without checking them.
func checkResult(t *testing.T, result *Result) {
	t.Helper()
	if !json.Valid(result.PluginData) {
		t.Fatalf("plugin data %s is no JSON", result.PluginData)
	}
	if _, err := json.Marshal(result.Properties); err != nil {
		t.Fatalf("properties cannot be stored: %v", err)
	}
	for _, text := range result.Skipped {
		if !utf8.ValidString(text) || len(text) > 4096 {
			t.Fatalf("remark %q is not fit to show", text)
		}
	}
	networks := map[string]string{}
	for _, port := range slices.Concat(result.PortsToCreate, result.PortsToUpdate) {
		link := port.LocalLinkConnection.Values()
		if !port.LocalLinkConnection.IsEmpty() && link["network_type"] == nil && (link["switch_id"] == nil || link["port_id"] == nil) {
			t.Fatalf("port %s has the incomplete connection %s", port.Address, port.LocalLinkConnection)
		}
		if port.PortgroupUUID == "" || port.PhysicalNetwork == "" {
			continue
		}
		if other, known := networks[port.PortgroupUUID]; known && other != port.PhysicalNetwork {
			t.Fatalf("the ports of group %s are in %q and %q", port.PortgroupUUID, other, port.PhysicalNetwork)
		}
		networks[port.PortgroupUUID] = port.PhysicalNetwork
	}
}

func BenchmarkRun(b *testing.B)             { benchmarkRun(b, nil) }
func BenchmarkRunWithAllHooks(b *testing.B) { benchmarkRun(b, allHooks) }

// benchmarkRun runs a new machine with four NICs and a document of 10 kB.
func benchmarkRun(b *testing.B, change func(*Config)) {
	b.Helper()
	in := Input{Document: fixture(b, "server-4-nics.json")}
	p := pipeline(b, change)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Run(in); err != nil {
			b.Fatal(err)
		}
	}
}
