package engine_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/engine"
	simredfish "github.com/ingot-metal/ingot/internal/sim/redfish"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

// TestMachineIsInspectedThroughItsBMC follows a machine from the verb to its ports,
// properties and inventory.
func TestMachineIsInspectedThroughItsBMC(t *testing.T) {
	for _, vendor := range simredfish.Vendors {
		t.Run(vendor, func(t *testing.T) {
			r := start(t, func(cfg *engine.Config) { cfg.AutoDiscovery.Enabled = false })
			bmc := redfishtest.Start(t, vendor)
			body := withBMC(t, bmc, "ipxe")
			body["inspect_interface"] = "redfish"
			ident := r.register(t, bootMAC, body)
			before := bmc.Effects()
			r.do(t, "PUT", "/v1/nodes/"+ident+"/states/provision", `{"target":"inspect"}`).want(t, http.StatusAccepted)
			n := r.awaitNode(t, ident, func(n map[string]any) bool { return inState("manageable")(n) && inspected(n) })
			if n["last_error"] != nil || !slices.Equal(before, bmc.Effects()) {
				t.Errorf("last_error %v, effects %q; want none", n["last_error"], bmc.Effects())
			}
			hardware := bmc.Hardware().Inspection
			properties, _ := n["properties"].(map[string]any)
			for key, want := range map[string]any{
				"cpu_arch": hardware.Inventory.CPU.Architecture, "memory_mb": float64(hardware.Inventory.Memory.PhysicalMB),
				"local_gb": strconv.FormatInt(hardware.RootDisk.Size>>30-1, 10), "capabilities": "boot_mode:" + hardware.Inventory.Boot.CurrentBootMode,
			} {
				if properties[key] != want {
					t.Errorf("properties.%s = %v, want %v", key, properties[key], want)
				}
			}
			var ports struct {
				Ports []struct {
					Address string `json:"address"`
					PXE     bool   `json:"pxe_enabled"`
				} `json:"ports"`
			}
			if err := json.Unmarshal([]byte(r.do(t, "GET", "/v1/ports/detail?node="+ident, "").body), &ports); err != nil {
				t.Fatal(err)
			}
			var addresses []string
			for _, port := range ports.Ports {
				if !port.PXE {
					t.Errorf("port %s cannot be booted from", port.Address)
				}
				addresses = append(addresses, port.Address)
			}
			for _, nic := range hardware.Inventory.Interfaces {
				if !slices.Contains(addresses, nic.MACAddress) {
					t.Errorf("ports = %q, want %s", addresses, nic.MACAddress)
				}
			}
			inventory, _ := r.do(t, "GET", "/v1/nodes/"+ident+"/inventory", "").object(t)["inventory"].(map[string]any)
			shown, _ := inventory["system_vendor"].(map[string]any)
			if got := shown["serial_number"]; got != hardware.Inventory.SystemVendor.SerialNumber {
				t.Errorf("serial number = %v, want %s", got, hardware.Inventory.SystemVendor.SerialNumber)
			}
		})
	}
}

// TestMachineWithoutAddressesFailsInspectionUnlessItHasPorts hides the interfaces of a
// machine.
func TestMachineWithoutAddressesFailsInspectionUnlessItHasPorts(t *testing.T) {
	r := start(t, func(cfg *engine.Config) { cfg.AutoDiscovery.Enabled = false })
	machine := redfishtest.Start(t, "hpe")
	body := withBMC(t, machine, "ipxe")
	body["inspect_interface"] = "redfish"
	body["driver_info"].(map[string]any)["redfish_address"] = hiding(t, machine, "/EthernetInterfaces")
	ident := r.register(t, bootMAC, body)
	inspect := func(state string) map[string]any {
		t.Helper()
		r.do(t, "PUT", "/v1/nodes/"+ident+"/states/provision", `{"target":"inspect"}`).want(t, http.StatusAccepted)
		return r.awaitNode(t, ident, func(n map[string]any) bool { return n["provision_state"] == state && n["reservation"] == nil })
	}
	if n := inspect("manageable"); n["last_error"] != nil || !inspected(n) {
		t.Errorf("with a port: %v", n["last_error"])
	}
	var ports struct {
		Ports []struct {
			UUID string `json:"uuid"`
		} `json:"ports"`
	}
	if err := json.Unmarshal([]byte(r.do(t, "GET", "/v1/ports?node="+ident, "").body), &ports); err != nil || len(ports.Ports) != 1 {
		t.Fatalf("%d ports, %v, want the one from before", len(ports.Ports), err)
	}
	r.do(t, "DELETE", "/v1/ports/"+ports.Ports[0].UUID, "").want(t, http.StatusNoContent)
	n := inspect("inspect failed")
	if text, _ := n["last_error"].(string); !strings.Contains(text, "create a port") || strings.Contains(text, "Failed to finish inspection") {
		t.Errorf("last_error = %v, want what to do", n["last_error"])
	}
}
