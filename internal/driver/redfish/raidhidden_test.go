package redfish_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/effect"
)

func TestVolumesAreNotMadeOfWhatTheBMCHides(t *testing.T) {
	m, d := raidMachine(t, "dell", mirror())
	m.without("/Volumes", 500, `{}`)
	_, err := run(m, m.stepTurn(d, raidStep("create_configuration", nil)))
	if err == nil || !strings.Contains(err.Error(), "does not show all of it") || len(m.Effects()) != 0 {
		t.Errorf("error = %v, effects %q; want that the BMC hides something", err, m.Effects())
	}
}

// TestControllersThatTheBMCHidesHaveVolumes has a BMC that does not show its list of
// controllers, or one of them.
func TestControllersThatTheBMCHidesHaveVolumes(t *testing.T) {
	for _, test := range []struct {
		suffix string
		status int
		body   string
	}{
		{"/Storage", http.StatusInternalServerError, `{}`},
		{"/Storage", http.StatusNotFound, `{}`},
		{"/Storage", http.StatusOK, `{"Members": [`},
		{"/Storage/1", http.StatusInternalServerError, `{}`},
		{"/Storage/1", http.StatusNotFound, `{}`},
		{"/Storage/1", http.StatusOK, `<html>`},
	} {
		m, d := raidMachine(t, "supermicro", mirror())
		if _, err := run(m, m.stepTurn(d, raidStep("create_configuration", nil))); err != nil {
			t.Fatal(err)
		}
		m.before = len(m.Server.Effects())
		m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
			if strings.HasSuffix(strings.TrimRight(r.URL.Path, "/"), test.suffix) {
				said(w, test.status, test.body)
				return
			}
			bmc.ServeHTTP(w, r)
		})
		for _, step := range []string{"create_configuration", "delete_configuration"} {
			_, err := run(m, m.stepTurn(d, raidStep(step, nil)))
			if err == nil || !strings.Contains(err.Error(), "does not show all of it") || len(m.Effects()) != 0 || m.node.RAIDConfig.IsEmpty() {
				t.Errorf("%s as %d %s: %s: %v, effects %q, raid_config %s; want that the BMC hides something",
					test.suffix, test.status, test.body, step, err, m.Effects(), m.node.RAIDConfig)
			}
		}
		config, err := d.Interfaces()[node.RAIDInterface].(driver.RAID).RAIDConfig(t.Context(), m.node)
		if err == nil || !strings.Contains(err.Error(), "does not show all of it") {
			t.Errorf("%s as %d %s: raid_config %s, %v; want that the BMC hides something", test.suffix, test.status, test.body, config, err)
		}
	}
}

// TestVolumesOfAMachineThatIsOffAreUnknown has controllers that show no drives without
// power.
func TestVolumesOfAMachineThatIsOffAreUnknown(t *testing.T) {
	m, d := newMachine(t, "supermicro")
	m.without("/Storage", http.StatusOK, `{"Members": []}`)
	raid := d.Interfaces()[node.RAIDInterface].(driver.RAID)
	if config, err := raid.RAIDConfig(t.Context(), m.node); err == nil || !strings.Contains(err.Error(), "the machine is off") {
		t.Errorf("off: %s, %v; want that it is off", config, err)
	}
	isOn(m)
	if config, err := raid.RAIDConfig(t.Context(), m.node); err != nil || !config.IsEmpty() {
		t.Errorf("on: %s, %v; want no volumes", config, err)
	}
}

// TestDrivesThatAppearLateAreWaitedFor has a machine that shows some of its drives later
// than others after it was switched on.
func TestDrivesThatAppearLateAreWaitedFor(t *testing.T) {
	m, d := raidMachine(t, "supermicro", map[string]any{"size_gb": "MAX", "raid_level": "1+0"})
	if err := m.Reset(&bmc.Call{}, bmc.ResetForceOff); err != nil {
		t.Fatal(err)
	}
	m.Pass(time.Minute)
	looks := 0
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		if !strings.HasSuffix(strings.TrimRight(r.URL.Path, "/"), "/Storage/1") {
			bmc.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		bmc.ServeHTTP(answer, r)
		var document map[string]any
		if err := json.Unmarshal(answer.Body.Bytes(), &document); err != nil {
			t.Error(err)
		}
		if looks++; looks <= 2 {
			document["Drives"] = document["Drives"].([]any)[:looks]
		}
		text, err := json.Marshal(document)
		if err != nil {
			t.Error(err)
		}
		said(w, answer.Code, string(text))
	})
	if phases, err := run(m, m.stepTurn(d, raidStep("create_configuration", nil))); err != nil || len(m.Volumes()) != 1 {
		t.Errorf("%v after %q, volumes %q; want one of all drives", err, phases, m.names())
	}
}

