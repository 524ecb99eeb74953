package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/ironic"
)

// machine is an inventory of a machine with something in every section.
const machine = `{"inventory": {
 "hostname": "ramdisk",
 "system_vendor": {"product_name": "Box 1", "serial_number": "SN42", "manufacturer": "ACME", "firmware": {"vendor": "ACME", "version": "1.2", "build_date": ""}},
 "cpu": {"model_name": "ACME 9000", "frequency": "3100.0000", "count": 16, "architecture": "x86_64", "flags": ["vmx", "aes"], "socket_count": 1},
 "memory": {"total": 67108864000, "physical_mb": "65536"},
 "disks": [
  {"name": "/dev/sda", "model": "ACME SSD", "size": 480103981056, "rotational": false, "wwn": "0x5000c500a1", "serial": "S1", "hctl": "0:0:0:0", "by_path": "/dev/disk/by-path/pci-0000:00:1f.2-ata-1"},
  {"name": "/dev/sdb", "model": null, "size": "4000787030016", "rotational": true, "serial": "S2"}],
 "interfaces": [
  {"name": "eno1", "mac_address": "52:54:00:12:34:56", "ipv4_address": "192.0.2.101", "has_carrier": true, "speed_mbps": 1000, "vendor": "0x8086", "product": "0x1533", "lldp": [[1, "04"]]},
  {"name": "eno2", "mac_address": "52:54:00:12:34:57", "ipv4_address": null, "has_carrier": false, "speed_mbps": -1, "pci_address": "0000:01:00.1"}],
 "boot": {"current_boot_mode": "uefi", "pxe_interface": "52:54:00:12:34:56"},
 "bmc_address": "192.0.2.17", "bmc_v6address": "::/0",
 "usb": [{"product": "Keyboard"}]
}, "plugin_data": {
 "parsed_lldp": {"eno1": {"switch_chassis_id": "11:22:33:aa:bb:01", "switch_port_id": "Eth1", "switch_port_vlans": [{"id": 10, "name": "prov"}, {"id": 20}], "switch_mgmt_addresses": ["192.0.2.1", "fd00::1"]}},
 "pci_devices": [{"vendor_id": "8086", "product_id": "1533", "class": "020000", "revision": "03", "bus": "0000:01:00.0"}],
 "numa_topology": {"ram": [{"numa_node": 0, "size_kb": 33554432}], "cpus": [{"cpu": 0, "numa_node": 0, "thread_siblings": [0, 1]}, {"cpu": 1, "numa_node": 0, "thread_siblings": [2, 3]}], "nics": [{"name": "eno1", "numa_node": 0}]},
 "extra": {"disk": {"sda": {"size": 480}}},
 "error": null
}}`

// shown is what the command prints of an inventory.
func shown(t *testing.T, body string, show InventoryShow) (string, error) {
	t.Helper()
	_, engine := newFakeEngine(t, map[string][]answer{"GET /v1/nodes/n1/inventory": {{200, body}}})
	var r run
	err := show.Run(t.Context(), engine, "n1", &r.out)
	return r.out.String(), err
}

func TestInventoryIsShownSectionBySection(t *testing.T) {
	for file, sections := range map[string][]string{"inventory.table": nil, "inventory.all": append(InventorySections(), "usb")} {
		out, err := shown(t, machine, InventoryShow{Output: OutputTable, Sections: sections})
		if err != nil {
			t.Fatal(err)
		}
		golden(t, file, out)
	}
}

func TestInventorySectionsAreFoundByBothOfTheirNames(t *testing.T) {
	for name, want := range map[string]string{
		"cpu":           "architecture x86_64\ncount 16\nflags 2 flags\nfrequency 3100 MHz\nmodel_name ACME 9000\nsocket_count 1\n",
		"memory":        "physical_mb 64 GiB\ntotal 62.5 GiB\n",
		"system_vendor": "firmware.vendor ACME\nfirmware.version 1.2\nmanufacturer ACME\nproduct_name Box 1\nserial_number SN42\n",
		"pci_devices":   "0000:01:00.0 8086 1533 020000 03 None\n",
		"numa":          "0 32 GiB 2 4 eno1\n",
		"extra":         "disk.sda.size 480\n",
		"bmc":           "bmc_address 192.0.2.17\n",
	} {
		out, err := shown(t, machine, InventoryShow{Output: OutputValue, Sections: []string{name}})
		if err != nil || out != want {
			t.Errorf("%s: %q, %v; want %q", name, out, err, want)
		}
	}
	_, err := shown(t, machine, InventoryShow{Output: OutputTable, Sections: []string{"disk"}})
	if ExitCode(err) != ExitUsage || !strings.Contains(err.Error(), "disks, interfaces, boot") {
		t.Errorf("a section that is none: %v", err)
	}
}

