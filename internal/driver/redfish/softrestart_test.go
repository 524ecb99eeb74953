package redfish_test

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/drivertest"
	"github.com/ingot-metal/ingot/internal/driver/redfish"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

// staysOn returns a machine in use that must not be switched off, and takes so long to shut down.
func staysOn(t *testing.T, vendor string, shutdown time.Duration) (*machine, redfish.Driver) {
	t.Helper()
	times := bmc.RealisticTimes()
	times.Shutdown = shutdown
	m, d := newMachine(t, vendor, redfishtest.Options{Times: times})
	m.node.DisablePowerOff = true
	m.Switch(true)
	m.Pass(10 * time.Minute)
	m.before = len(m.Server.Effects())
	return m, d
}

// inUse makes the turns of a service step, from the beginning or from a turn.
func inUse(m *machine, d redfish.Driver, kind node.InterfaceKind, step node.Step, from driver.Turn) (took time.Duration, err error) {
	for turn := from; ; {
		out, err := stepper(d, kind).RunStep(m.t.Context(), m.node, driver.ServiceSteps, step, turn)
		if err != nil || out.Done() {
			return turn.Elapsed, err
		}
		m.Pass(max(out.Again, out.Park))
		turn = drivertest.After(turn, out)
	}
}

// TestStepDoesNotEndBeforeAMachineThatStaysOnHasRestarted has an operating system ignore the request
// for a restart.
func TestStepDoesNotEndBeforeAMachineThatStaysOnHasRestarted(t *testing.T) {
	eachVendor(t, func(t *testing.T, vendor string) {
		t.Helper()
		var setting, value, factory string
		for _, test := range []struct {
			name, effect string
			kind         node.InterfaceKind
			step         func(*machine) node.Step
			done         func(*machine) bool
		}{
			{"settings", "configure bios", node.BIOSInterface, func(m *machine) node.Step {
				setting, value = otherValue(m)
				return biosStep(map[string]any{setting: value})
			}, func(m *machine) bool { return m.BIOS()[setting] == value }},
			{"factory reset", "reset bios", node.BIOSInterface, func(m *machine) node.Step {
				setting, value = otherValue(m)
				factory, _ = m.BIOS()[setting].(string)
				if _, err := m.SetBIOS(&bmc.Call{}, map[string]any{setting: value}, true); err != nil {
					t.Fatal(err)
				}
				m.Switch(false)
				m.Switch(true)
				m.Pass(10 * time.Minute)
				m.before = len(m.Server.Effects())
				return node.Step{Interface: "bios", Step: "factory_reset"}
			}, func(m *machine) bool { return m.BIOS()[setting] == factory }},
			{"update", "flash", node.FirmwareInterface, func(m *machine) node.Step {
				return firmwareStep("bios", redfishtest.Serve(t, "ingot-firmware component=bios version=9.9.1"))
			}, func(m *machine) bool { return versions(m)["bios"] == "9.9.1" }},
		} {
			m, d := staysOn(t, vendor, 24*time.Hour)
			step := test.step(m)
			took, err := inUse(m, d, test.kind, step, fresh)
			want := []string{test.effect, "soft reboot", "reboot"}
			if got := m.Effects(); err != nil || !test.done(m) || !slices.Equal(got, want) || took < 10*time.Minute {
				t.Errorf("%s: %v after %s, effects = %q, done: %v; want %q, after ten minutes for a shutdown", test.name, err, took, got, test.done(m), want)
			}
		}
	})
}

// bootShown has a BMC show more of the boots of its machine: what is added to the document of the
// system before it has restarted, and after.
func bootShown(m *machine, before, after string) {
	boots := m.Boots()
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		added := before
		if m.Boots() > boots {
			added = after
		}
		m.shows(map[string]string{m.SystemPath(0): added}, w, r, bmc)
	})
}

// shows answers with what a BMC has, and with properties of some paths that replace its own.
func (m *machine) shows(properties map[string]string, w http.ResponseWriter, r *http.Request, bmc http.Handler) {
	path := strings.TrimRight(r.URL.Path, "/")
	more := cmp.Or(properties[path], properties[path+"/"])
	if more == "" || r.Method != http.MethodGet {
		bmc.ServeHTTP(w, r)
		return
	}
	answer, document := httptest.NewRecorder(), map[string]any{}
	bmc.ServeHTTP(answer, r)
	for _, text := range []string{answer.Body.String(), more} {
		if err := json.Unmarshal([]byte(text), &document); err != nil {
			m.t.Error(err)
		}
	}
	shown(w, document)
}

