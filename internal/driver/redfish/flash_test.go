package redfish_test

import (
	"context"
	"errors"
	"io"
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
	"github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

// flashing is an update of firmware, turn by turn.
type flashing struct {
	m    *machine
	d    redfish.Driver
	step node.Step
	turn driver.Turn
}

// next makes a turn, with which the machine's time passes.
func (f *flashing) next() (driver.Outcome, error) {
	out, err := stepper(f.d, node.FirmwareInterface).RunStep(f.m.t.Context(), f.m.node, driver.CleanSteps, f.step, f.turn)
	if err == nil {
		f.m.Pass(max(out.Again, out.Park))
		f.turn = drivertest.After(f.turn, out)
	}
	return out, err
}

// finish makes turns until the step is done, and stores their outcomes in the node.
func (f *flashing) finish(t *testing.T) {
	t.Helper()
	for range 2000 {
		out, err := f.next()
		if err != nil {
			t.Fatal(err)
		}
		apply(f.m, out)
		if out.Done() {
			return
		}
	}
	t.Fatal("the step does not end")
}

// until makes turns to a phase; none means to the end.
func (f *flashing) until(phase string) error {
	for range 2000 {
		out, err := f.next()
		if err != nil || out.Done() || phase != "" && out.Phase == phase {
			return err
		}
	}
	f.m.t.Fatal("the step does not end")
	return nil
}

func TestSlowRequestIsNotSentAgainBeforeItsTaskIsListed(t *testing.T) {
	m, d := newMachine(t, "dell")
	flashedBefore(m)
	m.before = len(m.Server.Effects())
	file := redfishtest.Serve(t, "ingot-firmware component=bmc version=9.9.1")
	f := &flashing{m: m, d: d, step: firmwareStep("bmc", file)}
	if err := f.until("send"); err != nil {
		t.Fatal(err)
	}
	f.turn.Attempt = driver.Unknown // the answer did not come in time
	if _, err := f.next(); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Update(t.Context(), &bmc.Call{}, file, "bmc"); err != nil { // and the BMC begins only now
		t.Fatal(err)
	}
	if err := f.until(""); err != nil {
		t.Fatal(err)
	}
	if got := m.Effects(); !slices.Equal(got, []string{"flash"}) {
		t.Errorf("effects = %q, want one flash", got)
	}
}

// TestUpdateThatAnOlderDatabaseKnowsNothingOfIsNotRequestedBesideItself has a step whose row says
// that it may have begun.
func TestUpdateThatAnOlderDatabaseKnowsNothingOfIsNotRequestedBesideItself(t *testing.T) {
	m, d := newMachine(t, "dell")
	flashedBefore(m)
	m.before = len(m.Server.Effects())
	file := redfishtest.Serve(t, "ingot-firmware component=bmc version=9.9.1")
	f := &flashing{m: m, d: d, step: firmwareStep("bmc", file), turn: driver.Turn{Attempt: driver.Unknown}}
	m.SlowTasks()
	if _, err := m.Update(t.Context(), &bmc.Call{}, file, "bmc"); err != nil { // whose row was lost
		t.Fatal(err)
	}
	m.Heal()
	for f.turn.Elapsed < 50*time.Minute { // the task takes an hour
		out, err := f.next()
		if err != nil {
			t.Fatal(err)
		}
		apply(m, out)
	}
	if got := m.Effects(); !slices.Equal(got, []string{"flash"}) {
		t.Errorf("effects = %q, want the first flash alone", got)
	}
}

func TestBMCWithoutAnUpdateServiceIsAskedAgain(t *testing.T) {
	m, d := newMachine(t, "dell")
	file := redfishtest.Serve(t, "ingot-firmware component=bmc version=9.9.1")
	f := &flashing{m: m, d: d, step: firmwareStep("bmc", file)}
	if err := f.until("send"); err != nil {
		t.Fatal(err)
	}
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		if r.URL.Path == "/redfish/v1/" {
			said(w, http.StatusOK, `{"Systems": {"@odata.id": "/redfish/v1/Systems"}}`)
			return
		}
		bmc.ServeHTTP(w, r)
	})
	_, err := f.next()
	if failure, ok := errors.AsType[*node.DriverError](err); !ok || !failure.Retryable || !strings.Contains(failure.Reason, "no update service") {
		t.Errorf("error = %v, want one after which it is tried again", err)
	}
}

