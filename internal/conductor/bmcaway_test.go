package conductor

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/builtin"
	"github.com/ingot-metal/ingot/internal/driver/redfish"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
	"github.com/ingot-metal/ingot/internal/store"
)

// behindBMC returns a node in a state whose machine is on and has this simulated BMC, whose answers
// take so long. Its conductor was not started: live makes its attempts.
func (w *world) behindBMC(m *redfishtest.Server, state node.State, latency time.Duration) *node.Node {
	w.t.Helper()
	return w.over(&slowTransport{RoundTripper: m.Client().Transport, latency: latency, spent: map[time.Time]time.Duration{}}, m, state)
}

// over is behindBMC with a way to the BMC.
func (w *world) over(way http.RoundTripper, m *redfishtest.Server, state node.State) *node.Node {
	w.t.Helper()
	w.Conductor = w.idle("conductor-1", func(cfg *Config) { cfg.MaxAttempts = 5 })
	d := redfish.New(redfish.Options{Clock: w.clock.Now, Transport: way})
	w.t.Cleanup(func() { _ = d.Close(context.Background()) })
	drivers, err := builtin.New(driver.Config{}, builtin.Dependencies{Redfish: d})
	if err != nil {
		w.t.Fatal(err)
	}
	w.drivers = drivers
	m.Switch(true)
	m.Pass(time.Hour)
	return w.register(inState(state), func(n *node.Node) {
		n.Driver, n.PowerState = "redfish", node.PowerOn
		n.Interfaces[node.PowerInterface], n.Interfaces[node.ManagementInterface] = "redfish", "redfish"
		n.Interfaces[node.BIOSInterface], n.Interfaces[node.RAIDInterface], n.Interfaces[node.BootInterface] = "redfish", "redfish", "ipxe"
		n.DriverInfo = node.ObjectOf(map[string]any{
			"redfish_address": m.URL, "redfish_username": redfishtest.User, "redfish_password": redfishtest.Password,
		})
	})
}

// slowTransport is the way to a BMC whose answers take time, which no test waits for: a call ends when
// its answers have taken all that it has.
type slowTransport struct {
	http.RoundTripper
	latency time.Duration

	mu    sync.Mutex
	spent map[time.Time]time.Duration // by the deadline of the call
}

func (s *slowTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	deadline, _ := r.Context().Deadline()
	s.mu.Lock()
	s.spent[deadline] += s.latency
	late := !deadline.IsZero() && time.Until(deadline) < s.spent[deadline]
	s.mu.Unlock()
	if late {
		return nil, context.DeadlineExceeded
	}
	return s.RoundTripper.RoundTrip(r)
}

// workOn makes the attempts of a conductor that was not started, until no work is due.
func (w *world) workOn() {
	w.t.Helper()
	w.runner.RenewLeases(w.t.Context())
	w.runner.ClaimDue(w.t.Context())
	for w.runner.RunNext(w.t.Context()) {
		w.runner.ClaimDue(w.t.Context())
	}
}

// live lets time pass for the engine and for a machine until no work is left, and has each told
// before every second.
func (w *world) live(m *redfishtest.Server, each func()) {
	w.t.Helper()
	for range 4 * 3600 {
		w.workOn()
		if w.works() == 0 {
			return
		}
		each()
		w.clock.Advance(time.Second)
		m.Pass(time.Second)
	}
	w.t.Fatal("the work does not end")
}

// TestMachineInUseIsOnAgainThoughItsBMCWasAwayDuringItsRestart restarts the BMC when the operating system
// has shut down, before the machine is switched on again.
func TestMachineInUseIsOnAgainThoughItsBMCWasAwayDuringItsRestart(t *testing.T) {
	w := emptyWorld(t)
	m := redfishtest.Start(t, "dell", redfishtest.Options{Times: bmc.RealisticTimes()})
	n := w.behindBMC(m, node.Active, 0)
	setting := m.Profile().Attributes[slices.IndexFunc(m.Profile().Attributes, func(a bmc.Attribute) bool {
		return a.Type == bmc.Enumeration && !a.ReadOnly && len(a.Values) > 1
	})]
	value := setting.Values[slices.IndexFunc(setting.Values, func(v string) bool { return v != m.BIOS()[setting.Name] })]
	change := step("bios.apply_configuration")
	change.Args = map[string]any{"settings": []any{map[string]any{"name": setting.Name, "value": value}}}
	w.send(n, "service", with(change))
	w.live(m, func() {
		if m.Power() == bmc.Off && m.Restarts() == 0 {
			if err := m.Restart(&bmc.Call{}); err != nil {
				t.Fatal(err)
			}
		}
	})
	got := w.stored(n.UUID)
	if want := []string{"configure bios", "soft power off", "restart bmc", "power on"}; !slices.Equal(m.Effects(), want) || m.Power() != bmc.On {
		t.Errorf("effects %q, want %q; the machine is %s (%s: %s)", m.Effects(), want, m.Power(), got.ProvisionState, got.LastError)
	}
	if got.ProvisionState != node.Active || got.LastError != "" || m.BIOS()[setting.Name] != value {
		t.Errorf("state %q, last_error %q, %s is %v, want %s", got.ProvisionState, got.LastError, setting.Name, m.BIOS()[setting.Name], value)
	}
}