// TestControllerThatAppearsLateIsWaitedFor has a machine in POST, which shows the drive of its
// chipset at once.
func TestControllerThatAppearsLateIsWaitedFor(t *testing.T) {
	m, d := raidMachine(t, "supermicro", mirror())
	if _, err := run(m, m.stepTurn(d, raidStep("create_configuration", nil))); err != nil {
		t.Fatal(err)
	}
	const chipset = "/redfish/v1/Systems/1/Storage/SATA"
	shown := m.Now().Add(20 * time.Second)
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		switch path := strings.TrimRight(r.URL.Path, "/"); {
		case path == chipset:
			said(w, http.StatusOK, `{"@odata.id": "`+chipset+`", "Id": "SATA", "Drives": [{"@odata.id": "`+chipset+`/Drives/1"}]}`)
		case path == chipset+"/Drives/1":
			said(w, http.StatusOK, `{"@odata.id": "`+chipset+`/Drives/1", "Id": "1", "CapacityBytes": 128000000000, "Status": {"State": "Enabled"}}`)
		case strings.HasSuffix(path, "/Storage") && m.Now().Before(shown):
			said(w, http.StatusOK, `{"Members": [{"@odata.id": "`+chipset+`"}]}`)
		case strings.HasSuffix(path, "/Storage"):
			said(w, http.StatusOK, `{"Members": [{"@odata.id": "`+chipset+`"}, {"@odata.id": "/redfish/v1/Systems/1/Storage/1"}]}`)
		default:
			bmc.ServeHTTP(w, r)
		}
	})
	if phases, err := run(m, m.stepTurn(d, raidStep("delete_configuration", nil))); err != nil || len(m.Volumes()) != 0 {
		t.Errorf("%v after %q, volumes %q; want none", err, phases, m.names())
	}
}

func TestStorageOfABMCThatIsNotReadyIsReadLater(t *testing.T) {
	var ready atomic.Int64 // when it is, in seconds
	m, d := raidMachine(t, "dell", mirror())
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		if m.Now().Unix() < ready.Load() && strings.Contains(r.URL.Path, "/Storage") {
			said(w, http.StatusBadRequest, notReady)
			return
		}
		bmc.ServeHTTP(w, r)
	})
	for _, on := range []bool{true, false} { // it may have started right before
		if !on {
			if err := m.Reset(&bmc.Call{}, bmc.ResetForceOff); err != nil {
				t.Fatal(err)
			}
			m.Pass(time.Minute)
		}
		ready.Store(m.Now().Add(2 * time.Minute).Unix())
		for _, step := range []string{"create_configuration", "delete_configuration"} {
			if phases, err := run(m, m.stepTurn(d, raidStep(step, nil))); err != nil || (len(m.Volumes()) == 1) != (step == "create_configuration") {
				t.Errorf("of a machine that is on: %t, %s: %v after %q, volumes %q", on, step, err, phases, m.names())
			}
		}
	}
	ready.Store(m.Now().Add(time.Hour).Unix())
	_, err := run(m, m.stepTurn(d, raidStep("create_configuration", nil)))
	var failure *node.DriverError
	if !errors.As(err, &failure) || !failure.Retryable || !strings.Contains(failure.Reason, "SWC0700") {
		t.Errorf("of a machine that stays so: %v, want a temporary failure with the message", err)
	}
}

// restartHiding deletes the volume of a machine whose controller does that at the next start,
// behind a proxy that answers reads of the volumes within two minutes of that.
func restartHiding(t *testing.T, fault effect.Faults, hide http.HandlerFunc) (*machine, error) {
	t.Helper()
	m, d := raidMachine(t, "hpe", mirror())
	if _, err := run(m, m.stepTurn(d, raidStep("create_configuration", nil))); err != nil {
		t.Fatal(err)
	}
	m.before = len(m.Server.Effects())
	var started time.Time
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		if started.IsZero() && slices.Contains(m.Effects(), "power on") {
			started = m.Now()
		}
		if r.Method == http.MethodGet && strings.HasSuffix(strings.TrimRight(r.URL.Path, "/"), "/Volumes") && m.Now().Before(started.Add(2*time.Minute)) {
			hide(w, r)
			return
		}
		bmc.ServeHTTP(w, r)
	})
	fault.Only = []string{"delete volume"}
	m.Fail(fault)
	_, err := run(m, m.stepTurn(d, raidStep("delete_configuration", nil)))
	return m, err
}

