package conductor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// sync reads the power states of all nodes once.
func (w *world) sync() {
	w.t.Helper()
	w.sweep(w.t.Context(), node.Filter{Field: "maintenance", Value: false}, w.syncPower)
	w.settle()
}

// shows makes a fake machine show a power state whatever it is told.
func shows(state node.PowerState) map[string]any {
	return map[string]any{"fake_power_state": string(state)}
}

func TestDecideSync(t *testing.T) {
	for name, tc := range map[string]struct {
		n        node.Node
		observed node.PowerState
		accept   bool
		want     syncAction
	}{
		"in step":            {node.Node{PowerState: node.PowerOn}, node.PowerOn, false, syncNothing},
		"not known yet":      {node.Node{}, node.PowerOn, false, syncStore},
		"was unreadable":     {node.Node{PowerState: node.PowerError}, node.PowerOff, false, syncStore},
		"switched off":       {node.Node{PowerState: node.PowerOn}, node.PowerOff, false, syncRestore},
		"observed counts":    {node.Node{PowerState: node.PowerOn}, node.PowerOff, true, syncStore},
		"switched on":        {node.Node{PowerState: node.PowerOff}, node.PowerOn, false, syncRestore},
		"must not be off":    {node.Node{PowerState: node.PowerOff, DisablePowerOff: true}, node.PowerOn, false, syncStore},
		"may be switched on": {node.Node{PowerState: node.PowerOn, DisablePowerOff: true}, node.PowerOff, false, syncRestore},
	} {
		if got := decideSync(&tc.n, tc.observed, tc.accept); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}

func TestMachineThatWasSwitchedIsBroughtBack(t *testing.T) {
	w := newWorld(t)
	n := w.fake(node.Active, shows(node.PowerOn))
	w.sync()
	got := w.stored(n.UUID)
	if got.PowerState != node.PowerOff || got.TargetPowerState != "" {
		t.Errorf("power %q to %q", got.PowerState, got.TargetPowerState)
	}
	if rows := w.history(n); len(rows) != 1 || !strings.Contains(rows[0], "brought back") {
		t.Errorf("history %q", rows)
	}
}

func TestObservedPowerIsKeptWhenConfiguredSo(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Limits.AcceptPower = true })
	n := w.fake(node.Active, shows(node.PowerOn))
	w.sync()
	if got := w.stored(n.UUID); got.PowerState != node.PowerOn {
		t.Errorf("power %q", got.PowerState)
	}
}

func TestPowerIsLeftAloneWhereItIsSomebodyElses(t *testing.T) {
	w := newWorld(t)
	leased := w.fake(node.Active, shows(node.PowerOn))
	w.lease(leased, "conductor-2")
	nodes := []*node.Node{
		leased,
		w.fake(node.Active, shows(node.PowerOn), func(n *node.Node) { n.Maintenance = true }),
		w.fake(node.Active, shows(node.PowerOn), func(n *node.Node) { n.TargetPowerState = node.PowerOn }),
	}
	for _, state := range unsyncedStates {
		nodes = append(nodes, w.fake(state, shows(node.PowerOn)))
	}
	w.sync()
	for _, n := range nodes {
		if rows := w.history(n); len(rows) != 0 {
			t.Errorf("node in %q: %q", n.ProvisionState, rows)
		}
	}
}

func TestUnreadablePowerBecomesAFaultAndEndsByItself(t *testing.T) {
	w := newWorld(t)
	n := w.fake(node.Active, map[string]any{"fake_power_reading_error": "no route to host"})
	for i := range 3 {
		if got := w.stored(n.UUID); got.Maintenance {
			t.Fatalf("maintenance after %d failures", i)
		}
		w.sync()
	}
	got := w.stored(n.UUID)
	if !got.Maintenance || got.Fault != node.FaultPowerFailure || got.PowerState != node.PowerError || !strings.Contains(got.MaintenanceReason, "no route to host") {
		t.Fatalf("maintenance %v, fault %q, power %q, reason %q", got.Maintenance, got.Fault, got.PowerState, got.MaintenanceReason)
	}
	tryAgain := func() {
		w.sweep(t.Context(), node.Filter{Field: "fault", Value: node.FaultPowerFailure}, w.recoverPower)
	}
	tryAgain()
	if got := w.stored(n.UUID); !got.Maintenance {
		t.Fatal("maintenance ended although the power cannot be read")
	}
	after := *got
	after.DriverInfo = node.ObjectOf(shows(node.PowerOn))
	w.update(got, &after)
	tryAgain()
	if got := w.stored(n.UUID); got.Maintenance || got.Fault != "" || got.PowerState != node.PowerOn {
		t.Errorf("maintenance %v, fault %q, power %q", got.Maintenance, got.Fault, got.PowerState)
	}
}

func TestEveryNodeHasOneWatcherWhoLives(t *testing.T) {
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
	row.wakeClaim()
	w.settle()
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
	w.claimDue(t.Context())
	if _, held := w.queue.load(); held != 0 {
		t.Errorf("claimed %d pieces of work of a group that lives", held)
	}
	w.clock.Advance(aliveFor + time.Second)
	w.write(func(tx *store.Tx) error { return tx.RegisterConductor(w.self()) })
	w.claimDue(t.Context())
	if _, held := w.queue.load(); held != 1 {
		t.Errorf("claimed %d pieces of work of a group that is dead, want 1", held)
	}
}
