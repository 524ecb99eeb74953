package engine_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/engine"
	"github.com/ingot-metal/ingot/internal/polltest"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

// TestRAIDVolumesAreMadeByManualCleaning follows target_raid_config to the volumes of the
// machine and to raid_config, without a ramdisk.
func TestRAIDVolumesAreMadeByManualCleaning(t *testing.T) {
	// Other vendors' machines restart to make volumes, and the engine waits for their drives once
	// more.
	for _, vendor := range []string{"dell", "supermicro"} {
		t.Run(vendor, func(t *testing.T) {
			t.Parallel()
			r := start(t, func(cfg *engine.Config) { cfg.AutoDiscovery.Enabled = false })
			machine := redfishtest.Start(t, vendor, redfishtest.WithDrives(vendor, 2))
			// A machine that is off would be powered on first.
			if err := machine.Reset(&bmc.Call{}, bmc.ResetOn); err != nil {
				t.Fatal(err)
			}
			ident := r.register(t, bootMAC, withBMC(t, machine, "ipxe"))
			r.do(t, "PUT", "/v1/nodes/"+ident+"/states/raid", `{"logical_disks":[{"size_gb":20,"raid_level":"1","is_root_volume":true,"volume_name":"root"}]}`).want(t, http.StatusNoContent)
			r.do(t, "PUT", "/v1/nodes/"+ident+"/states/provision", `{"target":"clean","clean_steps":[
				{"interface":"raid","step":"create_configuration"}]}`).want(t, http.StatusAccepted)
			var n map[string]any
			polltest.UntilTrue(t, 2*time.Minute, "the cleaning, which watches the drives for half a minute", func() bool {
				n = r.node(t, ident)
				return inState("manageable")(n) || n["provision_state"] == "clean failed"
			})
			if n["last_error"] != nil {
				t.Fatalf("%v: %v", n["provision_state"], n["last_error"])
			}
			raid, _ := n["raid_config"].(map[string]any)
			disks, _ := raid["logical_disks"].([]any)
			if volumes := machine.Volumes(); len(volumes) != 1 || volumes[0].Name != "root" || len(disks) != 1 {
				t.Errorf("volumes %+v, raid_config %v; want the one", volumes, raid)
			}
			effects := slices.DeleteFunc(machine.Effects(), func(kind string) bool { return kind == "power on" || kind == "power off" })
			if !slices.Equal(effects, []string{"create volume"}) {
				t.Errorf("effects = %q, want one volume", machine.Effects())
			}
		})
	}
}
