package powersync

import (
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// suspension returns what is suspended, and how many machines are noted to differ.
func (f *fleet) suspension() (suspension node.Suspension, differing int) {
	f.t.Helper()
	err := f.db.Read(f.t.Context(), func(tx *store.Tx) (err error) {
		if suspension, err = tx.Suspension(); err != nil {
			return err
		}
		differences, err := tx.PowerDifferences()
		differing = len(differences)
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return suspension, differing
}

// suspend suspends as an engine does that finds a copy.
func (f *fleet) suspend() {
	f.t.Helper()
	f.write(func(tx *store.Tx) error {
		_, _, err := tx.Suspend(node.Restored, "of a test")
		return err
	})
}

// resume ends that as a person does, at whatever engine.
func (f *fleet) resume() {
	f.t.Helper()
	f.write(func(tx *store.Tx) error { return tx.EndSuspension() })
}

func TestNothingIsBroughtBackWhenManyMachinesDiffer(t *testing.T) {
	inFleet(t, func(f *fleet) {
		t := f.t
		nodes := f.addMany(100, switched)
		f.addMany(100)
		f.run("one")
		pass(3 * interval)
		done := f.restorations()
		if done != fewDiffer {
			t.Errorf("%d machines were brought back before, want %d", done, fewDiffer)
		}
		suspension, differing := f.suspension()
		if suspension.Reason != node.MachinesDiffer || !strings.Contains(suspension.Detail, "11 of the ") || differing != len(nodes)-done {
			t.Fatalf("suspended %+v, %d differ", suspension, differing)
		}
		if count := strings.Count(f.log.String(), "level=ERROR"); count != 1 {
			t.Errorf("%d lines of level error:\n%s", count, f.log.String())
		}
		told := 0
		for _, n := range nodes {
			rows := f.history(n)
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
		f.resume()
		pass(interval + lookEvery)
		suspension, differing = f.suspension()
		if done := f.restorations(); done != len(nodes) || suspension.InForce() || differing != 0 {
			t.Errorf("%d machines were brought back after a person let it go on, suspended %+v, %d differ", done, suspension, differing)
		}
	})
}

// TestWhatOneEngineFindsHoldsForAll has one engine whose few machines are as they
// should be but one, beside one that finds many that are not.
func TestWhatOneEngineFindsHoldsForAll(t *testing.T) {
	inFleet(t, func(f *fleet) {
		t := f.t
		f.alive = []string{"one", "two"}
		f.run("one")
		f.run("two")
		pass(interval)
		f.suspend()
		nodes := f.addMany(40, switched)
		pass(2 * interval)
		if _, differing := f.suspension(); f.restorations() != 0 || differing != len(nodes) {
			t.Errorf("%d machines were brought back, %d are noted to differ", f.restorations(), differing)
		}
		f.resume()
		pass(interval + lookEvery)
		if f.restorations() != len(nodes) {
			t.Errorf("%d machines were brought back after a person let it go on", f.restorations())
		}
	})
}

func TestASuspensionStopsNothingElseAndOutlivesTheProcess(t *testing.T) {
	inFleet(t, func(f *fleet) {
		t := f.t
		f.suspend()
		_, stop := f.run("one")
		kept := f.add(switched, func(n *node.Node, _ *machine) { n.PowerState = "" })
		recovered, left, back := f.add(isFaulty), f.add(switched), f.add(switched)
		pass(recovery)
		if got := f.stored(kept); got.PowerState != node.PowerOn {
			t.Errorf("power %q, want what was observed", got.PowerState)
		}
		if got := f.stored(recovered); got.Maintenance {
			t.Error("a node whose machine answers stays in maintenance")
		}
		if _, differing := f.suspension(); differing != 2 {
			t.Errorf("%d machines are noted to differ", differing)
		}
		stop()
		f.set(back, func(m *machine) { m.state = node.PowerOff })
		f.run("one")
		pass(recovery)
		rows := f.history(left)
		if len(rows) != 1 || !strings.Contains(rows[0], "nothing was done because the database is a copy of an older state") || f.restorations() != 0 {
			t.Errorf("history %q, brought back %d", rows, f.restorations())
		}
		if _, differing := f.suspension(); differing != 1 {
			t.Errorf("%d machines are noted to differ when one is back by itself", differing)
		}
		f.resume()
		pass(interval + lookEvery)
		if f.restorations() != 1 {
			t.Errorf("brought back %d after a person let it go on", f.restorations())
		}
	})
}

func TestMachinesWithSuspendedWorkAreObservedToo(t *testing.T) {
	inFleet(t, func(f *fleet) {
		t := f.t
		n := f.add(switched)
		f.write(func(tx *store.Tx) error { return tx.AddWork(&store.Work{NodeID: n.ID, Kind: "boot mode"}) })
		f.suspend()
		f.run("one")
		pass(interval)
		if _, differing := f.suspension(); differing != 1 || len(f.history(n)) != 1 {
			t.Errorf("%d machines are noted to differ, history %q", differing, f.history(n))
		}
	})
}

func TestFewMachinesAreBroughtBackHoweverSmallTheFleet(t *testing.T) {
	inFleet(t, func(f *fleet) {
		t := f.t
		f.addMany(fewDiffer, switched)
		f.run("one")
		pass(3 * interval)
		if suspension, _ := f.suspension(); f.restorations() != fewDiffer || suspension.InForce() {
			t.Errorf("%d machines were brought back, suspended %+v", f.restorations(), suspension)
		}
	})
}
