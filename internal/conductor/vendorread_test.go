package conductor

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/builtin"
	"github.com/ingot-metal/ingot/internal/driver/ipmi"
	"github.com/ingot-metal/ingot/internal/driver/redfish"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/ipmi/ipmitest"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

// changingTransport is a way to a BMC that notes the requests that do not only read, except those
// that begin and end sessions.
type changingTransport struct {
	http.RoundTripper
	mu      sync.Mutex
	changes []string
}

func (c *changingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet && !strings.Contains(r.URL.Path, "/SessionService/Sessions") {
		c.mu.Lock()
		c.changes = append(c.changes, r.Method+" "+r.URL.Path)
		c.mu.Unlock()
	}
	return c.RoundTripper.RoundTrip(r)
}

// TestVendorMethodsThatNeedNoLockOnlyRead calls all vendor methods of nodes and of hardware types
// that are called without a lease. Over IPMI, the simulated BMC notes all that it can change, and
// refuses what it does not know.
func TestVendorMethodsThatNeedNoLockOnlyRead(t *testing.T) {
	m := ipmitest.Start(t, "dell")
	way := &changingTransport{RoundTripper: m.Client().Transport}
	d := redfish.New(redfish.Options{Transport: way})
	t.Cleanup(func() { _ = d.Close(context.Background()) })
	drivers, err := builtin.New(driver.Config{EnabledHardwareTypes: []string{"redfish", "ipmi"}}, builtin.Dependencies{Redfish: d, IPMI: ipmi.New(ipmi.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	w := emptyWorld(t)
	w.Conductor = w.idle("conductor-1")
	w.drivers = drivers
	info := map[string]any{
		"redfish_address": m.URL, "redfish_username": redfishtest.User, "redfish_password": redfishtest.Password,
		"ipmi_address": m.Address.Addr().String(), "ipmi_port": m.Address.Port(), "ipmi_username": redfishtest.User, "ipmi_password": redfishtest.Password,
	}
	args := map[string]any{"driver_info": info, "id": subscribe(w, info)}
	for slot := range m.Profile().Slots { // so that there is something to change
		if err := m.Insert(&bmc.Call{}, slot, bmc.Medium{Image: "http://192.0.2.1/boot.iso"}); err != nil {
			t.Fatal(err)
		}
	}
	way.changes = nil
	before := len(m.Effects())
	called := map[string]bool{}
	check := func(name string, err error) {
		t.Helper()
		called[name] = true
		if err != nil {
			t.Errorf("%s: %v, want it called with arguments that suffice", name, err)
		}
		if effects := m.Effects()[before:]; len(way.changes)+len(effects) > 0 {
			t.Errorf("%s sends %q and has the effects %q, want it to read only, or to require the exclusive lock", name, way.changes, effects)
		}
		way.changes, before = nil, len(m.Effects())
	}
	for _, name := range drivers.Names() {
		hardware, _ := drivers.Type(name)
		for method, description := range w.DriverMethods(name) {
			for _, verb := range description.HTTPMethods {
				_, err := w.CallDriver(t.Context(), name, node.VendorCall{Method: method, HTTPMethod: verb, Body: node.ObjectOf(args)})
				check(method+" of the hardware type "+name, err)
			}
		}
		for _, vendor := range hardware.Enabled[node.VendorInterface] {
			n := w.register(func(n *node.Node) {
				n.Driver, n.Interfaces, n.DriverInfo = name, hardware.Default, node.ObjectOf(info)
				n.Interfaces[node.VendorInterface] = vendor
			})
			methods, err := w.VendorMethods(t.Context(), n.UUID)
			if err != nil {
				t.Fatal(err)
			}
			for method, description := range methods {
				if description.Async || description.RequireExclusiveLock {
					continue
				}
				for _, verb := range description.HTTPMethods {
					_, _, err := w.CallVendor(t.Context(), n.UUID, node.VendorCall{Method: method, HTTPMethod: verb, Body: node.ObjectOf(args)})
					check(method+" of the vendor interface "+vendor, err)
				}
			}
		}
	}
	for _, name := range []string{"identify of the hardware type redfish", "get_subscription of the vendor interface redfish"} {
		if !called[name] {
			t.Errorf("%s was not called, only %q", name, slices.Sorted(maps.Keys(called)))
		}
	}
}

// subscribe has a BMC send events, and returns the ID of the subscription.
func subscribe(w *world, info map[string]any) string {
	w.t.Helper()
	n := w.register(func(n *node.Node) {
		n.Driver, n.DriverInfo = "redfish", node.ObjectOf(info)
		n.Interfaces[node.PowerInterface], n.Interfaces[node.ManagementInterface], n.Interfaces[node.VendorInterface] = "redfish", "redfish", "redfish"
	})
	answer, _, err := w.CallVendor(w.t.Context(), n.UUID, node.VendorCall{
		Method: "create_subscription", HTTPMethod: http.MethodPost, Body: node.ObjectOf(map[string]any{"Destination": "https://192.0.2.9/events"}),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return node.Object(answer).Text("Id")
}
