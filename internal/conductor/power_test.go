package conductor

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/builtin"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

func TestPowerChangeShowsItsTargetUntilItIsDone(t *testing.T) {
	w := newWorld(t)
	n := w.fake(node.Manageable, map[string]any{"fake_power_delay": 5}, func(n *node.Node) { n.LastError = "stale" })
	if err := w.SetPower(t.Context(), n.UUID, node.PowerOn, 0); err != nil {
		t.Fatal(err)
	}
	w.eventually("the change to take its time", func() bool { return w.delayed() == 1 })
	if got := w.stored(n.UUID); got.TargetPowerState != node.PowerOn || got.PowerState != node.PowerOff || got.LastError != "" {
		t.Errorf("power %q to %q, last_error %q", got.PowerState, got.TargetPowerState, got.LastError)
	}
	wantIs(t, w.SetPower(t.Context(), n.UUID, node.PowerOff, 0), node.ErrLocked)
	w.pass(5 * time.Second)
	w.awaitWorkDone()
	if got := w.stored(n.UUID); got.TargetPowerState != "" || got.PowerState != node.PowerOn || got.LastError != "" {
		t.Errorf("power %q to %q, last_error %q; want it on", got.PowerState, got.TargetPowerState, got.LastError)
	}
}

func TestEveryPowerTargetEndsInItsState(t *testing.T) {
	w := newWorld(t)
	for target, want := range map[node.PowerState]node.PowerState{
		node.PowerOn: node.PowerOn, node.PowerOff: node.PowerOff, node.Rebooting: node.PowerOn,
		node.SoftPowerOff: node.PowerOff, node.SoftRebooting: node.PowerOn,
	} {
		n := w.fake(node.Active, nil)
		if err := w.SetPower(t.Context(), n.UUID, target, time.Second); err != nil {
			t.Fatal(err)
		}
		w.awaitWorkDone()
		if got := w.stored(n.UUID); got.PowerState != want || got.TargetPowerState != "" {
			t.Errorf("%s: power %q to %q", target, got.PowerState, got.TargetPowerState)
		}
	}
}

func TestRefusedPowerChanges(t *testing.T) {
	w := newWorld(t)
	noOff := func(n *node.Node) { n.DisablePowerOff = true }
	for _, target := range []node.PowerState{node.PowerOff, node.SoftPowerOff} {
		wantAs[*node.ConflictError](t, w.SetPower(t.Context(), w.fake(node.Active, nil, noOff).UUID, target, 0))
	}
	if err := w.SetPower(t.Context(), w.fake(node.Active, nil, noOff).UUID, node.Rebooting, 0); err != nil {
		t.Errorf("reboot of a node that must not be off: %v", err)
	}
	for _, state := range []node.State{node.Cleaning, node.CleanWait} {
		wantAs[*node.ValidationError](t, w.SetPower(t.Context(), w.fake(state, nil).UUID, node.PowerOn, 0))
	}
	manual := w.create("manual-management")
	wantAs[*node.ValidationError](t, w.SetPower(t.Context(), manual.UUID, node.SoftPowerOff, 0))
	wantIs(t, w.SetPower(t.Context(), "nobody", node.PowerOn, 0), node.ErrNotFound)
	wantAs[*node.ValidationError](t, w.SetPower(t.Context(), w.fake(node.Active, map[string]any{"fake_power_delay": "soon"}).UUID, node.PowerOn, 0))
}

func TestFailedPowerChangeSaysSoAndNoMore(t *testing.T) {
	w := newWorld(t)
	n := w.fake(node.Active, map[string]any{"fake_power_error": "no such outlet"})
	if err := w.SetPower(t.Context(), n.UUID, node.PowerOn, 0); err != nil {
		t.Fatal(err)
	}
	w.awaitWorkDone()
	got := w.stored(n.UUID)
	if !strings.HasPrefix(got.LastError, "Failed to change power state to 'power on'.") || !strings.Contains(got.LastError, "no such outlet") {
		t.Errorf("last_error = %q", got.LastError)
	}
	if got.PowerState != node.PowerOff || got.TargetPowerState != "" || got.Maintenance || got.ProvisionState != node.Active {
		t.Errorf("power %q to %q, maintenance %v in %q", got.PowerState, got.TargetPowerState, got.Maintenance, got.ProvisionState)
	}
}

func TestPowerChangeHasALimit(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.LeaseTTL = time.Hour }) // it is at the change all the time
	for limit, timeout := range map[time.Duration]time.Duration{time.Minute: 0, 5 * time.Second: 5 * time.Second} {
		n := w.fake(node.Active, map[string]any{"fake_power_delay": 3600})
		if err := w.SetPower(t.Context(), n.UUID, node.PowerOn, timeout); err != nil {
			t.Fatal(err)
		}
		w.eventually("the change to take its time", func() bool { return w.delayed() == 1 })
		w.pass(limit + time.Second)
		w.awaitWorkDone()
		if got := w.stored(n.UUID); !strings.Contains(got.LastError, "within "+limit.String()) || got.PowerState != node.PowerOff {
			t.Errorf("last_error %q, power %q", got.LastError, got.PowerState)
		}
	}
}

