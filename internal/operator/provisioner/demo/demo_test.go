package demo

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/bmc"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

var testNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func fixedClock() time.Time { return testNow }

// registration returns the registration of a host whose BMC can do everything.
func registration(host string) provisioner.Registration {
	return provisioner.Registration{
		Name: provisioner.NodeName("metal", host), Mark: provisioner.MarkOf("c1", "metal", host), BootMAC: "00:00:5E:00:53:01",
		Access:      &bmc.Access{Address: "redfish://192.0.2.1/1", Driver: "redfish", Abilities: bmc.Abilities{BIOS: true, Firmware: true, HardwareRAID: true}},
		Credentials: bmc.Credentials{Username: "admin", Password: "secret"},
	}
}

func created(t *testing.T, e *Engine, host string) provisioner.Node {
	t.Helper()
	n, err := e.Create(t.Context(), registration(host))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, e *Engine, id string) provisioner.Node {
	t.Helper()
	n, err := e.Node(t.Context(), id)
	must(t, err)
	return n
}

func TestNamedNodesAppearWhenTheyAreLookedUp(t *testing.T) {
	for _, tt := range []struct {
		host                    string
		found, inventory, alive bool
		provided                node.State
		deletable               bool
	}{
		{host: "demo-unmanaged-1"},
		{host: "demo-inspecting"},
		{host: "web"},
		{host: "demo-importing", found: true, provided: node.Available, alive: true, deletable: true},
		{host: "demo-preparing-2", found: true, inventory: true, provided: node.CleanWait, alive: true, deletable: true},
		{host: "demo-preparation-error", found: true, inventory: true, provided: node.CleanFailed, alive: true, deletable: true},
		{host: "demo-disconnected", found: true, inventory: true, provided: node.Available, deletable: true},
		{host: "demo-delete-error", found: true, inventory: true, provided: node.Available, alive: true},
		{host: "demo-web", found: true, inventory: true, provided: node.Available, alive: true, deletable: true},
	} {
		t.Run(tt.host, func(t *testing.T) {
			e, ctx := New(Options{Now: fixedClock}), t.Context()
			n, err := e.Find(ctx, provisioner.Identity{Name: provisioner.NodeName("metal", tt.host), MAC: "00:00:5E:00:53:01"})
			if !tt.found {
				if !errors.Is(err, provisioner.ErrNotFound) {
					t.Errorf("error = %v, want not found", err)
				}
				return
			}
			must(t, err)
			if got := n.Agent.Alive(testNow, 5*time.Minute); got != tt.alive {
				t.Errorf("alive = %v, want %v", got, tt.alive)
			}
			if macs, _ := e.MACs(ctx, n.ID); len(macs) == 0 || macs[0] != "00:00:5e:00:53:01" {
				t.Errorf("MAC addresses %v, want the host's first", macs)
			} else if all, err := e.AllMACs(ctx); err != nil || !slices.Equal(all[n.ID], macs) {
				t.Errorf("of all nodes: %v, %v, want %v", all, err, macs)
			}
			if _, err := e.Inventory(ctx, n.ID); (err == nil) != tt.inventory {
				t.Errorf("inventory: %v, want one: %v", err, tt.inventory)
			}
			must(t, e.Manage(ctx, n.ID), e.Provide(ctx, n.ID, provisioner.ProvideOptions{}))
			if got := read(t, e, n.ID).State; got != tt.provided {
				t.Errorf("state %q, want %q", got, tt.provided)
			}
			if err := e.Delete(ctx, n.ID, ""); (err == nil) != tt.deletable {
				t.Errorf("delete: %v, want success: %v", err, tt.deletable)
			}
		})
	}
}