func TestReadThatFailsBeforeTheFlashLeavesItsOutcomeKnown(t *testing.T) {
	m, d := newMachine(t, "dell")
	file := redfishtest.Serve(t, "ingot-firmware component=bmc version=9.9.1")
	f := &flashing{m: m, d: d, step: firmwareStep("bmc", file)}
	if err := f.until("send"); err != nil {
		t.Fatal(err)
	}
	m.RefuseReads()
	_, err := f.next()
	if failure, ok := errors.AsType[*node.DriverError](err); !ok || !failure.Retryable || !failure.Refused {
		t.Fatalf("error = %v, want a temporary refusal: nothing was requested", err)
	}
	m.Heal()
	f.turn.Attempt = driver.Refused // as the engine stores it
	if err := f.until(""); err != nil || !slices.Equal(m.Effects(), []string{"flash"}) {
		t.Errorf("error = %v, effects %q, want one flash", err, m.Effects())
	}
}

func TestReadThatFailsBeforeTheNextComponentIsNoReasonToDoubtIt(t *testing.T) {
	m, d := newMachine(t, "dell")
	f := &flashing{m: m, d: d, step: firmwareStep(
		"bmc", redfishtest.Serve(t, "ingot-firmware component=bmc version=9.9.1"),
		"bios", redfishtest.Serve(t, "ingot-firmware component=bios version=9.9.2"),
	)}
	for began := false; !began || f.turn.Phase != ""; began = true {
		if _, err := f.next(); err != nil {
			t.Fatal(err)
		}
	}
	m.RefuseReads()
	_, err := f.next()
	if failure, ok := errors.AsType[*node.DriverError](err); !ok || !failure.Retryable || !failure.Refused {
		t.Fatalf("error = %v, want a temporary refusal: the BIOS was not updated yet", err)
	}
}

func TestReadThatFailsBeforeAServedFlashIsNoReasonToDoubtIt(t *testing.T) {
	s := newShelf(t, "ingot-firmware component=bmc version=9.9.1")
	m, d := onShelf(t, "dell", s)
	if _, err := m.Update(t.Context(), &bmc.Call{}, redfishtest.Serve(t, "ingot-firmware component=bios version=9.9.2"), "bios"); err != nil { // somebody else's
		t.Fatal(err)
	}
	m.before = len(m.Server.Effects())
	f := &flashing{m: m, d: d, step: firmwareStep("bmc", "http://192.0.2.1/bmc.bin")}
	out, err := f.next()
	if err != nil || !driver.IsWaitPhase(out.Phase) {
		t.Fatalf("outcome = %+v, %v", out, err)
	}
	apply(m, out)
	m.RefuseReads()
	_, err = f.next()
	if failure, ok := errors.AsType[*node.DriverError](err); !ok || !failure.Retryable || !failure.Refused {
		t.Fatalf("error = %v, want a temporary refusal: nothing was requested", err)
	}
	m.Heal()
	f.turn.Attempt = driver.Refused // as the engine stores it
	if err := f.until(""); err != nil || !slices.Equal(m.Effects(), []string{"flash"}) {
		t.Errorf("error = %v, effects %q, want one flash beside the update that waits", err, m.Effects())
	}
}

func TestBMCThatCannotUpdateFromAURLIsNotAsked(t *testing.T) {
	m, d := newMachine(t, "dell")
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		if strings.Trim(r.URL.Path, "/") == "redfish/v1/UpdateService" {
			said(w, http.StatusOK, `{"@odata.id": "/redfish/v1/UpdateService", "Actions": {}}`)
			return
		}
		bmc.ServeHTTP(w, r)
	})
	f := &flashing{m: m, d: d, step: firmwareStep("bmc", "http://192.0.2.1/bmc.bin")}
	_, err := f.next()
	if failure, ok := errors.AsType[*node.DriverError](err); !ok || failure.Retryable || !failure.Refused || !strings.Contains(failure.Reason, "SimpleUpdate") {
		t.Errorf("error = %v, want a final refusal that names the action", err)
	}
}

