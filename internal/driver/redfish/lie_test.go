package redfish_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/drivertest"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

func TestPhaseOfAnotherReleaseResetsNothing(t *testing.T) {
	m, d := newMachine(t, "dell")
	isOn(m)
	m.before = len(m.Server.Effects())
	later := driver.Turn{Attempt: driver.Unknown, Phase: "a later phase"}
	for name, do := range map[string]func() (driver.Outcome, error){
		"power": func() (driver.Outcome, error) { return d.SetPower(t.Context(), m.node, node.Rebooting, later) },
		"mode":  func() (driver.Outcome, error) { return d.SetBootMode(t.Context(), m.node, "bios", later) },
		"step": func() (driver.Outcome, error) {
			return stepper(d, node.FirmwareInterface).RunStep(t.Context(), m.node, driver.CleanSteps, firmwareStep("bios", "http://192.0.2.1/f"), later)
		},
	} {
		if _, err := do(); err == nil || !strings.Contains(err.Error(), "a later phase") || len(m.Effects()) != 0 {
			t.Errorf("%s: error = %v, effects %q, want an error that names the phase and no effect", name, err, m.Effects())
		}
	}
}

func TestMachineThatIsPoweringOnIsNotAskedAgain(t *testing.T) {
	m, d := newMachine(t, "dell", redfishtest.Options{Times: bmc.RealisticTimes()})
	isOn(m)
	m.before = len(m.Server.Effects())
	out, err := d.SetPower(t.Context(), m.node, node.PowerOn, driver.Turn{Attempt: driver.Unknown})
	if err != nil || out.Done() || len(m.Effects()) != 0 {
		t.Errorf("outcome = %+v, %v, effects %q, want that it waits", out, err, m.Effects())
	}
}

func TestPowerButtonIsNotPushedTwice(t *testing.T) {
	m, d := newMachine(t, "dell", redfishtest.Options{Times: bmc.RealisticTimes()})
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/Systems/System.Embedded.1") {
			said(w, http.StatusOK, `{"@odata.id": "`+r.URL.Path+`", "PowerState": "Off", "Actions": {"#ComputerSystem.Reset": {
				"target": "`+r.URL.Path+`/Actions/ComputerSystem.Reset", "ResetType@Redfish.AllowableValues": ["PushPowerButton"]}}}`)
			return
		}
		bmc.ServeHTTP(w, r)
	})
	if _, err := d.SetPower(t.Context(), m.node, node.PowerOn, fresh); err != nil || len(m.Effects()) != 1 {
		t.Fatalf("error = %v, effects %q, want one", err, m.Effects())
	}
	_, err := d.SetPower(t.Context(), m.node, node.PowerOn, driver.Turn{Attempt: driver.Unknown})
	if err == nil || !strings.Contains(err.Error(), "outcome unknown") || len(m.Effects()) != 1 {
		t.Errorf("error = %v, effects %q, want that the outcome is unknown", err, m.Effects())
	}
}

func TestResetThatTheStateOfTheMachineForbidsIsTriedLater(t *testing.T) {
	m, d := newMachine(t, "hpe")
	var changes atomic.Bool
	changes.Store(true)
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		if changes.Load() && strings.Contains(r.URL.Path, "ComputerSystem.Reset") {
			said(w, http.StatusBadRequest, `{"error": {"@Message.ExtendedInfo": [{"MessageId": "iLO.2.14.InvalidOperationForSystemState"}]}}`)
			return
		}
		bmc.ServeHTTP(w, r)
	})
	_, err := d.SetPower(t.Context(), m.node, node.PowerOn, fresh)
	var failure *node.DriverError
	if !errors.As(err, &failure) || !failure.Retryable || !failure.Refused {
		t.Errorf("error = %v, want a temporary refusal", err)
	}
	changes.Store(false)
	if _, err := d.SetPower(t.Context(), m.node, node.PowerOn, driver.Turn{Attempt: driver.Refused}); err != nil || m.Power() != bmc.On {
		t.Errorf("later: %v, the machine is %s", err, m.Power())
	}
}