func TestHostWithABMCPassesThroughItsWholeLife(t *testing.T) {
	e, ctx := New(Options{Now: fixedClock}), t.Context()
	n := created(t, e, "web")
	steps := []node.Step{{Interface: "raid", Step: "delete_configuration"}}
	type outcome struct {
		State    node.State
		Power    node.PowerState
		Instance string
	}
	deployment := provisioner.Deployment{InstanceID: "i1", Image: &v1alpha1.Image{URL: "http://h/os.raw"}}
	for _, tt := range []struct {
		verb string
		do   func() error
		want outcome
	}{
		{"manage", func() error { return e.Manage(ctx, n.ID) }, outcome{node.Manageable, node.PowerOff, ""}},
		{"inspect", func() error { return e.Inspect(ctx, n.ID) }, outcome{node.Manageable, node.PowerOff, ""}},
		{"raid", func() error { return e.SetTargetRAID(ctx, n.ID, &v1alpha1.RAIDConfig{}, nil) }, outcome{node.Manageable, node.PowerOff, ""}},
		{"clean", func() error { return e.Clean(ctx, n.ID, steps) }, outcome{node.Manageable, node.PowerOff, ""}},
		{"provide", func() error { return e.Provide(ctx, n.ID, provisioner.ProvideOptions{}) }, outcome{node.Available, node.PowerOff, ""}},
		{"deploy", func() error { return e.Deploy(ctx, n.ID, deployment) }, outcome{node.Active, node.PowerOn, "i1"}},
		{"deploy again", func() error { return e.Deploy(ctx, n.ID, deployment) }, outcome{node.Active, node.PowerOn, "i1"}},
		{"power off", func() error {
			return e.SetPower(ctx, n.ID, provisioner.PowerChange{Action: provisioner.PowerActionSoftOff})
		}, outcome{node.Active, node.PowerOff, "i1"}},
		{"service", func() error { return e.Service(ctx, n.ID, steps) }, outcome{node.Active, node.PowerOn, "i1"}},
		{"undeploy", func() error { return e.Undeploy(ctx, n.ID) }, outcome{node.Available, node.PowerOff, ""}},
		{"undeploy again", func() error { return e.Undeploy(ctx, n.ID) }, outcome{node.Available, node.PowerOff, ""}},
	} {
		if err := tt.do(); err != nil {
			t.Fatalf("%s: %v", tt.verb, err)
		}
		got := read(t, e, n.ID)
		if diff := cmp.Diff(tt.want, outcome{got.State, got.Power, got.InstanceID}); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", tt.verb, diff)
		}
		if got.TargetState != "" || got.TargetPower != "" || got.Step != "" {
			t.Errorf("after %s: work is left: %+v", tt.verb, got)
		}
	}
	must(t, e.Delete(ctx, n.ID, n.Mark))
	want := []Verb{
		VerbCreate, VerbManage, VerbInspect, VerbSetRAID, VerbClean, VerbProvide, VerbDeploy, VerbPower, VerbService, VerbUndeploy, VerbDelete,
	}
	if diff := cmp.Diff(want, e.Verbs(n.Name)); diff != "" {
		t.Errorf("effects differ (-want +got):\n%s", diff)
	}
	if got := e.Effects(n.Name)[6].Request; !cmp.Equal(got, any(deployment)) {
		t.Errorf("request of deploy: %+v", got)
	}
}

// prepared returns a node in the given state, brought there the shortest way.
func prepared(t *testing.T, e *Engine, host string, state node.State) string {
	t.Helper()
	n := created(t, e, host)
	e.Change(n.ID, func(n *provisioner.Node) { n.State = state })
	return n.ID
}