func TestRequestThatNeverCameIsSentAgain(t *testing.T) {
	// Rows of before have another name for the phase in which the request is looked for.
	for name, stored := range map[string]string{"in this version": "search", "stored before": "look"} {
		t.Run(name, func(t *testing.T) {
			m, d := newMachine(t, "dell")
			flashedBefore(m)
			m.before = len(m.Server.Effects())
			f := &flashing{m: m, d: d, step: firmwareStep("bmc", redfishtest.Serve(t, "ingot-firmware component=bmc version=9.9.1"))}
			if err := f.until("send"); err != nil {
				t.Fatal(err)
			}
			f.turn.Attempt = driver.Unknown
			if err := f.until("search"); err != nil || f.turn.Phase != "search" {
				t.Fatalf("error = %v in phase %q, want a search", err, f.turn.Phase)
			}
			f.turn.Phase = stored
			if err := f.until(""); err != nil || !slices.Equal(m.Effects(), []string{"flash"}) {
				t.Errorf("error = %v, effects %q, want one flash", err, m.Effects())
			}
		})
	}
}

func TestTaskOfSomebodyElseDoesNotEndAnUpdate(t *testing.T) {
	m, d := newMachine(t, "dell")
	flashedBefore(m)
	f := &flashing{m: m, d: d, step: firmwareStep("bmc", redfishtest.Serve(t, "ingot-firmware component=bmc version=9.9.1"))}
	if err := f.until("send"); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Update(t.Context(), &bmc.Call{}, redfishtest.Serve(t, "ingot-firmware component=bmc version=0.0.1"), "bmc"); err != nil {
		t.Fatal(err)
	}
	f.turn.Attempt = driver.Unknown
	if err := f.until(""); err == nil || !strings.Contains(err.Error(), "outcome unknown") {
		t.Errorf("error = %v with version %s, want that the outcome is unknown", err, versions(m)["bmc"])
	}
}

func TestEarlierFailureIsNotTakenForThatOfTheUpdate(t *testing.T) {
	m, d := newMachine(t, "hpe", redfishtest.Options{Times: bmc.RealisticTimes()})
	isOn(m)
	m.Pass(10 * time.Minute)
	var asked atomic.Bool
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		if r.Method == http.MethodPost && strings.Contains(r.URL.Path, "SimpleUpdate") {
			asked.Store(true)
		}
		if strings.Trim(r.URL.Path, "/") == "redfish/v1/UpdateService" && asked.CompareAndSwap(true, false) { // right after the request
			said(w, http.StatusOK, `{"@odata.id": "/redfish/v1/UpdateService", "Oem": {"Hpe": {"State": "Error", "Result": {"MessageId": "UpdateFailed"}}}}`)
			return
		}
		bmc.ServeHTTP(w, r)
	})
	f := &flashing{m: m, d: d, step: firmwareStep("bmc", redfishtest.Serve(t, "ingot-firmware component=bmc version=9.9.1"))}
	if err := f.until(""); err != nil || versions(m)["bmc"] != "9.9.1" {
		t.Errorf("error = %v, version %s, want 9.9.1", err, versions(m)["bmc"])
	}
}

func TestMachineIsNotRestartedWhileNothingIsKnownOfItsUpdate(t *testing.T) {
	m, d := newMachine(t, "supermicro", redfishtest.Options{Times: bmc.RealisticTimes()})
	isOn(m)
	m.Pass(10 * time.Minute)
	m.before = len(m.Server.Effects())
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		if r.Method == http.MethodPost && strings.Contains(r.URL.Path, "SimpleUpdate") {
			w.WriteHeader(http.StatusNoContent) // accepted, and no task is named
			return
		}
		bmc.ServeHTTP(w, r)
	})
	f := &flashing{m: m, d: d, step: firmwareStep("bios", "http://192.0.2.1/bios.bin")}
	if err := f.until("off"); err != nil {
		t.Fatal(err)
	}
	if f.turn.Elapsed < 10*time.Minute {
		t.Errorf("the machine is restarted after %s, want ten minutes", f.turn.Elapsed)
	}
}

func TestUpdateDoesNotEndWhileTheBMCWorks(t *testing.T) {
	m, d := newMachine(t, "dell")
	isOn(m)
	m.Fail(effect.Faults{TaskTime: effect.Duration(time.Hour), Only: []string{"flash"}})
	var early atomic.Bool
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		if early.Load() && r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/Systems/System.Embedded.1") {
			said(w, http.StatusOK, `{"@odata.id": "`+r.URL.Path+`", "BiosVersion": "9.9.2", "PowerState": "On"}`)
			return
		}
		bmc.ServeHTTP(w, r)
	})
	f := &flashing{m: m, d: d, step: firmwareStep("bios", redfishtest.Serve(t, "ingot-firmware component=bios version=9.9.2"))}
	if err := f.until("verify"); err != nil {
		t.Fatal(err)
	}
	early.Store(true)
	if out, err := f.next(); err != nil || out.Done() {
		t.Errorf("outcome = %+v, %v, want that the step goes on: the task runs", out, err)
	}
}