// TestRebootWhoseBMCIsAwayForLongerThanItsAttemptsLeavesTheMachineOn restarts the BMC when the machine is off.
func TestRebootWhoseBMCIsAwayForLongerThanItsAttemptsLeavesTheMachineOn(t *testing.T) {
	w := emptyWorld(t)
	times := bmc.RealisticTimes()
	times.BMCRestart = 45 * time.Second
	m := redfishtest.Start(t, "dell", redfishtest.Options{Times: times})
	n := w.behindBMC(m, node.Active, 0)
	if err := w.SetPower(t.Context(), n.UUID, node.SoftRebooting, 0); err != nil {
		t.Fatal(err)
	}
	w.live(m, func() {
		if m.Power() == bmc.Off && m.Restarts() == 0 {
			if err := m.Restart(&bmc.Call{}); err != nil {
				t.Fatal(err)
			}
		}
	})
	got := w.stored(n.UUID)
	if want := []string{"soft power off", "restart bmc", "power on"}; !slices.Equal(m.Effects(), want) || m.Power() != bmc.On || got.PowerState != node.PowerOn {
		t.Errorf("effects %q, want %q; the machine is %s, and the node %q (%s)", m.Effects(), want, m.Power(), got.PowerState, got.LastError)
	}
}

// movingAddress is the way to the address of a BMC, which may be given to another one.
type movingAddress struct {
	own, other *redfishtest.Server
	moved      bool
}

func (a *movingAddress) RoundTrip(r *http.Request) (*http.Response, error) {
	if !a.moved {
		return a.own.Client().Transport.RoundTrip(r)
	}
	at, err := url.Parse(a.other.URL)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.URL.Host, r.Host = at.Host, at.Host
	return a.other.Client().Transport.RoundTrip(r)
}

// TestMachineOfAnotherNodeIsNotSwitchedOnAfterAFailedReboot gives the address of a BMC that is away to another one
// between two attempts to leave the machine on.
func TestMachineOfAnotherNodeIsNotSwitchedOnAfterAFailedReboot(t *testing.T) {
	w := emptyWorld(t)
	times := bmc.RealisticTimes()
	times.BMCRestart = time.Hour
	m, other := redfishtest.Start(t, "dell", redfishtest.Options{Times: times}), redfishtest.Start(t, "dell", redfishtest.Options{Index: 1})
	way := &movingAddress{own: m, other: other}
	n := w.over(way, m, node.Active)
	w.standFor(w.register(), node.NewMachineIdentity(uuid.UUID(other.UUID()).String(), ""))
	if err := w.SetPower(t.Context(), n.UUID, node.SoftRebooting, 0); err != nil {
		t.Fatal(err)
	}
	w.live(m, func() {
		if m.Power() == bmc.Off && m.Restarts() == 0 {
			if err := m.Restart(&bmc.Call{}); err != nil {
				t.Fatal(err)
			}
		}
		work := w.workOf(n)
		way.moved = way.moved || work.Attempts > 0 && strings.Contains(work.Checkpoint, `"failing"`) && strings.Contains(work.Checkpoint, `"operation":{"name":"power on"`)
	})
	if got := w.stored(n.UUID); !way.moved || len(other.Effects()) > 0 || !strings.Contains(got.LastError, "the BMC belongs to the machine for which node") {
		t.Errorf("moved: %v; %q was done to the other machine, last_error %q", way.moved, other.Effects(), got.LastError)
	}
}

// withVolume has a volume made in a machine whose BMC takes 1.5 seconds for an answer, where calls have 10.
func (w *world) withVolume() (*redfishtest.Server, *node.Node) {
	w.t.Helper()
	m := redfishtest.Start(w.t, "dell", redfishtest.WithDrives("dell", 4))
	n := w.behindBMC(m, node.Manageable, 1500*time.Millisecond)
	before, after := w.stored(n.UUID), *w.stored(n.UUID)
	after.TargetRAIDConfig = node.ObjectOf(map[string]any{"logical_disks": []any{map[string]any{"size_gb": 20, "raid_level": "1"}}})
	w.update(before, &after)
	w.send(n, "clean", with(step("raid.create_configuration")))
	w.live(m, func() {})
	return m, w.stored(n.UUID)
}

func TestVolumesAreMadeThoughAllTheStorageTakesLongerToReadThanOtherCalls(t *testing.T) {
	w := emptyWorld(t)
	if m, got := w.withVolume(); got.ProvisionState != node.Manageable || len(m.Volumes()) != 1 {
		t.Errorf("state %q (%s), volumes %v, want one", got.ProvisionState, got.LastError, m.Volumes())
	}
}

