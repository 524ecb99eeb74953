package story

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/sim/agent"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/internal/sim/redfish"
)

// TestMachineWithABMCIsCleanedDeployedServicedAndReleased takes a machine through its life with the
// ramdisk that it boots from its network.
func TestMachineWithABMCIsCleanedDeployedServicedAndReleased(t *testing.T) {
	t.Parallel()
	for _, vendor := range redfish.Vendors {
		t.Run(vendor, func(t *testing.T) {
			r, authority := startMachineWithABMC(t, vendor, agent.Accelerated(20))
			r.throughALife(t, r.registerBMC(t, authority))
		})
	}
}

// throughALife takes a registered machine from its inspection to an instance and back.
func (r *rack) throughALife(t *testing.T, uuid string) {
	t.Helper()
	machine := r.Machine(0)
	r.provision(t, uuid, "manage", "manageable")
	r.provision(t, uuid, verbInspect, "manageable")
	r.provision(t, uuid, "provide", "available")
	if n := r.show(t, uuid); n.Power != "power off" || n.Internal["agent_url"] != nil {
		t.Errorf("after cleaning: power %q, agent at %v; want it off and without an agent", n.Power, n.Internal["agent_url"])
	}

	erased, image := len(r.done(effect.Wipe)), serveImage(t)
	r.request(t, http.MethodPatch, "/v1/nodes/"+uuid, image.instance, http.StatusOK)
	r.provision(t, uuid, "active", "active")
	r.runs(t, image, 1)
	if n := r.show(t, uuid); n.Power != "power on" {
		t.Errorf("after the deployment: power %q, want it on", n.Power)
	}
	if boot := machine.BMC().Override(); boot.Target != bmc.TargetDisk {
		t.Errorf("the machine boots from %q, want its disk", boot.Target)
	}

	boots := machine.BMC().Boots()
	r.request(t, http.MethodPut, "/v1/nodes/"+uuid+"/states/provision",
		`{"target": "service", "service_steps": [{"interface": "deploy", "step": "burnin_memory"}]}`, http.StatusAccepted)
	r.awaitState(t, uuid, "active")
	if n := r.show(t, uuid); n.Power != "power on" || machine.BMC().Boots() != boots+2 {
		t.Errorf("after servicing: power %q, %d boots; want it on after 2, of the ramdisk and of the instance", n.Power, machine.BMC().Boots()-boots)
	}

	r.runs(t, image, 2)

	if got := r.done(effect.Wipe)[erased:]; len(got) != 0 {
		t.Errorf("%q was done between cleanings", got)
	}
	r.provision(t, uuid, "deleted", "available")
	if n := r.show(t, uuid); n.Power != "power off" {
		t.Errorf("after undeploying: power %q, want it off", n.Power)
	}
	if got := r.done(effect.Wipe)[erased:]; len(got) != 1 || len(machine.Disks().Contents()) != 0 {
		t.Errorf("after undeploying: wipes %q, disks %v, want one that leaves them empty", got, machine.Disks().Contents())
	}
}

// TestInstanceStartsInTheModeThatItAsksFor gives a machine in BIOS mode an instance that starts in
// UEFI mode and verifies its boot loader. No ramdisk starts in that mode, because it would have to
// be signed. The BMC of one vendor cannot set the mode.
func TestInstanceStartsInTheModeThatItAsksFor(t *testing.T) {
	t.Parallel()
	for _, vendor := range redfish.Vendors {
		t.Run(vendor, func(t *testing.T) {
			r, authority := startMachineWithABMC(t, vendor, agent.Accelerated(20))
			r.asksForItsMode(t, r.Machine(0).BMC(), authority)
		})
	}
}

