package sim_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bougou/go-ipmi/pkg/client"
	"github.com/bougou/go-ipmi/pkg/command/chassis"
	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/ingot-metal/ingot/internal/sim"
	"github.com/ingot-metal/ingot/internal/sim/agent"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/internal/sim/hardware"
	"github.com/ingot-metal/ingot/internal/sim/loopbacktest"
)

// newBMCs starts machines that are off, and their BMCs.
func newBMCs(t *testing.T, count int, change func(*sim.Options)) *sim.Machines {
	t.Helper()
	machines := newMachines(t, newStandIn(t), count, func(o *sim.Options) {
		o.BMC = &sim.BMCOptions{
			Vendor: sim.MixedVendors, Port: 8443, User: "operator", Password: "opensesame-1",
			Network: loopbacktest.Network(t),
		}
		if change != nil {
			change(o)
		}
	})
	if err := machines.ServeBMCs(soon(t)); err != nil {
		t.Fatal(err)
	}
	return machines
}

// send calls a BMC and returns the status.
func send(ctx context.Context, t *testing.T, machines *sim.Machines, i int, method, path, body string) (status int, document map[string]any) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: machines.Authority().Pool()}, DisableKeepAlives: true,
	}}
	request, err := http.NewRequestWithContext(ctx, method, machines.Machine(i).BMCURL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.SetBasicAuth("operator", "opensesame-1")
	request.Header.Set("If-Match", "*")
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	_ = json.NewDecoder(response.Body).Decode(&document) // some answers are empty
	return response.StatusCode, document
}

// systemOf is the path of the system of machine i of mixed ones.
func systemOf(i int) string {
	return []string{"/redfish/v1/Systems/System.Embedded.1", "/redfish/v1/Systems/1/", "/redfish/v1/Systems/1"}[i%3]
}

func reset(ctx context.Context, t *testing.T, machines *sim.Machines, i int, kind string) {
	t.Helper()
	path := strings.TrimRight(systemOf(i), "/") + "/Actions/ComputerSystem.Reset"
	if status, document := send(ctx, t, machines, i, "POST", path, `{"ResetType":"`+kind+`"}`); status >= 300 {
		t.Fatalf("%s of machine %d: status %d, %v", kind, i, status, document)
	}
}

func waitFor(ctx context.Context, t *testing.T, machines *sim.Machines, i int, state sim.State) {
	t.Helper()
	if err := machines.Machine(i).Wait(ctx, state); err != nil {
		t.Fatal(err)
	}
}

func TestBMCsSwitchTheRamdisksOfTheirMachines(t *testing.T) {
	machines := newBMCs(t, 3, func(o *sim.Options) {
		o.BMC.Times = bmc.Times{PowerOn: 20 * time.Millisecond, POST: 20 * time.Millisecond, Shutdown: 20 * time.Millisecond}
	})
	ctx := soon(t)
	for i := range machines.Len() {
		reset(ctx, t, machines, i, "On")
		waitFor(ctx, t, machines, i, sim.Running)
		reset(ctx, t, machines, i, "GracefulShutdown")
		waitFor(ctx, t, machines, i, sim.Off)
		boot := `{"Boot":{"BootSourceOverrideTarget":"BiosSetup","BootSourceOverrideEnabled":"Once","BootSourceOverrideMode":"` +
			string(machines.Machine(i).BMC().Override().Mode) + `"}}`
		if status, document := send(ctx, t, machines, i, "PATCH", systemOf(i), boot); status != 200 {
			t.Fatalf("boot settings of machine %d: status %d, %v", i, status, document)
		}
		reset(ctx, t, machines, i, "On")
		waitFor(ctx, t, machines, i, sim.On)
		reset(ctx, t, machines, i, "ForceRestart")
		waitFor(ctx, t, machines, i, sim.Running)
		reset(ctx, t, machines, i, "ForceOff")
		waitFor(ctx, t, machines, i, sim.Off)
	}
}

