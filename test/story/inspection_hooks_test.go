package story

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/sim/hardware"
)

// graphics is the PCI ID of a card that some simulated servers have.
const graphicsVendor, graphicsProduct = "10de", "2330"

func TestEveryHookRunsInAnInspection(t *testing.T) {
	t.Parallel()
	r := startRack(t, 200, allHooks, "inspector.pci_device_alias="+graphicsVendor+":"+graphicsProduct+":h100",
		"inspector.physical_network_cidr_map="+provisioning.String()+":provisioning")
	cards := 0
	i := r.machineWith(t, "graphics cards, LLDP neighbours and Intel processors", func(_ int, found hardware.Inspection) bool {
		cards = 0
		for _, device := range found.PCIDevices {
			if device.VendorID == graphicsVendor && device.ProductID == graphicsProduct {
				cards++
			}
		}
		return cards > 0 && found.RootDisk != nil && found.Inventory.Interfaces[0].LLDP != nil && slices.Contains(found.Inventory.CPU.Flags, "vmx")
	})
	posted := r.Machine(i).Hardware().Inspection
	uuid := r.register(t, "agent", r.bootMAC(i), nil)
	r.provision(t, uuid, "inspect", "inspect wait")
	if err := r.Machine(i).PowerOn(); err != nil {
		t.Fatal(err)
	}
	n := r.awaitState(t, uuid, "manageable")
	r.Machine(i).PowerOff()

	const gib = 1 << 30
	for property, want := range map[string]any{
		"cpu_arch":  posted.Inventory.CPU.Architecture,
		"memory_mb": posted.Inventory.Memory.PhysicalMB,
		"local_gb":  posted.RootDisk.Size/gib - 1,
	} {
		if got := n.Properties[property]; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("property %s = %v, want %v", property, got, want)
		}
	}
	for capability, want := range map[string]string{
		"boot_mode": posted.Inventory.Boot.CurrentBootMode, "cpu_vt": "true", "h100": fmt.Sprint(cards),
	} {
		if got := n.capability(capability); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("capability %s = %q, want %q", capability, got, want)
		}
	}
	if devices, _ := n.Properties["accelerators"].([]any); len(devices) != cards {
		t.Errorf("accelerators = %v, want %d", n.Properties["accelerators"], cards)
	}
	if n.Properties["cpus"] != nil {
		t.Errorf("cpus = %v, which nothing sets", n.Properties["cpus"])
	}

	ports := r.ports(t, uuid)
	boot := posted.Inventory.Interfaces[r.Machine(i).Hardware().BootNIC]
	if network := ports[boot.MACAddress].PhysicalNetwork; network == nil || *network != "provisioning" {
		t.Errorf("physical network of port %s = %v, want provisioning", boot.MACAddress, network)
	}
	wired := posted.Inventory.Interfaces[0]
	if connection := ports[wired.MACAddress].LinkConnection; connection["port_id"] == "" || connection["switch_id"] == "" {
		t.Errorf("local link connection of port %s = %v, want switch and port", wired.MACAddress, connection)
	}

	var stored inspectionData
	r.read(t, "/v1/nodes/"+uuid+"/inventory", &stored)
	for key, want := range map[string]string{
		"parsed_lldp":      `"switch_port_id"`,
		"extra":            posted.Inventory.SystemVendor.SerialNumber,
		"valid_interfaces": `"is_added":true`,
		"root_disk":        posted.RootDisk.Name,
	} {
		if got := string(stored.PluginData[key]); !strings.Contains(got, want) {
			t.Errorf("plugin data %s has no %s: %s", key, want, got)
		}
	}
	if _, left := stored.PluginData["data"]; left {
		t.Error("the extra hardware facts are there in their old form, too")
	}

	t.Run("a new volume becomes the root device", func(t *testing.T) {
		const serial = "VOLUME0001"
		document := strings.Replace(string(r.Machine(i).Document()), `"disks":[`, fmt.Sprintf(`"disks":[{"name":"/dev/md0","size":%d,"serial":%q},`, 100*gib, serial), 1)
		r.provision(t, uuid, "inspect", "inspect wait")
		if status, body := r.call(t, http.MethodPost, "/v1/continue_inspection", []byte(document), ""); status != http.StatusOK {
			t.Fatalf("post: %d %s", status, body)
		}
		n := r.awaitState(t, uuid, "manageable")
		device, _ := json.Marshal(n.Properties["root_device"])
		if string(device) != fmt.Sprintf(`{"serial":%q}`, serial) {
			t.Errorf("root_device = %s, want the new volume", device)
		}
		if got := fmt.Sprint(n.Properties["local_gb"]); got != "99" {
			t.Errorf("local_gb = %s, want 99", got)
		}
	})
}

func TestRamdiskThatReportsAnErrorFailsInspection(t *testing.T) {
	t.Parallel()
	r := startRack(t, 1)
	uuid := r.register(t, "agent", r.bootMAC(0), nil)
	r.provision(t, uuid, "inspect", "inspect wait")
	document := strings.Replace(string(r.Machine(0).Document()), `"error":null`, `"error":"the collector dmi crashed"`, 1)
	if status, body := r.call(t, http.MethodPost, "/v1/continue_inspection", []byte(document), ""); status != http.StatusOK {
		t.Fatalf("post: %d %s", status, body)
	}
	n := r.awaitState(t, uuid, "inspect failed")
	if !strings.Contains(n.LastError, "the collector dmi crashed") {
		t.Errorf("last error %q does not have the ramdisk's", n.LastError)
	}
	if status, body := r.get(t, "/v1/nodes/"+uuid+"/inventory"); status != http.StatusNotFound {
		t.Errorf("inventory of a failed inspection: %d %s, want 404", status, body)
	}
}

func TestPortsFollowTheMachineAsConfigured(t *testing.T) {
	t.Parallel()
	r := startRack(t, 2, "inspector.add_ports=pxe", "inspector.keep_ports=added")
	i := r.machineWith(t, "a boot interface", func(_ int, found hardware.Inspection) bool { return found.Inventory.Boot.PXEInterface != nil })
	const old = "02:00:00:00:0f:01"
	uuid := r.register(t, "agent", old, map[string]any{"redfish_address": "https://198.51.100.1"})
	r.provision(t, uuid, "inspect", "inspect wait")
	if status, body := r.call(t, http.MethodPost, "/v1/continue_inspection?node_uuid="+uuid, r.Machine(i).Document(), ""); status != http.StatusOK {
		t.Fatalf("post: %d %s", status, body)
	}
	r.awaitState(t, uuid, "manageable")
	ports := r.ports(t, uuid)
	if _, kept := ports[old]; kept || len(ports) != 1 || !ports[r.bootMAC(i)].PXEEnabled {
		t.Errorf("ports = %v, want the boot interface %s alone", ports, r.bootMAC(i))
	}
}