func (r *rack) asksForItsMode(t *testing.T, board *bmc.BMC, authority string) {
	t.Helper()
	want := bmc.UEFI
	if board.Profile().FixedMode {
		want = board.Override().Mode
	} else if err := board.SetOverride(&bmc.Call{}, bmc.Override{Mode: bmc.Legacy}); err != nil {
		t.Fatal(err)
	}
	before := board.Override().Mode
	uuid := r.registerBMC(t, authority)
	r.provision(t, uuid, "manage", "manageable")
	r.provision(t, uuid, "provide", "available")
	if mode := board.Override().Mode; mode != before {
		t.Fatalf("after cleaning the machine is in mode %s, which nobody asked for", mode)
	}
	asked := "uefi"
	if before == bmc.UEFI { // and cannot have another one
		asked = "bios"
	}
	image := serveImage(t)
	r.request(t, http.MethodPatch, "/v1/nodes/"+uuid, image.instance, http.StatusOK)
	r.request(t, http.MethodPatch, "/v1/nodes/"+uuid,
		`[{"op": "add", "path": "/instance_info/capabilities", "value": {"boot_mode": "`+asked+`", "secure_boot": "true"}}]`, http.StatusOK)
	r.provision(t, uuid, "active", "active")
	boots := 1
	if board.Profile().BIOSJobs { // the job that enables secure boot needed one more boot
		boots = 2
	}
	r.runs(t, image, boots)
	if mode, secure := board.Override().Mode, board.SecureBoot(); mode != want || !secure.Current {
		t.Errorf("the instance was started in mode %s with secure boot %+v, want %s with it", mode, secure, want)
	}
	r.provision(t, uuid, "deleted", "available")
	if secure := board.SecureBoot(); secure.Current || secure.Wanted {
		t.Errorf("secure boot of the instance is left: %+v", secure)
	}
}

// TestMachineIsInspectedInTheBootModeThatItsNodeAsksFor has a machine in another boot mode, in
// which the machine does not boot the engine's medium.
func TestMachineIsInspectedInTheBootModeThatItsNodeAsksFor(t *testing.T) {
	t.Parallel()
	r, authority := startBootService(t, redfish.Vendors[0])
	if err := r.Machine(0).BMC().SetOverride(&bmc.Call{}, bmc.Override{Mode: bmc.Legacy}); err != nil {
		t.Fatal(err)
	}
	uuid := r.registerBMC(t, authority, map[string]any{
		"boot_interface": "redfish-virtual-media", "properties": map[string]any{"capabilities": "boot_mode:uefi"},
	})
	r.provision(t, uuid, "manage", "manageable")
	r.provision(t, uuid, "inspect", "manageable")
	if found := r.show(t, uuid).capability("boot_mode"); found != "uefi" {
		t.Errorf("the ramdisk found the machine in mode %s, want uefi", found)
	}
	r.bootedOnlyWhatWasServed(t, uuid, "redfish-virtual-media")
}

// TestImageGoesToTheDiskThatTheInstanceAsksFor asks for a disk that agents do not choose without
// hints.
func TestImageGoesToTheDiskThatTheInstanceAsksFor(t *testing.T) {
	t.Parallel()
	r, authority := startMachineWithABMC(t, redfish.Vendors[0], agent.Accelerated(20))
	found := r.Machine(0).Hardware().Inspection
	want := found.Inventory.Disks[len(found.Inventory.Disks)-1]
	if want.Name == found.RootDisk.Name || want.Serial == nil {
		t.Fatalf("the last disk is %+v, and agents choose %s", want, found.RootDisk.Name)
	}
	uuid := r.registerBMC(t, authority)
	r.provision(t, uuid, "manage", "manageable")
	r.provision(t, uuid, "provide", "available")
	image := serveImage(t)
	r.request(t, http.MethodPatch, "/v1/nodes/"+uuid, image.instance, http.StatusOK)
	r.request(t, http.MethodPatch, "/v1/nodes/"+uuid,
		fmt.Sprintf(`[{"op": "add", "path": "/properties/root_device", "value": {"name": %q}},
			{"op": "add", "path": "/instance_info/root_device", "value": {"serial": %q}}]`, "s== "+found.RootDisk.Name, "s== "+*want.Serial), http.StatusOK)
	r.provision(t, uuid, "active", "active")
	r.runs(t, image, 1)
	if got := r.Machine(0).Status().System.Device; got != want.Name {
		t.Errorf("the image is on %s, want %s", got, want.Name)
	}
}