// TestRestartThatIsSeenIsNotForced has the BMCs show restarts in their ways.
func TestRestartThatIsSeenIsNotForced(t *testing.T) {
	const soft, forced = "soft reboot", "reboot"
	for name, test := range map[string]struct {
		vendor, before, after string
		want                  []string
	}{
		"its POST state":      {"hpe", `{}`, `{}`, []string{soft}},
		"its last reset":      {"dell", `{"LastResetTime": "2031-03-01T00:00:00Z"}`, `{"LastResetTime": "2031-03-04T10:22:00Z"}`, []string{soft}},
		"its boot progress":   {"dell", `{"BootProgress": {"LastState": "OSRunning"}}`, `{"BootProgress": {"LastState": "MemoryInitializationStarted"}}`, []string{soft}},
		"another boot's time": {"dell", `{"BootProgress": {"LastState": "OSRunning", "LastStateTime": "1"}}`, `{"BootProgress": {"LastState": "OSRunning", "LastStateTime": "2"}}`, []string{soft}},
		"progress of the boot of before": {
			"dell", `{"BootProgress": {"LastState": "OSBootStarted", "LastStateTime": "1"}}`, `{"BootProgress": {"LastState": "OSRunning", "LastStateTime": "2"}}`, []string{soft, forced},
		},
		"nothing": {"dell", `{}`, `{}`, []string{soft, forced}},
	} {
		t.Run(name, func(t *testing.T) {
			m, d := staysOn(t, test.vendor, 30*time.Second)
			bootShown(m, test.before, test.after)
			setting, value := otherValue(m)
			_, err := inUse(m, d, node.BIOSInterface, biosStep(map[string]any{setting: value}), fresh)
			if got := m.Effects()[1:]; err != nil || !slices.Equal(got, test.want) || m.BIOS()[setting] != value {
				t.Errorf("%v, effects = %q, %s is %v; want %q and %s", err, got, setting, m.BIOS()[setting], test.want, value)
			}
		})
	}
}

// TestMachineThatAnEarlierReleaseAskedToRestartIsRestarted goes on with its row, which has no record
// of the boot before.
func TestMachineThatAnEarlierReleaseAskedToRestartIsRestarted(t *testing.T) {
	m, d := staysOn(t, "hpe", 24*time.Hour)
	setting, value := otherValue(m)
	if _, err := m.SetBIOS(&bmc.Call{}, map[string]any{setting: value}, true); err != nil {
		t.Fatal(err)
	}
	if err := m.Reset(&bmc.Call{}, bmc.ResetGracefulRestart); err != nil {
		t.Fatal(err)
	}
	stored := driver.Turn{Attempt: driver.Continued, Phase: "soft restart sent", Handle: `{"since": 2}`, Elapsed: 20 * time.Second}
	took, err := inUse(m, d, node.BIOSInterface, biosStep(map[string]any{setting: value}), stored)
	if got := m.Effects(); err != nil || m.BIOS()[setting] != value || got[len(got)-1] != "reboot" {
		t.Errorf("%v after %s, effects = %q, %s is %v; want a restart and %s", err, took, got, setting, m.BIOS()[setting], value)
	}
}

// TestForcedRestartWhoseOutcomeIsUnknownIsNotRepeated loses the engine in the turn that makes it.
func TestForcedRestartWhoseOutcomeIsUnknownIsNotRepeated(t *testing.T) {
	m, d := staysOn(t, "dell", 24*time.Hour)
	setting, value := otherValue(m)
	step, turn := biosStep(map[string]any{setting: value}), fresh
	do := func(ctx context.Context) (driver.Outcome, error) {
		out, err := stepper(d, node.BIOSInterface).RunStep(ctx, m.node, driver.ServiceSteps, step, turn)
		m.Pass(max(out.Again, out.Park))
		return out, err
	}
	for turn.Phase != "restart" {
		out, err := do(t.Context())
		if err != nil || out.Done() {
			t.Fatalf("outcome = %+v, %v before the machine was restarted", out, err)
		}
		turn = drivertest.After(turn, out)
	}
	if _, err := do(t.Context()); err != nil {
		t.Fatal(err)
	}
	turn.Attempt = driver.Unknown
	if _, err := do(t.Context()); err == nil || !strings.Contains(err.Error(), "outcome unknown") {
		t.Errorf("error = %v, want that the outcome is unknown", err)
	}
	if got := m.Effects(); !slices.Equal(got, []string{"configure bios", "soft reboot", "reboot"}) {
		t.Errorf("effects = %q, want one restart", got)
	}
}

// TestTurnAfterAWaitSendsNoResetOfAnotherLeg has a machine that somebody switches off while its
// restart waits for firmware. A turn that leaves a wait phase counts as one that has sent nothing.
func TestTurnAfterAWaitSendsNoResetOfAnotherLeg(t *testing.T) {
	m, d := newMachine(t, "dell")
	m.node.DisablePowerOff = true
	out, err := d.SetPower(t.Context(), m.node, node.Rebooting, driver.Turn{Attempt: driver.Continued, Phase: driver.WaitPhase("restart")})
	if err != nil || out.Done() || len(m.Effects()) != 0 {
		t.Fatalf("outcome %+v, error = %v, effects %q; want another turn and no reset", out, err, m.Effects())
	}
	out, err = d.SetPower(t.Context(), m.node, node.Rebooting, driver.Turn{Attempt: driver.Continued, Phase: out.Phase})
	if err != nil || !slices.Equal(m.Effects(), []string{"power on"}) {
		t.Errorf("outcome %+v, error = %v, effects %q; want that the machine is switched on", out, err, m.Effects())
	}
}