func TestTaskThatIsFollowedAtItsMonitorEnds(t *testing.T) {
	for name, monitor := range map[string]struct {
		location string
		status   int
		document string
		ends     int
		endsWith string
	}{
		"without content":          {"/monitor", http.StatusAccepted, `{}`, http.StatusNoContent, ``},
		"without a body":           {"/monitor", http.StatusAccepted, ``, http.StatusOK, ``},
		"with a message":           {"/monitor", http.StatusAccepted, `{}`, http.StatusOK, `{"error": {"code": "Base.1.12.Success"}}`},
		"with a list":              {"/monitor", http.StatusAccepted, `{}`, http.StatusOK, `[]`},
		"and is gone":              {"/monitor", http.StatusAccepted, `{}`, http.StatusGone, `{}`},
		"at another address":       {"https://bmc.example:443/monitor?task=7", http.StatusAccepted, `{}`, http.StatusOK, `{}`},
		"with mistyped properties": {"/monitor", http.StatusOK, mistypedTask("Running"), http.StatusOK, mistypedTask("Completed")},
	} {
		t.Run(name, func(t *testing.T) {
			m, d := newMachine(t, "supermicro")
			isOn(m)
			var asked atomic.Int64
			m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
				switch {
				case r.Method == http.MethodPost && strings.Contains(r.URL.Path, "SimpleUpdate"):
					w.Header().Set("Location", monitor.location)
					w.WriteHeader(http.StatusAccepted)
				case r.URL.Path == "/monitor" && asked.Add(1) == 1:
					said(w, monitor.status, monitor.document)
				case r.URL.Path == "/monitor":
					said(w, monitor.ends, monitor.endsWith)
				default:
					bmc.ServeHTTP(w, r)
				}
			})
			f := &flashing{m: m, d: d, step: firmwareStep("bios", "http://192.0.2.1/bios.bin")}
			if err := f.until("off"); err != nil || asked.Load() != 2 {
				t.Errorf("error = %v after %d reads of the monitor, want a restart after two", err, asked.Load())
			}
		})
	}
}

// mistypedTask is a task with properties of other types than the schema has.
func mistypedTask(state string) string {
	return `{"PercentComplete": -1, "TaskState": "` + state + `", "Messages": [{"Message": "m", "MessageArgs": [7]}, {"Message": 7}], "TaskStatus": "OK"}`
}

func TestTaskWhoseStateCannotBeReadHasNotEnded(t *testing.T) {
	m, d := newMachine(t, "dell")
	isOn(m)
	f := &flashing{m: m, d: d, step: firmwareStep("bios", redfishtest.Serve(t, "ingot-firmware component=bios version=9.9.2"))}
	if err := f.until("follow"); err != nil {
		t.Fatal(err)
	}
	m.without("/TaskMonitors/", http.StatusOK, `{"TaskState": 7}`)
	if out, err := f.next(); err != nil || out.Phase != "follow" {
		t.Errorf("outcome = %+v, %v, want that the task is followed", out, err)
	}
}

func TestBMCThatStartsMayMissDocuments(t *testing.T) {
	m, d := newMachine(t, "dell")
	isOn(m)
	var missing atomic.Int64
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		if strings.Contains(r.URL.Path, "/Systems") && missing.Add(-1) >= 0 {
			said(w, http.StatusNotFound, `{}`)
			return
		}
		bmc.ServeHTTP(w, r)
	})
	f := &flashing{m: m, d: d, step: firmwareStep("bmc", redfishtest.Serve(t, "ingot-firmware component=bmc version=9.9.1"))}
	if err := f.until("verify"); err != nil {
		t.Fatal(err)
	}
	missing.Store(5)
	if err := f.until(""); err != nil {
		t.Error(err)
	}
}

func TestBMCThatIsNotReadyAfterItsFlashIsWaitedFor(t *testing.T) {
	for _, phase := range []string{"follow", "verify"} {
		for _, message := range []string{"IDRAC.2.8.SWC0700", "IDRAC.2.8.SYS518"} {
			m, d := newMachine(t, "dell")
			isOn(m)
			var ready atomic.Int64 // when it is, in seconds
			m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
				if r.Method == http.MethodGet && m.Now().Unix() < ready.Load() {
					said(w, http.StatusBadRequest, `{"error": {"@Message.ExtendedInfo": [{"MessageId": "`+message+`"}]}}`)
					return
				}
				bmc.ServeHTTP(w, r)
			})
			f := &flashing{m: m, d: d, step: firmwareStep("bmc", redfishtest.Serve(t, "ingot-firmware component=bmc version=9.9.1"))}
			if err := f.until(phase); err != nil {
				t.Fatal(err)
			}
			ready.Store(m.Now().Add(time.Minute).Unix())
			if err := f.until(""); err != nil || versions(m)["bmc"] != "9.9.1" {
				t.Errorf("%s, %s: error = %v, version %s", phase, message, err, versions(m)["bmc"])
			}
		}
	}
}

