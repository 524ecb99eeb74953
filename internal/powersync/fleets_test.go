package powersync

import (
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

func TestTenThousandMachinesAreReadWithinAMinute(t *testing.T) {
	inFleet(t, func(f *fleet) {
		t := f.t
		slow := func(_ *node.Node, m *machine) { m.latency = 300 * time.Millisecond }
		nodes := append(f.addMany(9900, slow), f.addMany(100, hanging)...)
		_, stop := f.run("one")
		pass(time.Minute)
		stop()
		missed, again := 0, 0
		for _, n := range nodes {
			switch reads := f.reads(n); {
			case len(reads) == 0:
				missed++
			case len(reads) > 2:
				again++
			}
		}
		if missed > 0 || again > 0 {
			t.Errorf("%d machines were not read, %d more than twice", missed, again)
		}
		if f.most > 512 {
			t.Errorf("%d calls at once, want half of 1024 at most", f.most)
		}
	})
}

func TestEveryMachineIsReadInEachInterval(t *testing.T) {
	inFleet(t, func(f *fleet) {
		t := f.t
		nodes := f.addMany(200)
		f.run("one")
		pass(time.Hour)
		for _, n := range nodes {
			reads := f.reads(n)
			if len(reads) < 30 || len(reads) > 36 {
				t.Errorf("%d readings in an hour", len(reads))
			}
			for i := range reads[1:] {
				if pause := reads[i+1].Sub(reads[i]); pause > interval+time.Second {
					t.Errorf("a pause of %s", pause)
				}
			}
		}
	})
}

func TestMachinesThatDoNotAnswerDelayNoOthers(t *testing.T) {
	inFleet(t, func(f *fleet) {
		t := f.t
		f.addMany(300, hanging)
		nodes := f.addMany(50)
		f.run("one", func(c *Config) { c.Calls, c.Tries = 64, 1000 })
		pass(10 * time.Minute) // the first reading of a machine tells
		for _, n := range nodes {
			f.set(n, func(m *machine) { m.reads = nil })
		}
		pass(time.Hour)
		for _, n := range nodes {
			reads := f.reads(n)
			for i := range reads[1:] {
				if pause := reads[i+1].Sub(reads[i]); pause > interval+time.Second {
					t.Errorf("a pause of %s", pause)
				}
			}
			if len(reads) < 30 {
				t.Errorf("%d readings in an hour", len(reads))
			}
		}
	})
}

func TestRecoveryWaitsForNoOtherReading(t *testing.T) {
	inFleet(t, func(f *fleet) {
		t := f.t
		f.addMany(1000, hanging) // for which all the other calls are taken
		n := f.add(isFaulty)
		f.run("one", func(c *Config) { c.Calls = 16 })
		pass(recovery)
		if got := f.stored(n); got.Maintenance || got.Fault != "" || got.PowerState != node.PowerOff || got.LastError != "" {
			t.Errorf("maintenance %v, fault %q, power %q", got.Maintenance, got.Fault, got.PowerState)
		}
	})
}

func TestNodesThatComeAndGoAreNoticed(t *testing.T) {
	inFleet(t, func(f *fleet) {
		t := f.t
		gone := f.add()
		f.run("one")
		pass(5 * time.Minute)
		before := len(f.reads(gone))
		if before == 0 {
			t.Error("a node that was there is not read")
		}
		f.write(func(tx *store.Tx) error { return tx.DeleteNode(gone.ID) })
		created := f.add()
		pass(firstWithin)
		if len(f.reads(created)) == 0 {
			t.Error("a new node is not read within a minute")
		}
		changed := f.add(func(n *node.Node, _ *machine) { n.ProvisionState = node.Enroll })
		pass(5 * time.Minute)
		if reads := f.reads(changed); len(reads) > 0 {
			t.Errorf("an enrolled node is read %d times", len(reads))
		}
		f.change(changed, func(n *node.Node) { n.ProvisionState = node.Manageable })
		pass(firstWithin)
		if len(f.reads(changed)) == 0 {
			t.Error("a node is not read within a minute from when it may be")
		}
		if after := len(f.reads(gone)); after != before {
			t.Errorf("a deleted node is read %d times", after-before)
		}
	})
}

func TestNodesOfADeadConductorAreTakenOver(t *testing.T) {
	inFleet(t, func(f *fleet) {
		t := f.t
		f.alive = []string{"one", "two"}
		nodes := f.addMany(40)
		f.run("one")
		_, die := f.run("two")
		pass(time.Hour)
		for _, n := range nodes {
			if reads := len(f.reads(n)); reads > 36 {
				t.Errorf("%d readings in an hour: two conductors read the same node", reads)
			}
		}
		die()
		f.mu.Lock()
		f.alive = []string{"one"}
		for _, m := range f.machines {
			m.reads = nil
		}
		f.mu.Unlock()
		pass(interval + 2*lookEvery)
		for _, n := range nodes {
			if len(f.reads(n)) == 0 {
				t.Error("a node of the dead conductor is not read")
			}
		}
	})
}

func TestACorrectedAddressIsTriedSoon(t *testing.T) {
	inFleet(t, func(f *fleet) {
		t := f.t
		n := f.add(hanging, isFaulty)
		f.run("one")
		pass(recovery)
		f.set(n, func(m *machine) { m.hangs = false })
		f.change(n, func(n *node.Node) { n.DriverInfo = node.ObjectOf(map[string]any{"fake_bmc": "192.0.2.9"}) })
		pass(firstWithin)
		if got := f.stored(n); got.Maintenance {
			t.Errorf("still in maintenance: %s", got.MaintenanceReason)
		}
	})
}

func TestAFleetThatNobodyTouchesIsNotReadFromTheDatabaseAgain(t *testing.T) {
	inFleet(t, func(f *fleet) {
		t := f.t
		nodes := f.addMany(manyChanged + 1)
		s, stop := f.run("one")
		known := func() map[int64]*node.Node {
			s.mu.Lock()
			defer s.mu.Unlock()
			found := map[int64]*node.Node{}
			for id, e := range s.nodes {
				found[id] = e.n
			}
			return found
		}
		pass(time.Minute)
		before := known()
		pass(time.Hour)
		after := known()
		for _, n := range nodes {
			if before[n.ID] == nil || before[n.ID] != after[n.ID] {
				t.Fatal("a node that did not change was read again")
			}
		}
		stop()
		if last := nodes[len(nodes)-1].ID; s.list.key != last || len(s.list.young) != 0 {
			t.Errorf("new nodes are looked for above %d, want %d", s.list.key, last)
		}
		if age := time.Since(s.list.whole); age > wholeEvery || age < lookEvery {
			t.Errorf("all versions were compared %s ago", age)
		}
	})
}