func TestSystemThatIsGoneIsFoundAnew(t *testing.T) {
	m, d := newMachine(t, "dell")
	var gone atomic.Bool
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		switch path := strings.TrimRight(r.URL.Path, "/"); {
		case gone.Load() && strings.HasSuffix(path, "/Systems"):
			said(w, http.StatusOK, `{"Members": [{"@odata.id": "/redfish/v1/Systems/1"}]}`)
		case gone.Load() && strings.HasSuffix(path, "/Systems/1"):
			said(w, http.StatusOK, `{"@odata.id": "/redfish/v1/Systems/1", "PowerState": "On"}`)
		case gone.Load() && strings.HasSuffix(path, "/Systems/System.Embedded.1"):
			said(w, http.StatusNotFound, `{}`)
		default:
			bmc.ServeHTTP(w, r)
		}
	})
	if failure := read(t, d, m.node); failure != nil {
		t.Fatal(failure)
	}
	gone.Store(true)
	if failure := read(t, d, m.node); failure == nil {
		t.Fatal("the system of before was read")
	}
	if state, err := d.PowerState(t.Context(), m.node); err != nil || state != node.PowerOn {
		t.Errorf("state = %q, %v, want that of the new system", state, err)
	}
}

func TestMediumThatStaysIsNotDetached(t *testing.T) {
	m, d := newMachine(t, "dell")
	if _, err := finish(t.Context(), func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
		return d.AttachMedium(ctx, m.node, node.Medium{DeviceType: "cdrom", ImageURL: "http://192.0.2.1/boot.iso"}, turn)
	}); err != nil {
		t.Fatal(err)
	}
	detach := func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
		return d.DetachMedia(ctx, m.node, nil, turn)
	}
	m.Fail(effect.Faults{Lie: 1, Only: []string{"detach media"}})
	if _, err := finish(t.Context(), detach); err == nil || !strings.Contains(err.Error(), "shows the medium still") {
		t.Errorf("error = %v, want that the medium is still there", err)
	}
	m.Heal()
	if _, err := finish(t.Context(), detach); err != nil {
		t.Error(err)
	}
}

func TestCredentialsThatTheBMCRepeatsAreNotShown(t *testing.T) {
	m, d := newMachine(t, "dell")
	m.info(map[string]any{"redfish_auth_type": "basic"})
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		user, password, _ := r.BasicAuth()
		switch {
		case strings.HasSuffix(r.URL.Path, "/Systems"):
			said(w, http.StatusBadRequest, `<pre>`+r.Header.Get("Authorization")+" "+user+":"+password)
		default:
			bmc.ServeHTTP(w, r)
		}
	})
	failure := read(t, d, m.node)
	if failure == nil || strings.Contains(failure.Reason, redfishtest.Password) || strings.Contains(failure.Reason, "b3BlcmF0b3I6b3") {
		t.Errorf("failure = %v, want one without credentials", failure)
	}
}

func TestBMCThatRefusesItsOwnEntityTagIsChanged(t *testing.T) {
	const failed, required, ok = http.StatusPreconditionFailed, http.StatusPreconditionRequired, http.StatusOK
	for name, answers := range map[string]struct{ weak, strong, none, any int }{
		"without a tag":                          {failed, failed, ok, failed},
		"with any":                               {required, required, required, ok},
		"with the strong tag":                    {failed, ok, required, failed},
		"with any, as it misses the refused tag": {failed, failed, required, ok},
	} {
		t.Run(name, func(t *testing.T) {
			m, d := newMachine(t, "dell")
			m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
				status := answers.strong
				switch tag := r.Header.Get("If-Match"); {
				case r.Method != http.MethodPatch:
					status = ok
				case tag == "":
					status = answers.none
				case tag == "*":
					status = answers.any
				case strings.HasPrefix(tag, "W/"):
					status = answers.weak
				}
				if status != ok {
					said(w, status, `{}`)
					return
				}
				bmc.ServeHTTP(w, r)
			})
			settings := map[string]any{}
			name, value := otherValue(m)
			settings[name] = value
			if _, err := d.SetSecureBoot(t.Context(), m.node, true, fresh); err != nil {
				t.Errorf("secure boot: %v", err)
			}
			isOn(m) // which ends the job of that
			if _, err := d.SetBootDevice(t.Context(), m.node, node.BootDevice{Device: "pxe"}, fresh); err != nil {
				t.Errorf("boot device: %v", err)
			}
			if _, err := stepper(d, node.BIOSInterface).RunStep(t.Context(), m.node, driver.CleanSteps, biosStep(settings), fresh); err != nil {
				t.Errorf("BIOS: %v", err)
			}
		})
	}
}

