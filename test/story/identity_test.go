package story

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/sim"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/internal/sim/redfish"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

// TestNothingIsDoneToAnotherMachineThanTheOneThatWasManaged gives a node the BMC of another
// machine, which is in use, as happens when addresses are given out anew.
func TestNothingIsDoneToAnotherMachineThanTheOneThatWasManaged(t *testing.T) {
	t.Parallel()
	const port = 16231
	for driver, address := range map[string]func(*url.URL) string{"redfish": (*url.URL).String, "ipmi": (*url.URL).Hostname} {
		key := driver + "_address"
		t.Run(driver, func(t *testing.T) {
			r, authority := startBootService(t, redfish.Vendors[0], func(_ *rack, o *sim.Options) { o.Machines, o.BMC.IPMIPort = 2, port })
			mine, other := r.bmcAddress(t, 0), r.bmcAddress(t, 1)
			uuid := r.registerNode(t, map[string]any{"driver": driver, "boot_interface": "ipxe", "inspect_interface": "agent", "driver_info": map[string]any{
				"redfish_address": mine.String(), "redfish_verify_ca": authority, "redfish_username": redfishtest.User, "redfish_password": redfishtest.Password,
				"ipmi_address": mine.Hostname(), "ipmi_port": port, "ipmi_username": redfishtest.User, "ipmi_password": redfishtest.Password,
			}})
			r.provision(t, uuid, "manage", "manageable")
			if err := r.Machine(1).BMC().Reset(&bmc.Call{}, bmc.ResetPushPowerButton); err != nil {
				t.Fatal(err)
			}

			r.changeInfo(t, uuid, key, address(other))
			r.provision(t, uuid, "provide", "clean failed")
			if n := r.show(t, uuid); !strings.Contains(n.LastError, "the BMC belongs to a machine with the system UUID") || !strings.Contains(n.LastError, "Nothing was done") {
				t.Errorf("last_error is %q, want that it is another machine", n.LastError)
			}
			done := slices.DeleteFunc(r.Recorder().Effects("1", 0), func(e effect.Effect) bool { return e.Kind == effect.Boot })
			if len(done) != 1 || r.Machine(1).BMC().Power() != bmc.On {
				t.Errorf("done to the other machine, which is %s: %v; want nothing after its button was pressed", r.Machine(1).BMC().Power(), done)
			}

			r.changeInfo(t, uuid, key, address(mine))
			r.provision(t, uuid, "manage", "manageable")
			r.request(t, http.MethodPut, "/v1/nodes/"+uuid+"/maintenance", `{}`, http.StatusAccepted)
			r.request(t, http.MethodDelete, "/v1/nodes/"+uuid+"/maintenance", ``, http.StatusAccepted)
			r.provision(t, uuid, "provide", "available")
		})
	}
}

func (r *rack) bmcAddress(t *testing.T, machine int) *url.URL {
	t.Helper()
	address, err := url.Parse(r.Machine(machine).BMCURL())
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// changeInfo replaces a key of driver_info.
func (r *rack) changeInfo(t *testing.T, uuid, key, value string) {
	t.Helper()
	r.request(t, http.MethodPatch, "/v1/nodes/"+uuid,
		fmt.Sprintf(`[{"op": "replace", "path": "/driver_info/%s", "value": %q}]`, key, value), http.StatusOK)
}
