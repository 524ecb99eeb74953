package engine_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/engine"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

// TestManagedMachineIsKnown looks at what the API shows of a machine after its first verb.
func TestManagedMachineIsKnown(t *testing.T) {
	r := start(t, func(cfg *engine.Config) { cfg.AutoDiscovery.Enabled = false })
	machine := redfishtest.Start(t, "supermicro")
	if _, _, err := machine.CreateVolume(&bmc.Call{}, bmc.Volume{Name: "root", RAIDType: "RAID0", Drives: []int{0}, Capacity: 9 << 30}, ""); err != nil {
		t.Fatal(err)
	}
	ident := r.register(t, bootMAC, withBMC(t, machine, "ipxe"))
	n := r.node(t, ident)
	properties, _ := n["properties"].(map[string]any)
	raid, _ := n["raid_config"].(map[string]any)
	if disks, _ := raid["logical_disks"].([]any); len(disks) != 1 || properties["vendor"] != "Supermicro" || n["health"] != "OK" || n["boot_mode"] == nil {
		t.Errorf("vendor %v, health %v, boot mode %v, RAID %v; want what the BMC shows", properties["vendor"], n["health"], n["boot_mode"], raid)
	}
	for path, list := range map[string]string{"/bios": "bios", "/firmware": "firmware"} {
		if shown, _ := r.do(t, "GET", "/v1/nodes/"+ident+path, "").want(t, http.StatusOK).object(t)[list].([]any); len(shown) == 0 {
			t.Errorf("%s is empty", path)
		}
	}
}

// TestUnreadableSettingsFailNoNode has a BMC that shows little more than its system.
func TestUnreadableSettingsFailNoNode(t *testing.T) {
	r := start(t, func(cfg *engine.Config) { cfg.AutoDiscovery.Enabled = false })
	machine := redfishtest.Start(t, "dell")
	body := withBMC(t, machine, "ipxe")
	body["driver_info"].(map[string]any)["redfish_address"] = hiding(t, machine, "/Bios", "/Storage", "/SecureBoot", "/Chassis", "/Managers")
	n := r.node(t, r.register(t, bootMAC, body))
	properties, _ := n["properties"].(map[string]any)
	if n["provision_state"] != "manageable" || n["last_error"] != nil || properties["vendor"] != "Dell Inc." || n["boot_mode"] == nil {
		t.Errorf("node in %v: %v, vendor %v, boot mode %v; want what could be read", n["provision_state"], n["last_error"], properties["vendor"], n["boot_mode"])
	}
}

// hiding returns the URL of a machine's BMC that answers 500 for paths with one of these
// parts.
func hiding(t *testing.T, machine *redfishtest.Server, hidden ...string) string {
	t.Helper()
	target, err := url.Parse(machine.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Transport: machine.Client().Transport, Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(target) }}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if slices.ContainsFunc(hidden, func(part string) bool { return strings.Contains(q.URL.Path, part) }) {
			http.Error(w, "{}", http.StatusInternalServerError)
			return
		}
		proxy.ServeHTTP(w, q)
	}))
	t.Cleanup(server.Close)
	return server.URL
}
