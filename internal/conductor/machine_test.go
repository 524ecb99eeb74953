package conductor

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/builtin"
	"github.com/ingot-metal/ingot/internal/driver/fake"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// standIn is a machine that remembers what was done to it.
type standIn struct {
	mu      sync.Mutex
	power   node.PowerState
	effects []fake.Effect
	calls   int // under way
	most    int // of them at once
	// answer decides how an effect that was carried out is answered; nil means that it
	// is done.
	answer func(ctx context.Context, number int) (fake.Task, error)
	mute   error // why Outcome does not answer
}

var _ fake.Machine = (*standIn)(nil)

// machineOf gives the nodes of a conductor that was not started a machine.
func machineOf(t *testing.T, c *Conductor) *standIn {
	t.Helper()
	m := &standIn{power: node.PowerOff}
	drivers, err := builtin.New(driver.Config{}, builtin.Dependencies{
		FakeMachine: func(*node.Node) (fake.Machine, bool) { return m, true },
	})
	if err != nil {
		t.Fatal(err)
	}
	c.drivers = drivers
	return m
}

// PowerState returns what the last effect left.
func (m *standIn) PowerState(context.Context) (node.PowerState, error) {
	defer m.call()()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.power, nil
}

// call counts a call until the returned function is called.
func (m *standIn) call() (end func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	m.most = max(m.most, m.calls)
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.calls--
	}
}

// Do carries the effect out at once.
func (m *standIn) Do(ctx context.Context, e fake.Effect) (fake.Task, error) {
	defer m.call()()
	m.mu.Lock()
	m.effects = append(m.effects, e)
	switch e.Kind {
	case fake.PowerOn:
		m.power = node.PowerOn
	case fake.PowerOff, fake.SoftPowerOff:
		m.power = node.PowerOff
	}
	number, answer := len(m.effects), m.answer
	m.mu.Unlock()
	if answer == nil {
		return fake.Task{State: fake.Done}, nil
	}
	return answer(ctx, number)
}

// Outcome knows every effect.
func (m *standIn) Outcome(_ context.Context, request string) (fake.Task, error) {
	defer m.call()()
	if m.mute != nil {
		return fake.Task{}, m.mute
	}
	if slices.ContainsFunc(m.done(), func(e fake.Effect) bool { return e.Origin.Request == request }) {
		return fake.Task{State: fake.Done}, nil
	}
	return fake.Task{State: fake.None}, nil
}

// Settings are those of the factory.
func (*standIn) Settings(context.Context) (fake.Settings, error) { return fake.Settings{}, nil }

// done returns the effects so far.
func (m *standIn) done() []fake.Effect {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.effects)
}

