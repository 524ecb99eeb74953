package conductor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/fake"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

func TestPowerWorkLeavesTheProvisionStateAlone(t *testing.T) {
	for _, state := range []node.State{node.InspectWait, node.ServiceHold, node.Enroll} {
		for fault, want := range map[string]string{"": "", "no such outlet": "no such outlet"} {
			w := newWorld(t)
			n := w.fake(state, map[string]any{"fake_power_error": fault})
			if err := w.SetPower(t.Context(), n.UUID, node.PowerOn, 0); err != nil {
				t.Fatal(err)
			}
			w.awaitWorkDone()
			if got := w.stored(n.UUID); got.ProvisionState != state || !strings.Contains(got.LastError, want) {
				t.Errorf("node went from %q to %q, last_error %q", state, got.ProvisionState, got.LastError)
			}
		}
	}
}

func TestBootDeviceIsRememberedAndChecked(t *testing.T) {
	w := newWorld(t)
	n := w.fake(node.Manageable, nil)
	if got, err := w.BootDevice(t.Context(), n.UUID); err != nil || got.Device != "pxe" || got.Persistent == nil || *got.Persistent {
		t.Errorf("boot device = %+v, %v", got, err)
	}
	yes := true
	if err := w.SetBootDevice(t.Context(), n.UUID, node.BootDevice{Device: "disk", Persistent: &yes}); err != nil {
		t.Fatal(err)
	}
	if got, err := w.BootDevice(t.Context(), n.UUID); err != nil || got.Device != "disk" || !*got.Persistent {
		t.Errorf("boot device = %+v, %v", got, err)
	}
	wantAs[*node.ValidationError](t, w.SetBootDevice(t.Context(), n.UUID, node.BootDevice{Device: "tape"}))
	if got := w.stored(n.UUID); got.Lease != (node.Lease{}) {
		t.Errorf("lease = %+v, want it given back", got.Lease)
	}
	w.lease(n, "conductor-2")
	wantIs(t, w.SetBootDevice(t.Context(), n.UUID, node.BootDevice{Device: "disk"}), node.ErrLocked)
}

func TestSettingsOfAMachineAreReadWhenItIsManagedAndAfterSteps(t *testing.T) {
	w := newWorld(t)
	n := w.fake(node.Enroll, nil)
	w.send(n, "manage")
	w.awaitWorkDone()
	before, err := w.Hardware(t.Context(), n.UUID)
	if err != nil || len(before.BIOS) == 0 || len(before.Firmware) == 0 {
		t.Fatalf("hardware = %+v, %v", before, err)
	}
	if got := w.stored(n.UUID); got.BootMode != "uefi" || got.SecureBoot == nil || *got.SecureBoot {
		t.Errorf("boot mode %q, secure boot %v", got.BootMode, got.SecureBoot)
	}
	w.clock.Advance(time.Hour)
	apply := step("bios.apply_configuration")
	apply.Args = map[string]any{"settings": []any{map[string]any{"name": "ProcVirtualization", "value": "Disabled"}}}
	w.send(n, "clean", with(apply))
	w.awaitWorkDone()
	after, err := w.Hardware(t.Context(), n.UUID)
	if err != nil {
		t.Fatal(err)
	}
	for i, setting := range after.BIOS {
		changed := setting.Name == "ProcVirtualization"
		if changed != (setting.Value == "Disabled") || changed == setting.UpdatedAt.IsZero() || !setting.CreatedAt.Equal(before.BIOS[i].CreatedAt) {
			t.Errorf("setting %+v", setting)
		}
	}
}

func TestBootModeAndSecureBootChange(t *testing.T) {
	w := newWorld(t)
	n := w.fake(node.Manageable, nil)
	if err := w.SetBootMode(t.Context(), n.UUID, "bios"); err != nil {
		t.Fatal(err)
	}
	w.awaitWorkDone()
	if err := w.SetSecureBoot(t.Context(), n.UUID, true); err != nil {
		t.Fatal(err)
	}
	w.awaitWorkDone()
	if got := w.stored(n.UUID); got.BootMode != "bios" || got.SecureBoot == nil || !*got.SecureBoot || got.LastError != "" {
		t.Errorf("boot mode %q, secure boot %v, last_error %q", got.BootMode, got.SecureBoot, got.LastError)
	}
	wantAs[*node.ConflictError](t, w.SetBootMode(t.Context(), w.fake(node.CleanWait, nil).UUID, "uefi"))
	wantAs[*node.NotSupportedError](t, w.SetBootMode(t.Context(), w.create("manual-management").UUID, "uefi"))
}

