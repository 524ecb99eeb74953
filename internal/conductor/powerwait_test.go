package conductor

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/fake"
	"github.com/ingot-metal/ingot/internal/node"
)

// waitsForPower is a driver whose machines have something to end before their power changes.
type waitsForPower struct {
	fake.Hardware
	waits *atomic.Int64 // turns that are still to wait
}

const powerWait = 20 * time.Second

func (d waitsForPower) SetPower(ctx context.Context, n *node.Node, target node.PowerState, turn driver.Turn) (driver.Outcome, error) {
	if d.waits.Add(-1) >= 0 {
		out := driver.Outcome{Park: powerWait, Waits: true, Phase: turn.Phase, Handle: turn.Handle}
		if turn.Attempt == driver.Fresh {
			out.Note = "The machine keeps its power for now."
		}
		return out, nil
	}
	return d.Hardware.SetPower(ctx, n, target, turn)
}

// withPowerWait starts a conductor whose machines wait so many turns. The function returns
// when so many are left and the work waits.
func withPowerWait(t *testing.T, waits int64) (w *world, waiting func(left int64)) {
	t.Helper()
	w = emptyWorld(t)
	c := w.idle("conductor-1")
	d := waitsForPower{waits: &atomic.Int64{}}
	d.waits.Store(waits)
	var built driver.Implementations
	for kind := range node.InterfaceCount {
		built[kind] = map[string]driver.Implementation{"fake": d, "noop": d}
	}
	var err error
	if c.drivers, err = driver.New(driver.Config{}, built); err != nil {
		t.Fatal(err)
	}
	w.Conductor = w.run(c)
	return w, func(left int64) {
		t.Helper()
		w.eventually("the work to wait", func() bool { return d.waits.Load() == left && w.delayed() == 1 })
	}
}

