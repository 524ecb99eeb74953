package redfish_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/drivertest"
	"github.com/ingot-metal/ingot/internal/driver/redfish"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

// stepper returns an interface with steps.
func stepper(d redfish.Driver, kind node.InterfaceKind) driver.Stepper {
	return d.Interfaces()[kind].(driver.Stepper)
}

// biosStep is the step that gives settings values.
func biosStep(settings map[string]any) node.Step {
	var list []any
	for name, value := range settings {
		list = append(list, map[string]any{"name": name, "value": value})
	}
	return node.Step{Interface: "bios", Step: "apply_configuration", Args: map[string]any{"settings": list}}
}

// otherValue finds a setting with two values and returns the one that it does not have.
func otherValue(m *machine) (name, value string) {
	for _, attribute := range m.Profile().Attributes {
		has, _ := m.BIOS()[attribute.Name].(string)
		i := slices.IndexFunc(attribute.Values, func(v string) bool { return v != has })
		if attribute.Type == bmc.Enumeration && !attribute.ReadOnly && has != "" && i >= 0 {
			return attribute.Name, attribute.Values[i]
		}
	}
	m.t.Fatal("the BIOS has no such setting")
	return "", ""
}

// run makes the turns of a step; the machine's time passes with them.
func run(m *machine, do func(context.Context, driver.Turn) (driver.Outcome, error)) (phases []string, err error) {
	_, err = finish(m.t.Context(), func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
		phases = append(phases, turn.Phase)
		out, err := do(ctx, turn)
		m.Pass(max(out.Again, out.Park))
		return out, err
	})
	return phases, err
}

func TestBIOSSettingsAreAppliedByARestart(t *testing.T) {
	for _, kind := range []driver.StepKind{driver.CleanSteps, driver.ServiceSteps} {
		eachVendor(t, func(t *testing.T, vendor string) {
			t.Helper()
			m, d := newMachine(t, vendor, redfishtest.Options{Times: bmc.RealisticTimes()})
			isOn(m)
			m.Pass(10 * time.Minute)
			name, value := otherValue(m)
			step := biosStep(map[string]any{name: value})
			do := func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
				return stepper(d, node.BIOSInterface).RunStep(ctx, m.node, kind, step, turn)
			}
			if _, err := run(m, do); err != nil {
				t.Fatal(err)
			}
			want := []string{"power on", "configure bios", "power off", "power on"}
			if kind == driver.ServiceSteps {
				want[2] = "soft power off"
			}
			if got := m.Effects(); !slices.Equal(got, want) || m.BIOS()[name] != value {
				t.Errorf("%s: effects = %q, %s is %v; want %q and %s", kind, got, name, m.BIOS()[name], want, value)
			}
			if _, err := run(m, do); err != nil || len(m.Effects()) != len(want) {
				t.Errorf("the same again: %v, effects %q, want none", err, m.Effects()[len(want):])
			}
		})
	}
}

func TestBIOSSettingsThatArePendingAreApplied(t *testing.T) {
	for name, scheduled := range map[string]bool{"without a job": false, "with a job": true} {
		t.Run(name, func(t *testing.T) {
			m, d := newMachine(t, "dell")
			isOn(m)
			setting, value := otherValue(m)
			if _, err := m.SetBIOS(&bmc.Call{}, map[string]any{setting: value}, scheduled); err != nil {
				t.Fatal(err)
			}
			if _, err := run(m, func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
				return stepper(d, node.BIOSInterface).RunStep(ctx, m.node, driver.CleanSteps, biosStep(map[string]any{setting: value}), turn)
			}); err != nil || m.BIOS()[setting] != value {
				t.Errorf("%v, %s is %v; want %s", err, setting, m.BIOS()[setting], value)
			}
		})
	}
}

func TestBIOSSettingKeepsItsValueThoughAnotherWasPending(t *testing.T) {
	eachVendor(t, func(t *testing.T, vendor string) {
		t.Helper()
		m, d := newMachine(t, vendor)
		isOn(m)
		setting, other := otherValue(m)
		value := m.BIOS()[setting]
		if _, err := m.SetBIOS(&bmc.Call{}, map[string]any{setting: other}, false); err != nil {
			t.Fatal(err)
		}
		if _, err := run(m, func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
			return stepper(d, node.BIOSInterface).RunStep(ctx, m.node, driver.CleanSteps, biosStep(map[string]any{setting: value}), turn)
		}); err != nil {
			t.Fatal(err)
		}
		m.Switch(false)
		m.Switch(true)
		if pending := m.PendingBIOS(); m.BIOS()[setting] != value || len(pending) != 0 {
			t.Errorf("after another restart %s is %v, and %v is pending; want %v and nothing", setting, m.BIOS()[setting], pending, value)
		}
	})
}

