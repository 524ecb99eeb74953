package bmc_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/internal/sim/hardware"
)

// bench is one BMC with its computer and its clock.
type bench struct {
	*bmc.BMC
	t        *testing.T
	recorder *effect.Recorder
	computer *computer
	now      time.Time
	wakes    []time.Duration
}

// computer logs what its BMC does to it.
type computer struct {
	log             []string
	boot            bmc.Boot
	on              bool
	ignoresShutdown bool // its operating system ignores requests to shut down
	// booted, if set, is called when it boots.
	booted func()
}

func (c *computer) PowerOn(b bmc.Boot) {
	if c.booted != nil {
		c.booted()
	}
	c.log, c.boot, c.on = append(c.log, "on from "+string(b.Source)), b, true
}

func (c *computer) PowerOff() { c.log, c.on = append(c.log, "off"), false }

func (c *computer) Shutdown() bool {
	c.log = append(c.log, "shut down")
	return !c.ignoresShutdown
}

func (c *computer) On() bool { return c.on }

var times = bmc.Times{
	PowerOn: 3 * time.Second, PowerOff: 4 * time.Second, Shutdown: 30 * time.Second, PowerCycle: 10 * time.Second,
	POST: time.Minute, Flash: 3 * time.Minute, BMCRestart: 4 * time.Minute,
}

var profile = bmc.Profile{
	Vendor:  "acme",
	Resets:  []bmc.ResetType{bmc.ResetOn, bmc.ResetForceOff, bmc.ResetForceRestart, bmc.ResetGracefulShutdown, bmc.ResetGracefulRestart, bmc.ResetPowerCycle, bmc.ResetPushPowerButton},
	Targets: map[bmc.Target]bmc.Source{bmc.TargetPXE: bmc.FromNetwork, bmc.TargetDisk: bmc.FromDisk, bmc.TargetCD: bmc.FromCD},
	Slots:   []bmc.Slot{{ID: "CD", Types: []string{"CD"}, Sources: []bmc.Source{bmc.FromCD}}},
	Attributes: []bmc.Attribute{
		{Name: "Mode", Type: bmc.Enumeration, Values: []string{"A", "B"}, Default: "A"},
		{Name: "Count", Type: bmc.Integer, Min: 1, Max: 5, Default: int64(1)},
		{Name: "Fixed", Type: bmc.Text, Max: 9, Default: "x", ReadOnly: true},
	},
	BMCVersion: "1.0", AdapterVersion: "2.0",
}

func newBench(t *testing.T, changes ...func(*bmc.Config)) *bench {
	t.Helper()
	b := &bench{
		t: t, computer: &computer{}, now: time.Date(2031, time.March, 4, 10, 11, 12, 0, time.UTC),
		recorder: effect.NewRecorder(effect.RecorderOptions{Known: bmc.Known}),
	}
	config := &bmc.Config{
		Profile: &profile, Times: times, Recorder: b.recorder, Clock: func() time.Time { return b.now },
		Wake: func(after time.Duration, _ func()) { b.wakes = append(b.wakes, after) },
	}
	for _, change := range changes {
		change(config)
	}
	machine := hardware.Options{Kind: hardware.Server}.Machine(1, 0)
	b.BMC = bmc.New(config, "m1", func() hardware.Machine { return machine }, b.computer)
	return b
}

func (b *bench) reset(kind bmc.ResetType) {
	b.t.Helper()
	if err := b.Reset(&bmc.Call{}, kind); err != nil {
		b.t.Fatalf("%s: %v", kind, err)
	}
}

// power moves the clock and checks the power state.
func (b *bench) power(after time.Duration, want bmc.PowerState) {
	b.t.Helper()
	b.now = b.now.Add(after)
	if got := b.Power(); got != want {
		b.t.Errorf("after %s the power state is %s, want %s", after, got, want)
	}
}

// did checks what was done to the computer since the last check.
func (b *bench) did(want ...string) {
	b.t.Helper()
	b.ActDue()
	if diff := cmp.Diff(want, b.computer.log); diff != "" {
		b.t.Errorf("done to the computer (-want +got):\n%s", diff)
	}
	b.computer.log = nil
}

// running returns a bench whose machine has booted.
func running(t *testing.T, changes ...func(*bmc.Config)) *bench {
	t.Helper()
	b := newBench(t, changes...)
	b.reset(bmc.ResetOn)
	b.now = b.now.Add(times.PowerOn + times.POST)
	b.did("on from network")
	return b
}

func refusedFor(err error, reason bmc.Reason) bool {
	var refusal *bmc.RefusedError
	return errors.As(err, &refusal) && refusal.Reason == reason
}