func TestBMCThatRefusesLoginsAfterItsFlashIsWaitedFor(t *testing.T) {
	for name, test := range map[string]struct {
		silent, refuses time.Duration
		restart         bool // of the engine
	}{
		"after it was silent":          {4 * time.Minute, time.Minute, false},
		"for most of the silence":      {0, 280 * time.Second, false},
		"while the engine starts anew": {0, 280 * time.Second, true},
	} {
		for _, auth := range []string{"session", "basic"} {
			m, _ := newMachine(t, "dell")
			d := redfish.New(redfish.Options{Clock: m.Now})
			t.Cleanup(func() { _ = d.Close(context.Background()) })
			isOn(m)
			var answers, ready atomic.Int64 // when it does, and is, in seconds
			m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
				switch now := m.Now().Unix(); {
				case now < answers.Load():
					panic(http.ErrAbortHandler)
				case now < ready.Load():
					said(w, http.StatusUnauthorized, `{}`)
				default:
					bmc.ServeHTTP(w, r)
				}
			})
			m.info(map[string]any{"redfish_auth_type": auth})
			f := &flashing{m: m, d: d, step: firmwareStep("bmc", redfishtest.Serve(t, "ingot-firmware component=bmc version=9.9.1"))}
			if err := f.until("verify"); err != nil {
				t.Fatal(err)
			}
			if test.restart {
				f.d = redfish.New(redfish.Options{Clock: m.Now})
				t.Cleanup(func() { _ = f.d.Close(context.Background()) })
			}
			answers.Store(m.Now().Add(test.silent).Unix())
			ready.Store(m.Now().Add(test.silent + test.refuses).Unix())
			if err := f.until(""); err != nil || versions(m)["bmc"] != "9.9.1" {
				t.Errorf("%s, %s: error = %v, version %s", name, auth, err, versions(m)["bmc"])
			}
		}
	}
}

func TestBMCThatRefusesLoginsForGoodAfterItsFlashFailsTheStep(t *testing.T) {
	m, _ := newMachine(t, "dell")
	d := redfish.New(redfish.Options{Clock: m.Now})
	t.Cleanup(func() { _ = d.Close(context.Background()) })
	isOn(m)
	var refuses atomic.Bool
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		if refuses.Load() {
			said(w, http.StatusUnauthorized, `{}`)
			return
		}
		bmc.ServeHTTP(w, r)
	})
	f := &flashing{m: m, d: d, step: firmwareStep("bmc", redfishtest.Serve(t, "ingot-firmware component=bmc version=9.9.1"))}
	if err := f.until("verify"); err != nil {
		t.Fatal(err)
	}
	refuses.Store(true)
	began := m.Now()
	var failure *node.DriverError
	// The runner makes the turn again, and counts anew after each turn that succeeds.
	for errors.As(f.until(""), &failure) && failure.Retryable {
		m.Pass(2 * time.Second)
		f.turn.Elapsed, f.turn.Attempt = f.turn.Elapsed+2*time.Second, driver.Unknown
	}
	if failure == nil || failure.Retryable || m.Now().Sub(began) > 15*time.Minute {
		t.Errorf("error = %v after %s, want one in some minutes", failure, m.Now().Sub(began))
	}
}

func TestEachComponentHasItsOwnTime(t *testing.T) {
	m, d := newMachine(t, "dell")
	isOn(m)
	m.Fail(effect.Faults{TaskTime: effect.Duration(80 * time.Minute), Only: []string{"flash"}})
	f := &flashing{m: m, d: d, step: firmwareStep(
		"bmc", redfishtest.Serve(t, "ingot-firmware component=bmc version=9.9.1"),
		"bios", redfishtest.Serve(t, "ingot-firmware component=bios version=9.9.2"),
	)}
	if err := f.until(""); err != nil {
		t.Errorf("after %s: %v", f.turn.Elapsed, err)
	}
}

