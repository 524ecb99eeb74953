package story

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	operatorbmc "github.com/ingot-metal/ingot/internal/operator/bmc"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/ironic"
	"github.com/ingot-metal/ingot/internal/sim"
	"github.com/ingot-metal/ingot/internal/sim/agent"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/internal/sim/redfish"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

// provisioned is the first machine of a rack as the operator's provisioner sees it.
type provisioned struct {
	*rack
	*ironic.Engine
	registration provisioner.Registration
}

func provisionedBy(r *rack, bmcURL, authority string) *provisioned {
	return &provisioned{
		rack: r, Engine: ironic.New(r.engine, ironic.Options{}),
		registration: provisioner.Registration{
			Name: "metal~web", Mark: "c1/metal/web", BootMAC: r.bootMAC(0), Architecture: "x86_64",
			Access: &operatorbmc.Access{
				Driver:    "redfish",
				Settings:  map[string]any{"redfish_address": bmcURL, "redfish_verify_ca": authority},
				Abilities: operatorbmc.Abilities{BIOS: true, Firmware: true},
			},
			Credentials: operatorbmc.Credentials{Username: redfishtest.User, Password: redfishtest.Password},
		},
	}
}

// ask sends a request, and repeats it while the node is busy.
func (p *provisioned) ask(t *testing.T, request func(ctx context.Context) error) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		err := request(ctx)
		if err != nil && !errors.Is(err, provisioner.ErrBusy) {
			t.Fatal(err)
		}
		return err
	})
}

// awaitIdle waits until the node is in a state and no work on it is left.
func (p *provisioned) awaitIdle(t *testing.T, id string, state node.State) (n provisioner.Node) {
	t.Helper()
	eventually(t, func(ctx context.Context) (err error) {
		if n, err = p.Node(ctx, id); err != nil {
			return err
		}
		if n.State != state || n.Busy {
			return fmt.Errorf("node is in state %q (%s), want %q", n.State, n.LastError, state)
		}
		return nil
	})
	return n
}

