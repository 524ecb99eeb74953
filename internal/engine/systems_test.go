package engine_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/ingot-metal/ingot/internal/engine"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

// TestNodesShareABMCAndNotTheirMachines gives each system behind one BMC to a node.
func TestNodesShareABMCAndNotTheirMachines(t *testing.T) {
	const systems = 3
	r := start(t, func(cfg *engine.Config) { cfg.AutoDiscovery.Enabled = false })
	bmc := redfishtest.Start(t, "supermicro", redfishtest.Options{Systems: systems})
	var nodes []string
	for i := range systems {
		body := withBMC(t, bmc, "ipxe")
		body["driver_info"].(map[string]any)["redfish_system_id"] = bmc.SystemPath(i)
		nodes = append(nodes, r.register(t, fmt.Sprintf("52:54:00:12:34:%02x", i), body))
	}
	r.do(t, "PUT", "/v1/nodes/"+nodes[1]+"/states/power", `{"target":"power on"}`).want(t, http.StatusAccepted)
	r.awaitNode(t, nodes[1], func(n map[string]any) bool { return n["power_state"] == "power on" && n["target_power_state"] == nil })
	for i := range systems {
		want := []string{}
		if i == 1 {
			want = []string{"power on"}
		}
		if got := bmc.EffectsOf(fmt.Sprintf("m%d", i+1)); !slices.Equal(got, want) {
			t.Errorf("effects on system %d = %q, want %q", i, got, want)
		}
	}
	serials := map[any]bool{}
	for _, ident := range nodes {
		r.do(t, "PATCH", "/v1/nodes/"+ident, `[{"op":"replace","path":"/inspect_interface","value":"redfish"}]`).want(t, http.StatusOK)
		r.do(t, "PUT", "/v1/nodes/"+ident+"/states/provision", `{"target":"inspect"}`).want(t, http.StatusAccepted)
		r.awaitNode(t, ident, func(n map[string]any) bool { return inState("manageable")(n) && inspected(n) })
		inventory, _ := r.do(t, "GET", "/v1/nodes/"+ident+"/inventory", "").object(t)["inventory"].(map[string]any)
		vendor, _ := inventory["system_vendor"].(map[string]any)
		serials[vendor["serial_number"]] = true
	}
	if len(serials) != systems {
		t.Errorf("serial numbers %v, want one of each machine", serials)
	}
}
