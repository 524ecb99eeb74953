package conductor

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/builtin"
	"github.com/ingot-metal/ingot/internal/driver/ramdisk"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
)

// TestNothingIsServedAfterABootThatCannotBeUndone aborts inspections whose boot interface
// has a boot to undo, and one that cannot do it.
func TestNothingIsServedAfterABootThatCannotBeUndone(t *testing.T) {
	for boot, remark := range map[string]string{"ipxe": "", "redfish-virtual-media": "could not be removed from it"} {
		w := newWorld(t)
		n := w.register(inState(node.InspectWait), func(n *node.Node) {
			n.Interfaces[node.BootInterface] = boot
			node.RamdiskBoot{Secret: node.NewBootSecret()}.StoreIn(n)
		})
		w.send(n, "abort")
		w.awaitWorkDone()
		got := w.arrive(n, node.InspectFailed)
		if _, serves := node.RamdiskBootOf(got); serves {
			t.Errorf("%s: the boot is served still", boot)
		}
		rows := strings.Join(w.history(n), "\n")
		if !strings.Contains(rows, remark) || strings.Contains(rows, "ERROR boot:") != (remark != "") {
			t.Errorf("%s: history %s", boot, rows)
		}
	}
}

// TestTokenFromAMediumIsValidAsLongAsTheMedium restarts a machine in the middle of its work,
// and aborts that.
func TestTokenFromAMediumIsValidAsLongAsTheMedium(t *testing.T) {
	w := newWorld(t)
	n := w.fake(node.DeployWait, nil, func(n *node.Node) {
		node.RamdiskBoot{Secret: node.NewBootSecret(), BootLoader: "http://images/esp"}.StoreIn(n)
		n.DriverInternalInfo = agent.WithPregenerated(n.DriverInternalInfo, "from the medium").With(map[string]any{agent.URLKey: "https://192.0.2.9:9999"})
	})
	if err := w.SetPower(t.Context(), n.UUID, node.Rebooting, 0); err != nil {
		t.Fatal(err)
	}
	w.awaitWorkDone()
	got := w.stored(n.UUID)
	if agent.Pregenerated(got) != "from the medium" || agent.EndpointOf(got).URL != "" {
		t.Errorf("after a restart the node has %s, want the token and no agent", got.DriverInternalInfo)
	}
	answer, err := w.Lookup(t.Context(), node.LookupRequest{NodeUUID: n.UUID, WantsToken: true})
	if err != nil || answer.Token != "" {
		t.Errorf("the lookup is answered %+v, %v; want no token", answer, err)
	}
	aborted := w.register(inState(node.InspectWait), func(n *node.Node) {
		n.Driver, n.DriverInternalInfo = "redfish", agent.WithPregenerated(nil, "from the medium")
	})
	w.send(aborted, "abort")
	w.awaitWorkDone()
	if got := w.stored(aborted.UUID); got.DriverInternalInfo.Text(agent.TokenKey) != "" || agent.Pregenerated(got) != "" {
		t.Errorf("after an abort the node has %s", got.DriverInternalInfo)
	}
}

// TestFirmwareIsWithdrawnHoweverTheUpdateEnds aborts a cleaning in which a file was served, and
// has one fail.
func TestFirmwareIsWithdrawnHoweverTheUpdateEnds(t *testing.T) {
	w := newWorld(t)
	withFile := func(n *node.Node) { node.NewFirmwareFile("http://files/bmc.bin", "v").StoreIn(n) }
	aborted := w.register(inState(node.CleanWait), withFile)
	w.send(aborted, "abort")
	failed := w.fake(node.Manageable, map[string]any{"fake_clean_error": "on fire"}, withFile)
	w.send(failed, "clean", with(step("deploy.erase_devices")))
	w.awaitWorkDone()
	for _, n := range []*node.Node{aborted, failed} {
		got := w.arrive(n, node.CleanFailed)
		if file, serves := node.FirmwareFileOf(got); serves {
			t.Errorf("%q: served is still %+v", got.LastError, file)
		}
	}
}

// TestNothingIsServedBeforeTheInstanceBoots looks at what the end of a deployment does to a
// machine that booted its ramdisk over the network.
func TestNothingIsServedBeforeTheInstanceBoots(t *testing.T) {
	for _, hardware := range []string{"fake-hardware", "manual-management"} {
		w := emptyWorld(t)
		c := w.idle("conductor-1")
		drivers, err := builtin.New(driver.Config{}, builtin.Dependencies{Ramdisk: ramdisk.New(ramdisk.Options{Agents: struct{ ramdisk.Agents }{}})})
		if err != nil {
			t.Fatal(err)
		}
		c.drivers = drivers
		n := &node.Node{UUID: uuid.NewString(), Driver: hardware, Interfaces: node.Interfaces{node.BootInterface: "ipxe", node.DeployInterface: "direct"}}
		node.RamdiskBoot{Secret: node.NewBootSecret()}.StoreIn(n)
		step := node.Step{Interface: node.DeployInterface.String(), Step: node.StepTearDownAgent}
		operations, ok := c.coreOperations(runner.Task{Node: n}, deployFlow, 0, step, runner.Operation{})
		leaves := slices.ContainsFunc(operations, func(o runner.Operation) bool { return o.Name == leaveRamdiskName && !o.Skip })
		if !ok || !leaves {
			t.Errorf("%s: the ramdisk is served still when the instance boots: %+v", hardware, operations)
		}
	}
}