// TestRequestsAreRefusedWhileASettingIsToBeTriedAgain has a change fail that would otherwise be
// tried again after a later one, and undo it, or in the middle of a power change.
func TestRequestsAreRefusedWhileASettingIsToBeTriedAgain(t *testing.T) {
	w := emptyWorld(t)
	c := w.idle("conductor-1")
	m := machineOf(t, c)
	m.answer = func(_ context.Context, number int) (fake.Task, error) {
		if number == 1 {
			return fake.Task{}, &node.DriverError{Op: "change the boot mode", Reason: "busy", Retryable: true}
		}
		return fake.Task{State: fake.Done}, nil
	}
	w.Conductor = w.run(c)
	n := w.fake(node.Manageable, nil)
	if err := w.SetBootMode(t.Context(), n.UUID, "bios"); err != nil {
		t.Fatal(err)
	}
	w.eventually("the boot mode to be put off", func() bool { return w.workOf(n).Attempts == 1 })
	wantAs[*node.LockedError](t, w.SetBootMode(t.Context(), n.UUID, "uefi"))
	wantAs[*node.LockedError](t, w.DetachMedia(t.Context(), n.UUID, nil))
	wantAs[*node.LockedError](t, w.SetPower(t.Context(), n.UUID, node.PowerOn, 0))
	wantAs[*node.LockedError](t, w.SetBootDevice(t.Context(), n.UUID, node.BootDevice{Device: "pxe"}))
	w.pass(time.Minute)
	w.awaitWorkDone()
	if err := w.SetBootMode(t.Context(), n.UUID, "uefi"); err != nil {
		t.Fatal(err)
	}
	w.awaitWorkDone()
	if got := w.stored(n.UUID); got.BootMode != "uefi" || got.LastError != "" {
		t.Errorf("boot mode %q, last_error %q", got.BootMode, got.LastError)
	}
}

func TestWorkThatGivesUpInTheMiddleOfAChangeSaysThatItsOutcomeIsUnknown(t *testing.T) {
	w := emptyWorld(t)
	c := w.idle("conductor-1")
	m := machineOf(t, c)
	m.mute = errors.New("connection reset")
	m.answer = func(context.Context, int) (fake.Task, error) { return fake.Task{}, m.mute }
	w.Conductor = w.run(c)
	n := w.fake(node.Manageable, nil)
	if err := w.SetBootMode(t.Context(), n.UUID, "bios"); err != nil {
		t.Fatal(err)
	}
	for tried := 1; tried < 3; tried++ {
		w.eventually("the boot mode to be put off", func() bool { return w.workOf(n).Attempts == tried })
		w.pass(time.Minute)
	}
	w.awaitWorkDone()
	if got := w.stored(n.UUID).LastError; !strings.Contains(got, "outcome unknown") || !strings.Contains(got, "connection reset") {
		t.Errorf("last_error %q", got)
	}
}

func TestVirtualMediaComeAndGo(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.LockWait = time.Minute })
	n := w.fake(node.Active, nil)
	for _, kind := range []string{"cdrom", "disk", "cdrom"} { // without waiting for the one before
		if err := w.AttachMedium(t.Context(), n.UUID, node.Medium{DeviceType: kind, ImageURL: "http://images/" + kind}); err != nil {
			t.Fatal(err)
		}
	}
	w.awaitWorkDone()
	if media, err := w.Media(t.Context(), n.UUID); err != nil || len(media) != 2 {
		t.Errorf("media = %v, %v", media, err)
	}
	if err := w.DetachMedia(t.Context(), n.UUID, []string{"cdrom"}); err != nil {
		t.Fatal(err)
	}
	w.awaitWorkDone()
	if media, err := w.Media(t.Context(), n.UUID); err != nil || len(media) != 1 || media[0].DeviceType != "disk" {
		t.Errorf("media = %v, %v", media, err)
	}
	manual := w.create("manual-management")
	if err := w.AttachMedium(t.Context(), manual.UUID, node.Medium{DeviceType: "cdrom"}); err != nil {
		t.Fatal(err)
	}
	w.awaitWorkDone()
	if got := w.stored(manual.UUID); !strings.Contains(got.LastError, "virtual media") || got.ProvisionState != node.Enroll {
		t.Errorf("last_error = %q in %q", got.LastError, got.ProvisionState)
	}
	_, err := w.Media(t.Context(), manual.UUID)
	wantAs[*node.NotSupportedError](t, err)
}

func TestVendorMethods(t *testing.T) {
	w := newWorld(t)
	n := w.fake(node.Active, nil)
	call := func(method, http, bar string) ([]byte, bool, error) {
		return w.CallVendor(t.Context(), n.UUID, node.VendorCall{HTTPMethod: http, Method: method, Body: node.ObjectOf(map[string]any{"bar": bar})})
	}
	if answer, async, err := call("third_method_sync", "POST", "meow"); string(answer) != "true" || async || err != nil {
		t.Errorf("third_method_sync = %s, %v, %v", answer, async, err)
	}
	if _, async, err := call("first_method", "POST", "baz"); !async || err != nil {
		t.Errorf("first_method: %v, %v", async, err)
	}
	w.awaitWorkDone()
	if got := w.stored(n.UUID); got.LastError != "" {
		t.Errorf("last_error = %q", got.LastError)
	}
	if _, _, err := call("second_method", "POST", "baz"); err != nil {
		t.Error(err)
	}
	w.awaitWorkDone()
	if got := w.stored(n.UUID); !strings.Contains(got.LastError, "second_method") {
		t.Errorf("last_error = %q", got.LastError)
	}
	for _, wrong := range []struct{ method, http string }{{"fifth", "POST"}, {"first_method", "GET"}} {
		_, _, err := call(wrong.method, wrong.http, "")
		wantAs[*node.ValidationError](t, err)
	}
}