func TestCallIsInTheLogBeforeTheBootThatItCauses(t *testing.T) {
	b := newBench(t, func(c *bmc.Config) { c.Times = bmc.Times{} })
	logged := 0
	b.computer.booted = func() { logged = len(b.recorder.Effects("m1", 0)) }
	b.reset(bmc.ResetOn)
	b.did("on from network")
	if logged != 1 {
		t.Errorf("%d calls in the log when the machine boots, want the one that has switched it on", logged)
	}
}

func TestComputerBootsAtTheEndOfPOST(t *testing.T) {
	b := newBench(t)
	b.reset(bmc.ResetOn)
	b.power(time.Second, bmc.PoweringOn)
	b.power(2*time.Second, bmc.On)
	b.did()
	if !b.InPOST() {
		t.Error("the machine has power and is not in POST")
	}
	b.power(time.Minute, bmc.On)
	b.did("on from network")
	if b.InPOST() || b.Boots() != 1 {
		t.Errorf("in POST %v after %d boots, want it over after one", b.InPOST(), b.Boots())
	}
	if len(b.wakes) == 0 || b.wakes[0] != times.PowerOn || b.wakes[len(b.wakes)-1] != times.POST {
		t.Errorf("woken after %v, want after power on and POST", b.wakes)
	}
}

func TestResetsOfARunningMachine(t *testing.T) {
	for kind, test := range map[bmc.ResetType]struct {
		takes time.Duration // until the power has changed
		power bmc.PowerState
		then  time.Duration // until all is done
		did   []string
		count string
	}{
		bmc.ResetForceOff:         {times.PowerOff, bmc.Off, 0, []string{"off"}, "power off"},
		bmc.ResetForceRestart:     {times.PowerOff, bmc.On, times.POST, []string{"off", "on from network"}, "reboot"},
		bmc.ResetGracefulShutdown: {times.Shutdown, bmc.Off, 0, []string{"shut down", "off"}, "soft power off"},
		bmc.ResetGracefulRestart:  {times.Shutdown, bmc.On, times.POST, []string{"shut down", "off", "on from network"}, "soft reboot"},
		bmc.ResetPowerCycle:       {times.PowerOff, bmc.PoweringOn, times.PowerCycle + times.POST, []string{"off", "on from network"}, "power cycle"},
		bmc.ResetPushPowerButton:  {times.Shutdown, bmc.Off, 0, []string{"shut down", "off"}, "power button"},
	} {
		t.Run(string(kind), func(t *testing.T) {
			b := running(t)
			b.reset(kind)
			b.power(test.takes, test.power)
			b.now = b.now.Add(test.then)
			b.did(test.did...)
			if got := b.recorder.Counts("m1"); got[test.count] != 1 {
				t.Errorf("counts %v, want one %s", got, test.count)
			}
		})
	}
}

func TestNewerResetReplacesOneThatHasNotHappened(t *testing.T) {
	b := running(t)
	b.reset(bmc.ResetGracefulShutdown)
	b.power(10*time.Second, bmc.On)
	b.reset(bmc.ResetForceOff)
	b.power(times.PowerOff, bmc.Off)
	b.reset(bmc.ResetOn)
	b.power(times.PowerOn, bmc.On)
	b.power(time.Hour, bmc.On)
	b.did("shut down", "off", "on from network")
}

func TestSystemThatDoesNotListenStaysOn(t *testing.T) {
	b := running(t)
	b.computer.ignoresShutdown = true
	b.reset(bmc.ResetGracefulShutdown)
	b.power(time.Hour, bmc.On)
	b.did("shut down")
}

func TestShutdownDuringPOSTIsNotHeard(t *testing.T) {
	b := newBench(t)
	b.reset(bmc.ResetOn)
	b.power(times.PowerOn, bmc.On)
	b.reset(bmc.ResetGracefulShutdown)
	b.power(time.Hour, bmc.On)
	b.did("on from network")
}

func TestPowerThatIsThereAlreadyIsRefused(t *testing.T) {
	b := newBench(t)
	for _, kind := range []bmc.ResetType{bmc.ResetForceOff, bmc.ResetForceRestart, bmc.ResetGracefulShutdown, bmc.ResetPowerCycle} {
		if err := b.Reset(&bmc.Call{}, kind); !refusedFor(err, bmc.AlreadyOff) {
			t.Errorf("%s of a machine that is off: %v", kind, err)
		}
	}
	b.reset(bmc.ResetOn)
	if err := b.Reset(&bmc.Call{}, bmc.ResetOn); !refusedFor(err, bmc.AlreadyOn) {
		t.Errorf("On of a machine that goes on: %v", err)
	}
	if err := b.Reset(&bmc.Call{}, bmc.ResetNMI); !refusedFor(err, bmc.UnknownReset) {
		t.Errorf("reset that the vendor does not have: %v", err)
	}
	if got := len(b.recorder.Effects("m1", 0)); got != 1 {
		t.Errorf("%d effects, want the one that was accepted", got)
	}
}