// kinds returns the kinds of the effects so far.
func (m *standIn) kinds() []fake.Kind {
	var kinds []fake.Kind
	for _, e := range m.done() {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

// TestCallThatPanickedIsNotRepeatedAsIfItWereTheFirst has a driver panic after its
// machine was wiped.
func TestCallThatPanickedIsNotRepeatedAsIfItWereTheFirst(t *testing.T) {
	w := emptyWorld(t)
	c := w.idle("conductor-1")
	m := machineOf(t, c)
	m.answer = func(_ context.Context, number int) (fake.Task, error) {
		if number == 1 {
			panic("the answer is not understood")
		}
		return fake.Task{State: fake.Done}, nil
	}
	w.Conductor = w.run(c)
	n := w.fake(node.Manageable, nil)
	w.send(n, "clean", with(step("deploy.erase_devices")))
	w.eventually("the work to be put off", func() bool { return w.workOf(n).Attempts == 1 })
	w.pass(time.Minute)
	w.awaitWorkDone()
	if got := w.arrive(n, node.Manageable); got.LastError != "" {
		t.Errorf("last_error %q", got.LastError)
	}
	if got := m.kinds(); !slices.Equal(got, []fake.Kind{fake.Wipe}) {
		t.Errorf("effects %q, want the disks wiped once", got)
	}
}

// TestDriversAreToldWhatIsKnownOfTheirCalls has calls fail in turn.
func TestDriversAreToldWhatIsKnownOfTheirCalls(t *testing.T) {
	lost, refused := &node.DriverError{Op: "paint", Retryable: true}, &node.DriverError{Op: "paint", Retryable: true, Refused: true}
	for name, tc := range map[string]struct {
		fails []error
		want  []driver.Attempt
	}{
		"refused":            {[]error{refused, refused}, []driver.Attempt{driver.Fresh, driver.Refused, driver.Refused}},
		"lost":               {[]error{lost}, []driver.Attempt{driver.Fresh, driver.Unknown}},
		"refused, then lost": {[]error{refused, lost}, []driver.Attempt{driver.Fresh, driver.Refused, driver.Unknown}},
		"lost, then refused": {[]error{lost, refused}, []driver.Attempt{driver.Fresh, driver.Unknown, driver.Unknown}},
	} {
		t.Run(name, func(t *testing.T) {
			w := emptyWorld(t)
			w.Conductor = w.idle("conductor-1")
			var told []driver.Attempt
			w.scripts["paint"] = runner.Script{End: keepNode, Operations: func(runner.Task) ([]runner.Operation, error) {
				return []runner.Operation{{Ref: runner.Ref{Name: "paint"}, Change: func(_ context.Context, _ *node.Node, turn driver.Turn) (driver.Outcome, error) {
					told = append(told, turn.Attempt)
					if len(told) <= len(tc.fails) {
						return driver.Outcome{}, tc.fails[len(told)-1]
					}
					return driver.Outcome{}, nil
				}}}, nil
			}}
			n := w.register()
			w.write(func(tx *store.Tx) error { return tx.AddWork(&store.Work{NodeID: n.ID, Kind: "paint"}) })
			for range tc.want {
				w.runner.ClaimDue(t.Context())
				w.runner.RunNext(t.Context())
				w.clock.Advance(time.Minute)
			}
			if !slices.Equal(told, tc.want) || w.works() != 0 {
				t.Errorf("told %q, want %q; %d pieces of work are left", told, tc.want, w.works())
			}
		})
	}
}

// TestRequestForANodeUnderWorkIsRefusedAtOnce has work make a call that takes as long as
// calls may.
func TestRequestForANodeUnderWorkIsRefusedAtOnce(t *testing.T) {
	w := emptyWorld(t)
	c := w.idle("conductor-1", func(cfg *Config) { cfg.CallsPerBMC, cfg.CallTimeout = 1, 100*time.Millisecond })
	m := machineOf(t, c)
	called, end := make(chan struct{}), make(chan struct{})
	m.answer = func(context.Context, int) (fake.Task, error) {
		close(called)
		<-end
		return fake.Task{State: fake.Done}, nil
	}
	w.Conductor = w.run(c)
	defer close(end)
	n := w.fake(node.Manageable, nil)
	w.send(n, "clean", with(step("deploy.erase_devices")))
	<-called
	wantAs[*node.LockedError](t, w.SetBootDevice(t.Context(), n.UUID, node.BootDevice{Device: "disk"}))
	wantAs[*node.LockedError](t, w.InjectNMI(t.Context(), n.UUID))
}

// TestRequestsTakeThePlacesOfWorkAtABMC has work call a BMC for as long as requests for
// another node behind it are made.
func TestRequestsTakeThePlacesOfWorkAtABMC(t *testing.T) {
	w := emptyWorld(t)
	c := w.idle("conductor-1", func(cfg *Config) { cfg.CallsPerBMC, cfg.CallTimeout = 1, 100*time.Millisecond })
	m := machineOf(t, c)
	called, end := make(chan struct{}), make(chan struct{})
	m.answer = func(context.Context, int) (fake.Task, error) {
		if len(m.done()) == 1 {
			close(called)
			<-end
		}
		return fake.Task{State: fake.Done}, nil
	}
	w.Conductor = w.run(c)
	defer close(end)
	behind := map[string]any{"fake_bmc": "192.0.2.1"}
	n, neighbour := w.fake(node.Manageable, behind), w.fake(node.Manageable, behind)
	w.send(n, "clean", with(step("deploy.erase_devices")))
	<-called
	read := node.VendorCall{HTTPMethod: "POST", Method: "fourth_method_shared_lock", Body: node.Object(`{"bar":"woof"}`)}
	for name, err := range map[string]error{
		"change": w.SetBootDevice(t.Context(), neighbour.UUID, node.BootDevice{Device: "disk"}),
		"read":   func() error { _, _, err := w.CallVendor(t.Context(), neighbour.UUID, read); return err }(),
	} {
		var busy *node.DriverError
		if !errors.As(err, &busy) || !busy.Retryable || !strings.Contains(busy.Reason, "earlier calls") {
			t.Errorf("%s: %v; want it to say that earlier calls take long", name, err)
		}
	}
	if m.most > 1 {
		t.Errorf("%d calls at once, want one", m.most)
	}
}

// TestNoCallIsMadeBesideAnotherWhenTheClockJumps has the database's clock go on by an
// hour in the middle of a call, as after the sleep of a machine, so that every lease has
// run out.
func TestNoCallIsMadeBesideAnotherWhenTheClockJumps(t *testing.T) {
	w := emptyWorld(t)
	m, began, _ := hangingCall(t, w, func(cfg *Config) { cfg.CallTimeout = 100 * time.Millisecond })
	n := w.fake(node.Manageable, nil)
	w.send(n, "clean", with(step("deploy.erase_devices")))
	<-began
	w.pass(time.Hour)
	w.passUntilDone()
	w.arrive(n, node.Manageable)
	if got := m.kinds(); !slices.Equal(got, []fake.Kind{fake.Wipe}) || m.most > 1 {
		t.Errorf("effects %q, %d calls at once; want one effect, and one call at a time", got, m.most)
	}
}

// teller is a driver of machines that report wrong settings.
type teller struct {
	fake.Hardware
	bios func() []node.BIOSSetting
	mode string
	kept int // of its settings, at least
}

func (d teller) BIOSSettings(context.Context, *node.Node) ([]node.BIOSSetting, error) {
	return d.bios(), nil
}

func (d teller) BootMode(context.Context, *node.Node) (string, error) { return d.mode, nil }

func TestNothingThatAMachineSaysOfItsSettingsFailsItsNode(t *testing.T) {
	few := func() []node.BIOSSetting { return []node.BIOSSetting{{Name: "VT", Value: "on"}} }
	for name, d := range map[string]teller{
		"a driver that panics": {bios: func() []node.BIOSSetting { panic("no registry") }},
		"settings without end": {bios: func() []node.BIOSSetting {
			return []node.BIOSSetting{{Name: "VT", Value: strings.Repeat("x", maxSettings)}}
		}},
		"one setting without end": {bios: func() []node.BIOSSetting {
			return append(few(), node.BIOSSetting{Name: "X", Value: strings.Repeat("x", 1<<16)})
		}, kept: 1},
		"settings of any number": {bios: func() []node.BIOSSetting {
			return append(few(), slices.Repeat([]node.BIOSSetting{{Name: strings.Repeat("X", 1<<14)}}, 1<<10)...)
		}, kept: 1},
		"text that is none":    {bios: func() []node.BIOSSetting { return []node.BIOSSetting{{Name: "VT\x00", Value: "\xff"}} }},
		"a boot mode of bytes": {bios: few, mode: "uefi\x00\xff"},
		"a boot mode too long": {bios: few, mode: strings.Repeat("u", 1<<20)},
	} {
		t.Run(name, func(t *testing.T) {
			w := emptyWorld(t)
			c := w.idle("conductor-1")
			var built driver.Implementations
			for _, kind := range []node.InterfaceKind{node.PowerInterface, node.ManagementInterface, node.BIOSInterface} {
				built[kind] = map[string]driver.Implementation{"fake": d}
			}
			var err error
			if c.drivers, err = driver.New(driver.Config{}, built); err != nil {
				t.Fatal(err)
			}
			w.Conductor = w.run(c)
			n := w.fake(node.Enroll, nil)
			w.send(n, "manage")
			w.awaitWorkDone()
			if got := w.arrive(n, node.Manageable); got.LastError != "" || len(got.BootMode) > 3000 {
				t.Errorf("last_error %q, boot mode of %d bytes", got.LastError, len(got.BootMode))
			}
			hardware, err := w.Hardware(t.Context(), n.UUID)
			if text, _ := json.Marshal(hardware); err != nil || len(text) > maxSettings+maxSettings/8 || len(hardware.BIOS) < d.kept {
				t.Errorf("%d settings of %d bytes, %v", len(hardware.BIOS), len(text), err)
			}
		})
	}
}

// halfReader is a driver of machines that show only some of their firmware.
type halfReader struct{ fake.Hardware }

func (halfReader) FirmwareComponents(context.Context, *node.Node) ([]node.FirmwareComponent, error) {
	return []node.FirmwareComponent{{Component: "bios", InitialVersion: "2", CurrentVersion: "2"}}, errors.New("no adapters")
}

func TestFirmwareThatCannotBeReadStaysAsItWas(t *testing.T) {
	w := emptyWorld(t)
	c := w.idle("conductor-1")
	built := driver.Implementations{}
	for _, kind := range []node.InterfaceKind{node.PowerInterface, node.ManagementInterface, node.FirmwareInterface} {
		built[kind] = map[string]driver.Implementation{"fake": halfReader{}}
	}
	var err error
	if c.drivers, err = driver.New(driver.Config{}, built); err != nil {
		t.Fatal(err)
	}
	w.Conductor = w.run(c)
	n := w.fake(node.Enroll, nil)
	w.write(func(tx *store.Tx) error {
		return tx.SetHardware(n.ID, node.Hardware{Firmware: []node.FirmwareComponent{
			{Component: "nic:1", InitialVersion: "1", CurrentVersion: "1"}, {Component: "bios", InitialVersion: "1", CurrentVersion: "1"},
		}})
	})
	w.send(n, "manage")
	w.awaitWorkDone()
	w.arrive(n, node.Manageable)
	hardware, err := w.Hardware(t.Context(), n.UUID)
	if err != nil || len(hardware.Firmware) != 2 || hardware.Firmware[0].CurrentVersion != "2" || hardware.Firmware[0].InitialVersion != "1" ||
		hardware.Firmware[1].Component != "nic:1" || !hardware.Firmware[1].UpdatedAt.IsZero() {
		t.Errorf("firmware = %+v, %v; want the new version of the BIOS, and the adapter of before", hardware.Firmware, err)
	}
}

// TestVerbsWaitForWorkBesideTheStateThatIsTriedAgain has a power change fail that would
// otherwise be tried again in the middle of a cleaning.
func TestVerbsWaitForWorkBesideTheStateThatIsTriedAgain(t *testing.T) {
	w := emptyWorld(t)
	c := w.idle("conductor-1")
	m := machineOf(t, c)
	m.answer = func(_ context.Context, number int) (fake.Task, error) {
		if number == 1 {
			return fake.Task{}, &node.DriverError{Op: "power on", Reason: "busy", Retryable: true}
		}
		return fake.Task{State: fake.Done}, nil
	}
	w.Conductor = w.run(c)
	n := w.fake(node.Manageable, nil)
	if err := w.SetPower(t.Context(), n.UUID, node.PowerOn, 0); err != nil {
		t.Fatal(err)
	}
	w.eventually("the power change to be put off", func() bool { return w.workOf(n).Attempts == 1 })
	wantAs[*node.LockedError](t, w.try(n, "clean", with(step("deploy.erase_devices"))))
	wantAs[*node.LockedError](t, w.try(n, "inspect"))
	w.pass(time.Minute)
	w.awaitWorkDone()
	w.send(n, "clean", with(step("deploy.erase_devices")))
	w.awaitWorkDone()
	if got := w.arrive(n, node.Manageable); got.LastError != "" {
		t.Errorf("last_error %q", got.LastError)
	}
}

// TestEffectIsNotRepeatedBecauseWhatFollowsCannotBeStored has the commit behind a call
// fail, though the database is there.
func TestEffectIsNotRepeatedBecauseWhatFollowsCannotBeStored(t *testing.T) {
	for name, tc := range map[string]struct {
		out   driver.Outcome
		ends  int    // how often the end of the script fails
		fails string // what last_error has
	}{
		"the end of the work fails once":   {ends: 1},
		"the end of the work always fails": {ends: 99, fails: "gave up after 3 attempts: cannot be stored"},
		"its outcome panics":               {out: driver.Outcome{Apply: func(*node.Node) { panic("no such field") }}, fails: "no such field"},
		"its outcome panics in a wait":     {out: driver.Outcome{Apply: func(*node.Node) { panic("no such field") }, Park: time.Second}, fails: "no such field"},
	} {
		t.Run(name, func(t *testing.T) {
			w := emptyWorld(t)
			w.Conductor = w.idle("conductor-1")
			calls, ended := 0, 0
			w.scripts["paint"] = runner.Script{
				Operations: func(runner.Task) ([]runner.Operation, error) {
					return []runner.Operation{{Ref: runner.Ref{Name: "paint"}, Change: func(context.Context, *node.Node, driver.Turn) (driver.Outcome, error) {
						calls++
						return tc.out, nil
					}}}, nil
				},
				End: func(*store.Tx, runner.Task, *node.Node) error {
					if ended++; ended <= tc.ends {
						return errors.New("cannot be stored")
					}
					return nil
				},
			}
			n := w.register()
			w.write(func(tx *store.Tx) error { return tx.AddWork(&store.Work{NodeID: n.ID, Kind: "paint"}) })
			for range 5 {
				w.runner.ClaimDue(t.Context())
				w.runner.RunNext(t.Context())
				w.clock.Advance(time.Minute)
			}
			got := w.stored(n.UUID)
			if calls != 1 || w.works() != 0 || (got.LastError == "") != (tc.fails == "") || !strings.Contains(got.LastError, tc.fails) {
				t.Errorf("%d calls, %d pieces of work are left, last_error %q; want one call, %q", calls, w.works(), got.LastError, tc.fails)
			}
		})
	}
}
