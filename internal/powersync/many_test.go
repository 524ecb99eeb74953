package powersync

import (
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

func TestTenThousandMachinesAreReadWithinAMinute(t *testing.T) {
	inRack(t, func(r *rack) {
		t := r.t
		slow := func(_ *node.Node, m *machine) { m.latency = 300 * time.Millisecond }
		nodes := append(r.addMany(9900, slow), r.addMany(100, hanging)...)
		_, stop := r.run("one")
		pass(time.Minute)
		stop()
		missed, again := 0, 0
		for _, n := range nodes {
			switch reads := r.reads(n); {
			case len(reads) == 0:
				missed++
			case len(reads) > 2:
				again++
			}
		}
		if missed > 0 || again > 0 {
			t.Errorf("%d machines were not read, %d more than twice", missed, again)
		}
		if r.most > 512 {
			t.Errorf("%d calls at once, want half of 1024 at most", r.most)
		}
	})
}

func TestEveryMachineIsReadInEachInterval(t *testing.T) {
	inRack(t, func(r *rack) {
		t := r.t
		nodes := r.addMany(200)
		r.run("one")
		pass(time.Hour)
		for _, n := range nodes {
			reads := r.reads(n)
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
	inRack(t, func(r *rack) {
		t := r.t
		r.addMany(300, hanging)
		nodes := r.addMany(50)
		r.run("one", func(c *Config) { c.Calls, c.Tries = 64, 1000 })
		pass(10 * time.Minute) // the first reading of a machine tells
		for _, n := range nodes {
			r.set(n, func(m *machine) { m.reads = nil })
		}
		pass(time.Hour)
		for _, n := range nodes {
			reads := r.reads(n)
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

func TestManyNodesBehindABMCThatHangsDelayNoOthers(t *testing.T) {
	inRack(t, func(r *rack) {
		t := r.t
		behind := func(n *node.Node, _ *machine) { n.DriverInfo = node.ObjectOf(map[string]any{"fake_bmc": "192.0.2.1"}) }
		r.addMany(300, hanging, behind)
		nodes := r.addMany(50)
		r.run("one", func(c *Config) { c.Calls, c.Tries = 64, 1000 })
		pass(firstWithin)
		for _, n := range nodes {
			if len(r.reads(n)) == 0 {
				t.Fatalf("not all others were read within %v", firstWithin)
			}
		}
	})
}

func TestNodesBehindOneBMCAreAllRead(t *testing.T) {
	inRack(t, func(r *rack) {
		t := r.t
		nodes := r.addMany(16, func(n *node.Node, m *machine) {
			n.DriverInfo = node.ObjectOf(map[string]any{"fake_bmc": "192.0.2.1"})
			m.latency = 3 * time.Second
		})
		r.run("one")
		pass(10 * interval)
		for _, n := range nodes {
			if reads := r.reads(n); len(reads) < 8 {
				t.Errorf("%d readings in ten intervals", len(reads))
			}
		}
	})
}

func TestRecoveryWaitsForNoOtherReading(t *testing.T) {
	inRack(t, func(r *rack) {
		t := r.t
		r.addMany(1000, hanging) // for which all the other calls are taken
		n := r.add(withPowerFault)
		r.run("one", func(c *Config) { c.Calls = 16 })
		pass(recovery)
		if got := r.stored(n); got.Maintenance || got.Fault != "" || got.PowerState != node.PowerOff || got.LastError != "" {
			t.Errorf("maintenance %v, fault %q, power %q", got.Maintenance, got.Fault, got.PowerState)
		}
	})
}

func TestNodesThatComeAndGoAreNoticed(t *testing.T) {
	inRack(t, func(r *rack) {
		t := r.t
		gone := r.add()
		r.run("one")
		pass(5 * time.Minute)
		before := len(r.reads(gone))
		if before == 0 {
			t.Error("a node that was there is not read")
		}
		r.write(func(tx *store.Tx) error { return tx.DeleteNode(gone) })
		created := r.add()
		pass(firstWithin)
		if len(r.reads(created)) == 0 {
			t.Error("a new node is not read within a minute")
		}
		changed := r.add(func(n *node.Node, _ *machine) { n.ProvisionState = node.Enroll })
		pass(5 * time.Minute)
		if reads := r.reads(changed); len(reads) > 0 {
			t.Errorf("an enrolled node is read %d times", len(reads))
		}
		r.change(changed, func(n *node.Node) { n.ProvisionState = node.Manageable })
		pass(firstWithin)
		if len(r.reads(changed)) == 0 {
			t.Error("a node is not read within a minute from when it may be")
		}
		if after := len(r.reads(gone)); after != before {
			t.Errorf("a deleted node is read %d times", after-before)
		}
	})
}

func TestNodesOfADeadConductorAreTakenOver(t *testing.T) {
	inRack(t, func(r *rack) {
		t := r.t
		r.alive = []string{"one", "two"}
		nodes := r.addMany(40)
		r.run("one")
		_, die := r.run("two")
		pass(time.Hour)
		for _, n := range nodes {
			if reads := len(r.reads(n)); reads > 36 {
				t.Errorf("%d readings in an hour: two conductors read the same node", reads)
			}
		}
		die()
		r.mu.Lock()
		r.alive = []string{"one"}
		for _, m := range r.machines {
			m.reads = nil
		}
		r.mu.Unlock()
		pass(interval + 2*refreshInterval)
		for _, n := range nodes {
			if len(r.reads(n)) == 0 {
				t.Error("a node of the dead conductor is not read")
			}
		}
	})
}

func TestACorrectedAddressIsTriedSoon(t *testing.T) {
	inRack(t, func(r *rack) {
		t := r.t
		n := r.add(hanging, withPowerFault)
		r.run("one")
		pass(recovery)
		r.set(n, func(m *machine) { m.hangs = false })
		r.change(n, func(n *node.Node) { n.DriverInfo = node.ObjectOf(map[string]any{"fake_bmc": "192.0.2.9"}) })
		pass(firstWithin)
		if got := r.stored(n); got.Maintenance {
			t.Errorf("still in maintenance: %s", got.MaintenanceReason)
		}
	})
}

func TestAnAddressThatIsCorrectedDuringAReadingIsTriedSoon(t *testing.T) {
	inRack(t, func(r *rack) {
		t := r.t
		n := r.add(hanging, withPowerFault)
		r.run("one")
		for len(r.reads(n)) == 0 {
			pass(time.Second)
		}
		r.set(n, func(m *machine) { m.hangs = false })
		r.change(n, func(n *node.Node) { n.DriverInfo = node.ObjectOf(map[string]any{"fake_bmc": "192.0.2.9"}) })
		pass(callTimeout + firstWithin)
		if got := r.stored(n); got.Maintenance {
			t.Errorf("still in maintenance: %s", got.MaintenanceReason)
		}
	})
}

func TestARackThatNobodyTouchesIsNotReadFromTheDatabaseAgain(t *testing.T) {
	inRack(t, func(r *rack) {
		t := r.t
		nodes := r.addMany(manyChanged + 1)
		s, stop := r.run("one")
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
		if last := nodes[len(nodes)-1].ID; s.list.key != last || len(s.list.recent) != 0 {
			t.Errorf("new nodes are looked for above %d, want %d", s.list.key, last)
		}
		if age := time.Since(s.list.compared); age > compareInterval || age < refreshInterval {
			t.Errorf("all versions were compared %s ago", age)
		}
	})
}
