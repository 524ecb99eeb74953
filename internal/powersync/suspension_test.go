package powersync

import (
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// suspension returns what is suspended, and how many machines are noted to differ.
func (r *rack) suspension() (suspension node.Suspension, differing int) {
	r.t.Helper()
	err := r.db.Read(r.t.Context(), func(tx *store.Tx) (err error) {
		if suspension, err = tx.Suspension(); err != nil {
			return err
		}
		differences, err := tx.PowerDifferences()
		differing = len(differences)
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return suspension, differing
}

// suspend suspends work as an engine does when it finds that the database is a copy.
func (r *rack) suspend() {
	r.t.Helper()
	r.write(func(tx *store.Tx) error {
		_, _, err := tx.Suspend(node.Restored, "of a test")
		return err
	})
}

// resume ends the suspension as a person does, at any engine.
func (r *rack) resume() {
	r.t.Helper()
	r.write(func(tx *store.Tx) error { return tx.EndSuspension() })
}

func TestNothingIsBroughtBackWhenManyMachinesDiffer(t *testing.T) {
	inRack(t, func(r *rack) {
		t := r.t
		nodes := r.addMany(100, switched)
		r.addMany(100)
		r.run("one")
		pass(3 * interval)
		done := r.restorations()
		if done != fewDiffer {
			t.Errorf("%d machines were restored before, want %d", done, fewDiffer)
		}
		suspension, differing := r.suspension()
		if suspension.Reason != node.MachinesDiffer || !strings.Contains(suspension.Detail, "11 of the ") || differing != len(nodes)-done {
			t.Fatalf("suspended %+v, %d differ", suspension, differing)
		}
		if count := strings.Count(r.log.String(), "level=ERROR"); count != 1 {
			t.Errorf("%d lines of level error:\n%s", count, r.log.String())
		}
		told := 0
		for _, n := range nodes {
			rows := r.history(n)
			if len(rows) != 1 {
				t.Fatalf("history %q", rows)
			}
			if strings.Contains(rows[0], "nothing was done because") {
				told++
			}
		}
		if told != len(nodes)-done {
			t.Errorf("%d histories say that nothing was done, want %d", told, len(nodes)-done)
		}
		r.resume()
		pass(interval + refreshInterval)
		suspension, differing = r.suspension()
		if done := r.restorations(); done != len(nodes) || suspension.InForce() || differing != 0 {
			t.Errorf("%d machines were restored after a person let it go on, suspended %+v, %d differ", done, suspension, differing)
		}
	})
}

// TestWhatOneEngineFindsHoldsForAll has one engine with few machines, of which one differs, beside
// an engine that finds many that differ.
func TestWhatOneEngineFindsHoldsForAll(t *testing.T) {
	inRack(t, func(r *rack) {
		t := r.t
		r.alive = []string{"one", "two"}
		r.run("one")
		r.run("two")
		pass(interval)
		r.suspend()
		nodes := r.addMany(40, switched)
		pass(2 * interval)
		if _, differing := r.suspension(); r.restorations() != 0 || differing != len(nodes) {
			t.Errorf("%d machines were restored, %d are noted to differ", r.restorations(), differing)
		}
		r.resume()
		pass(interval + refreshInterval)
		if r.restorations() != len(nodes) {
			t.Errorf("%d machines were restored after a person let it go on", r.restorations())
		}
	})
}

func TestASuspensionStopsNothingElseAndOutlivesTheProcess(t *testing.T) {
	inRack(t, func(r *rack) {
		t := r.t
		r.suspend()
		_, stop := r.run("one")
		kept := r.add(switched, func(n *node.Node, _ *machine) { n.PowerState = "" })
		recovered, left, back := r.add(withPowerFault), r.add(switched), r.add(switched)
		pass(recovery)
		if got := r.stored(kept); got.PowerState != node.PowerOn {
			t.Errorf("power %q, want what was observed", got.PowerState)
		}
		if got := r.stored(recovered); got.Maintenance {
			t.Error("a node whose machine answers stays in maintenance")
		}
		if _, differing := r.suspension(); differing != 2 {
			t.Errorf("%d machines are noted to differ", differing)
		}
		stop()
		r.set(back, func(m *machine) { m.state = node.PowerOff })
		r.run("one")
		pass(recovery)
		rows := r.history(left)
		if len(rows) != 1 || !strings.Contains(rows[0], "nothing was done because the database is a copy of an older state") || r.restorations() != 0 {
			t.Errorf("history %q, restored %d", rows, r.restorations())
		}
		if _, differing := r.suspension(); differing != 1 {
			t.Errorf("%d machines are noted to differ when one is back by itself", differing)
		}
		r.resume()
		pass(interval + refreshInterval)
		if r.restorations() != 1 {
			t.Errorf("restored %d after a person let it go on", r.restorations())
		}
	})
}

func TestMachinesWithSuspendedWorkAreObservedToo(t *testing.T) {
	inRack(t, func(r *rack) {
		t := r.t
		n := r.add(switched)
		r.write(func(tx *store.Tx) error { return tx.AddWork(&store.Work{NodeID: n.ID, Kind: "boot mode"}) })
		r.suspend()
		r.run("one")
		pass(interval)
		if _, differing := r.suspension(); differing != 1 || len(r.history(n)) != 1 {
			t.Errorf("%d machines are noted to differ, history %q", differing, r.history(n))
		}
	})
}

func TestFewMachinesAreBroughtBackHoweverSmallTheRack(t *testing.T) {
	inRack(t, func(r *rack) {
		t := r.t
		r.addMany(fewDiffer, switched)
		r.run("one")
		pass(3 * interval)
		if suspension, _ := r.suspension(); r.restorations() != fewDiffer || suspension.InForce() {
			t.Errorf("%d machines were restored, suspended %+v", r.restorations(), suspension)
		}
	})
}
