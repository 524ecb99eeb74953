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
	"github.com/ingot-metal/ingot/internal/driver/redfish"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

// flashTime is how long the machines of these tests write firmware.
const flashTime = 20 * time.Minute

// leftUpdating returns a machine that is on, whose BMC has a BIOS update of a step that nobody
// follows any more. It waits for the machine's next boot. The driver has the machine's clock.
func leftUpdating(t *testing.T, vendor string) (*machine, redfish.Driver) {
	t.Helper()
	m, _ := newMachine(t, vendor, redfishtest.Options{Times: bmc.Times{Flash: flashTime}})
	d := redfish.New(redfish.Options{Clock: m.Now})
	t.Cleanup(func() {
		if err := d.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	isOn(m)
	followBIOS(m, d, "9.9.2")
	m.Pass(3 * time.Minute)
	m.before = len(m.Server.Effects())
	return m, d
}

// followBIOS returns a step that updates the BIOS, once the BMC has accepted the file.
func followBIOS(m *machine, d redfish.Driver, version string) *flashing {
	m.t.Helper()
	f := &flashing{m: m, d: d, step: firmwareStep("bios", redfishtest.Serve(m.t, "ingot-firmware component=bios version="+version))}
	f.turn.Origin.Request = "update"
	for f.turn.Phase != "follow" {
		out, err := f.next()
		if err != nil {
			m.t.Fatal(err)
		}
		apply(m, out)
	}
	return f
}

// apply stores what an outcome says of the node.
func apply(m *machine, out driver.Outcome) {
	if out.Apply != nil {
		out.Apply(m.node)
	}
}

// starts begins the write, as somebody at the power button does.
func starts(m *machine) {
	m.t.Helper()
	m.Switch(false)
	m.Switch(true)
	if got := m.Writing(); !slices.Equal(got, []string{"bios"}) {
		m.t.Fatalf("firmware of %q is written, want that of the BIOS", got)
	}
}

// changed makes the turns of an operation, and returns its waits, without those that count in
// the time that it takes, and its notes.
func changed(m *machine, do func(context.Context, driver.Turn) (driver.Outcome, error)) (waited time.Duration, notes []string, err error) {
	_, err = finish(m.t.Context(), func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
		turn.Origin.Request = "another"
		out, err := do(ctx, turn)
		if err != nil {
			return out, err
		}
		apply(m, out)
		m.Pass(max(out.Again, out.Park))
		if out.Waits {
			waited += out.Park
		}
		if out.Note != "" {
			notes = append(notes, out.Note)
		}
		return out, nil
	})
	return waited, notes, err
}

func setPower(m *machine, d redfish.Driver, target node.PowerState) func(context.Context, driver.Turn) (driver.Outcome, error) {
	return func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
		return d.SetPower(ctx, m.node, target, turn)
	}
}

// interrupted reports whether the machine has lost its power during a write.
func interrupted(m *machine) bool { return slices.Contains(m.Effects(), string(bmc.InterruptFlash)) }

func TestPowerIsNotTakenWhileFirmwareIsWritten(t *testing.T) {
	for name, tc := range map[string]struct {
		target  node.PowerState
		keepsOn bool
	}{
		"off": {target: node.PowerOff}, "soft off": {target: node.SoftPowerOff},
		"reboot": {target: node.Rebooting}, "soft reboot": {target: node.SoftRebooting},
		"restart": {target: node.Rebooting, keepsOn: true}, "soft restart": {target: node.SoftRebooting, keepsOn: true},
	} {
		t.Run(name, func(t *testing.T) {
			eachVendor(t, func(t *testing.T, vendor string) {
				t.Helper()
				m, d := leftUpdating(t, vendor)
				m.node.DisablePowerOff = tc.keepsOn
				starts(m)
				waited, notes, err := changed(m, setPower(m, d, tc.target))
				if err != nil || interrupted(m) || len(m.Effects()) == 0 {
					t.Fatalf("error = %v, effects %q, want a change after the write", err, m.Effects())
				}
				if waited < flashTime-time.Minute || waited > flashTime+time.Minute || versions(m)["bios"] != "9.9.2" {
					t.Errorf("waited %s, version %s; want about %s and 9.9.2", waited, versions(m)["bios"], flashTime)
				}
				if len(notes) != 1 || !strings.Contains(notes[0], "keeps its power") || !strings.Contains(notes[0], "bios") {
					t.Errorf("notes = %q, want one that says what is waited for", notes)
				}
				if left := node.FirmwareUpdatesOf(m.node); len(left) != 0 {
					t.Errorf("the node still has %+v", left)
				}
			})
		})
	}
}

