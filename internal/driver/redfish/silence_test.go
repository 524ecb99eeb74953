package redfish_test

import (
	"context"
	"errors"
	"net/http"
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

// outlasting makes the turns of a change. From the first turn in a phase on, the BMC does not
// answer for a while. It returns the turns in which the BMC did not answer.
func outlasting(m *machine, phase string, away time.Duration, do func(context.Context, driver.Turn) (driver.Outcome, error)) (silent int, err error) {
	var until time.Time
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		if m.Now().Before(until) {
			panic(http.ErrAbortHandler)
		}
		bmc.ServeHTTP(w, r)
	})
	turn := driver.Turn{}
	for range 2000 {
		if turn.Phase == phase && until.IsZero() {
			until = m.Now().Add(away)
		}
		if m.Now().Before(until) {
			silent++
		}
		out, err := do(m.t.Context(), turn)
		if err != nil || out.Done() {
			return silent, err
		}
		m.Pass(max(out.Again, out.Park))
		turn = drivertest.After(turn, out)
	}
	m.t.Fatal("the change does not end")
	return silent, nil
}

func TestChangeUnderWayOutlastsABMCThatIsAway(t *testing.T) {
	raid := func(m *machine, d redfish.Driver) func(context.Context, driver.Turn) (driver.Outcome, error) {
		return m.stepTurn(d, raidStep("create_configuration", nil))
	}
	bios := func(m *machine, d redfish.Driver) func(context.Context, driver.Turn) (driver.Outcome, error) {
		name, value := otherValue(m)
		return func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
			return stepper(d, node.BIOSInterface).RunStep(ctx, m.node, driver.ServiceSteps, biosStep(map[string]any{name: value}), turn)
		}
	}
	firmware := func(m *machine, d redfish.Driver) func(context.Context, driver.Turn) (driver.Outcome, error) {
		step := firmwareStep("bios", redfishtest.Serve(t, "ingot-firmware component=bios version=9.9.1"))
		return func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
			return stepper(d, node.FirmwareInterface).RunStep(ctx, m.node, driver.ServiceSteps, step, turn)
		}
	}
	secure := func(m *machine, d redfish.Driver) func(context.Context, driver.Turn) (driver.Outcome, error) {
		return func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
			return d.SetSecureBoot(ctx, m.node, true, turn)
		}
	}
	mode := func(m *machine, d redfish.Driver) func(context.Context, driver.Turn) (driver.Outcome, error) {
		if _, err := d.SetBootMode(t.Context(), m.node, "bios", fresh); err != nil {
			t.Fatal(err)
		}
		return func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
			if turn.Phase == "" { // as of a BMC that does not show the mode before a restart
				turn = driver.Turn{Attempt: driver.Continued, Phase: "off"}
			}
			return d.SetBootMode(ctx, m.node, "bios", turn)
		}
	}
	for name, test := range map[string]struct {
		vendor string
		change func(*machine, redfish.Driver) func(context.Context, driver.Turn) (driver.Outcome, error)
		phases []string
	}{
		"BIOS settings": {"dell", bios, []string{"soft off sent", "on", "on sent", "verify"}},
		"BIOS firmware": {"dell", firmware, []string{"follow", "soft off sent", "on", "verify"}},
		"RAID volumes":  {"hpe", raid, []string{"follow", "off sent", "on", "verify"}},
		"secure boot":   {"dell", secure, []string{"off sent", "on", "verify"}},
		"boot mode":     {"dell", mode, []string{"off sent", "on", "verify"}},
	} {
		for _, phase := range test.phases {
			m, d := raidMachine(t, test.vendor, mirror())
			if silent, err := outlasting(m, phase, 4*time.Minute, test.change(m, d)); err != nil || silent == 0 || m.Power() != bmc.On {
				t.Errorf("%s, away in phase %q: error = %v after %d turns, the machine is %s", name, phase, err, silent, m.Power())
			}
		}
		m, d := raidMachine(t, test.vendor, mirror())
		if silent, err := outlasting(m, test.phases[0], 6*time.Minute, test.change(m, d)); err == nil || silent == 0 {
			t.Errorf("%s, away for longer than a BMC may be: error = %v after %d turns, want one", name, err, silent)
		}
	}
}