// TestPowerChangeThatHasToWaitIsNotTooLateForThat has a power change whose machine waits far
// longer than the change may take.
func TestPowerChangeThatHasToWaitIsNotTooLateForThat(t *testing.T) {
	const waits = 6
	w, waiting := withPowerWait(t, waits)
	n := w.fake(node.Active, nil)
	if err := w.SetPower(t.Context(), n.UUID, node.PowerOn, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	for i := range waits {
		waiting(int64(waits - 1 - i))
		if got := w.stored(n.UUID); got.TargetPowerState != node.PowerOn || got.PowerState != node.PowerOff {
			t.Fatalf("power %q to %q, want it to wait", got.PowerState, got.TargetPowerState)
		}
		w.pass(powerWait)
	}
	w.awaitWorkDone()
	if got := w.stored(n.UUID); got.PowerState != node.PowerOn || got.LastError != "" {
		t.Errorf("power %q, last_error %q; want it on", got.PowerState, got.LastError)
	}
	if rows := w.remarks(n); !slices.Contains(rows, "INFO power: The machine keeps its power for now.") {
		t.Errorf("history %q does not say what was waited for", rows)
	}
}

// TestNodeIsFreeWhileItsPowerChangeHasToWait refuses only what would interfere with the change.
func TestNodeIsFreeWhileItsPowerChangeHasToWait(t *testing.T) {
	for _, target := range []node.PowerState{node.PowerOff, node.Rebooting} {
		w, waiting := withPowerWait(t, 2)
		n := w.fake(node.Active, map[string]any{"fake_bmc": "192.0.2.1"})
		on := *n
		on.PowerState = node.PowerOn
		w.update(n, &on)
		if err := w.SetPower(t.Context(), n.UUID, target, 0); err != nil {
			t.Fatal(err)
		}
		waiting(1)
		if got := w.stored(n.UUID); got.Lease.InForce(w.clock.Now()) || got.TargetPowerState != reachedBy(target) {
			t.Errorf("%s: lease %+v, target %q; want no lease", target, got.Lease, got.TargetPowerState)
		}
		if err := w.SetMaintenance(t.Context(), n.UUID, true, "a fan is loud"); err != nil {
			t.Errorf("%s: maintenance: %v", target, err)
		}
		change := func(info map[string]any) error {
			_, err := w.UpdateNode(t.Context(), n.UUID, func(n *node.Node) error {
				n.DriverInfo = n.DriverInfo.With(info)
				return nil
			})
			return err
		}
		if err := change(map[string]any{"fake_power_delay": 0}); err != nil {
			t.Errorf("%s: a change of the same machine: %v", target, err)
		}
		wantIs(t, change(map[string]any{"fake_bmc": "192.0.2.2"}), node.ErrLocked)
		wantIs(t, w.SetPower(t.Context(), n.UUID, node.PowerOn, 0), node.ErrLocked)
		wantIs(t, w.try(n, "rebuild"), node.ErrLocked)
		wantIs(t, w.SetBootDevice(t.Context(), n.UUID, node.BootDevice{Device: diskDevice}), node.ErrLocked)
		w.pass(powerWait)
		waiting(0)
		w.pass(powerWait)
		w.awaitWorkDone()
		if got := w.stored(n.UUID); got.PowerState != reachedBy(target) || got.TargetPowerState != "" || got.LastError != "" || !got.Maintenance {
			t.Errorf("%s: power %q to %q, last_error %q, maintenance %v", target, got.PowerState, got.TargetPowerState, got.LastError, got.Maintenance)
		}
	}
}

// TestPowerChangeThatHasToWaitEndsWithItsNode changes nothing on the machine of a node that is deleted.
func TestPowerChangeThatHasToWaitEndsWithItsNode(t *testing.T) {
	w, waiting := withPowerWait(t, 1)
	n := w.fake(node.Manageable, nil)
	if err := w.SetPower(t.Context(), n.UUID, node.PowerOn, 0); err != nil {
		t.Fatal(err)
	}
	waiting(0)
	if err := w.DeleteNode(t.Context(), n.UUID); err != nil {
		t.Error(err)
	}
	if left := w.works(); left != 0 {
		t.Errorf("%d pieces of work are left", left)
	}
}

// TestPowerChangeThatHasToWaitOutlivesItsEngine has another engine go on with it.
func TestPowerChangeThatHasToWaitOutlivesItsEngine(t *testing.T) {
	w, waiting := withPowerWait(t, 1)
	n := w.fake(node.Active, nil)
	if err := w.SetPower(t.Context(), n.UUID, node.PowerOn, 0); err != nil {
		t.Fatal(err)
	}
	waiting(0)
	drivers := w.drivers
	if err := w.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	next := w.idle("conductor-2")
	next.drivers = drivers
	w.Conductor = w.run(next)
	w.pass(powerWait)
	w.awaitWorkDone()
	if got := w.stored(n.UUID); got.PowerState != node.PowerOn || got.LastError != "" {
		t.Errorf("power %q, last_error %q; want it on", got.PowerState, got.LastError)
	}
}

// TestInstanceIsNotDeclaredHealthyWhileItsMachineIsLeftInOrder though that has to wait.
func TestInstanceIsNotDeclaredHealthyWhileItsMachineIsLeftInOrder(t *testing.T) {
	w, waiting := withPowerWait(t, 2)
	n := w.fake(node.Active, nil)
	w.send(n, "service", with(step("power.power_on")))
	waiting(1)
	w.send(n, "abort")
	waiting(0)
	if got := w.stored(n.UUID); got.ProvisionState != node.ServiceFailed || got.Lease.InForce(w.clock.Now()) {
		t.Fatalf("state %q, lease %+v; want that the clean-up waits without one", got.ProvisionState, got.Lease)
	}
	wantIs(t, w.try(n, "abort"), node.ErrLocked)
	w.pass(powerWait)
	w.awaitWorkDone()
	if got := w.arrive(n, node.Active); got.PowerState != node.PowerOn {
		t.Errorf("power %q, want the instance started", got.PowerState)
	}
}

// TestWorkWaitsForAMachineInEveryState has work wait in states with a waiting one and without.
func TestWorkWaitsForAMachineInEveryState(t *testing.T) {
	for name, tc := range map[string]struct {
		begin, waits, end node.State
		verb              string
		with              func(*node.VerbRequest)
	}{
		"which has a waiting state": {begin: node.Manageable, verb: "clean", with: with(step("power.power_on")), waits: node.CleanWait, end: node.Manageable},
		"which has none":            {begin: node.Rescue, verb: "unrescue", with: with(), waits: node.Unrescuing, end: node.Active},
	} {
		t.Run(name, func(t *testing.T) {
			w, waiting := withPowerWait(t, 3)
			n := w.fake(tc.begin, nil)
			w.send(n, tc.verb, tc.with)
			for i := range 3 {
				waiting(int64(2 - i))
				if got := w.stored(n.UUID); got.ProvisionState != tc.waits || got.Lease.InForce(w.clock.Now()) {
					t.Fatalf("state %q, lease %+v; want %q and none", got.ProvisionState, got.Lease, tc.waits)
				}
				w.pass(powerWait)
			}
			w.awaitWorkDone()
			if got := w.arrive(n, tc.end); got.LastError != "" || got.PowerState != node.PowerOn {
				t.Errorf("last_error %q, power %q", got.LastError, got.PowerState)
			}
		})
	}
}

// TestFailedWorkCannotBeAbortedWhileItLeavesItsMachineInOrder has the machine wait behind a
// failed step.
func TestFailedWorkCannotBeAbortedWhileItLeavesItsMachineInOrder(t *testing.T) {
	w, waiting := withPowerWait(t, 1)
	n := w.fake(node.Manageable, nil)
	on := *n
	on.PowerState = node.PowerOn
	w.update(n, &on)
	w.send(n, "clean", with(step("deploy.erase_devices"))) // which this driver does not have
	waiting(0)
	if got := w.stored(n.UUID); got.ProvisionState != node.Cleaning {
		t.Errorf("state %q, want %q, which nobody can abort", got.ProvisionState, node.Cleaning)
	}
	w.pass(powerWait)
	w.awaitWorkDone()
	if got := w.arrive(n, node.CleanFailed); !strings.Contains(got.LastError, "There is no step") || got.PowerState != node.PowerOff {
		t.Errorf("last_error %q, power %q; want why it failed, and that it is off", got.LastError, got.PowerState)
	}
}