func TestUpdateThatWaitsForABootDelaysNoPowerChange(t *testing.T) {
	eachVendor(t, func(t *testing.T, vendor string) {
		t.Helper()
		m, d := leftUpdating(t, vendor)
		if waited, _, err := changed(m, setPower(m, d, node.PowerOff)); err != nil || waited > 0 {
			t.Fatalf("off: %v after %s, want at once", err, waited)
		}
		if waited, _, err := changed(m, setPower(m, d, node.PowerOn)); err != nil || waited > 0 {
			t.Fatalf("on: %v after %s, want at once", err, waited)
		}
		if waited, _, err := changed(m, setPower(m, d, node.PowerOff)); err != nil || waited == 0 || interrupted(m) {
			t.Errorf("off again: %v after %s, effects %q; want that it waits for the write which the boot began", err, waited, m.Effects())
		}
	})
}

func TestRestartsOfOtherOperationsWaitForTheWrite(t *testing.T) {
	for name, operation := range map[string]func(*machine, redfish.Driver) func(context.Context, driver.Turn) (driver.Outcome, error){
		"BIOS step": func(m *machine, d redfish.Driver) func(context.Context, driver.Turn) (driver.Outcome, error) {
			attribute, value := otherValue(m)
			return func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
				return stepper(d, node.BIOSInterface).RunStep(ctx, m.node, driver.CleanSteps, biosStep(map[string]any{attribute: value}), turn)
			}
		},
		"next firmware step": func(m *machine, d redfish.Driver) func(context.Context, driver.Turn) (driver.Outcome, error) {
			components, err := d.Interfaces()[node.FirmwareInterface].(driver.Firmware).FirmwareComponents(m.t.Context(), m.node)
			if err != nil {
				m.t.Fatal(err)
			}
			step := firmwareStep(components[len(components)-1].Component, redfishtest.Serve(m.t, "ingot-firmware component=nic version=9.9.3"))
			return func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
				return stepper(d, node.FirmwareInterface).RunStep(ctx, m.node, driver.CleanSteps, step, turn)
			}
		},
		"boot mode": func(m *machine, d redfish.Driver) func(context.Context, driver.Turn) (driver.Outcome, error) {
			if _, err := d.SetBootMode(m.t.Context(), m.node, "bios", driver.Turn{}); err != nil {
				m.t.Fatal(err)
			}
			return func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
				if turn.Phase == "" {
					turn.Phase = "off" // as if the BMC did not show the mode at once
				}
				return d.SetBootMode(ctx, m.node, "bios", turn)
			}
		},
		"secure boot": func(m *machine, d redfish.Driver) func(context.Context, driver.Turn) (driver.Outcome, error) {
			return func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
				return d.SetSecureBoot(ctx, m.node, true, turn)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, d := leftUpdating(t, "dell")
			starts(m)
			do := operation(m, d)
			waited, _, err := changed(m, func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
				out, err := do(ctx, turn)
				if out.Waits && !driver.IsWaitPhase(out.Phase) {
					t.Errorf("waits in phase %q, which does not say that it has changed nothing", out.Phase)
				}
				return out, err
			})
			if err != nil || interrupted(m) || waited == 0 {
				t.Errorf("error = %v after %s of waiting, effects %q", err, waited, m.Effects())
			}
			if left := node.FirmwareUpdatesOf(m.node); len(left) != 0 {
				t.Errorf("the node still has %+v", left)
			}
		})
	}
}