// TestWaitForAnUpdateInDoubtOutlastsABMCThatIsAway has a step whose row says that it may have begun,
// and a BMC that writes its own firmware.
func TestWaitForAnUpdateInDoubtOutlastsABMCThatIsAway(t *testing.T) {
	for away, outlasted := range map[time.Duration]bool{4 * time.Minute: true, 6 * time.Minute: false} {
		m, d := newMachine(t, "dell")
		flashedBefore(m)
		m.before = len(m.Server.Effects())
		file := redfishtest.Serve(t, "ingot-firmware component=bmc version=9.9.1")
		m.SlowTasks()
		if _, err := m.Update(t.Context(), &bmc.Call{}, file, "bmc"); err != nil { // whose row was lost
			t.Fatal(err)
		}
		m.Heal()
		silent, err := outlasting(m, "serve waits", away, func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
			if turn.Phase == "" {
				turn.Attempt = driver.Unknown
			}
			out, err := stepper(d, node.FirmwareInterface).RunStep(ctx, m.node, driver.CleanSteps, firmwareStep("bmc", file), turn)
			apply(m, out)
			return out, err
		})
		if silent == 0 || (err == nil) != outlasted || !slices.Equal(m.Effects(), []string{"flash"}) {
			t.Errorf("away for %s: error = %v after %d turns, effects %q; want that it goes on: %t, with the first flash alone", away, err, silent, m.Effects(), outlasted)
		}
	}
}

// TestResetWhoseAnswerWasLostIsNotRepeatedBlindlyAfterTheSilence has a machine that must not be
// switched off.
func TestResetWhoseAnswerWasLostIsNotRepeatedBlindlyAfterTheSilence(t *testing.T) {
	m, d := raidMachine(t, "dell")
	m.node.DisablePowerOff = true
	name, value := otherValue(m)
	lost := false
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		if strings.Contains(r.URL.Path, "ComputerSystem.Reset") && !lost {
			lost = true
			bmc.ServeHTTP(&nowhere{header: http.Header{}}, r)
			panic(http.ErrAbortHandler)
		}
		bmc.ServeHTTP(w, r)
	})
	_, err := run(m, func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
		return stepper(d, node.BIOSInterface).RunStep(ctx, m.node, driver.CleanSteps, biosStep(map[string]any{name: value}), turn)
	})
	if want := []string{"configure bios", "reboot"}; err == nil || !strings.Contains(err.Error(), "outcome unknown") || !slices.Equal(m.Effects(), want) {
		t.Errorf("error = %v, effects %q, want that the outcome is unknown after %q", err, m.Effects(), want)
	}
}

// nowhere takes an answer that nobody gets.
type nowhere struct{ header http.Header }

func (n *nowhere) Header() http.Header         { return n.header }
func (n *nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (n *nowhere) WriteHeader(int)             {}

func TestBMCSaysForHowLongItIsToBeLeftAlone(t *testing.T) {
	m, _ := newMachine(t, "dell")
	d := redfish.New(redfish.Options{Clock: m.Now})
	t.Cleanup(func() { _ = d.Close(context.Background()) })
	status, after := http.StatusOK, ""
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		if status == http.StatusOK {
			bmc.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Retry-After", after)
		said(w, status, `{}`)
	})
	if failure := read(t, d, m.node); failure != nil {
		t.Fatal(failure)
	}
	for _, test := range []struct {
		status int
		after  string
		want   time.Duration
	}{
		{http.StatusServiceUnavailable, "90", 90 * time.Second},
		{http.StatusTooManyRequests, "90", 90 * time.Second},
		{http.StatusServiceUnavailable, m.Now().Add(time.Minute).UTC().Format(http.TimeFormat), time.Minute},
		{http.StatusServiceUnavailable, "86400", 5 * time.Minute},
		{http.StatusServiceUnavailable, "-1", 0},
		{http.StatusServiceUnavailable, "soon", 0},
		{http.StatusInternalServerError, "90", 0},
	} {
		status, after = test.status, test.after
		var failure *node.DriverError
		if _, err := d.PowerState(t.Context(), m.node); !errors.As(err, &failure) || !failure.Retryable || failure.RetryAfter != test.want {
			t.Errorf("%d with %q: %+v, want %s", test.status, test.after, err, test.want)
		}
	}
}

// answersOnly is the way to a BMC that has no time for more answers than these.
type answersOnly struct {
	http.RoundTripper
	left int
}

func (a *answersOnly) RoundTrip(r *http.Request) (*http.Response, error) {
	if a.left--; a.left < 0 {
		return nil, context.DeadlineExceeded
	}
	return a.RoundTripper.RoundTrip(r)
}

func TestBMCThatIsOnlySlowIsSaidToBe(t *testing.T) {
	for answers, slow := range map[int]bool{0: false, 12: true} {
		m, _ := newMachine(t, "dell")
		d := redfish.New(redfish.Options{Transport: &answersOnly{m.Client().Transport, answers}})
		t.Cleanup(func() { _ = d.Close(context.Background()) })
		_, err := d.Interfaces()[node.RAIDInterface].(driver.RAID).RAIDConfig(t.Context(), m.node)
		if err == nil || strings.Contains(err.Error(), "raise conductor.call_timeout") != slow {
			t.Errorf("after %d answers: %v, want that it says what to do: %t", answers, err, slow)
		}
	}
}