func TestMachineThatPowersItselfOffIsOff(t *testing.T) {
	b := running(t)
	b.computer.on = false
	b.power(0, bmc.Off)
	b.reset(bmc.ResetOn)
	b.power(times.PowerOn+times.POST, bmc.On)
	b.did("on from network")
}

func TestRestartByTheOperatingSystemIsABoot(t *testing.T) {
	b := running(t)
	if err := b.SetOverride(&bmc.Call{}, bmc.Override{Target: bmc.TargetDisk, Enabled: bmc.Once}); err != nil {
		t.Fatal(err)
	}
	boot, ok := b.Rebooted(b.computer.boot.Number)
	if !ok || boot.Source != bmc.FromDisk || boot.Number != 2 || b.Override().Enabled != bmc.Disabled {
		t.Errorf("boot %+v, %v, override %+v, want one from disk", boot, ok, b.Override())
	}
	if boot, ok := b.Rebooted(1); ok {
		t.Errorf("a boot that is over was followed by %+v", boot)
	}
}

func TestOverrideDecidesTheBoot(t *testing.T) {
	for name, test := range map[string]struct {
		override      bmc.Override
		first, second bmc.Source
	}{
		"once":       {bmc.Override{Target: bmc.TargetCD, Enabled: bmc.Once}, bmc.FromCD, bmc.FromNetwork},
		"continuous": {bmc.Override{Target: bmc.TargetCD, Enabled: bmc.Continuous}, bmc.FromCD, bmc.FromCD},
		"for one":    {bmc.Override{Target: bmc.TargetCD}, bmc.FromCD, bmc.FromNetwork},
		"disabled":   {bmc.Override{Target: bmc.TargetCD, Enabled: bmc.Disabled}, bmc.FromNetwork, bmc.FromNetwork},
		"none":       {bmc.Override{Target: bmc.TargetNone, Enabled: bmc.Once}, bmc.FromNetwork, bmc.FromNetwork},
	} {
		t.Run(name, func(t *testing.T) {
			b := running(t)
			if err := b.SetOverride(&bmc.Call{}, test.override); err != nil {
				t.Fatal(err)
			}
			for _, want := range []bmc.Source{test.first, test.second} {
				b.reset(bmc.ResetForceRestart)
				b.now = b.now.Add(times.PowerOff + times.POST)
				b.did("off", "on from "+string(want))
			}
		})
	}
}

func TestSwitchAtTheMachineIsNoCall(t *testing.T) {
	b := newBench(t)
	if err := b.recorder.SetFaults("m1", &effect.Faults{Refuse: 1}); err != nil {
		t.Fatal(err)
	}
	b.Switch(true)
	b.power(times.POST, bmc.On)
	b.Switch(false)
	b.power(0, bmc.Off)
	b.did("on from network", "off")
	if got := b.recorder.Calls(0); len(got) != 0 {
		t.Errorf("calls %+v, want none", got)
	}
}