// TestProvisionerTakesAMachineThroughItsLife asks for everything that the operator asks
// of an engine, and looks at the machine.
func TestProvisionerTakesAMachineThroughItsLife(t *testing.T) {
	t.Parallel()
	r, authority := startMachineWithABMC(t, redfish.Vendors[0], agent.Accelerated(20))
	p, ctx := provisionedBy(r, r.Machine(0).BMCURL(), authority), t.Context()
	machine := r.Machine(0)
	right := p.registration.Credentials
	p.registration.Credentials.Password = "wrong"
	n, err := p.Create(ctx, p.registration)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Create(ctx, p.registration); !errors.Is(err, provisioner.ErrConflict) {
		t.Errorf("the same name again: %v, want a conflict", err)
	}
	id := n.ID
	p.ask(t, func(ctx context.Context) error { return p.Manage(ctx, id) })
	eventually(t, func(ctx context.Context) error {
		if n, err := p.Node(ctx, id); err != nil || n.State != node.Enroll || n.LastError == "" {
			return fmt.Errorf("node with a wrong password is in state %q with error %q, %w", n.State, n.LastError, err)
		}
		return nil
	})
	p.registration.Credentials = right
	p.update(t, id, provisioner.UpdateOptions{WithCredentials: true})
	p.ask(t, func(ctx context.Context) error { return p.Manage(ctx, id) })
	if n := p.awaitIdle(t, id, node.Manageable); n.Power != node.PowerOff {
		t.Errorf("the power is %q, want it off", n.Power)
	}
	if again := p.update(t, id, provisioner.UpdateOptions{}); again.UpdatedAt != p.awaitIdle(t, id, node.Manageable).UpdatedAt {
		t.Error("an update without a difference changed the node")
	}
	p.registration.Credentials.Password = "wrong, too"
	p.update(t, id, provisioner.UpdateOptions{WithCredentials: true})
	if err := p.CheckAccess(ctx, id); !errors.Is(err, provisioner.ErrFailed) || !strings.Contains(err.Error(), "refuses the user name or password") {
		t.Errorf("access with a wrong password of a manageable node: %v, want the refusal of the BMC", err)
	}
	p.registration.Credentials = right
	p.update(t, id, provisioner.UpdateOptions{WithCredentials: true})
	p.ask(t, func(ctx context.Context) error { return p.CheckAccess(ctx, id) })

	p.ask(t, func(ctx context.Context) error { return p.Inspect(ctx, id) })
	p.awaitIdle(t, id, node.Manageable)
	if _, err := p.Inventory(ctx, id); err != nil {
		t.Error(err)
	}
	attribute, value := changeableAttribute(t, machine.BMC())
	before := fmt.Sprint(machine.BMC().BIOS()[attribute])
	p.runsSteps(t, id, node.Manageable, p.Clean, attribute, value)
	p.ask(t, func(ctx context.Context) error { return p.Provide(ctx, id, provisioner.ProvideOptions{}) })
	p.awaitIdle(t, id, node.Available)

	if err := p.Service(ctx, id, []node.Step{{Interface: "power", Step: "reboot"}}); !errors.Is(err, provisioner.ErrConflict) {
		t.Errorf("service of a node without a deployment: %v, want a conflict", err)
	}
	image := serveImage(t)
	raw := "raw"
	deployment := provisioner.Deployment{
		InstanceID: instanceUUID, Image: &v1alpha1.Image{URL: image.url, Checksum: image.checksum, DiskFormat: &raw},
		ConfigDrive: &provisioner.ConfigDrive{MetaData: map[string]any{"uuid": instanceUUID, "name": instanceName}, UserData: "#cloud-config"},
	}
	for range 2 { // as if the first answer were lost
		p.ask(t, func(ctx context.Context) error { return p.Deploy(ctx, id, deployment) })
	}
	if n := p.awaitIdle(t, id, node.Active); n.InstanceID != instanceUUID || n.Power != node.PowerOn {
		t.Errorf("deployed node: %+v", n)
	}
	r.runs(t, image, 1)
	p.registration.Deployed = &deployment
	p.update(t, id, provisioner.UpdateOptions{})

	p.runsSteps(t, id, node.Active, p.Service, attribute, before)
	r.runs(t, image, 2)
	p.ask(t, func(ctx context.Context) error {
		return p.SetPower(ctx, id, provisioner.PowerChange{Action: provisioner.PowerActionOff})
	})
	eventually(t, func(context.Context) error {
		if machine.BMC().Power() != bmc.Off {
			return errors.New("the machine is on")
		}
		return nil
	})

	erased := len(r.done(effect.Wipe))
	p.ask(t, func(ctx context.Context) error { return p.Undeploy(ctx, id) })
	if n := p.awaitIdle(t, id, node.Available); n.InstanceID != "" {
		t.Errorf("undeployed node: %+v", n)
	}
	if len(r.done(effect.Wipe)) != erased+1 {
		t.Error("the disks were not wiped after the deployment")
	}
	p.ask(t, func(ctx context.Context) error { return p.Delete(ctx, id, p.registration.Mark) })
	if _, err := p.Node(ctx, id); !errors.Is(err, provisioner.ErrNotFound) {
		t.Errorf("deleted node: %v, want not found", err)
	}
}

func (p *provisioned) update(t *testing.T, id string, opts provisioner.UpdateOptions) (n provisioner.Node) {
	t.Helper()
	p.ask(t, func(ctx context.Context) (err error) {
		n, err = p.Update(ctx, id, p.registration, opts)
		return err
	})
	return n
}

