package story

import (
	"context"
	"testing"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/sim"
	"github.com/ingot-metal/ingot/internal/sim/agent"
	"github.com/ingot-metal/ingot/internal/sim/disk"
	"github.com/ingot-metal/ingot/internal/sim/redfish"
)

// TestHardwareManagerThatDeploysByItselfGetsTheUserData deploys like a host with a customDeploy
// method. Without the user data, the hardware manager would install a machine that never joins its
// cluster.
func TestHardwareManagerThatDeploysByItselfGetsTheUserData(t *testing.T) {
	t.Parallel()
	r, authority := startMachineWithABMC(t, redfish.Vendors[0], agent.Accelerated(20), func(_ *rack, o *sim.Options) { o.CoreOS = true })
	p := provisionedBy(r, r.Machine(0).BMCURL(), authority)
	n, err := p.Create(t.Context(), p.registration)
	if err != nil {
		t.Fatal(err)
	}
	p.ask(t, func(ctx context.Context) error { return p.Manage(ctx, n.ID) })
	p.awaitIdle(t, n.ID, node.Manageable)
	p.ask(t, func(ctx context.Context) error { return p.Provide(ctx, n.ID, provisioner.ProvideOptions{}) })
	p.awaitIdle(t, n.ID, node.Available)

	const ignition = `{"ignition": {"version": "3.4.0"}}`
	p.ask(t, func(ctx context.Context) error {
		return p.Deploy(ctx, n.ID, provisioner.Deployment{
			InstanceID: instanceUUID, Step: "install_coreos", ConfigDrive: &provisioner.ConfigDrive{UserData: ignition},
		})
	})
	p.awaitIdle(t, n.ID, node.Active)
	disks := r.Machine(0).Disks()
	device, _, ok := disks.Bootable()
	if got, _ := disks.ReadFile(device, disk.Ignition); !ok || string(got) != ignition {
		t.Errorf("CoreOS was installed to %q: %v, with the configuration %q, want %q", device, ok, got, ignition)
	}
}
