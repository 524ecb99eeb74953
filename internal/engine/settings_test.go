package engine_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

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

// TestWhatAMachineGotIsShownAlsoWhenItsServicingEndsEarly changes a BIOS setting and the BIOS
// version of a machine in use. Then servicing fails because a file cannot be fetched, or a client
// aborts it.
func TestWhatAMachineGotIsShownAlsoWhenItsServicingEndsEarly(t *testing.T) {
	const setting, value, version = "ProcVirtualization", "Disabled", "99.2"
	good := redfishtest.Serve(t, "ingot-firmware component=bios version="+version)
	missing := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(missing.Close)
	update := func(settings string) string {
		return `{"interface":"firmware","step":"update","args":{"settings":[{"component":"bios","url":"` + good + `"}` + settings + `]}}`
	}
	for name, tc := range map[string]struct {
		steps string // after the first one
		state string // in which servicing ends, or waits
		abort bool
	}{
		"failed":  {steps: update(`,{"component":"bmc","url":"` + missing.URL + `/bmc.bin"}`), state: "service failed"},
		"aborted": {steps: update("") + `,{"interface":"deploy","step":"hold"}`, state: "service hold", abort: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, serves(imageServer(t)))
			machine := redfishtest.Start(t, "dell")
			body := withBMC(t, machine, "ipxe")
			body["driver_info"].(map[string]any)["firmware_source"] = "http"
			ident := r.register(t, bootMAC, body)
			r.do(t, "PUT", "/v1/nodes/"+ident+"/states/provision", `{"target":"adopt"}`).want(t, http.StatusAccepted)
			r.awaitNode(t, ident, inState("active"))
			if machine.BIOS()[setting] == value {
				t.Fatalf("%s is %s already", setting, value)
			}
			r.do(t, "PUT", "/v1/nodes/"+ident+"/states/provision", `{"target":"service","disable_ramdisk":true,"service_steps":[
				{"interface":"bios","step":"apply_configuration","args":{"settings":[{"name":"`+setting+`","value":"`+value+`"}]}},`+tc.steps+`]}`).want(t, http.StatusAccepted)
			r.awaitNode(t, ident, func(n map[string]any) bool { return n["provision_state"] == tc.state && n["reservation"] == nil })
			if tc.abort {
				r.do(t, "PUT", "/v1/nodes/"+ident+"/states/provision", `{"target":"abort"}`).want(t, http.StatusAccepted)
				r.awaitNode(t, ident, inState("active"))
			}
			bios := r.do(t, "GET", "/v1/nodes/"+ident+"/bios/"+setting, "").want(t, http.StatusOK).object(t)
			if shown, _ := bios[setting].(map[string]any); shown["value"] != value || machine.BIOS()[setting] != value {
				t.Errorf("%s is %v, shown %v; want %s", setting, machine.BIOS()[setting], shown["value"], value)
			}
			if firmware := r.do(t, "GET", "/v1/nodes/"+ident+"/firmware", "").body; !strings.Contains(firmware, `"current_version":"`+version+`"`) {
				t.Errorf("firmware %s, want the BIOS with version %s", firmware, version)
			}
		})
	}
}

// TestAbortOfAnUpdateOfFirmwareEndsWithTheComponentThatIsWritten aborts while the first of two
// components is written.
func TestAbortOfAnUpdateOfFirmwareEndsWithTheComponentThatIsWritten(t *testing.T) {
	r := start(t, func(cfg *engine.Config) { cfg.AutoDiscovery.Enabled = false })
	machine := redfishtest.Start(t, "dell", redfishtest.Options{Times: bmc.Times{Flash: time.Hour}})
	ident := r.register(t, bootMAC, withBMC(t, machine, "ipxe"))
	first, second := redfishtest.Serve(t, "ingot-firmware component=bmc version=99.1"), redfishtest.Serve(t, "ingot-firmware component=bios version=99.2")
	r.do(t, "PUT", "/v1/nodes/"+ident+"/states/provision", `{"target":"clean","disable_ramdisk":true,"clean_steps":[{"interface":"firmware","step":"update","args":{"settings":[
		{"component":"bmc","url":"`+first+`"},{"component":"bios","url":"`+second+`"}]}}]}`).want(t, http.StatusAccepted)
	r.awaitNode(t, ident, func(n map[string]any) bool {
		return n["provision_state"] == "clean wait" && n["reservation"] == nil && len(machine.Effects()) > 0
	})
	r.do(t, "PUT", "/v1/nodes/"+ident+"/states/provision", `{"target":"abort"}`).want(t, http.StatusAccepted)
	machine.Pass(time.Hour)
	n := r.awaitNode(t, ident, func(n map[string]any) bool { return n["provision_state"] == "clean failed" && n["reservation"] == nil })
	flashes := slices.DeleteFunc(machine.Effects(), func(kind string) bool { return kind != string(bmc.Flash) })
	if text, _ := n["last_error"].(string); len(flashes) != 1 || !strings.Contains(text, "aborted by request after the step firmware.update") {
		t.Errorf("%d flashes, last_error %q; want one", len(flashes), text)
	}
	if firmware := r.do(t, "GET", "/v1/nodes/"+ident+"/firmware", "").body; !strings.Contains(firmware, `"current_version":"99.1"`) {
		t.Errorf("firmware %s, want what was written", firmware)
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

// TestBootDeviceThatTheBMCDoesNotTakeNowIsRefused asks an iLO for a boot device while its machine
// starts.
func TestBootDeviceThatTheBMCDoesNotTakeNowIsRefused(t *testing.T) {
	r := start(t, func(cfg *engine.Config) { cfg.AutoDiscovery.Enabled = false })
	machine := redfishtest.Start(t, "hpe", redfishtest.Options{Times: bmc.Times{POST: time.Hour}})
	ident := r.register(t, bootMAC, withBMC(t, machine, "ipxe"))
	machine.Switch(true)
	path := "/v1/nodes/" + ident + "/management/boot_device"
	refused := r.do(t, "PUT", path, `{"boot_device": "pxe"}`).want(t, http.StatusServiceUnavailable)
	if !strings.Contains(refused.body, "while the machine starts") || len(machine.Effects()) > 0 {
		t.Errorf("the answer is %s, effects = %q, want that nothing was done, and why", refused.body, machine.Effects())
	}
}