// TestVolumesAreNotGoneBecauseAMachineInPOSTShowsNone has a BMC that shows no storage while its
// machine starts, and does not delete the volume.
func TestVolumesAreNotGoneBecauseAMachineInPOSTShowsNone(t *testing.T) {
	m, err := restartHiding(t, effect.Faults{Lie: 1}, func(w http.ResponseWriter, _ *http.Request) {
		said(w, http.StatusOK, `{"Members": []}`)
	})
	if err == nil || !strings.Contains(err.Error(), "does not show that the volume") || len(m.Volumes()) != 1 {
		t.Errorf("%v, volumes %q; want that the volume is still there", err, m.names())
	}
}

// TestVolumesThatAMachineCannotShowInPOSTAreWaitedFor has a BMC without an answer then.
func TestVolumesThatAMachineCannotShowInPOSTAreWaitedFor(t *testing.T) {
	for _, status := range []int{http.StatusNotFound, http.StatusInternalServerError} {
		m, err := restartHiding(t, effect.Faults{}, func(w http.ResponseWriter, _ *http.Request) { said(w, status, `{}`) })
		if err != nil || len(m.Volumes()) != 0 {
			t.Errorf("as %d: %v, volumes %q; want none", status, err, m.names())
		}
	}
}

func TestBMCThatIsNotReadyAfterTheRestartForVolumesIsWaitedFor(t *testing.T) {
	for _, suffix := range []string{"/Systems/1", "/Systems/1/Storage", "/Volumes"} {
		for status, document := range map[int]string{
			http.StatusBadRequest: notReady, http.StatusNotFound: `{}`, http.StatusInternalServerError: `{}`, http.StatusServiceUnavailable: `{}`,
		} {
			m, d := raidMachine(t, "hpe", mirror())
			if _, err := run(m, m.stepTurn(d, raidStep("create_configuration", nil))); err != nil {
				t.Fatal(err)
			}
			m.before = len(m.Server.Effects())
			var ready atomic.Int64 // when it is, in seconds
			m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
				if m.Now().Unix() < ready.Load() && strings.HasSuffix(strings.TrimRight(r.URL.Path, "/"), suffix) {
					said(w, status, document)
					return
				}
				bmc.ServeHTTP(w, r)
			})
			do := m.stepTurn(d, raidStep("delete_configuration", nil))
			if _, err := run(m, func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
				if turn.Phase == "verify" && ready.Load() == 0 && slices.Contains(m.Effects(), "power on") {
					ready.Store(m.Now().Add(2 * time.Minute).Unix())
				}
				return do(ctx, turn)
			}); err != nil || ready.Load() == 0 || len(m.Volumes()) != 0 {
				t.Errorf("%s as %d: %v, volumes %q; want none after a restart", suffix, status, err, m.names())
			}
		}
	}
}

// TestAnswerThatIsLostLongAfterAnotherOneIsTheFirstOfASilence has a machine that takes longer to
// start than its BMC may be silent.
func TestAnswerThatIsLostLongAfterAnotherOneIsTheFirstOfASilence(t *testing.T) {
	m, d := raidMachine(t, "hpe", mirror())
	var began time.Time // verifying
	lost := 0
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		switch since := m.Now().Sub(began); {
		case began.IsZero(), since > 10*time.Minute:
			bmc.ServeHTTP(w, r)
		case since < 10*time.Second, since > 8*time.Minute && since < 8*time.Minute+20*time.Second:
			lost++
			panic(http.ErrAbortHandler)
		case strings.HasSuffix(strings.TrimRight(r.URL.Path, "/"), "/Storage"):
			said(w, http.StatusServiceUnavailable, `{}`)
		default:
			bmc.ServeHTTP(w, r)
		}
	})
	do := m.stepTurn(d, raidStep("create_configuration", nil))
	_, err := run(m, func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
		if turn.Phase == "verify" && began.IsZero() && slices.Contains(m.Effects(), "power on") {
			began = m.Now()
		}
		return do(ctx, turn)
	})
	if err != nil || lost < 2 || len(m.Volumes()) != 1 {
		t.Errorf("error = %v after %d lost answers, volumes %q", err, lost, m.names())
	}
}

// TestVolumesAreNotDeletedWhereNoDrivesAreShown has a machine whose BMC never shows any drives,
// which was off.
func TestVolumesAreNotDeletedWhereNoDrivesAreShown(t *testing.T) {
	m, d := newMachine(t, "supermicro")
	m.without("/Storage", http.StatusOK, `{"Members": []}`)
	_, err := run(m, m.stepTurn(d, raidStep("delete_configuration", nil)))
	var failure *node.DriverError
	if !errors.As(err, &failure) || failure.Retryable || !strings.Contains(err.Error(), "has shown no drives") {
		t.Errorf("error = %v, want a final one that there are no drives", err)
	}
}