func TestVolumesAreReadAfterFailedStepsThoughThatTakesLongerThanOtherSettings(t *testing.T) {
	w := emptyWorld(t)
	_, n := w.withVolume()
	for _, f := range flows {
		n.RAIDConfig, n.DriverInternalInfo = nil, node.ObjectOf(map[string]any{f.listKey(): []node.Step{step("raid.create_configuration")}})
		left := map[driver.StepKind]func(runner.Task) []runner.Operation{
			driver.CleanSteps: w.cleanUpCleaning, driver.DeploySteps: w.cleanUpDeployment, driver.ServiceSteps: w.cleanUpServicing,
		}[f.kind](runner.Task{Work: &store.Work{ID: 7}, Node: n})
		read := left[slices.IndexFunc(left, func(o runner.Operation) bool { return o.Name == settingsName })]
		ctx, cancel := context.WithTimeout(t.Context(), read.Within)
		defer cancel()
		write, err := read.Read(ctx, n)
		if err != nil {
			t.Fatal(err)
		}
		w.write(func(tx *store.Tx) error { return write(tx, n) })
		if !strings.Contains(n.RAIDConfig.String(), "logical_disks") {
			t.Errorf("%s: raid_config %s after %s, want the volume", f.kind, n.RAIDConfig, read.Within)
		}
	}
}

// TestMachineOfFailedWorkIsLeftInOrderAfterAWhile has what leaves it in order fail in turn.
func TestMachineOfFailedWorkIsLeftInOrderAfterAWhile(t *testing.T) {
	broken := runner.Final(errors.New("no brush"))
	silent, never := &node.DriverError{Op: "tidy", Retryable: true, Reason: "silent"}, &node.DriverError{Op: "tidy", Reason: "never"}
	for name, tc := range map[string]struct {
		paint error // why the work fails
		fails []error
		calls int
		left  string // the end of last_error
	}{
		"once it answers":          {broken, []error{silent, silent}, 3, "Failed to paint: no brush"},
		"after all tries to do it": {silent, []error{silent, silent}, 3, "gave up after 3 attempts, outcome unknown, so check the machine: tidy: silent"},
		"unless it never answers":  {broken, []error{silent, silent, silent, silent}, 3, "no brush Then, leaving the machine in order failed: tidy: silent"},
		"unless that cannot be so": {broken, []error{never, silent}, 1, "no brush Then, leaving the machine in order failed: tidy: never"},
	} {
		t.Run(name, func(t *testing.T) {
			w := emptyWorld(t)
			w.Conductor = w.idle("conductor-1")
			calls := 0
			w.scripts["paint"] = runner.Script{
				End: keepNode, Failed: func(_ *node.Node, reason string) string { return "Failed to paint: " + reason },
				Operations: func(runner.Task) ([]runner.Operation, error) {
					return []runner.Operation{{Ref: runner.Ref{Name: "paint"}, Change: func(context.Context, *node.Node, driver.Turn) (driver.Outcome, error) {
						return driver.Outcome{}, tc.paint
					}}}, nil
				},
				CleanUp: func(runner.Task) []runner.Operation {
					return []runner.Operation{{Ref: runner.Ref{Name: "tidy"}, Change: func(context.Context, *node.Node, driver.Turn) (driver.Outcome, error) {
						if calls++; calls <= len(tc.fails) {
							return driver.Outcome{}, tc.fails[calls-1]
						}
						return driver.Outcome{}, nil
					}}}
				},
			}
			n := w.register()
			w.write(func(tx *store.Tx) error { return tx.AddWork(&store.Work{NodeID: n.ID, Kind: "paint"}) })
			for range 10 {
				w.runner.ClaimDue(t.Context())
				w.runner.RunNext(t.Context())
				w.clock.Advance(time.Minute)
			}
			if got := w.stored(n.UUID); w.works() != 0 || calls != tc.calls || !strings.HasSuffix(got.LastError, tc.left) {
				t.Errorf("%d calls, want %d; last_error %q, want that it ends with %q; %d pieces of work are left", calls, tc.calls, got.LastError, tc.left, w.works())
			}
		})
	}
}

func TestMachineIsLeftAloneForAsLongAsItAsks(t *testing.T) {
	w := emptyWorld(t)
	w.Conductor = w.idle("conductor-1")
	w.scripts["paint"] = runner.Script{End: keepNode, Operations: func(runner.Task) ([]runner.Operation, error) {
		return []runner.Operation{{Ref: runner.Ref{Name: "paint"}, Change: func(context.Context, *node.Node, driver.Turn) (driver.Outcome, error) {
			return driver.Outcome{}, &node.DriverError{Op: "paint", Retryable: true, RetryAfter: 3 * time.Minute}
		}}}, nil
	}}
	n := w.register()
	w.write(func(tx *store.Tx) error { return tx.AddWork(&store.Work{NodeID: n.ID, Kind: "paint"}) })
	w.runner.ClaimDue(t.Context())
	w.runner.RunNext(t.Context())
	if got := w.nextDue(); got != 3*time.Minute {
		t.Errorf("the next attempt is in %s, want 3 minutes", got)
	}
}