func TestMachineThatWasOffIsOffAfterItsStep(t *testing.T) {
	m, d := newMachine(t, "supermicro", redfishtest.Options{Times: bmc.RealisticTimes()})
	name, value := otherValue(m)
	if _, err := run(m, func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
		return stepper(d, node.BIOSInterface).RunStep(ctx, m.node, driver.CleanSteps, biosStep(map[string]any{name: value}), turn)
	}); err != nil {
		t.Fatal(err)
	}
	if got := m.Effects(); !slices.Equal(got, []string{"configure bios", "power on", "power off"}) || m.BIOS()[name] != value {
		t.Errorf("effects = %q, %s is %v, want that it was on in between", got, name, m.BIOS()[name])
	}
}

func TestBIOSStepSurvivesEveryLostOutcome(t *testing.T) {
	attempts(t, drivertest.Operation{
		Effects: []string{"configure bios", "power off", "power on"}, Unclear: drivertest.ReadsFirst, Unwaited: true, Untasked: true,
	}, isOn, func(ctx context.Context, d redfish.Driver, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
		settings, err := d.Interfaces()[node.BIOSInterface].(driver.BIOS).BIOSSettings(ctx, n)
		if err != nil {
			return driver.Outcome{}, err
		}
		return stepper(d, node.BIOSInterface).RunStep(ctx, n, driver.CleanSteps, biosStep(map[string]any{chosen(settings): "Disabled"}), turn)
	})
}

// chosen finds a setting that can be Disabled.
func chosen(settings []node.BIOSSetting) string {
	for _, setting := range settings {
		if slices.Contains(setting.AllowableValues, "Disabled") && slices.Contains(setting.AllowableValues, "Enabled") {
			return setting.Name
		}
	}
	return ""
}

func TestFactorySettingsComeBack(t *testing.T) {
	for name, prepare := range map[string]func(*machine){"off": isOff, "on": isOn} {
		t.Run(name, func(t *testing.T) {
			eachVendor(t, func(t *testing.T, vendor string) {
				t.Helper()
				m, d := newMachine(t, vendor, redfishtest.Options{Times: bmc.RealisticTimes()})
				prepare(m)
				m.Pass(10 * time.Minute)
				name, value := otherValue(m)
				before, power := m.BIOS()[name], m.Power()
				bios := stepper(d, node.BIOSInterface)
				for _, step := range []node.Step{biosStep(map[string]any{name: value}), {Interface: "bios", Step: "factory_reset"}} {
					if _, err := run(m, func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
						return bios.RunStep(ctx, m.node, driver.CleanSteps, step, turn)
					}); err != nil {
						t.Fatal(err)
					}
				}
				if got := m.BIOS()[name]; got != before || m.Power() != power || m.InPOST() {
					t.Errorf("%s = %v, the machine is %s and in POST: %v; want %v as it came from the factory, %s and not in POST",
						name, got, m.Power(), m.InPOST(), before, power)
				}
			})
		})
	}
}

func TestFactoryResetWaitsAsLongAsTheBMCDoesNotShowItsEnd(t *testing.T) {
	const path = "/redfish/v1/Systems/System.Embedded.1/Bios"
	for name, shown := range map[string]struct {
		status           int
		document, reason string
	}{
		"pending":   {http.StatusOK, `{"@odata.id": "` + path + `", "ResetBiosToDefaultsPending": true}`, "the reset is pending"},
		"not there": {http.StatusNotFound, `{}`, "the settings are not shown"},
		"not ready": {http.StatusBadRequest, notReady, "the settings are not shown"},
	} {
		t.Run(name, func(t *testing.T) {
			m, d := newMachine(t, "dell", redfishtest.Options{Times: bmc.RealisticTimes()})
			var hidden atomic.Bool
			m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
				if hidden.Load() && r.Method == http.MethodGet && r.URL.Path == path {
					said(w, shown.status, shown.document)
					return
				}
				bmc.ServeHTTP(w, r)
			})
			var last driver.Turn
			during := func(hides time.Duration) error {
				_, err := run(m, func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
					last = turn
					hidden.Store(turn.Phase == "verify" && turn.Elapsed < hides)
					return stepper(d, node.BIOSInterface).RunStep(ctx, m.node, driver.CleanSteps, node.Step{Interface: "bios", Step: "factory_reset"}, turn)
				})
				return err
			}
			if err := during(20 * time.Minute); err != nil || last.Elapsed < 20*time.Minute || m.Power() != bmc.Off {
				t.Errorf("%v after %s, the machine is %s; want that it is switched off when the reset is over", err, last.Elapsed, m.Power())
			}
			if err := during(24 * time.Hour); err == nil || !strings.Contains(err.Error(), shown.reason) {
				t.Errorf("for ever: %v after %s, want an error that says %q", err, last.Elapsed, shown.reason)
			}
		})
	}
}