func TestChosenSectionsAreJSONAsTheEngineSentThem(t *testing.T) {
	for sections, want := range map[string]string{
		"memory":      `{"physical_mb":"65536","total":67108864000}`,
		"bmc":         `{"bmc_address":"192.0.2.17","bmc_v6address":"::/0"}`,
		"general usb": `{"general":{"hostname":"ramdisk"},"usb":[{"product":"Keyboard"}]}`,
		"pci lldp":    `{"lldp":null,"pci":null}`,
		"plugin":      `null`,
		"":            `{"memory":{"physical_mb":"65536","total":67108864000}}`,
	} {
		body := machine
		if strings.Contains(want, "null") || sections == "" {
			body = `{"inventory": {"memory": {"physical_mb":"65536","total":67108864000}}, "plugin_data": null}`
		}
		out, err := shown(t, body, InventoryShow{Output: OutputJSON, Sections: strings.Fields(sections)})
		var compacted any
		if err != nil || json.Unmarshal([]byte(out), &compacted) != nil {
			t.Fatalf("%q: %q, %v", sections, out, err)
		}
		if got := strings.NewReplacer(" ", "", "\n", "").Replace(out); got != want {
			t.Errorf("%q: got %s, want %s", sections, got, want)
		}
	}
}

func TestUnusualInventoriesAreShownUnchanged(t *testing.T) {
	for body, want := range map[string]string{
		`{"inventory": {}, "plugin_data": {}}`:                                        "The inventory is empty.",
		`{"inventory": {"disks": [{}, {"size": null}]}}`:                              "The inventory is empty.",
		`{"inventory": null, "plugin_data": null}`:                                    "The inventory is empty.",
		`{"inventory": {"disks": null, "cpu": null, "interfaces": []}}`:               "The inventory is empty.",
		`{"inventory": {"disks": "none"}}`:                                            "| disks | none |",
		`{"inventory": {"disks": {"sda": {"size": 5}}}}`:                              "| sda.size | 5    |",
		`{"inventory": {"disks": [null, "sda", {"name": "sdb", "size": "huge"}]}}`:    "| sdb  | huge |",
		`{"inventory": {"disks": [{"size": -5}, {"size": 1e30}]}}`:                    "-5 B",
		`{"inventory": {"cpu": 8, "memory": "lots"}}`:                                 "| cpu   | 8     |",
		`{"inventory": {"interfaces": [{"name": "ib0", "mac_address": 7}]}}`:          "| ib0  | 7   |",
		`{"inventory": {"hostname": "a\u001b[2J\u202eb"}}`:                            `a\x1b[2J\u202eb`,
		`{"inventory": {"k\u001b[2J": {"\u009b": "v"}}}`:                              `K\x1b[2J`,
		`{"inventory": {}, "plugin_data": {"parsed_lldp": {"eno1": null, "x": "y"}}}`: "| eno1      |",
		`{"inventory": {}, "plugin_data": {"parsed_lldp": [1]}}`:                      "| lldp      | 1      |",
		`{"inventory": {}, "plugin_data": {"numa_topology": {"ram": {}}}}`:            "More with --section: plugin",
		`{"inventory": {}, "plugin_data": {"numa_topology": {"cpus": ["x", {}]}}}`:    "More with --section: numa, plugin",
	} {
		out, err := shown(t, body, InventoryShow{Output: OutputTable})
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v, printed\n%s\nwithout %q", body, err, out, want)
		}
	}
	if _, err := shown(t, `{"inventory": [], "plugin_data": {}}`, InventoryShow{Output: OutputTable}); ExitCode(err) != ExitError {
		t.Errorf("an inventory that is no object: %v", err)
	}
}

func TestThousandsOfInterfacesAreShown(t *testing.T) {
	var interfaces []string
	for i := range 3000 {
		interfaces = append(interfaces, fmt.Sprintf(`{"name": "v%d", "mac_address": "02:00:00:00:00:01"}`, i))
	}
	out, err := shown(t, `{"inventory": {"interfaces": [`+strings.Join(interfaces, ",")+`]}}`, InventoryShow{Output: OutputTable})
	if err != nil || !strings.Contains(out, "| v2999 | 02:00:00:00:00:01 |") {
		t.Errorf("%v, printed %d bytes", err, len(out))
	}
}

func TestMissingInventoryIsFollowedByHowToGetOne(t *testing.T) {
	_, engine := newFakeEngine(t, nil)
	err := InventoryShow{}.Run(t.Context(), engine, "n1", nil)
	if ExitCode(err) != ExitNotFound || !strings.HasSuffix(Sentence(err), "ingot node inspect.") {
		t.Errorf("got %v", err)
	}
}

func FuzzInventoryIsShownWithoutHarm(f *testing.F) {
	f.Add(`{"disks": [{"size": "7"}], "interfaces": {"a": 1}}`, `{"numa_topology": {"nics": [1]}, "parsed_lldp": {"a": {}}}`)
	f.Fuzz(func(t *testing.T, inventory, plugin string) {
		if !json.Valid([]byte(inventory)) || !json.Valid([]byte(plugin)) {
			return // an engine sends JSON
		}
		found, err := parseFindings(inventoryOf(inventory, plugin))
		if err != nil {
			return
		}
		var out strings.Builder
		for _, s := range append(inventorySections, found.others()...) {
			if err := OutputTable.list(&out, filled(s.titles(), s.rows(found)), s.rows(found)); err != nil {
				t.Fatal(err)
			}
		}
		for _, r := range out.String() {
			if r != '\n' && r != '\ufffd' && active(r) {
				t.Errorf("%U is printed", r)
			}
		}
	})
}

func inventoryOf(inventory, plugin string) ironic.Inventory {
	return ironic.Inventory{Inventory: json.RawMessage(inventory), PluginData: json.RawMessage(plugin)}
}