// TestRestartWhoseAnswerWasLostIsNotRepeatedAfterTheWriteThatItBegan has machines that must not be
// switched off.
func TestRestartWhoseAnswerWasLostIsNotRepeatedAfterTheWriteThatItBegan(t *testing.T) {
	for name, operation := range map[string]func(*machine, redfish.Driver) func(context.Context, driver.Turn) (driver.Outcome, error){
		"reboot": func(m *machine, d redfish.Driver) func(context.Context, driver.Turn) (driver.Outcome, error) {
			return setPower(m, d, node.Rebooting)
		},
		"BIOS step": func(m *machine, d redfish.Driver) func(context.Context, driver.Turn) (driver.Outcome, error) {
			attribute, value := otherValue(m)
			return func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
				return stepper(d, node.BIOSInterface).RunStep(ctx, m.node, driver.CleanSteps, biosStep(map[string]any{attribute: value}), turn)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, d := leftUpdating(t, "dell")
			m.node.DisablePowerOff = true
			lost := false
			m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
				if strings.Contains(r.URL.Path, "ComputerSystem.Reset") && !lost {
					lost = true
					bmc.ServeHTTP(&nowhere{header: http.Header{}}, r)
					panic(http.ErrAbortHandler)
				}
				bmc.ServeHTTP(w, r)
			})
			do := operation(m, d)
			_, _, err := changed(m, func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
				out, err := do(ctx, turn)
				var failure *node.DriverError
				if errors.As(err, &failure) && failure.Retryable { // the runner makes the turn again
					turn.Attempt = driver.Unknown
					return do(ctx, turn)
				}
				return out, err
			})
			reboots := slices.DeleteFunc(m.Effects(), func(kind string) bool { return kind != "reboot" })
			if err == nil || !strings.Contains(err.Error(), "outcome unknown") || len(reboots) != 1 || interrupted(m) {
				t.Errorf("error = %v, effects %q; want that the outcome is unknown after one restart", err, m.Effects())
			}
		})
	}
}

// buttonOnly returns a machine that is switched off with its power button alone, and whose BMC writes
// firmware until written is set. pushes counts what the button was asked for.
func buttonOnly(t *testing.T) (m *machine, d redfish.Driver, written *atomic.Bool, pushes *atomic.Int64) {
	t.Helper()
	m, d = newMachine(t, "dell")
	isOn(m)
	written, pushes = &atomic.Bool{}, &atomic.Int64{}
	const task, system = "/redfish/v1/TaskService/Tasks/1", "/redfish/v1/Systems/System.Embedded.1"
	node.StoreFirmwareUpdates(m.node, []node.FirmwareUpdate{{Request: "update", Component: "bmc", Task: task}})
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		switch path := strings.TrimRight(r.URL.Path, "/"); {
		case path == task && written.Load():
			said(w, http.StatusOK, `{"@odata.id": "`+task+`", "TaskState": "Completed", "TaskStatus": "OK"}`)
		case path == task:
			said(w, http.StatusOK, `{"@odata.id": "`+task+`", "TaskState": "Running"}`)
		case r.Method == http.MethodGet && path == system:
			state := "On"
			if pushes.Load() > 0 {
				state = "Off"
			}
			said(w, http.StatusOK, `{"@odata.id": "`+system+`", "PowerState": "`+state+`", "Actions": {"#ComputerSystem.Reset": {
				"target": "`+system+`/Actions/ComputerSystem.Reset", "ResetType@Redfish.AllowableValues": ["PushPowerButton"]}}}`)
		case strings.HasSuffix(path, "/ComputerSystem.Reset"):
			pushes.Add(1)
			said(w, http.StatusOK, `{}`)
		default:
			bmc.ServeHTTP(w, r)
		}
	})
	return m, d, written, pushes
}

func TestPowerButtonIsNotPushedAgainAfterAWaitForFirmware(t *testing.T) {
	for _, phase := range []string{"", "soft off"} {
		m, d, _, pushes := buttonOnly(t)
		out, err := d.SetPower(t.Context(), m.node, node.SoftPowerOff, driver.Turn{Attempt: driver.Unknown, Phase: phase})
		if err == nil || !strings.Contains(err.Error(), "outcome unknown") || pushes.Load() != 0 {
			t.Errorf("in phase %q: outcome = %+v, %v; want that the outcome is unknown", phase, out, err)
		}
	}
}

func TestPowerButtonThatWaitsForTheWriteIsPushedOnceWhenATurnIsLost(t *testing.T) {
	m, d, written, pushes := buttonOnly(t)
	turns := 0
	waited, _, err := changed(m, func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
		if driver.IsWaitPhase(turn.Phase) { // the engine stops in it
			turn.Attempt = driver.Unknown
		}
		if turns++; turns > 1 {
			defer written.Store(true)
		}
		return d.SetPower(ctx, m.node, node.SoftPowerOff, turn)
	})
	if err != nil || waited == 0 || pushes.Load() != 1 {
		t.Errorf("error = %v after %s of waiting and %d pushes, want one push", err, waited, pushes.Load())
	}
}