func TestEveryVerbCanHangAndFail(t *testing.T) {
	ctx := t.Context()
	steps := []node.Step{{Interface: "raid", Step: "delete_configuration"}}
	for _, tt := range []struct {
		host string
		from node.State
		do   func(e *Engine, id string) error
		want node.State
	}{
		{"demo-registering", node.Enroll, func(e *Engine, id string) error { return e.Manage(ctx, id) }, node.Verifying},
		{"demo-registration-error", node.Enroll, func(e *Engine, id string) error { return e.Manage(ctx, id) }, node.Enroll},
		{"demo-inspecting", node.Manageable, func(e *Engine, id string) error { return e.Inspect(ctx, id) }, node.InspectWait},
		{"demo-inspection-error", node.Manageable, func(e *Engine, id string) error { return e.Inspect(ctx, id) }, node.InspectFailed},
		{"demo-preparing", node.Manageable, func(e *Engine, id string) error {
			return e.Clean(ctx, id, steps)
		}, node.CleanWait},
		{"demo-preparation-error", node.Manageable, func(e *Engine, id string) error {
			return e.Clean(ctx, id, steps)
		}, node.CleanFailed},
		{"demo-provisioning", node.Available, func(e *Engine, id string) error { return e.Deploy(ctx, id, provisioner.Deployment{}) }, node.DeployWait},
		{"demo-provisioning-error", node.Available, func(e *Engine, id string) error { return e.Deploy(ctx, id, provisioner.Deployment{}) }, node.DeployFailed},
		{"demo-adoption-error", node.Manageable, func(e *Engine, id string) error { return e.Adopt(ctx, id) }, node.AdoptFailed},
		{"demo-deprovisioning", node.Active, func(e *Engine, id string) error { return e.Undeploy(ctx, id) }, node.Deleting},
		{"demo-deprovisioning-error", node.Active, func(e *Engine, id string) error { return e.Undeploy(ctx, id) }, node.ErrorState},
		{"demo-servicing", node.Active, func(e *Engine, id string) error {
			return e.Service(ctx, id, steps)
		}, node.ServiceWait},
		{"demo-service-error", node.Active, func(e *Engine, id string) error {
			return e.Service(ctx, id, steps)
		}, node.ServiceFailed},
	} {
		t.Run(tt.host, func(t *testing.T) {
			e := New(Options{Now: fixedClock})
			id := prepared(t, e, tt.host, tt.from)
			must(t, tt.do(e, id))
			got := read(t, e, id)
			hangs := got.State.Class() == node.Waiting || got.State.Class() == node.Working
			if got.State != tt.want || hangs != (got.LastError == "") {
				t.Errorf("state %q with error %q, want %q", got.State, got.LastError, tt.want)
			}
			if hangs && got.TargetState == "" {
				t.Error("a node under work has no target")
			}
		})
	}
}

func TestWorkTakesItsTime(t *testing.T) {
	now := testNow
	e, ctx := New(Options{Now: func() time.Time { return now }, Durations: map[Verb]time.Duration{VerbInspect: time.Minute, VerbPower: time.Second}}), t.Context()
	id := prepared(t, e, "web", node.Manageable)
	must(t, e.Inspect(ctx, id))
	if got := read(t, e, id); got.State != node.InspectWait || got.TargetState != node.Manageable || !got.InspectedAt.IsZero() {
		t.Errorf("at once: %+v", got)
	}
	now = now.Add(time.Minute)
	if got := read(t, e, id); got.State != node.Manageable || !got.InspectedAt.Equal(now) || !got.UpdatedAt.Equal(now) {
		t.Errorf("after a minute: %+v", got)
	}
	must(t, e.SetPower(ctx, id, provisioner.PowerChange{Action: provisioner.PowerActionOn}))
	if got := read(t, e, id); got.Power != node.PowerOff || got.TargetPower != node.PowerOn {
		t.Errorf("power at once: %q to %q", got.Power, got.TargetPower)
	}
	now = now.Add(time.Second)
	if got := read(t, e, id); got.Power != node.PowerOn || got.TargetPower != "" {
		t.Errorf("power after a second: %q to %q", got.Power, got.TargetPower)
	}
}

func TestWrongPasswordFailsUntilItIsCorrected(t *testing.T) {
	e, ctx := New(Options{Now: fixedClock}), t.Context()
	r := registration("web")
	r.Credentials.Password = WrongPassword
	n, err := e.Create(ctx, r)
	must(t, err, e.Manage(ctx, n.ID))
	if got := read(t, e, n.ID); got.State != node.Enroll || got.LastError == "" {
		t.Errorf("with the wrong password: %+v", got)
	}
	r.Credentials.Password = "secret"
	_, err = e.Update(ctx, n.ID, r, provisioner.UpdateOptions{})
	must(t, err, e.Manage(ctx, n.ID))
	if got := read(t, e, n.ID); got.State != node.Enroll {
		t.Errorf("credentials were written without a request for that: %+v", got)
	}
	_, err = e.Update(ctx, n.ID, r, provisioner.UpdateOptions{WithCredentials: true})
	must(t, err, e.Manage(ctx, n.ID))
	if got := read(t, e, n.ID); got.State != node.Manageable || got.LastError != "" {
		t.Errorf("with the right password: %+v", got)
	}
	must(t, e.CheckAccess(ctx, n.ID))
	r.Credentials.Password = WrongPassword
	_, err = e.Update(ctx, n.ID, r, provisioner.UpdateOptions{WithCredentials: true})
	must(t, err)
	if err := e.CheckAccess(ctx, n.ID); !errors.Is(err, provisioner.ErrFailed) {
		t.Errorf("access with the wrong password: %v, want a refusal", err)
	}
}