func TestBIOSStepRefusesWhatTheMachineCannotHave(t *testing.T) {
	m, d := newMachine(t, "dell")
	isOn(m)
	for name, settings := range map[string]map[string]any{
		"an unknown setting": {"NoSuchThing": "Enabled"}, "no settings": {}, "a list": {"BootMode": []any{"Uefi"}},
	} {
		_, err := stepper(d, node.BIOSInterface).RunStep(t.Context(), m.node, driver.CleanSteps, biosStep(settings), fresh)
		var invalid *node.ValidationError
		var failure *node.DriverError
		if !errors.As(err, &invalid) && (!errors.As(err, &failure) || failure.Retryable) {
			t.Errorf("%s: %v, want a final error", name, err)
		}
	}
	if got := m.Effects(); len(got) != 1 {
		t.Errorf("effects = %q, want none of a step", got)
	}
}

func TestBIOSStepWaitsForSettingsThatTheRestartedMachineDoesNotShowYet(t *testing.T) {
	const system = "/redfish/v1/Systems/System.Embedded.1"
	for name, shown := range map[string]struct {
		path     string
		status   int
		document string
	}{
		"no settings":    {system + "/Bios", http.StatusOK, `{"Attributes": {}}`},
		"other settings": {system + "/Bios", http.StatusOK, `{"Attributes": {"Other": "Enabled"}}`},
		"no BIOS":        {system, http.StatusOK, `{"PowerState": "On"}`},
		"not ready":      {system, http.StatusBadRequest, notReady},
	} {
		t.Run(name, func(t *testing.T) {
			m, d := newMachine(t, "dell", redfishtest.Options{Times: bmc.RealisticTimes()})
			isOn(m)
			m.Pass(10 * time.Minute)
			var early atomic.Bool
			m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
				if early.Load() && r.URL.Path == shown.path {
					said(w, shown.status, shown.document)
					return
				}
				bmc.ServeHTTP(w, r)
			})
			setting, value := otherValue(m)
			turn := driver.Turn{}
			do := func() (driver.Outcome, error) {
				out, err := stepper(d, node.BIOSInterface).RunStep(t.Context(), m.node, driver.CleanSteps, biosStep(map[string]any{setting: value}), turn)
				m.Pass(max(out.Again, out.Park))
				return out, err
			}
			for turn.Phase != "verify" {
				out, err := do()
				if err != nil || out.Done() {
					t.Fatalf("outcome = %+v, %v before the machine was restarted", out, err)
				}
				turn = drivertest.After(turn, out)
			}
			early.Store(true)
			if out, err := do(); err != nil || out.Phase != "verify" {
				t.Errorf("outcome = %+v, %v, want that the step waits", out, err)
			}
			began := turn
			turn.Elapsed = time.Hour
			if _, err := do(); err == nil || !strings.Contains(err.Error(), setting+" is not shown") || strings.Contains(err.Error(), "nothing was changed") {
				t.Errorf("after an hour: %v, want what the machine does not show", err)
			}
			early.Store(false)
			turn = began
			for {
				out, err := do()
				if err != nil {
					t.Fatal(err)
				}
				if out.Done() {
					break
				}
				turn = drivertest.After(turn, out)
			}
			if got := m.BIOS()[setting]; got != value {
				t.Errorf("%s = %v, want %s", setting, got, value)
			}
		})
	}
}

// firmwareStep is the step that updates components from files.
func firmwareStep(files ...string) node.Step {
	var list []any
	for i := 0; i < len(files); i += 2 {
		list = append(list, map[string]any{"component": files[i], "url": files[i+1]})
	}
	return node.Step{Interface: "firmware", Step: "update", Args: map[string]any{"settings": list}}
}

// versions are the installed ones.
func versions(m *machine) map[string]string {
	all := map[string]string{}
	for _, c := range m.Components() {
		all[c.ID] = c.Version
	}
	return all
}

func TestFirmwareIsUpdatedAndShown(t *testing.T) {
	eachVendor(t, func(t *testing.T, vendor string) {
		t.Helper()
		m, d := newMachine(t, vendor, redfishtest.Options{Times: bmc.RealisticTimes()})
		isOn(m)
		m.Pass(10 * time.Minute)
		components, err := d.Interfaces()[node.FirmwareInterface].(driver.Firmware).FirmwareComponents(t.Context(), m.node)
		if err != nil {
			t.Fatal(err)
		}
		nic := components[len(components)-1].Component
		step := firmwareStep(
			"bmc", redfishtest.Serve(t, "ingot-firmware component=bmc version=9.9.1"),
			"bios", redfishtest.Serve(t, "ingot-firmware component=bios version=9.9.2"),
			nic, redfishtest.Serve(t, "ingot-firmware component=nic version=9.9.3"),
		)
		phases, err := run(m, func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
			return stepper(d, node.FirmwareInterface).RunStep(ctx, m.node, driver.CleanSteps, step, turn)
		})
		if err != nil {
			t.Fatalf("%v after %q", err, phases)
		}
		got := versions(m)
		if got["bmc"] != "9.9.1" || got["bios"] != "9.9.2" {
			t.Errorf("versions = %v, want 9.9.1 and 9.9.2", got)
		}
		want := []string{"power on", "flash", "flash", "power off", "power on", "flash", "power off", "power on"}
		if effects := m.Effects(); !slices.Equal(effects, want) {
			t.Errorf("effects = %q, want %q", effects, want)
		}
	})
}

