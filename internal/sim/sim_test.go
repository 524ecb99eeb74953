package sim_test

import (
	"context"
	"errors"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/sim"
	"github.com/ingot-metal/ingot/internal/sim/agent"
	"github.com/ingot-metal/ingot/internal/sim/loopbacktest"
)

func newMachines(t testing.TB, engine *standIn, count int, change func(*sim.Options)) *sim.Machines {
	t.Helper()
	options := sim.Options{Engine: engine.URL, Machines: count, Seed: 1, Network: loopbacktest.Network(t)}
	if change != nil {
		change(&options)
	}
	machines, err := sim.New(options)
	if err != nil {
		t.Fatalf("create machines: %v", err)
	}
	t.Cleanup(machines.Stop)
	return machines
}

// soon bounds how long a test waits for the machines.
func soon(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// waitRunning blocks until every machine runs.
func waitRunning(ctx context.Context, machines *sim.Machines) error {
	return machines.Wait(ctx, func(s sim.Snapshot) bool { return s.States[sim.Running] == s.Machines })
}

func heartbeatsTaken(n int) func(sim.Snapshot) bool {
	return func(s sim.Snapshot) bool { return s.Answers[sim.Answer{Call: agent.CallHeartbeat, Status: 202}] >= n }
}

func TestTwoHundredMachinesRunSurviveAPowerCycleAndLeaveNothingBehind(t *testing.T) {
	const count = 200
	engine := newStandIn(t)
	before := runtime.NumGoroutine()
	machines := newMachines(t, engine, count, nil)
	ctx := soon(t)
	if err := machines.PowerOn(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if err := waitRunning(ctx, machines); err != nil {
		t.Fatal(err)
	}
	if err := machines.Wait(ctx, heartbeatsTaken(count)); err != nil {
		t.Fatal(err)
	}
	for i := range count / 4 {
		if err := machines.Machine(i * 4).Reboot(); err != nil {
			t.Fatal(err)
		}
	}
	if err := waitRunning(ctx, machines); err != nil {
		t.Fatal(err)
	}
	if got := len(engine.byUUID); got != count {
		t.Errorf("engine knows %d nodes, want %d: a rebooted machine must look the same", got, count)
	}
	if s := machines.Machine(0).Status(); s.Boots != 2 {
		t.Errorf("machine 0 booted %d times, want 2", s.Boots)
	}
	posts := sim.Answer{Call: agent.CallInspect, Status: 200}
	if got := machines.Snapshot().Answers[posts]; got != count+count/4 {
		t.Errorf("%d posts were answered, want %d", got, count+count/4)
	}
	if got := machines.Machine(4).Answers(posts); got != 2 {
		t.Errorf("machine 4 posted %d times, want 2", got)
	}

	machines.Stop()
	engine.CloseClientConnections()
	if err := machines.Machine(0).PowerOn(); !errors.Is(err, sim.ErrStopped) {
		t.Errorf("power on after stop gives %v, want %v", err, sim.ErrStopped)
	}
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before+5; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines are left, %d were there before", runtime.NumGoroutine(), before)
		}
	}
}

