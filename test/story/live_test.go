package story

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/sim"
	"github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/internal/sim/iso9660/iso9660test"
	"github.com/ingot-metal/ingot/internal/sim/redfish"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

// TestMachineRunsAnInstanceThatIsOnNoDisk deploys live images, restarts and services the machine,
// deploys it again, and removes the instance.
func TestMachineRunsAnInstanceThatIsOnNoDisk(t *testing.T) {
	t.Parallel()
	iso := fmt.Sprintf(`{"boot_iso": %q}`, redfishtest.Serve(t, string(iso9660test.Build(iso9660test.Options{Label: "live", Bootable: true}, map[string]string{
		"vmlinuz": "kernel", "initrd": "initial file system", "boot/grub/grub.cfg": "menuentry live {\n linux /vmlinuz quiet\n initrd /initrd\n}\n",
	}))))
	pair := fmt.Sprintf(`{"kernel": %q, "ramdisk": %q, "kernel_append_params": "live=1"}`, redfishtest.Serve(t, "another kernel"), redfishtest.Serve(t, "its file system"))
	for _, boot := range []string{"ipxe", "redfish-virtual-media"} {
		for name, image := range map[string]string{"iso": iso, "kernel": pair} {
			t.Run(boot+"/"+name, func(t *testing.T) {
				r, authority := startBootService(t, redfish.Vendors[0])
				uuid := r.registerBMC(t, authority, map[string]any{"boot_interface": boot, "deploy_interface": "ramdisk"})
				r.provision(t, uuid, "manage", "manageable")
				r.provision(t, uuid, "provide", "available")
				r.request(t, http.MethodPatch, "/v1/nodes/"+uuid, `[{"op": "add", "path": "/instance_info", "value": `+image+`}]`, http.StatusOK)
				r.throughALiveInstance(t, uuid, boot)
			})
		}
	}
}

// throughALiveInstance takes an available machine through the life of an instance that it boots
// anew at each start.
func (r *rack) throughALiveInstance(t *testing.T, uuid, boot string) {
	t.Helper()
	wiped, ramdisks := len(r.done(effect.Wipe)), r.ramdisks()
	r.provision(t, uuid, "active", "active")
	r.runsLive(t, boot, 1)
	if booted := r.ramdisks(); booted != ramdisks {
		t.Errorf("%d ramdisks were booted for the deployment", booted-ramdisks)
	}
	r.request(t, http.MethodPut, "/v1/nodes/"+uuid+"/states/power", `{"target": "rebooting"}`, http.StatusAccepted)
	r.runsLive(t, boot, 2)
	r.request(t, http.MethodPut, "/v1/nodes/"+uuid+"/states/provision",
		`{"target": "service", "service_steps": [{"interface": "deploy", "step": "burnin_memory"}]}`, http.StatusAccepted)
	r.awaitState(t, uuid, "active")
	r.runsLive(t, boot, 3)
	r.provision(t, uuid, "rebuild", "active")
	r.runsLive(t, boot, 4)
	if got, written := len(r.done(effect.Wipe)), r.done(effect.Write); got != wiped || len(written) != 0 {
		t.Errorf("disks were wiped %d times, and %q was written", got-wiped, written)
	}
	r.provision(t, uuid, "deleted", "available")
	r.bootedOnlyWhatWasServed(t, uuid, boot)
	if n := r.show(t, uuid); n.Power != "power off" || len(r.done(effect.Wipe)) != wiped+1 {
		t.Errorf("after undeploying: power %q, %d wipes, want it off and cleaned once", n.Power, len(r.done(effect.Wipe))-wiped)
	}
}

// ramdisks counts the boots of ramdisks.
func (r *rack) ramdisks() int {
	return len(slices.DeleteFunc(r.done(effect.Boot), func(detail string) bool { return !strings.HasPrefix(detail, "ramdisk ") }))
}

// runsLive waits until the machine runs its image and has booted it this often.
func (r *rack) runsLive(t *testing.T, boot string, boots int) {
	t.Helper()
	from := "operating system from " + map[string]string{"ipxe": "network", "redfish-virtual-media": "virtual CD"}[boot] + " http"
	eventually(t, func(context.Context) error {
		booted := slices.DeleteFunc(r.done(effect.Boot), func(detail string) bool { return strings.HasPrefix(detail, "ramdisk ") })
		if s := r.Machine(0).Status(); s.State != sim.OS || s.System == nil || s.System.Source == "" || len(booted) != boots {
			return fmt.Errorf("the machine is %s (%s), operating systems booted: %q; want %d from its image", s.State, s.Reason, booted, boots)
		}
		if slices.ContainsFunc(booted, func(detail string) bool { return !strings.HasPrefix(detail, from) }) {
			return fmt.Errorf("operating systems booted: %q, want them all %s", booted, from)
		}
		return nil
	})
}