func TestPowerButtonIsPushedAfterAReadThatFailedBeforeIt(t *testing.T) {
	m, d, written, pushes := buttonOnly(t)
	written.Store(true)
	turn := driver.Turn{Attempt: driver.Continued, Phase: "soft off"} // after the wait for a write
	m.RefuseReads()
	_, err := d.SetPower(t.Context(), m.node, node.SoftPowerOff, turn)
	if failure, ok := errors.AsType[*node.DriverError](err); !ok || !failure.Retryable || !failure.Refused || pushes.Load() != 0 {
		t.Fatalf("error = %v after %d pushes, want one that says that nothing was sent", err, pushes.Load())
	}
	m.Heal()
	turn.Attempt = driver.Refused // as the engine stores it
	if _, err := d.SetPower(t.Context(), m.node, node.SoftPowerOff, turn); err != nil || pushes.Load() != 1 {
		t.Errorf("error = %v after %d pushes, want one push", err, pushes.Load())
	}
}

// TestRestartThatWaitsForTheWriteGoesOnWhenATurnIsLost has machines that must not be switched off.
func TestRestartThatWaitsForTheWriteGoesOnWhenATurnIsLost(t *testing.T) {
	bios := func(kind driver.StepKind) func(*machine, redfish.Driver) func(context.Context, driver.Turn) (driver.Outcome, error) {
		return func(m *machine, d redfish.Driver) func(context.Context, driver.Turn) (driver.Outcome, error) {
			attribute, value := otherValue(m)
			return func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
				return stepper(d, node.BIOSInterface).RunStep(ctx, m.node, kind, biosStep(map[string]any{attribute: value}), turn)
			}
		}
	}
	power := func(target node.PowerState) func(*machine, redfish.Driver) func(context.Context, driver.Turn) (driver.Outcome, error) {
		return func(m *machine, d redfish.Driver) func(context.Context, driver.Turn) (driver.Outcome, error) {
			return setPower(m, d, target)
		}
	}
	// Each changes a turn that follows one with a wait, or the one that ended the wait.
	losses := map[string]func(m *machine, turn *driver.Turn, waited bool){
		"the engine stops": func(_ *machine, turn *driver.Turn, waited bool) {
			if waited {
				turn.Attempt = driver.Unknown
			}
		},
		"the BMC does not answer once": func(m *machine, _ *driver.Turn, _ bool) { m.RefuseReads() },
		"an earlier release has waited": func(_ *machine, turn *driver.Turn, _ bool) {
			turn.Phase = strings.TrimSuffix(turn.Phase, " waits")
		},
		"an earlier release has waited for a client": func(_ *machine, turn *driver.Turn, _ bool) {
			if turn.Handle == "" && strings.HasSuffix(turn.Phase, " waits") {
				turn.Phase = ""
			}
		},
	}
	for name, operation := range map[string]func(*machine, redfish.Driver) func(context.Context, driver.Turn) (driver.Outcome, error){
		"reboot": power(node.Rebooting), "soft reboot": power(node.SoftRebooting),
		"BIOS step": bios(driver.CleanSteps), "BIOS step in use": bios(driver.ServiceSteps),
	} {
		for how, lose := range losses {
			t.Run(name+", "+how, func(t *testing.T) {
				m, d := leftUpdating(t, "dell")
				m.node.DisablePowerOff = true
				starts(m)
				do := operation(m, d)
				waited, ended := false, false
				took, _, err := changed(m, func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
					if waited || ended {
						lose(m, &turn, waited)
					}
					out, err := do(ctx, turn)
					m.Heal()
					if failure, ok := errors.AsType[*node.DriverError](err); ok && failure.Retryable { // the runner makes the turn again
						if turn.Attempt = driver.Unknown; failure.Refused {
							turn.Attempt = driver.Refused
						}
						out, err = do(ctx, turn)
					}
					ended = waited && !out.Waits
					waited = out.Waits
					return out, err
				})
				restarts := slices.DeleteFunc(m.Effects(), func(kind string) bool { return !strings.HasSuffix(kind, "reboot") })
				if err != nil || took == 0 || interrupted(m) || len(restarts) == 0 || name != "BIOS step in use" && len(restarts) > 1 {
					t.Errorf("error = %v after %s, effects %q; want one restart after the write", err, took, m.Effects())
				}
			})
		}
	}
}