func TestNamesAndAddressesAreUnique(t *testing.T) {
	e, ctx := New(Options{Now: fixedClock}), t.Context()
	n := created(t, e, "web")
	if _, err := e.Create(ctx, registration("web")); !errors.Is(err, provisioner.ErrConflict) {
		t.Errorf("same name: %v", err)
	}
	if _, err := e.Create(ctx, registration("db")); !errors.Is(err, provisioner.ErrConflict) {
		t.Errorf("same MAC address: %v", err)
	}
	if _, err := e.Update(ctx, n.ID, registration("web"), provisioner.UpdateOptions{}); err != nil {
		t.Errorf("update of the node itself: %v", err)
	}
	if got := e.Verbs(""); !cmp.Equal(got, []Verb{VerbCreate}) {
		t.Errorf("effects %v, want only the creation: nothing differs", got)
	}
}

func TestDiscoveredNodeGetsABMC(t *testing.T) {
	e, ctx := New(Options{Now: fixedClock}), t.Context()
	id := e.Discover(Machine{Inventory: SampleInventory("found")})
	if err := e.SetPower(ctx, id, provisioner.PowerChange{Action: provisioner.PowerActionOn}); !errors.Is(err, provisioner.ErrUnsupported) {
		t.Errorf("power without a BMC: %v", err)
	}
	if _, err := e.Settings(ctx, id); !errors.Is(err, provisioner.ErrUnsupported) {
		t.Errorf("settings without a BMC: %v", err)
	}
	before, err := e.Inventory(ctx, id)
	must(t, err, e.Manage(ctx, id))
	_, err = e.Claim(ctx, id, registration("web").Mark, provisioner.ClaimOptions{})
	must(t, err)
	n, err := e.Update(ctx, id, registration("web"), provisioner.UpdateOptions{})
	must(t, err)
	after, err := e.Inventory(ctx, id)
	must(t, err)
	if n.ID != id || n.Driver != "redfish" || n.Name != "metal~web" || !cmp.Equal(before, after) {
		t.Errorf("node %+v with inventory %v", n, after)
	}
	must(t, e.SetPower(ctx, id, provisioner.PowerChange{Action: provisioner.PowerActionOff}))
	if got := read(t, e, id).Power; got != node.PowerOff {
		t.Errorf("power %q", got)
	}
}

func TestStepsChangeSettingsAndFirmware(t *testing.T) {
	e, ctx := New(Options{Now: fixedClock}), t.Context()
	id := prepared(t, e, "web", node.Active)
	settings, err := e.Settings(ctx, id)
	must(t, err)
	steps := append(provisioner.SettingSteps(settings, map[string]string{"BootTimeout": "7", "ProcVirtualization": "Disabled"}),
		provisioner.FirmwareSteps([]provisioner.FirmwareUpdate{{Component: "bmc", URL: "http://h/fw/9.0.1.bin"}})...)
	must(t, e.Service(ctx, id, steps))
	settings, err = e.Settings(ctx, id)
	must(t, err)
	if rest := provisioner.SettingSteps(settings, map[string]string{"BootTimeout": "7", "ProcVirtualization": "Disabled"}); rest != nil {
		t.Errorf("settings still differ: %v", rest)
	}
	components, err := e.Components(ctx, id)
	must(t, err)
	want := provisioner.Component{Name: "bmc", InitialVersion: "4.5.6", CurrentVersion: "9.0.1", LastFlashed: "9.0.1", UpdatedAt: testNow}
	if components[1] != want {
		t.Errorf("component %+v, want %+v", components[1], want)
	}
}

