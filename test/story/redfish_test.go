package story

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/ironic"
	"github.com/ingot-metal/ingot/internal/sim"
	"github.com/ingot-metal/ingot/internal/sim/agent"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/loopbacktest"
	"github.com/ingot-metal/ingot/internal/sim/redfish"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
	"github.com/ingot-metal/ingot/test/process"
)

// startMachineWithABMC starts an engine, and a machine that is off and has a BMC of a vendor. When
// the machine boots from the network, it boots the ramdisk.
func startMachineWithABMC(t *testing.T, vendor string, clock agent.Clock, changes ...func(*rack, *sim.Options)) (r *rack, authority string) {
	t.Helper()
	r = &rack{address: process.Address(t)}
	r.settings = []string{"database.dir=" + t.TempDir(), "agent.verify_callback_address=false", "inspector.require_managed_boot=false", "conductor.automated_clean=true"}
	machines := sim.Options{
		Engine: "http://" + r.address, Machines: 1, Seed: 4, Network: loopbacktest.Network(t), Inventory: provisioning, Clock: clock,
		BMC: &sim.BMCOptions{
			Vendor: vendor, Network: loopbacktest.Network(t),
			Port: 8443, User: redfishtest.User, Password: redfishtest.Password,
			Times: bmc.Times{Flash: 3 * time.Second}, // so that the engine sees an update that is in progress
		},
	}
	for _, change := range changes {
		change(r, &machines)
	}
	r.process = startEngineProcess(t, r.address, r.settings...)
	var err error
	if r.engine, err = ironic.New(ironic.Options{Endpoint: "http://" + r.address}); err != nil {
		t.Fatal(err)
	}
	if r.Machines, err = sim.New(machines); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Stop)
	if err := r.ServeBMCs(t.Context()); err != nil {
		t.Fatal(err)
	}
	authority = filepath.Join(t.TempDir(), "authority.pem")
	if err := os.WriteFile(authority, r.Authority().PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	return r, authority
}

// registerBMC creates a node for the BMC of the machine, with more fields, and with the port from
// which the machine boots: a loopback address does not identify a BMC.
func (r *rack) registerBMC(t *testing.T, authority string, more ...map[string]any) (uuid string) {
	t.Helper()
	body := map[string]any{"driver": "redfish", "inspect_interface": "agent", "driver_info": map[string]any{
		"redfish_address": r.Machine(0).BMCURL(), "redfish_verify_ca": authority,
		"redfish_username": redfishtest.User, "redfish_password": redfishtest.Password,
	}}
	for _, fields := range more {
		maps.Copy(body, fields)
	}
	return r.registerNode(t, body)
}

// registerNode creates a node with the port that the first machine boots from.
func (r *rack) registerNode(t *testing.T, body map[string]any) (uuid string) {
	t.Helper()
	return r.registerMachine(t, 0, body)
}