// TestAbortLeavesOutTheComponentsThatWereNotAskedFor has a client abort at the beginning and while
// the first component is written, on a machine that is off.
func TestAbortLeavesOutTheComponentsThatWereNotAskedFor(t *testing.T) {
	for phase, want := range map[string]int{"": 0, "follow": 1, "verify": 1} {
		m, d := newMachine(t, "dell")
		f := &flashing{m: m, d: d, step: firmwareStep(
			"bios", redfishtest.Serve(t, "ingot-firmware component=bios version=9.9.2"),
			"bmc", redfishtest.Serve(t, "ingot-firmware component=bmc version=9.9.1"),
		)}
		if phase != "" {
			if err := f.until(phase); err != nil {
				t.Fatal(err)
			}
		}
		f.step.AbortAfter = true
		err := f.until("")
		flashes := slices.DeleteFunc(m.Effects(), func(kind string) bool { return kind != string(bmc.Flash) })
		if err != nil || len(flashes) != want || (versions(m)["bios"] == "9.9.2") != (want == 1) || m.Power() != bmc.Off {
			t.Errorf("aborted in phase %q: %v, %d flashes, versions %v, %s; want %d and the machine off", phase, err, len(flashes), versions(m), m.Power(), want)
		}
	}
}

// TestAbortLeavesOutAnUpdateThatTheBMCDidNotGet has a client abort right before the request, and
// while a lost request is looked for.
func TestAbortLeavesOutAnUpdateThatTheBMCDidNotGet(t *testing.T) {
	for _, phase := range []string{"send", "search"} {
		m, d := newMachine(t, "dell")
		flashedBefore(m)
		node.StoreFirmwareUpdates(m.node, nil)
		m.before = len(m.Server.Effects())
		f := &flashing{m: m, d: d, step: firmwareStep("bmc", redfishtest.Serve(t, "ingot-firmware component=bmc version=9.9.1"))}
		f.turn.Origin.Request = "update"
		for f.turn.Phase != phase {
			out, err := f.next()
			if err != nil {
				t.Fatal(err)
			}
			apply(m, out)
			if out.Phase == "send" && phase == "search" {
				f.turn.Attempt = driver.Unknown
			}
		}
		if noted := node.FirmwareUpdatesOf(m.node); len(noted) != 1 {
			t.Fatalf("in phase %q, %d updates are noted, want one", phase, len(noted))
		}
		f.step.AbortAfter = true
		f.finish(t)
		if noted := node.FirmwareUpdatesOf(m.node); len(m.Effects()) != 0 || len(noted) != 0 {
			t.Errorf("aborted in phase %q: effects %q, and noted is %+v; want neither", phase, m.Effects(), noted)
		}
	}
}

func TestUpdateReadsNothingElseThanItsComponent(t *testing.T) {
	m, d := newMachine(t, "dell")
	flashedBefore(m)
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		if strings.Contains(r.URL.Path, "/NetworkAdapters") || strings.Contains(r.URL.Path, "/TaskService/Tasks/") && !strings.HasSuffix(r.URL.Path, "2") {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, "<html>")
			return
		}
		bmc.ServeHTTP(w, r)
	})
	f := &flashing{m: m, d: d, step: firmwareStep("bmc", redfishtest.Serve(t, "ingot-firmware component=bmc version=9.9.1"))}
	if err := f.until(""); err != nil {
		t.Error(err)
	}
}

func TestUpdateIsRequestedAgainWithTheProtocolThatTheBMCMisses(t *testing.T) {
	m, d := newMachine(t, "dell")
	isOn(m)
	m.before = len(m.Server.Effects())
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		if r.Method == http.MethodPost && strings.Contains(r.URL.Path, "SimpleUpdate") {
			text, _ := io.ReadAll(r.Body)
			if !strings.Contains(string(text), `"TransferProtocol":"HTTP"`) {
				said(w, http.StatusBadRequest, generalError("TransferProtocol"))
				return
			}
			r.Body = io.NopCloser(strings.NewReader(string(text)))
		}
		bmc.ServeHTTP(w, r)
	})
	f := &flashing{m: m, d: d, step: firmwareStep("bmc", redfishtest.Serve(t, "ingot-firmware component=bmc version=9.9.1"))}
	if err := f.until(""); err != nil || !slices.Equal(m.Effects(), []string{"flash"}) {
		t.Errorf("error = %v, effects %q, want one flash", err, m.Effects())
	}
}