func TestRAIDNeedsARAIDInterface(t *testing.T) {
	w := newWorld(t)
	n := w.fake(node.Manageable, nil)
	config := node.ObjectOf(map[string]any{"logical_disks": []any{map[string]any{"size_gb": 10, "raid_level": "1"}}})
	if err := w.SetRAIDConfig(t.Context(), n.UUID, config); err != nil {
		t.Fatal(err)
	}
	w.send(n, "clean", with(step("raid.create_configuration")))
	w.awaitWorkDone()
	if got := w.stored(n.UUID); got.RAIDConfig.String() != config.String() {
		t.Errorf("raid_config = %s, want the target", got.RAIDConfig)
	}
	byAgent := w.fake(node.Manageable, nil, func(n *node.Node) { n.Interfaces[node.RAIDInterface] = "agent" })
	if err := w.SetRAIDConfig(t.Context(), byAgent.UUID, config); err != nil {
		t.Errorf("with the interface agent: %v", err)
	}
	none := w.fake(node.Manageable, nil, func(n *node.Node) { n.Interfaces[node.RAIDInterface] = "no-raid" })
	wantIs(t, w.SetRAIDConfig(t.Context(), none.UUID, nil), node.ErrNotFound)
}

func TestHistoryIsPaged(t *testing.T) {
	w := newWorld(t)
	n := w.fake(node.Manageable, map[string]any{"fake_inspect_error": "blind"})
	for range 3 {
		w.send(n, "inspect")
		w.awaitWorkDone()
	}
	all, err := w.History(t.Context(), n.UUID, node.Query{})
	if err != nil || len(all) != 6 { // asked for and failed
		t.Fatalf("history = %v, %v", all, err)
	}
	page, err := w.History(t.Context(), n.UUID, node.Query{Limit: 1, Marker: all[0].UUID})
	if err != nil || len(page) != 1 || page[0].UUID != all[1].UUID {
		t.Errorf("page = %v, %v", page, err)
	}
	if one, err := w.Event(t.Context(), n.UUID, all[2].UUID); err != nil || one.Message != all[2].Message {
		t.Errorf("event = %v, %v", one, err)
	}
	_, err = w.Event(t.Context(), n.UUID, n.UUID)
	wantIs(t, err, node.ErrNotFound)
}

// TestSettingsAreReadAgainAfterStepsThatChangedThem changes the BIOS in every kind
// of work in steps.
func TestSettingsAreReadAgainAfterStepsThatChangedThem(t *testing.T) {
	apply := node.Step{Interface: "bios", Step: "apply_configuration", Priority: 150, Args: map[string]any{
		"settings": []any{map[string]any{"name": "BootMode", "value": "Bios"}},
	}}
	for verb, states := range map[string][2]node.State{
		"clean": {node.Manageable, node.Manageable}, "active": {node.Available, node.Active}, "service": {node.Active, node.Active},
	} {
		w := newWorld(t)
		n := w.fake(states[0], nil)
		w.send(n, verb, with(apply))
		w.awaitWorkDone()
		w.arrive(n, states[1])
		hardware, err := w.Hardware(t.Context(), n.UUID)
		if err != nil {
			t.Fatal(err)
		}
		if i := slices.IndexFunc(hardware.BIOS, func(s node.BIOSSetting) bool { return s.Name == "BootMode" }); i < 0 || hardware.BIOS[i].Value != "Bios" {
			t.Errorf("%s: settings %+v, want what the step wrote", verb, hardware.BIOS)
		}
	}
}

// TestSettingsAreReadAfterFailedWorkThatMayHaveChangedThem leaves a machine in order whose work had a step.
func TestSettingsAreReadAfterFailedWorkThatMayHaveChangedThem(t *testing.T) {
	for name, want := range map[string]bool{"firmware.update": true, "bios.apply_configuration": true, "raid.create_configuration": true, "deploy.erase_devices": false} {
		for _, f := range flows {
			c, _, n := withRamdisk(t, func(n *node.Node) {
				n.DriverInternalInfo = node.ObjectOf(map[string]any{f.listKey(): []node.Step{step(name)}})
			})
			leave := map[driver.StepKind]func(runner.Task) []runner.Operation{
				driver.CleanSteps: c.cleanUpCleaning, driver.DeploySteps: c.cleanUpDeployment, driver.ServiceSteps: c.cleanUpServicing,
			}[f.kind]
			if got := unskipped(leave(runner.Task{Work: &store.Work{ID: 7}, Node: n})); slices.Contains(got, settingsName) != want {
				t.Errorf("%s in %s: %q, want the settings read: %v", name, f.kind, got, want)
			}
		}
	}
}