func TestEveryMachineListensOnItsOwnAddress(t *testing.T) {
	engine := newStandIn(t)
	machines := newMachines(t, engine, 5, nil)
	ctx := soon(t)
	if err := machines.PowerOn(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if err := machines.Wait(ctx, heartbeatsTaken(5)); err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	for i := range 5 {
		m := machines.Machine(i)
		want["https://"+m.Address().String()+":9999"] = true
		h := m.Hardware()
		if got := *h.Inspection.Inventory.Interfaces[h.BootNIC].IPv4Address; got != m.Address().String() {
			t.Errorf("machine %d posts the address %s and listens on %s", i, got, m.Address())
		}
	}
	if diff := cmp.Diff(want, engine.callbacks()); diff != "" {
		t.Errorf("announced addresses differ (-want +got):\n%s", diff)
	}
}

func TestMachinesCanPostAnotherAddressThanTheyListenOn(t *testing.T) {
	engine := newStandIn(t)
	machines := newMachines(t, engine, 2, func(o *sim.Options) { o.Inventory = netip.MustParsePrefix("10.1.0.0/16") })
	ctx := soon(t)
	if err := machines.PowerOn(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if err := machines.Wait(ctx, heartbeatsTaken(2)); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"10.1.0.1", "10.1.0.2"} {
		m := machines.Machine(i)
		h := m.Hardware()
		if got := *h.Inspection.Inventory.Interfaces[h.BootNIC].IPv4Address; got != want {
			t.Errorf("machine %d posts the address %s, want %s", i, got, want)
		}
		if listens := "https://" + m.Address().String() + ":9999"; !engine.callbacks()[listens] {
			t.Errorf("machine %d does not announce %s", i, listens)
		}
	}
}

func TestMachinesAreTheSameForTheSameSeed(t *testing.T) {
	posted := func(seed uint64) map[string]string {
		engine := newStandIn(t)
		net := netip.MustParsePrefix("127.127.240.0/24") // the documents hold addresses
		machines := newMachines(t, engine, 20, func(o *sim.Options) { o.Seed, o.Network = seed, net })
		ctx := soon(t)
		if err := machines.PowerOn(ctx, 0); err != nil {
			t.Fatal(err)
		}
		if err := waitRunning(ctx, machines); err != nil {
			t.Fatal(err)
		}
		machines.Stop()
		documents := map[string]string{}
		for _, n := range engine.byUUID {
			documents[engine.documents[n.uuid]] = ""
		}
		return documents
	}
	first := posted(11)
	if diff := cmp.Diff(first, posted(11)); diff != "" {
		t.Errorf("machines of one seed post different documents:\n%s", diff)
	}
	if cmp.Equal(first, posted(12)) {
		t.Error("machines of two seeds post the same documents")
	}
}

func TestMachinesWaitForAnEngineThatIsDown(t *testing.T) {
	engine := newStandIn(t)
	engine.down.Store(true)
	machines := newMachines(t, engine, 10, func(o *sim.Options) { o.Clock = agent.Accelerated(50) })
	ctx := soon(t)
	if err := machines.PowerOn(ctx, 0); err != nil {
		t.Fatal(err)
	}
	refused := sim.Answer{Call: agent.CallInspect, Status: 503}
	if err := machines.Wait(ctx, func(s sim.Snapshot) bool { return s.Answers[refused] >= 10 }); err != nil {
		t.Fatal(err)
	}
	engine.down.Store(false)
	if err := waitRunning(ctx, machines); err != nil {
		t.Fatal(err)
	}
}

func TestMachineWithoutTokenFailsUntilItIsPowerCycled(t *testing.T) {
	engine := newStandIn(t)
	engine.hideTokens.Store(true)
	machines := newMachines(t, engine, 1, func(o *sim.Options) { o.AgentVersion = "11.0.0" })
	ctx, m := soon(t), machines.Machine(0)
	if err := m.PowerOn(); err != nil {
		t.Fatal(err)
	}
	if err := m.Wait(ctx, sim.Failed); err != nil {
		t.Fatal(err)
	}
	if reason := m.Status().Reason; !strings.Contains(reason, "power-cycle the machine") {
		t.Errorf("reason is %q, want it to say what to do", reason)
	}
	if err := m.Wait(ctx, sim.Running); err == nil || !strings.Contains(err.Error(), "it failed") {
		t.Errorf("wait for a failed machine gives %v, want its failure", err)
	}
	engine.hideTokens.Store(false)
	if err := m.Reboot(); err != nil {
		t.Fatal(err)
	}
	if err := m.Wait(ctx, sim.Running); err != nil {
		t.Fatal(err)
	}
}

func TestPowerOffStopsTheMachineAtOnce(t *testing.T) {
	engine := newStandIn(t)
	machines := newMachines(t, engine, 2, nil)
	ctx := soon(t)
	if err := machines.PowerOn(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if err := waitRunning(ctx, machines); err != nil {
		t.Fatal(err)
	}
	m := machines.Machine(1)
	m.PowerOff()
	m.PowerOff()
	if got := m.Status().State; got != sim.Off {
		t.Errorf("machine is %s after power off", got)
	}
	if got := machines.Snapshot().String(); got != "1/2 machines running, 1 powered off" {
		t.Errorf("progress is %q", got)
	}
}

func TestOptionsAreValidated(t *testing.T) {
	good := sim.Options{Engine: "http://127.0.0.1:6385", Machines: 10}
	for name, tc := range map[string]struct {
		change func(*sim.Options)
		want   string
	}{
		"no engine":         {func(o *sim.Options) { o.Engine = "" }, "engine"},
		"engine without //": {func(o *sim.Options) { o.Engine = "127.0.0.1:6385" }, "engine"},
		"no machines":       {func(o *sim.Options) { o.Machines = 0 }, "1 to"},
		"small network":     {func(o *sim.Options) { o.Network = netip.MustParsePrefix("127.5.0.0/29") }, "room for 7"},
		"unknown kind":      {func(o *sim.Options) { o.Hardware.Kind = "toaster" }, "toaster"},
		"too many NICs":     {func(o *sim.Options) { o.Hardware.NICs = 9 }, "1 to 8"},
		"IPv6 network":      {func(o *sim.Options) { o.Network = netip.MustParsePrefix("fd00::/64") }, "IPv4"},
	} {
		options := good
		tc.change(&options)
		if _, err := sim.New(options); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error is %v, want one about %q", name, err, tc.want)
		}
	}
	if _, err := sim.New(good); err != nil {
		t.Errorf("good options are refused: %v", err)
	}
}