func TestPowerCutDuringPOSTKeepsWhatWaitsForABoot(t *testing.T) {
	b := newBench(t)
	if err := b.SetOverride(&bmc.Call{}, bmc.Override{Target: bmc.TargetDisk, Enabled: bmc.Once}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.SetBIOS(&bmc.Call{}, map[string]any{"Mode": "B"}, false); err != nil {
		t.Fatal(err)
	}
	b.reset(bmc.ResetOn)
	b.power(times.PowerOn, bmc.On)
	b.reset(bmc.ResetForceOff)
	b.power(times.PowerOff, bmc.Off)
	if b.Override().Enabled != bmc.Once || b.BIOS()["Mode"] != "A" {
		t.Errorf("override %+v, attributes %v, want both to wait", b.Override(), b.BIOS())
	}
	b.reset(bmc.ResetOn)
	b.now = b.now.Add(times.PowerOn + times.POST)
	b.did("off", "on from disk")
	if b.BIOS()["Mode"] != "B" {
		t.Errorf("attributes %v after a boot", b.BIOS())
	}
}

func TestAttributesAreCheckedBeforeAnyIsTaken(t *testing.T) {
	b := newBench(t)
	for name, test := range map[string]struct {
		values map[string]any
		reason bmc.Reason
	}{
		"unknown":     {map[string]any{"Count": 2.0, "Other": "x"}, bmc.UnknownAttribute},
		"read-only":   {map[string]any{"Fixed": "y"}, bmc.ReadOnlyAttribute},
		"not in list": {map[string]any{"Mode": "C"}, bmc.BadAttribute},
		"too large":   {map[string]any{"Count": 6.0}, bmc.BadAttribute},
		"a fraction":  {map[string]any{"Count": 1.5}, bmc.BadAttribute},
		"wrong type":  {map[string]any{"Count": "2"}, bmc.BadAttribute},
	} {
		if _, err := b.SetBIOS(&bmc.Call{}, test.values, false); !refusedFor(err, test.reason) {
			t.Errorf("%s: %v, want %s", name, err, test.reason)
		}
	}
	if got := b.PendingBIOS(); len(got) != 0 {
		t.Errorf("pending %v, want nothing", got)
	}
}

func TestFirmwareIsFetchedWithinLimits(t *testing.T) {
	mux := http.NewServeMux()
	for path, text := range map[string]string{
		"/bios": "ingot-firmware component=bios version=2", "/nic2": "ingot-firmware component=nic:2 version=3",
		"/other": "ingot-firmware component=bios", "/large": strings.Repeat("x", 1<<20), "/psu": "ingot-firmware component=psu version=2",
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) })
	}
	server := httptest.NewServer(mux)
	defer server.Close()
	for path, want := range map[string]struct {
		state   bmc.TaskState
		failure bmc.Failure
	}{
		"/bios": {bmc.Scheduled, bmc.NoFailure}, "/nic2": {bmc.Scheduled, bmc.NoFailure},
		"/other": {bmc.Failed, bmc.ImageInvalid}, "/large": {bmc.Failed, bmc.ImageInvalid}, "/psu": {bmc.Failed, bmc.ImageInvalid},
		"/gone": {bmc.Failed, bmc.FetchFailed},
	} {
		b := newBench(t)
		if _, err := b.Update(t.Context(), &bmc.Call{}, server.URL+path, ""); err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if got := b.Tasks(); len(got) != 1 || got[0].State != want.state || got[0].Failure != want.failure {
			t.Errorf("%s: tasks %+v, want %+v", path, got, want)
		}
	}
	b := newBench(t)
	if _, err := b.Update(t.Context(), &bmc.Call{}, "ftp://192.0.2.1/bios", ""); !refusedFor(err, bmc.UnknownTransferURI) {
		t.Errorf("FTP: %v", err)
	}
	if _, err := b.Update(t.Context(), &bmc.Call{}, server.URL+"/bios", "bmc"); err != nil || b.Tasks()[0].Failure != bmc.ImageInvalid {
		t.Errorf("firmware of another component: %v, %+v", err, b.Tasks())
	}
}

func TestOldTasksArePruned(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	b := newBench(t)
	for range 100 {
		if _, err := b.Update(t.Context(), &bmc.Call{}, server.URL, ""); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.Tasks(); len(got) != 64 || got[63].Number != 100 {
		t.Errorf("%d tasks, the newest %d, want 64 and 100", len(got), got[len(got)-1].Number)
	}
}

func TestForgottenUpdateGoesOn(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("ingot-firmware component=bmc version=7"))
	}))
	defer server.Close()
	b := newBench(t)
	if _, err := b.Update(t.Context(), &bmc.Call{}, server.URL, ""); err != nil {
		t.Fatal(err)
	}
	b.ForgetTasks()
	if got := b.Tasks(); len(got) != 0 {
		t.Errorf("tasks %+v, want none", got)
	}
	b.now = b.now.Add(times.Flash)
	if b.Reachable() || b.Restarts() != 1 {
		t.Errorf("reachable %v after %d restarts, want one under way", b.Reachable(), b.Restarts())
	}
	b.now = b.now.Add(times.BMCRestart)
	if got := b.Components()[1]; !b.Reachable() || got.Version != "7" {
		t.Errorf("reachable %v with %+v, want the new version", b.Reachable(), got)
	}
}

// TestPowerThatGoesWhileFirmwareIsWrittenIsNoted cuts the power before, during and after the write
// of an update.
func TestPowerThatGoesWhileFirmwareIsWrittenIsNoted(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("ingot-firmware component=bios version=2"))
	}))
	defer server.Close()
	for name, test := range map[string]struct {
		after time.Duration // from power on until it goes
		want  []string      // components
	}{
		"before it is written": {times.PowerOn - time.Second, nil},
		"while it is written":  {times.PowerOn + times.Flash - times.PowerOff - time.Second, []string{"bios"}},
		"after it was written": {times.PowerOn + times.Flash - times.PowerOff, nil},
	} {
		b := newBench(t)
		if _, err := b.Update(t.Context(), &bmc.Call{}, server.URL, ""); err != nil {
			t.Fatal(err)
		}
		b.reset(bmc.ResetOn)
		b.now = b.now.Add(test.after)
		b.reset(bmc.ResetForceOff)
		b.now = b.now.Add(time.Hour)
		b.ActDue()
		var got []string
		for _, e := range b.recorder.Effects("m1", 0) {
			if e.Kind == string(bmc.InterruptFlash) {
				got = append(got, e.Detail)
			}
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if writing := b.Writing(); len(writing) != 0 {
			t.Errorf("%s: %q is still written after an hour", name, writing)
		}
	}
}