func TestMachineWithoutBMCRebootsThroughItsAgent(t *testing.T) {
	w := emptyWorld(t)
	rebooted := 0
	c := w.idle("conductor-1")
	drivers, err := builtin.New(driver.Config{}, builtin.Dependencies{
		AgentAlive: func(*node.Node) bool { return true },
		AgentReboot: func(context.Context, *node.Node, driver.Turn) (driver.Outcome, error) {
			rebooted++
			return driver.Outcome{}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	c.drivers = drivers
	w.Conductor = w.run(c)
	n := w.create("manual-management")
	if err := w.SetPower(t.Context(), n.UUID, node.Rebooting, 0); err != nil {
		t.Fatal(err)
	}
	w.awaitWorkDone()
	if got := w.stored(n.UUID); rebooted != 1 || got.LastError != "" || got.PowerState != node.PowerOn {
		t.Errorf("rebooted %d times, last_error %q, power %q", rebooted, got.LastError, got.PowerState)
	}
}

func TestMachineWithoutBMCStaysInItsRamdiskWhenItsInspectionIsAborted(t *testing.T) {
	c := emptyWorld(t).idle("conductor-1")
	drivers, err := builtin.New(driver.Config{}, builtin.Dependencies{
		AgentAlive: func(*node.Node) bool { return true },
		AgentReboot: func(context.Context, *node.Node, driver.Turn) (driver.Outcome, error) {
			return driver.Outcome{}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	c.drivers = drivers
	n := &node.Node{Driver: "manual-management", DisablePowerOff: true}
	n.Interfaces[node.PowerInterface] = "agent"
	intent := node.ObjectOf(map[string]any{abortedIntent: workInspect})
	operations, err := c.cleanUpOperations(runner.Task{Work: &store.Work{Kind: workCleanUp, Intent: intent}, Node: n})
	if names := unskipped(operations); err != nil || !c.switches(n, node.Rebooting) || slices.Contains(names, rebootName) {
		t.Errorf("operations %q, %v; want no restart, after which nothing would start the ramdisk", names, err)
	}
}

func TestMachineIsNotLeftOffByAFailedReboot(t *testing.T) {
	w := newWorld(t)
	for _, tt := range []struct {
		target, shown node.PowerState
		want          bool
	}{
		{node.Rebooting, node.PowerOff, true},
		{node.SoftRebooting, node.PowerOff, true},
		{node.Rebooting, node.PowerOn, false},
		{node.Rebooting, node.PowerError, true},
		{node.PowerOff, node.PowerOff, false},
		{node.PowerOn, node.PowerOff, false},
	} {
		n := w.fake(node.Active, nil)
		n.PowerState = tt.shown
		task := runner.Task{Node: n, Work: &store.Work{Intent: node.ObjectOf(map[string]any{powerTargetIntent: tt.target})}}
		operations := w.cleanUpPower(task)
		if last := operations[len(operations)-1]; last.Name != powerOnName || last.Skip == tt.want {
			t.Errorf("%s of a machine that shows %s: %q is skipped: %v", tt.target, tt.shown, last.Name, last.Skip)
		}
	}
}

func TestMachineKeepsItsPowerWhenAFirmwareStepFails(t *testing.T) {
	for interfaceName, want := range map[string]node.PowerState{"firmware.update": node.PowerOn, "bios.factory_reset": node.PowerOff} {
		w := newWorld(t)
		n := w.fake(node.Manageable, map[string]any{"fake_clean_error": "on fire"})
		if err := w.SetPower(t.Context(), n.UUID, node.PowerOn, 0); err != nil {
			t.Fatal(err)
		}
		w.awaitWorkDone()
		failing := step(interfaceName)
		failing.Args = map[string]any{"settings": []any{map[string]any{"component": "bios", "url": "http://192.0.2.1/f"}}}
		w.send(n, "clean", with(failing))
		if got := w.arrive(n, node.CleanFailed); got.PowerState != want || got.Fault != node.FaultCleanFailure {
			t.Errorf("%s: power %q, fault %q, want %q", interfaceName, got.PowerState, got.Fault, want)
		}
	}
}

// TestPowerChangeEndsWithTheStateThatItWasRequestedIn has a change of the power, requested while a
// deployment waited, be tried again after that deployment has gone on.
func TestPowerChangeEndsWithTheStateThatItWasRequestedIn(t *testing.T) {
	for state, switched := range map[node.State]bool{node.DeployWait: true, node.Deploying: false, node.Active: false, node.DeployFailed: false} {
		t.Run(string(state), func(t *testing.T) {
			w, machine := restorableWorld(t)
			w.Conductor = w.idle("conductor-9")
			n := w.fake(node.DeployWait, nil)
			if err := w.SetPower(t.Context(), n.UUID, node.PowerOn, 0); err != nil {
				t.Fatal(err)
			}
			w.clock.Advance(time.Minute) // the lease of conductor-9 is over
			before := w.stored(n.UUID)
			after := *before
			after.ProvisionState = state
			w.update(before, &after)
			w.Conductor = w.start("conductor-1")
			w.awaitWorkDone()
			got := w.stored(n.UUID)
			if refused := strings.Contains(got.LastError, "request it again"); refused == switched || got.TargetPowerState != "" {
				t.Errorf("last_error %q, target power %q; want it refused: %v", got.LastError, got.TargetPowerState, !switched)
			}
			if state, _ := machine.PowerState(t.Context()); (state == node.PowerOn) != switched {
				t.Errorf("the machine is in %q", state)
			}
		})
	}
}