func TestFileThatIsRefusedFailsTheUpdate(t *testing.T) {
	eachVendor(t, func(t *testing.T, vendor string) {
		t.Helper()
		m, d := newMachine(t, vendor)
		isOn(m)
		before := versions(m)
		for name, url := range map[string]string{
			"a page": redfishtest.Serve(t, "<html>not found</html>"), "nothing": "http://127.0.0.1:1/firmware.bin",
			"what has no end": redfishtest.Serve(t, "ingot-firmware component=bios version=9.9.9"+strings.Repeat(" ", 1<<20)),
			"one of no part":  redfishtest.Serve(t, "ingot-firmware component=fan version=9.9.9"),
		} {
			_, err := run(m, func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
				return stepper(d, node.FirmwareInterface).RunStep(ctx, m.node, driver.CleanSteps, firmwareStep("bios", url), turn)
			})
			var failure *node.DriverError
			if !errors.As(err, &failure) || failure.Retryable || !strings.Contains(err.Error(), "update the firmware of bios") {
				t.Errorf("%s: %v, want a final failure of the update", name, err)
			}
		}
		if got := versions(m); got["bios"] != before["bios"] {
			t.Errorf("version = %s, want %s still", got["bios"], before["bios"])
		}
	})
}

// flashedBefore switches a machine on, and gives its BMC a task of an earlier update.
func flashedBefore(m *machine) {
	isOn(m)
	hasTask(m)
}

// hasTask gives the BMC a task of an earlier update, by which it can tell that it has
// forgotten nothing.
func hasTask(m *machine) {
	if _, err := m.Update(m.t.Context(), &bmc.Call{}, redfishtest.Serve(m.t, "ingot-firmware component=bmc version=0.0.1"), "bmc"); err != nil {
		m.t.Fatal(err)
	}
	m.Pass(time.Hour)
	m.Server.EndTasks()
}

func TestFirmwareIsNotFlashedTwice(t *testing.T) {
	var file string
	for _, vendor := range []string{"dell", "supermicro", "hpe"} {
		t.Run(vendor, func(t *testing.T) {
			file = redfishtest.Serve(t, "ingot-firmware component=bmc version=9.9.1")
			m, d := newMachine(t, vendor)
			flashedBefore(m)
			m.before = len(m.Server.Effects())
			do := func(turn driver.Turn) (driver.Outcome, error) {
				return stepper(d, node.FirmwareInterface).RunStep(t.Context(), m.node, driver.CleanSteps, firmwareStep("bmc", file), turn)
			}
			out, err := do(fresh)
			if err != nil {
				t.Fatal(err)
			}
			send := driver.Turn{Attempt: driver.Continued, Phase: out.Phase, Handle: out.Handle}
			if _, err := do(send); err != nil { // and its outcome is lost
				t.Fatal(err)
			}
			again := send
			again.Attempt = driver.Unknown
			for turn := again; ; {
				out, err := do(turn)
				if err != nil {
					t.Fatal(err)
				}
				if out.Done() {
					break
				}
				turn = drivertest.After(turn, out)
				m.Pass(time.Minute)
			}
			if got := m.Effects(); !slices.Equal(got, []string{"flash"}) {
				t.Errorf("effects = %q, want one flash", got)
			}
		})
	}
}

func TestForgottenFlashIsNotRepeated(t *testing.T) {
	m, d := newMachine(t, "dell")
	file := redfishtest.Serve(t, "ingot-firmware component=bmc version=9.9.1")
	flashedBefore(m)
	do := func(turn driver.Turn) (driver.Outcome, error) {
		return stepper(d, node.FirmwareInterface).RunStep(t.Context(), m.node, driver.CleanSteps, firmwareStep("bmc", file), turn)
	}
	out, err := do(fresh)
	if err != nil {
		t.Fatal(err)
	}
	m.ForgetTasks()
	before := len(m.Effects())
	_, err = do(driver.Turn{Attempt: driver.Unknown, Phase: out.Phase, Handle: out.Handle})
	if err == nil || !strings.Contains(err.Error(), "outcome unknown") || len(m.Effects()) != before {
		t.Errorf("error = %v, effects %q, want that the outcome is unknown and no flash", err, m.Effects()[before:])
	}
}