func TestWriteThatNeverEndsIsNotAwaitedForEver(t *testing.T) {
	for name, document := range map[string]string{
		"it is shown": `{"TaskState": "Running"}`, "its task cannot be read": `<html>`, "its task has no body": ``,
	} {
		t.Run(name, func(t *testing.T) {
			m, d := leftUpdating(t, "dell")
			starts(m)
			m.without(node.FirmwareUpdatesOf(m.node)[0].Task, http.StatusAccepted, document)
			waited, notes, err := changed(m, setPower(m, d, node.PowerOff))
			if err != nil || waited < 2*time.Hour || waited > 2*time.Hour+time.Minute || m.Power() != bmc.Off {
				t.Errorf("error = %v after %s, the machine is %s; want it off after two hours", err, waited, m.Power())
			}
			if len(notes) != 2 || !strings.Contains(notes[1], "check that component") {
				t.Errorf("notes = %q, want a second one that says that the power was cut all the same", notes)
			}
			if left := node.FirmwareUpdatesOf(m.node); len(left) != 0 {
				t.Errorf("the node still has %+v", left)
			}
		})
	}
}

func TestTaskThatWasStoredWithAnAddressIsAwaited(t *testing.T) {
	m, d := leftUpdating(t, "dell")
	starts(m)
	stored := node.FirmwareUpdatesOf(m.node)
	stored[0].Task = "https://bmc.example:443" + stored[0].Task
	node.StoreFirmwareUpdates(m.node, stored)
	waited, _, err := changed(m, setPower(m, d, node.PowerOff))
	if err != nil || waited < flashTime-time.Minute || waited > flashTime+time.Minute || interrupted(m) || m.Power() != bmc.Off {
		t.Errorf("error = %v after %s, effects %q; want it off after %s", err, waited, m.Effects(), flashTime)
	}
}

func TestPowerIsNotTakenWhenTheBMCDoesNotTellWhetherItWrites(t *testing.T) {
	m, d := leftUpdating(t, "dell")
	starts(m)
	task := node.FirmwareUpdatesOf(m.node)[0].Task
	var broken atomic.Bool
	broken.Store(true)
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		if broken.Load() && r.URL.Path == task {
			panic(http.ErrAbortHandler) // the connection ends
		}
		bmc.ServeHTTP(w, r)
	})
	turn := driver.Turn{Origin: driver.Origin{Request: "another"}}
	_, err := d.SetPower(t.Context(), m.node, node.PowerOff, turn)
	var failure *node.DriverError
	if err == nil || !errors.As(err, &failure) || !failure.Retryable || !strings.Contains(err.Error(), "must not lose its power") {
		t.Fatalf("error = %v, want one that may be tried again and says why the power stays", err)
	}
	broken.Store(false)
	if out, err := d.SetPower(t.Context(), m.node, node.PowerOff, turn); err != nil || out.Park == 0 || !out.Waits {
		t.Errorf("outcome = %+v, %v, want that it waits", out, err)
	}
	if len(m.Effects()) != 0 {
		t.Errorf("effects = %q, want none", m.Effects())
	}
}

func TestUpdateWhoseAnswerWasLostIsAwaited(t *testing.T) {
	eachVendor(t, func(t *testing.T, vendor string) {
		t.Helper()
		m, _ := newMachine(t, vendor, redfishtest.Options{Times: bmc.Times{Flash: flashTime}})
		d := redfish.New(redfish.Options{Clock: m.Now})
		t.Cleanup(func() { _ = d.Close(context.Background()) })
		isOn(m)
		hasTask(m)
		f := &flashing{m: m, d: d, step: firmwareStep("bios", redfishtest.Serve(t, "ingot-firmware component=bios version=9.9.2"))}
		f.turn.Origin.Request = "update"
		out, err := f.next()
		if err != nil || out.Phase != "send" {
			t.Fatalf("outcome = %+v, %v", out, err)
		}
		apply(m, out)
		if _, err := f.next(); err != nil { // the engine never gets the answer
			t.Fatal(err)
		}
		m.Pass(3 * time.Minute)
		m.before = len(m.Server.Effects())
		starts(m)
		if waited, _, err := changed(m, setPower(m, d, node.PowerOff)); err != nil || waited == 0 || interrupted(m) || m.Power() != bmc.Off {
			t.Errorf("error = %v after %s of waiting, effects %q", err, waited, m.Effects())
		}
	})
}

