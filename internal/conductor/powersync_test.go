package conductor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// syncing lets a conductor read power states all the time.
func syncing(c *Config) {
	c.Limits.PowerSync, c.Limits.PowerRecovery = 20*time.Millisecond, 20*time.Millisecond
}

// shows makes a fake machine show a power state whatever it is told.
func shows(state node.PowerState) map[string]any {
	return map[string]any{"fake_power_state": string(state)}
}

func TestMachineThatWasSwitchedIsBroughtBack(t *testing.T) {
	w := newWorld(t, syncing)
	n := w.fake(node.Active, shows(node.PowerOn))
	w.eventually("the machine to be restored", func() bool { return len(w.history(n)) > 0 && w.stored(n.UUID).TargetPowerState == "" })
	if err := w.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := w.stored(n.UUID); got.PowerState != node.PowerOff {
		t.Errorf("power %q", got.PowerState)
	}
	if rows := w.history(n); !strings.Contains(rows[0], "INFO power: The machine was found") || !strings.Contains(rows[0], "is being restored") {
		t.Errorf("history %q", rows)
	}
}

func TestUnreadablePowerBecomesAFaultAndEndsByItself(t *testing.T) {
	w := newWorld(t, syncing)
	n := w.fake(node.Active, map[string]any{"fake_power_reading_error": "no route to host"})
	w.eventually("maintenance", func() bool { return w.stored(n.UUID).Maintenance })
	got := w.stored(n.UUID)
	if got.Fault != node.FaultPowerFailure || got.PowerState != node.PowerError || !strings.Contains(got.MaintenanceReason, "could not be read 3 times") {
		t.Fatalf("fault %q, power %q, reason %q", got.Fault, got.PowerState, got.MaintenanceReason)
	}
	w.clock.Advance(time.Second)
	after := *got
	after.DriverInfo = node.ObjectOf(shows(node.PowerOn))
	w.update(got, &after)
	w.eventually("the end of maintenance", func() bool { return !w.stored(n.UUID).Maintenance })
	if got := w.stored(n.UUID); got.Fault != "" || got.PowerState != node.PowerOn {
		t.Errorf("fault %q, power %q", got.Fault, got.PowerState)
	}
}

func TestPowerIsSyncedByTheLivingConductorThatWatchesTheNode(t *testing.T) {
	w := newWorld(t)
	n := w.fake(node.Active, nil)
	own := powerOwner{w.Conductor}
	watch := func() (watches bool, version string) {
		w.read(func(tx *store.Tx) error {
			of, text, err := own.Watch(tx)
			if err == nil {
				watches, version = of(n), text
			}
			return err
		})
		return watches, version
	}
	alone, before := watch()
	var others []node.Conductor
	for i := range 20 {
		others = append(others, node.Conductor{Hostname: fmt.Sprintf("other-%d", i)})
	}
	w.write(func(tx *store.Tx) error {
		for _, other := range others {
			if err := tx.RegisterConductor(other); err != nil {
				return err
			}
		}
		return nil
	})
	_, beside := watch()
	w.outlive()
	w.write(func(tx *store.Tx) error { return tx.RegisterConductor(w.self()) })
	again, after := watch()
	if !alone || !again || before == beside || before != after {
		t.Errorf("watches %v, then %v; versions %q, %q, %q", alone, again, before, beside, after)
	}
}

func TestEveryNodeHasOneWatcherThatIsAlive(t *testing.T) {
	conductors := []node.Conductor{
		{Hostname: "a", Alive: true}, {Hostname: "b", Alive: true}, {Hostname: "c"}, {Hostname: "d", Group: "row1", Alive: true},
	}
	count := map[string]int{}
	for i := range 1000 {
		count[watcher(&node.Node{UUID: fmt.Sprint(i)}, conductors)]++
	}
	if count["a"] < 300 || count["b"] < 300 || count["a"]+count["b"] != 1000 {
		t.Errorf("nodes by watcher: %v", count)
	}
	if got := watcher(&node.Node{UUID: "x", ConductorGroup: "row1"}, conductors); got != "d" {
		t.Errorf("watcher of row1 = %q", got)
	}
	if got := watcher(&node.Node{UUID: "x", ConductorGroup: "row2"}, conductors); got == "" || got == "c" {
		t.Errorf("watcher of a group without conductors = %q", got)
	}
}

func TestWorkOfAGroupIsDoneByItsConductors(t *testing.T) {
	w := newWorld(t)
	row := w.start("conductor-2", func(c *Config) { c.Group = "row1" })
	n := w.fake(node.Enroll, nil, func(n *node.Node) { n.ConductorGroup = "row1" })
	if err := provision(t, w.Conductor, n.UUID, "manage"); err != nil {
		t.Fatal(err)
	}
	w.clock.Advance(time.Second)
	row.runner.WakeClaim()
	w.awaitWorkDone()
	w.arrive(n, node.Manageable)
}

func TestWorkOfAGroupWithoutLivingConductorsIsDoneByOthers(t *testing.T) {
	w := emptyWorld(t)
	w.Conductor = w.idle("conductor-1")
	n := w.fake(node.Verifying, nil, func(n *node.Node) { n.ConductorGroup = "row1" })
	w.write(func(tx *store.Tx) error {
		if err := tx.RegisterConductor(node.Conductor{Hostname: "conductor-2", Group: "row1"}); err != nil {
			return err
		}
		return tx.AddWork(&store.Work{NodeID: n.ID, Kind: workVerify})
	})
	w.write(func(tx *store.Tx) error { return tx.RegisterConductor(w.self()) })
	w.runner.ClaimDue(t.Context())
	if held := len(w.runner.Load().Leases); held != 0 {
		t.Errorf("claimed %d pieces of work of a group that lives", held)
	}
	w.clock.Advance(aliveFor + time.Second)
	w.write(func(tx *store.Tx) error { return tx.RegisterConductor(w.self()) })
	w.runner.ClaimDue(t.Context())
	if held := len(w.runner.Load().Leases); held != 1 {
		t.Errorf("claimed %d pieces of work of a group that is dead, want 1", held)
	}
}
