package story

import (
	"context"
	"errors"
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

// TestNothingIsDoneToAnotherMachineThanTheOneThatWasManaged gives a node the BMC of another machine
// in use, as happens when addresses are assigned anew.
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

// TestMachinesWhoseBMCsHaveSwappedAddressesKeepTheirPower has two nodes whose BMCs have swapped
// addresses.
func TestMachinesWhoseBMCsHaveSwappedAddressesKeepTheirPower(t *testing.T) {
	t.Parallel()
	r, authority := startBootService(t, redfish.Vendors[0], func(_ *rack, o *sim.Options) { o.Machines = 2 })
	var nodes [2]string
	for i := range nodes {
		nodes[i] = r.registerMachine(t, i, map[string]any{"driver": "redfish", "boot_interface": "ipxe", "inspect_interface": "agent", "driver_info": map[string]any{
			"redfish_address": r.bmcAddress(t, i).String(), "redfish_verify_ca": authority, "redfish_username": redfishtest.User, "redfish_password": redfishtest.Password,
		}})
		r.provision(t, nodes[i], "manage", "manageable")
	}
	r.request(t, http.MethodPut, "/v1/nodes/"+nodes[1]+"/states/power", `{"target": "power on"}`, http.StatusAccepted)
	eventually(t, func(context.Context) error {
		if r.Machine(1).BMC().Power() != bmc.On {
			return errors.New("the machine in use is not on")
		}
		return nil
	})
	before := len(r.Recorder().Effects("1", 0))
	r.changeInfo(t, nodes[0], "redfish_address", r.bmcAddress(t, 1).String())
	r.changeInfo(t, nodes[1], "redfish_address", r.bmcAddress(t, 0).String())

	for _, target := range []string{"power off", "rebooting", "soft power off"} {
		r.request(t, http.MethodPut, "/v1/nodes/"+nodes[0]+"/states/power", fmt.Sprintf(`{"target": %q}`, target), http.StatusAccepted)
		eventually(t, func(context.Context) error {
			if n := r.show(t, nodes[0]); !strings.Contains(n.LastError, "for which node "+nodes[1]+" stands") {
				return fmt.Errorf("%s: last_error is %q, want that it is the machine of the other node", target, n.LastError)
			}
			return nil
		})
	}
	r.provision(t, nodes[0], "inspect", "inspect failed")
	if n := r.show(t, nodes[0]); !strings.Contains(n.LastError, "for which node "+nodes[1]+" stands") {
		t.Errorf("inspection: last_error is %q, want that it is the machine of the other node", n.LastError)
	}
	done := slices.DeleteFunc(r.Recorder().Effects("1", 0)[before:], func(e effect.Effect) bool { return e.Kind == effect.Boot })
	if len(done) != 0 || r.Machine(1).BMC().Power() != bmc.On {
		t.Errorf("done to the machine in use, which is %s: %v", r.Machine(1).BMC().Power(), done)
	}
}

// TestASecondNodeWithTheSameBMCIsNotManaged registers a machine with the BMC of another one, as
// happens when somebody mistypes an address.
func TestASecondNodeWithTheSameBMCIsNotManaged(t *testing.T) {
	t.Parallel()
	r, authority := startBootService(t, redfish.Vendors[0], func(_ *rack, o *sim.Options) { o.Machines = 2 })
	register := func(machine int) string {
		return r.registerMachine(t, machine, map[string]any{"driver": "redfish", "boot_interface": "ipxe", "inspect_interface": "agent", "driver_info": map[string]any{
			"redfish_address": r.bmcAddress(t, 0).String(), "redfish_verify_ca": authority, "redfish_username": redfishtest.User, "redfish_password": redfishtest.Password,
		}})
	}
	first, second := register(0), register(1)
	r.provision(t, first, "manage", "manageable")
	r.provision(t, second, "manage", "enroll")
	if n := r.show(t, second); !strings.Contains(n.LastError, "for which node "+first+" stands") {
		t.Errorf("last_error is %q, want that it is the machine of the other node", n.LastError)
	}
	r.request(t, http.MethodDelete, "/v1/nodes/"+first, ``, http.StatusNoContent)
	r.provision(t, second, "manage", "manageable")
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