// TestStepThatTheRamdiskDoesNotHaveIsRefusedWithTheOnesItHas asks for a step that does not exist,
// which only the running ramdisk can tell.
func TestStepThatTheRamdiskDoesNotHaveIsRefusedWithTheOnesItHas(t *testing.T) {
	t.Parallel()
	r, authority := startMachineWithABMC(t, redfish.Vendors[0], agent.Accelerated(20))
	uuid := r.registerBMC(t, authority)
	r.provision(t, uuid, "manage", "manageable")
	r.request(t, http.MethodPut, "/v1/nodes/"+uuid+"/states/provision",
		`{"target": "clean", "clean_steps": [{"interface": "deploy", "step": "paint"}]}`, http.StatusAccepted)
	n := r.awaitState(t, uuid, "clean failed")
	if !strings.Contains(n.LastError, "paint") || !strings.Contains(n.LastError, "erase_devices_metadata") {
		t.Errorf("last_error is %q, want the unknown step and those there are", n.LastError)
	}
	if state := r.Machine(0).BMC().Power(); state != bmc.Off {
		t.Error("the machine was left on")
	}
}

// TestMachineWithoutABMCIsDeployedByTheRamdiskOfItsDiscovery takes a machine that nobody registered
// from its first boot to its instance, without another boot of the ramdisk. Then it takes the
// machine back, for which a person has to boot it into the ramdisk.
func TestMachineWithoutABMCIsDeployedByTheRamdiskOfItsDiscovery(t *testing.T) {
	t.Parallel()
	r := startRack(t, 1, "auto_discovery.enabled=true", "auto_discovery.driver=manual-management")
	machine := r.Machine(0)
	if err := machine.PowerOn(); err != nil {
		t.Fatal(err)
	}
	var uuid string
	eventually(t, func(context.Context) error {
		if found := r.discovered(t); len(found) == 1 {
			uuid = found[0].UUID
			return nil
		}
		return errors.New("the machine is not discovered yet")
	})
	r.provision(t, uuid, "manage", "manageable")
	r.provision(t, uuid, "provide", "available")
	r.rebootsByItsAgent(t, uuid)
	boots := machine.Status().Boots

	image := serveImage(t)
	r.request(t, http.MethodPatch, "/v1/nodes/"+uuid, image.instance, http.StatusOK)
	r.provision(t, uuid, "active", "active")
	r.runs(t, image, 1)
	if got := machine.Status().Boots; got != boots {
		t.Errorf("the ramdisk was booted %d times since the deployment began", got-boots)
	}
	if n := r.show(t, uuid); n.Internal["agent_url"] != nil {
		t.Errorf("the agent is still known at %v", n.Internal["agent_url"])
	}

	r.request(t, http.MethodPatch, "/v1/nodes/"+uuid, `[{"op": "add", "path": "/automated_clean", "value": true}]`, http.StatusOK)
	erased := len(r.done(effect.Wipe))
	r.provision(t, uuid, "deleted", "clean wait")
	if _, history := r.get(t, "/v1/nodes/"+uuid+"/history"); !strings.Contains(string(history), "boot it into the ramdisk by hand") {
		t.Error("nobody was asked to boot the machine into the ramdisk")
	}
	if err := machine.BootNetwork(); err != nil {
		t.Fatal(err)
	}
	r.awaitState(t, uuid, "available")
	if got := r.done(effect.Wipe)[erased:]; len(got) != 1 || len(machine.Disks().Contents()) != 0 {
		t.Errorf("after undeploying: wipes %q, disks %v, want one that leaves them empty", got, machine.Disks().Contents())
	}
}

// rebootsByItsAgent lets the agent of the machine restart it, and waits for the next agent.
func (r *rack) rebootsByItsAgent(t *testing.T, uuid string) {
	t.Helper()
	var first any
	eventually(t, func(context.Context) error {
		if first = r.show(t, uuid).Internal["agent_last_heartbeat"]; first == nil {
			return errors.New("no heartbeat yet")
		}
		return nil
	})
	boots := r.Machine(0).Status().Boots
	r.request(t, http.MethodPut, "/v1/nodes/"+uuid+"/states/power", `{"target": "rebooting"}`, http.StatusAccepted)
	eventually(t, func(context.Context) error {
		now := r.show(t, uuid).Internal["agent_last_heartbeat"]
		if booted := r.Machine(0).Status().Boots - boots; booted != 1 || now == nil || now == first {
			return fmt.Errorf("%d boots, last heartbeat %v after %v; want one boot and a heartbeat of its ramdisk", booted, now, first)
		}
		return nil
	})
}