// TestRecordOfAnUpdateSaysWhenTheBMCWasLastAskedForIt has a BMC that does not show at once what it was
// asked for, and a record of the update that was stored well before the last request.
func TestRecordOfAnUpdateSaysWhenTheBMCWasLastAskedForIt(t *testing.T) {
	for name, test := range map[string]struct {
		first   driver.Turn
		prepare func(*machine)
		repeat  bool
	}{
		"after a doubt":         {first: driver.Turn{Attempt: driver.Unknown}, prepare: isOn},
		"when it is sent again": {prepare: flashedBefore, repeat: true},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := newMachine(t, "dell")
			d := redfish.New(redfish.Options{Clock: m.Now})
			t.Cleanup(func() { _ = d.Close(context.Background()) })
			test.prepare(m)
			f := &flashing{m: m, d: d, step: firmwareStep("bios", redfishtest.Serve(t, "ingot-firmware component=bios version=9.9.2")), turn: test.first}
			f.turn.Origin.Request = "update"
			send := func() {
				for first := true; first || f.turn.Phase != "send"; first = false {
					out, err := f.next()
					if err != nil {
						t.Fatal(err)
					}
					apply(m, out)
				}
			}
			send()
			if test.repeat {
				f.turn.Attempt = driver.Unknown
				send()
			}
			if out, err := d.SetPower(t.Context(), m.node, node.PowerOff, driver.Turn{Origin: driver.Origin{Request: "another"}}); err != nil || !out.Waits {
				t.Errorf("outcome = %+v, %v, noted is %+v; want that the power stays", out, err, node.FirmwareUpdatesOf(m.node))
			}
		})
	}
}

func TestRequestThatTheBMCRefusedDelaysPowerChangesOnlyShortly(t *testing.T) {
	m, d := leftUpdating(t, "dell")
	node.StoreFirmwareUpdates(m.node, []node.FirmwareUpdate{{
		Request: "refused", Component: "bios", AskedAt: m.Now(), EarlierTasks: []string{node.FirmwareUpdatesOf(m.node)[0].Task},
	}})
	if waited, _, err := changed(m, setPower(m, d, node.PowerOff)); err != nil || waited > 3*time.Minute {
		t.Errorf("error = %v after %s of waiting, want two minutes", err, waited)
	}
}

func TestInterruptIsRefusedWhileFirmwareIsWritten(t *testing.T) {
	m, d := leftUpdating(t, "dell")
	starts(m)
	if _, err := d.InjectNMI(t.Context(), m.node, driver.Turn{Origin: driver.Origin{Request: "another"}}); err == nil || !strings.Contains(err.Error(), "writes firmware") {
		t.Errorf("error = %v, want a refusal", err)
	}
	m.Pass(time.Hour)
	out, err := d.InjectNMI(t.Context(), m.node, driver.Turn{Origin: driver.Origin{Request: "another"}})
	apply(m, out)
	if err != nil || !slices.Equal(m.Effects(), []string{"nmi"}) || len(node.FirmwareUpdatesOf(m.node)) != 0 {
		t.Errorf("afterwards: %v, effects %q, want one interrupt and no record", err, m.Effects())
	}
}

func TestOnlyUpdatesWithoutAnEndAreNoted(t *testing.T) {
	eachVendor(t, func(t *testing.T, vendor string) {
		t.Helper()
		m, d := newMachine(t, vendor)
		flashedBefore(m)
		f := &flashing{m: m, d: d, step: firmwareStep(
			"bmc", redfishtest.Serve(t, "ingot-firmware component=bmc version=9.9.1"),
			"bios", redfishtest.Serve(t, "ingot-firmware component=bios version=9.9.2"),
		)}
		f.turn.Origin.Request = "update"
		for {
			if noted := node.FirmwareUpdatesOf(m.node); f.turn.Phase == "send" && len(noted) != 1 || len(noted) > 1 {
				t.Errorf("in phase %q the node has %+v", f.turn.Phase, noted)
			}
			out, err := f.next()
			if err != nil {
				t.Fatal(err)
			}
			apply(m, out)
			if out.Done() {
				break
			}
		}
		if left := node.FirmwareUpdatesOf(m.node); len(left) != 0 {
			t.Errorf("after the step the node has %+v", left)
		}
	})
}

func TestPowerOfNodesWithoutUpdatesCostsNothingMore(t *testing.T) {
	m, d := newMachine(t, "dell")
	isOn(m)
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		if strings.Contains(r.URL.Path, "/TaskService") || strings.Contains(r.URL.Path, "/UpdateService") {
			t.Errorf("%s %s", r.Method, r.URL.Path)
		}
		bmc.ServeHTTP(w, r)
	})
	if _, _, err := changed(m, setPower(m, d, node.PowerOff)); err != nil || m.Power() != bmc.Off {
		t.Errorf("error = %v, the machine is %s", err, m.Power())
	}
}