func TestMachineIsNotLeftOffByAStepThatTookTooLong(t *testing.T) {
	for _, reached := range []string{"off sent", "on"} {
		t.Run(reached, func(t *testing.T) {
			m, d := newMachine(t, "dell", redfishtest.Options{Times: bmc.RealisticTimes()})
			isOn(m)
			m.Pass(10 * time.Minute)
			name, value := otherValue(m)
			turn := fresh
			for turn.Phase != reached {
				out, err := stepper(d, node.BIOSInterface).RunStep(t.Context(), m.node, driver.CleanSteps, biosStep(map[string]any{name: value}), turn)
				if err != nil {
					t.Fatal(err)
				}
				turn = drivertest.After(turn, out)
				m.Pass(max(out.Again, out.Park))
			}
			m.Pass(time.Hour) // in which the engine stands still
			turn.Elapsed += time.Hour
			_, err := stepper(d, node.BIOSInterface).RunStep(t.Context(), m.node, driver.CleanSteps, biosStep(map[string]any{name: value}), turn)
			m.Pass(time.Minute)
			if err == nil || m.Power() != bmc.On {
				t.Errorf("error = %v, the machine is %s, want a failure that leaves it on", err, m.Power())
			}
		})
	}
}

func TestSupermicroWithTheUsualBootSourceBootsFromIt(t *testing.T) {
	m, d := newMachine(t, "supermicro")
	var sent string
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		if !strings.HasSuffix(r.URL.Path, "/Systems/1") {
			bmc.ServeHTTP(w, r)
			return
		}
		if r.Method == http.MethodPatch {
			text, _ := io.ReadAll(r.Body)
			sent = string(text)
		}
		said(w, http.StatusOK, `{"@odata.id": "/redfish/v1/Systems/1", "Manufacturer": "Supermicro", "PowerState": "Off", "Boot": {
			"BootSourceOverrideTarget@Redfish.AllowableValues": ["None", "Pxe", "Cd"]}}`)
	})
	_, err := d.SetBootDevice(t.Context(), m.node, node.BootDevice{Device: "cdrom"}, fresh)
	if !strings.Contains(sent, `"BootSourceOverrideTarget":"Cd"`) {
		t.Errorf("the BMC was sent %q, %v, want the target Cd", sent, err)
	}
}

func TestMediumIsInsertedAgainWithTheProtocolWhereTheBMCMissesIt(t *testing.T) {
	m, d := newMachine(t, "hpe")
	inserts := 0
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		if r.Method != http.MethodPost || !strings.Contains(r.URL.Path, "InsertMedia") {
			bmc.ServeHTTP(w, r)
			return
		}
		inserts++
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if !strings.Contains(string(text), `"TransferProtocolType":"HTTP"`) {
			said(w, http.StatusBadRequest, `{"error": {"code": "Base.1.5.GeneralError", "@Message.ExtendedInfo": [
				{"MessageId": "Base.1.5.ActionParameterMissing", "RelatedProperties": ["#/TransferProtocolType"]}]}}`)
			return
		}
		r.Body = io.NopCloser(strings.NewReader(string(text)))
		bmc.ServeHTTP(w, r)
	})
	if _, err := finish(t.Context(), func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
		return d.AttachMedium(ctx, m.node, node.Medium{DeviceType: "cdrom", ImageURL: "http://192.0.2.1/boot.iso"}, turn)
	}); err != nil || inserts != 2 {
		t.Errorf("%d requests, %v, want two and the medium", inserts, err)
	}
}