func TestMachinesWithBMCsArePoweredOnAtTheirSwitch(t *testing.T) {
	machines := newBMCs(t, 2, nil)
	ctx := soon(t)
	if err := machines.PowerOn(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if err := waitRunning(ctx, machines); err != nil {
		t.Fatal(err)
	}
	if err := machines.Machine(1).Reboot(); err != nil {
		t.Fatal(err)
	}
	waitFor(ctx, t, machines, 1, sim.Running)
	if got := machines.Recorder().Counts("1"); len(got) != 1 || got[effect.Boot] != 2 || machines.Machine(1).BMC().Boots() != 2 {
		t.Errorf("%+v, %d boots, want two boots and no other effects", got, machines.Machine(1).BMC().Boots())
	}
}

func TestRamdiskThatPowersItsMachineOffIsSeenByTheBMC(t *testing.T) {
	machines := newBMCs(t, 1, func(o *sim.Options) { o.Clock = agent.Accelerated(20) })
	ctx, m := soon(t), machines.Machine(0)
	reset(ctx, t, machines, 0, "On")
	waitFor(ctx, t, machines, 0, sim.Running)
	command(ctx, t, m, "standby.run_image")
	if err := machines.Wait(ctx, func(sim.Snapshot) bool { return m.BMC().Boots() == 2 }); err != nil {
		t.Fatal(err)
	}
	waitFor(ctx, t, machines, 0, sim.Running)
	command(ctx, t, m, "standby.power_off")
	waitFor(ctx, t, machines, 0, sim.Off)
	if _, document := send(ctx, t, machines, 0, "GET", systemOf(0), ""); document["PowerState"] != "Off" {
		t.Errorf("the BMC says %v", document["PowerState"])
	}
}

func TestBMCKnowsTheHardwareThatTheRamdiskPosts(t *testing.T) {
	machines := newBMCs(t, 6, nil)
	for i := range machines.Len() {
		vendor := machines.Machine(i).Hardware().Inspection.Inventory.SystemVendor
		_, document := send(soon(t), t, machines, i, "GET", systemOf(i), "")
		if document["SerialNumber"] != vendor.SerialNumber || document["Manufacturer"] != vendor.Manufacturer {
			t.Errorf("machine %d is %v %v, want %+v", i, document["Manufacturer"], document["SerialNumber"], vendor)
		}
		if address := machines.Machine(i).Hardware().Inspection.Inventory.BMCAddress; !strings.Contains(machines.Machine(i).BMCURL(), "//"+address+":") {
			t.Errorf("machine %d posts the BMC address %s, which answers at %s", i, address, machines.Machine(i).BMCURL())
		}
	}
}

func TestBMCOptionsThatCannotWorkAreRefused(t *testing.T) {
	for want, change := range map[string]func(*sim.Options){
		"there are no BMCs":         func(o *sim.Options) { o.BMC.Vendor = "acme" },
		"above 1024":                func(o *sim.Options) { o.BMC.Port = 443 },
		"IPMI port of the BMCs":     func(o *sim.Options) { o.BMC.IPMIPort = 623 },
		"a user and a password":     func(o *sim.Options) { o.BMC.Password = "" },
		"overlap":                   func(o *sim.Options) { o.BMC.Network = hardware.DefaultNetwork },
		"has room for 3 BMCs":       func(o *sim.Options) { o.BMC.Network = netip.MustParsePrefix("127.32.0.0/30") },
		"only servers have BMCs":    func(o *sim.Options) { o.Hardware.Kind = hardware.Edge },
		"of the BMCs is not IPv4":   func(o *sim.Options) { o.BMC.Network = netip.MustParsePrefix("::/64") },
		"network interfaces, not 9": func(o *sim.Options) { o.Hardware.NICs = 9 },
	} {
		o := sim.Options{Engine: "http://127.0.0.1:1", Machines: 4, BMC: &sim.BMCOptions{Vendor: "dell", Port: 8443, User: "u", Password: "p"}}
		change(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

func TestMachinesAreSwitchedOverIPMI(t *testing.T) {
	machines := newBMCs(t, 3, func(o *sim.Options) { o.BMC.IPMIPort = 6230 })
	address := machines.Machine(1).IPMIAddress()
	bmc, err := client.NewClient(address.Addr().String(), int(address.Port()), "operator", "opensesame-1")
	if err != nil {
		t.Fatal(err)
	}
	if err := bmc.WithCipherSuiteID(types.CipherSuiteID17).Connect(soon(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := bmc.ChassisControl(soon(t), chassis.ChassisControlPowerUp); err != nil {
		t.Fatal(err)
	}
	if err := bmc.Close(soon(t)); err != nil {
		t.Error(err)
	}
	waitFor(soon(t), t, machines, 1, sim.Running)
	for i, want := range []int{0, 1, 0} {
		if got := machines.Recorder().Counts(strconv.Itoa(i))["power on"]; got != want {
			t.Errorf("machine %d was powered on %d times, want %d", i, got, want)
		}
	}
}

func TestAdminShowsWhatWasDoneToMachines(t *testing.T) {
	machines := newBMCs(t, 3, nil)
	admin := httptest.NewServer(machines.AdminHandler())
	defer admin.Close()
	reset(soon(t), t, machines, 1, "On")
	for path, want := range map[string]string{
		"/machines":           `"machines":["0","1","2"]`,
		"/machines/1":         `"power_state":"On"`,
		"/machines/1/effects": `"user":"operator"`,
		"/effects":            `"kind":"power on"`,
		"/counts":             `"power on":1`,
		"/machines/9":         `"error"`,
	} {
		response, err := http.Get(admin.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %s, %v, want %s in it", path, text, err, want)
		}
	}
}

func TestMachinesShareABMC(t *testing.T) {
	machines := newBMCs(t, 5, func(o *sim.Options) { o.BMC.Systems, o.BMC.Vendor = 2, "dell" })
	ctx := soon(t)
	if machines.Machine(0).BMCURL() != machines.Machine(1).BMCURL() || machines.Machine(1).BMCURL() == machines.Machine(2).BMCURL() {
		t.Errorf("BMCs at %s, %s, %s", machines.Machine(0).BMCURL(), machines.Machine(1).BMCURL(), machines.Machine(2).BMCURL())
	}
	for i, want := range []int{2, 2, 2, 2, 1} {
		_, document := send(ctx, t, machines, i, "GET", "/redfish/v1/Systems", "")
		if members, _ := document["Members"].([]any); len(members) != want {
			t.Errorf("the BMC of machine %d lists %v, want %d systems", i, document["Members"], want)
		}
		status, document := send(ctx, t, machines, i, "GET", machines.Machine(i).SystemPath(), "")
		if vendor := machines.Machine(i).Hardware().Inspection.Inventory.SystemVendor; status != 200 || document["SerialNumber"] != vendor.SerialNumber {
			t.Errorf("machine %d is %v (status %d), want %s", i, document["SerialNumber"], status, vendor.SerialNumber)
		}
		if address := machines.Machine(i).Hardware().Inspection.Inventory.BMCAddress; !strings.Contains(machines.Machine(i).BMCURL(), "//"+address+":") {
			t.Errorf("machine %d posts the BMC address %s, its BMC is at %s", i, address, machines.Machine(i).BMCURL())
		}
	}
	path := machines.Machine(3).SystemPath() + "/Actions/ComputerSystem.Reset"
	if status, document := send(ctx, t, machines, 3, "POST", path, `{"ResetType":"On"}`); status != 204 {
		t.Fatalf("status %d, %v", status, document)
	}
	waitFor(ctx, t, machines, 3, sim.Running)
	if state := machines.Machine(2).Status().State; state != sim.Off {
		t.Errorf("the other machine behind the BMC is %s", state)
	}
}