// registerMachine creates a node with the port that a machine boots from.
func (r *rack) registerMachine(t *testing.T, machine int, body map[string]any) (uuid string) {
	t.Helper()
	document, err := r.engine.Do(t.Context(), ironic.Request{
		Op: "create node", Method: http.MethodPost, Path: []string{"nodes"},
		Body: body,
	})
	var created struct{ UUID string }
	if err == nil {
		err = json.Unmarshal(document, &created)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.engine.Do(t.Context(), ironic.Request{
		Op: "create port", Method: http.MethodPost, Path: []string{"ports"},
		Body: map[string]any{"node_uuid": created.UUID, "address": r.bootMAC(machine)},
	}); err != nil {
		t.Fatal(err)
	}
	return created.UUID
}

// request makes a request, and repeats it while the node is busy.
func (r *rack) request(t *testing.T, method, path, body string, want int) {
	t.Helper()
	eventually(t, func(context.Context) error {
		status, answer := r.call(t, method, path, []byte(body), "1.110")
		switch status {
		case want:
			return nil
		case http.StatusConflict:
			return fmt.Errorf("%s %s: %d %s", method, path, status, answer)
		}
		t.Fatalf("%s %s: %d %s", method, path, status, answer)
		return nil
	})
}

// flashes counts how often firmware was sent to the machine.
func (r *rack) flashes() int {
	return r.Recorder().Counts("0")[string(bmc.Flash)]
}

func TestMachineWithABMCIsInspectedConfiguredAndUpdatedThroughCrashes(t *testing.T) {
	t.Parallel()
	for _, vendor := range redfish.Vendors {
		t.Run(vendor, func(t *testing.T) {
			r, authority := startMachineWithABMC(t, vendor, agent.RealClock)
			r.throughItsBMC(t, vendor, authority)
		})
	}
}

// TestMachineIsUpdatedThroughCrashesWithFilesOfTheEngine updates a machine through crashes of an
// engine that also serves the firmware.
func TestMachineIsUpdatedThroughCrashesWithFilesOfTheEngine(t *testing.T) {
	t.Parallel()
	const vendor = "dell"
	address := process.Address(t)
	r, authority := startMachineWithABMC(t, vendor, agent.RealClock, func(r *rack, _ *sim.Options) {
		r.settings = append(r.settings, "api.public_url=http://"+r.address, "boot.listen="+address, "boot.public_url=http://"+address)
	})
	uuid := r.throughItsBMC(t, vendor, authority)
	for _, detail := range r.done(string(bmc.Flash)) {
		if want := "http://" + address + "/boot/" + uuid + "/"; !strings.Contains(detail, want) || !strings.HasSuffix(detail, "/firmware/firmware.bin") {
			t.Errorf("the BMC was sent %s, want a file below %s", detail, want)
		}
	}
	if left := r.show(t, uuid).Internal["firmware_file"]; left != nil {
		t.Errorf("the engine still serves %v", left)
	}
}

// throughItsBMC takes a machine from its registration to the state available.
func (r *rack) throughItsBMC(t *testing.T, vendor, authority string) (uuid string) {
	t.Helper()
	machine := r.Machine(0)
	uuid = r.registerBMC(t, authority)
	r.provision(t, uuid, "manage", "manageable")
	if n := r.show(t, uuid); n.Power != "power off" {
		t.Errorf("the power of the machine is %q, want power off", n.Power)
	}

	r.provision(t, uuid, verbInspect, "manageable")
	want := machine.Hardware().Inspection.Inventory
	if ports := r.ports(t, uuid); len(ports) != len(want.Interfaces) || machine.Status().Boots != 1 {
		t.Errorf("%d ports after %d boots, want %d after one", len(ports), machine.Status().Boots, len(want.Interfaces))
	}

	attribute, value := changeableAttribute(t, machine.BMC())
	updates := map[string]string{"bmc": "99.1"}
	if vendor != "hpe" { // an iLO does not show an update that waits for a restart, which takes a minute
		updates["bios"] = "99.2"
	}
	var files []map[string]string
	for component, version := range updates {
		files = append(files, map[string]string{"component": component, "url": redfishtest.Serve(t, "ingot-firmware component="+component+" version="+version)})
	}
	steps, err := json.Marshal(map[string]any{"target": "clean", "clean_steps": []map[string]any{
		{"interface": "bios", "step": "apply_configuration", "args": map[string]any{"settings": []map[string]string{{"name": attribute, "value": value}}}},
		{"interface": "firmware", "step": "update", "args": map[string]any{"settings": files}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	r.request(t, http.MethodPut, "/v1/nodes/"+uuid+"/states/provision", string(steps), http.StatusAccepted)
	for crash := range len(updates) { // one in each update
		eventually(t, func(context.Context) error {
			if r.flashes() <= crash {
				return fmt.Errorf("%d updates have begun; the node: %s", r.flashes(), r.show(t, uuid).LastError)
			}
			return nil
		})
		r.restart(t)
	}
	r.awaitState(t, uuid, "manageable")
	if got := machine.BMC().BIOS()[attribute]; got != value {
		t.Errorf("%s is %v, want %s", attribute, got, value)
	}
	for _, c := range machine.BMC().Components() {
		if want, updated := updates[c.ID]; updated && c.Version != want {
			t.Errorf("the version of %s is %s, want %s", c.ID, c.Version, want)
		}
	}
	if r.flashes() != len(updates) {
		t.Errorf("firmware was flashed %d times, want %d", r.flashes(), len(updates))
	}

	r.provision(t, uuid, "provide", "available")
	return uuid
}

// changeableAttribute finds a BIOS attribute and a value that it does not have.
func changeableAttribute(t *testing.T, b *bmc.BMC) (name, value string) {
	t.Helper()
	has := b.BIOS()
	for _, attribute := range b.Profile().Attributes {
		i := slices.IndexFunc(attribute.Values, func(v string) bool { return v != has[attribute.Name] })
		if attribute.Type == bmc.Enumeration && !attribute.ReadOnly && i >= 0 {
			return attribute.Name, attribute.Values[i]
		}
	}
	t.Fatal("the BIOS has no attribute to change")
	return "", ""
}