func TestWorkCanBeAborted(t *testing.T) {
	e, ctx := New(Options{Now: fixedClock}), t.Context()
	id := prepared(t, e, "demo-inspecting", node.Manageable)
	must(t, e.Inspect(ctx, id), e.Abort(ctx, id))
	if got := read(t, e, id); got.State != node.InspectFailed || got.LastError == "" {
		t.Errorf("aborted inspection: %+v", got)
	}
	other := New(Options{Now: fixedClock})
	id = prepared(t, other, "demo-service-error", node.Active)
	must(t, other.Service(ctx, id, []node.Step{{Interface: "power", Step: "reboot"}}))
	if got := read(t, other, id); got.State != node.ServiceFailed || got.Fault == "" || !got.Maintenance {
		t.Errorf("failed service: %+v", got)
	}
	must(t, other.Abort(ctx, id))
	if got := read(t, other, id); got.State != node.Active || got.LastError == "" {
		t.Errorf("service that was given up: %+v", got)
	}
}

func TestFaultOfACleaningEndsWithMaintenance(t *testing.T) {
	e, ctx := New(Options{Now: fixedClock}), t.Context()
	id := prepared(t, e, "demo-preparation-fault", node.Manageable)
	must(t, e.Provide(ctx, id, provisioner.ProvideOptions{}))
	if got := read(t, e, id); got.State != node.CleanFailed || !got.Maintenance || got.Fault != node.FaultCleanFailure {
		t.Errorf("failed cleaning: %+v", got)
	}
	must(t, e.SetMaintenance(ctx, id, ""), e.Manage(ctx, id))
	if got := read(t, e, id); got.State != node.Manageable || got.Maintenance || got.Fault != "" {
		t.Errorf("after maintenance: %+v", got)
	}
}

func TestPowerFailuresLeaveTheirReason(t *testing.T) {
	e, ctx := New(Options{Now: fixedClock}), t.Context()
	id := prepared(t, e, "demo-power-error", node.Active)
	must(t, e.SetPower(ctx, id, provisioner.PowerChange{Action: provisioner.PowerActionOff}))
	if got := read(t, e, id); got.LastError == "" || got.TargetPower != "" || got.Power == node.PowerOff {
		t.Errorf("node %+v", got)
	}
	other := New(Options{Now: fixedClock})
	id = prepared(t, other, "demo-no-soft-power", node.Active)
	if err := other.SetPower(ctx, id, provisioner.PowerChange{Action: provisioner.PowerActionSoftOff}); !errors.Is(err, provisioner.ErrUnsupported) {
		t.Errorf("soft action without support: %v", err)
	}
}

func TestEngineThatFailsAnswersNothing(t *testing.T) {
	e, ctx := New(Options{Now: fixedClock}), t.Context()
	id := e.Discover(Machine{Inventory: SampleInventory("web")})
	calls := map[string]func() error{
		"list":   func() error { _, err := e.Nodes(ctx, provisioner.ListOptions{}); return err },
		"read":   func() error { _, err := e.Node(ctx, id); return err },
		"find":   func() error { _, err := e.Find(ctx, provisioner.Identity{ID: id}); return err },
		"create": func() error { _, err := e.Create(ctx, registration("db")); return err },
		"manage": func() error { return e.Manage(ctx, id) },
		"power":  func() error { return e.SetPower(ctx, id, provisioner.PowerChange{Action: provisioner.PowerActionOn}) },
		"delete": func() error { return e.Delete(ctx, id, "") },
	}
	e.SetDown("power cut")
	for what, call := range calls {
		if err := call(); !errors.Is(err, provisioner.ErrUnreachable) {
			t.Errorf("%s: error = %v, want unreachable", what, err)
		}
	}
	e.SetFailing(provisioner.ErrDenied)
	if err := calls["read"](); !errors.Is(err, provisioner.ErrDenied) {
		t.Errorf("error = %v, want denied", err)
	}
	e.SetDown("")
	if _, err := e.Node(ctx, id); err != nil {
		t.Errorf("after it came back: %v", err)
	}
}