// runsSteps changes a BIOS setting by clean or service.
func (p *provisioned) runsSteps(t *testing.T, id string, end node.State,
	run func(context.Context, string, []node.Step) error, attribute, value string,
) {
	t.Helper()
	settings, err := p.Settings(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	steps := provisioner.SettingSteps(settings, map[string]string{attribute: value})
	if len(steps) != 1 {
		t.Fatalf("steps %v for %s = %s with %d settings", steps, attribute, value, len(settings))
	}
	p.ask(t, func(ctx context.Context) error { return run(ctx, id, steps) })
	p.awaitIdle(t, id, end)
	if got := p.Machine(0).BMC().BIOS()[attribute]; got != value {
		t.Errorf("%s is %v, want %s", attribute, got, value)
	}
}

// TestDiscoveredMachineGetsABMC gives a machine that nobody registered the access to its
// BMC. It keeps its node, its ports and what was found.
func TestDiscoveredMachineGetsABMC(t *testing.T) {
	t.Parallel()
	r, authority := startMachineWithABMC(t, redfish.Vendors[0], agent.Accelerated(20), func(r *rack, _ *sim.Options) {
		r.settings = append(r.settings, "auto_discovery.enabled=true", "auto_discovery.driver=manual-management")
	})
	p, ctx := provisionedBy(r, r.Machine(0).BMCURL(), authority), t.Context()
	if err := r.Machine(0).PowerOn(); err != nil {
		t.Fatal(err)
	}
	var id string
	eventually(t, func(context.Context) error {
		found := r.discovered(t)
		if len(found) != 1 {
			return errors.New("the machine is not discovered yet")
		}
		id = found[0].UUID
		return nil
	})
	p.ask(t, func(ctx context.Context) error { return p.Manage(ctx, id) })
	p.awaitIdle(t, id, node.Manageable)
	before, err := p.MACs(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	p.ask(t, func(ctx context.Context) error {
		_, err := p.Claim(ctx, id, p.registration.Mark, provisioner.ClaimOptions{})
		return err
	})
	n := p.update(t, id, provisioner.UpdateOptions{})
	after, err := p.MACs(ctx, id)
	if err != nil || n.ID != id || n.Driver != "redfish" || n.State != node.Manageable || !slices.Equal(before, after) {
		t.Errorf("node %+v with ports %v, %v; want the ports %v", n, after, err, before)
	}
	if _, err := p.Inventory(ctx, id); err != nil {
		t.Errorf("what was found is lost: %v", err)
	}
	p.ask(t, func(ctx context.Context) error {
		return p.SetPower(ctx, id, provisioner.PowerChange{Action: provisioner.PowerActionOff})
	})
	eventually(t, func(ctx context.Context) error {
		if n, err := p.Node(ctx, id); err != nil || n.Power != node.PowerOff || r.Machine(0).BMC().Power() != bmc.Off {
			return fmt.Errorf("the power is %q, %w", n.Power, err)
		}
		return nil
	})
}

// TestProvisionerUsesWhatABMCCanDo makes volumes, puts an image into a virtual drive and
// subscribes to events, and looks at the BMC.
func TestProvisionerUsesWhatABMCCanDo(t *testing.T) {
	t.Parallel()
	const vendor = "dell"
	r := startRack(t, 1)
	machine := redfishtest.Start(t, vendor, redfishtest.WithDrives(vendor, 2))
	// The driver would first wait for the drives of a machine that is off.
	if err := machine.Reset(&bmc.Call{}, bmc.ResetOn); err != nil {
		t.Fatal(err)
	}
	authority := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(authority, machine.CA, 0o600); err != nil {
		t.Fatal(err)
	}
	p, ctx := provisionedBy(r, machine.URL, authority), t.Context()
	n, err := p.Create(ctx, p.registration)
	if err != nil {
		t.Fatal(err)
	}
	id := n.ID
	p.ask(t, func(ctx context.Context) error { return p.Manage(ctx, id) })
	p.awaitIdle(t, id, node.Manageable)

	size := 20
	for _, volumes := range [][]v1alpha1.HardwareRAIDVolume{{{Level: "1", Name: "root", SizeGibibytes: &size}}, {}} {
		raid := &v1alpha1.RAIDConfig{HardwareRAIDVolumes: volumes}
		p.ask(t, func(ctx context.Context) error { return p.SetTargetRAID(ctx, id, raid, nil) })
		p.ask(t, func(ctx context.Context) error {
			return p.Clean(ctx, id, provisioner.RAIDSteps(raid))
		})
		p.awaitIdle(t, id, node.Manageable)
		if got := machine.Volumes(); len(got) != len(volumes) {
			t.Errorf("volumes %+v, want %+v", got, volumes)
		}
	}

	components, err := p.Components(ctx, id)
	if err != nil || !slices.ContainsFunc(components, func(c provisioner.Component) bool { return c.Name == "bmc" && c.CurrentVersion != "" }) {
		t.Errorf("components %+v, %v; want the BMC's", components, err)
	}

	const image = "http://192.0.2.9/data.iso"
	inserted := func(want bool) {
		t.Helper()
		eventually(t, func(context.Context) error {
			media := machine.Media()
			if slices.ContainsFunc(media, func(m bmc.Medium) bool { return m.Image == image }) != want {
				return fmt.Errorf("the drives have %+v", media)
			}
			there, err := p.HasImage(ctx, id)
			if err == nil && there != want {
				err = fmt.Errorf("the engine says that there is an image: %v", there)
			}
			return err
		})
	}
	p.ask(t, func(ctx context.Context) error { return p.AttachImage(ctx, id, image) })
	inserted(true)
	for range 2 { // an empty drive can be emptied, too
		p.ask(t, func(ctx context.Context) error { return p.DetachImage(ctx, id) })
		inserted(false)
	}

	var subscription string
	p.ask(t, func(ctx context.Context) (err error) {
		subscription, err = p.Subscribe(ctx, id, provisioner.Subscription{Destination: "https://192.0.2.9/events", Context: "web"})
		return err
	})
	if got := machine.Subscriptions(); subscription == "" || len(got) != 1 || got[0].Destination != "https://192.0.2.9/events" {
		t.Errorf("subscription %q, the BMC has %+v", subscription, got)
	}
	listed, err := p.Subscriptions(ctx, id)
	if want := (provisioner.ActiveSubscription{ID: subscription, Destination: "https://192.0.2.9/events", Context: "web"}); err != nil || len(listed) != 1 || listed[0] != want {
		t.Errorf("listed subscriptions %+v, %v; want %+v", listed, err, want)
	}
	for range 2 {
		p.ask(t, func(ctx context.Context) error { return p.Unsubscribe(ctx, id, subscription) })
	}
	if got := machine.Subscriptions(); len(got) != 0 {
		t.Errorf("the BMC still has %+v", got)
	}
}

// TestProvisionerAdoptsWhatRunsAlready takes a machine over that somebody else has deployed.
func TestProvisionerAdoptsWhatRunsAlready(t *testing.T) {
	t.Parallel()
	r, authority := startBootService(t, redfish.Vendors[0]) // its machines can be cleaned later
	p, ctx := provisionedBy(r, r.Machine(0).BMCURL(), authority), t.Context()
	p.registration.Deployed = &provisioner.Deployment{InstanceID: instanceUUID}
	p.registration.SkipAutomatedCleaning = true
	n, err := p.Create(ctx, p.registration)
	if err != nil {
		t.Fatal(err)
	}
	p.ask(t, func(ctx context.Context) error { return p.Manage(ctx, n.ID) })
	p.awaitIdle(t, n.ID, node.Manageable)
	for range 2 {
		p.ask(t, func(ctx context.Context) error { return p.Adopt(ctx, n.ID) })
		p.awaitIdle(t, n.ID, node.Active)
	}
	if n := p.update(t, n.ID, provisioner.UpdateOptions{}); n.InstanceID != instanceUUID || n.State != node.Active {
		t.Errorf("adopted node: %+v", n)
	}
	p.ask(t, func(ctx context.Context) error { return p.Delete(ctx, n.ID, p.registration.Mark) })
	if effects := r.Recorder().Effects("0", 0); len(effects) != 0 {
		t.Errorf("the machine was changed: %+v", effects)
	}
}

// TestProvisionerWorksWithoutMachines goes through the life of a node of fake hardware.
func TestProvisionerWorksWithoutMachines(t *testing.T) {
	t.Parallel()
	r := startRack(t, 1)
	p, ctx := provisionedBy(r, "", ""), t.Context()
	p.registration.Access = &operatorbmc.Access{Driver: "fake-hardware", Interfaces: map[string]string{"inspect_interface": "fake"}}
	n, err := p.Create(ctx, p.registration)
	if err != nil {
		t.Fatal(err)
	}
	steps := []node.Step{{Interface: "power", Step: "reboot"}}
	for _, work := range []struct {
		ask func(ctx context.Context) error
		end node.State
	}{
		{func(ctx context.Context) error { return p.Manage(ctx, n.ID) }, node.Manageable},
		{func(ctx context.Context) error { return p.Inspect(ctx, n.ID) }, node.Manageable},
		{func(ctx context.Context) error { return p.Clean(ctx, n.ID, steps) }, node.Manageable},
		{func(ctx context.Context) error { return p.Provide(ctx, n.ID, provisioner.ProvideOptions{}) }, node.Available},
		{func(ctx context.Context) error {
			return p.Deploy(ctx, n.ID, provisioner.Deployment{InstanceID: instanceUUID, Image: &v1alpha1.Image{URL: "http://192.0.2.9/os.raw"}})
		}, node.Active},
		{func(ctx context.Context) error { return p.Service(ctx, n.ID, steps) }, node.Active},
		{func(ctx context.Context) error { return p.SetMaintenance(ctx, n.ID, "fan") }, node.Active},
		{func(ctx context.Context) error { return p.SetMaintenance(ctx, n.ID, "") }, node.Active},
		{func(ctx context.Context) error { return p.Undeploy(ctx, n.ID) }, node.Available},
	} {
		p.ask(t, work.ask)
		p.awaitIdle(t, n.ID, work.end)
	}
	p.ask(t, func(ctx context.Context) error { return p.Delete(ctx, n.ID, p.registration.Mark) })
}
