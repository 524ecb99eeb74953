package powersync

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

func TestMachineThatWasSwitchedIsBroughtBackOnce(t *testing.T) {
	inRack(t, func(r *rack) {
		t := r.t
		n := r.add(switched)
		r.run("one")
		pass(time.Hour)
		if got := r.stored(n); got.PowerState != node.PowerOff || got.TargetPowerState != node.PowerOff || r.restored[n.UUID] != 1 {
			t.Errorf("power %q to %q, restored %d times", got.PowerState, got.TargetPowerState, r.restored[n.UUID])
		}
		if rows := r.history(n); len(rows) != 1 || !strings.Contains(rows[0], "is being restored") {
			t.Errorf("history %q", rows)
		}
	})
}

// TestMachineThatDoesNotStayInItsPowerStateIsGivenUp has a machine that changes its power state
// again each time after the state was restored.
func TestMachineThatDoesNotStayInItsPowerStateIsGivenUp(t *testing.T) {
	inRack(t, func(r *rack) {
		t := r.t
		n := r.add(switched)
		r.run("one")
		for range 5 {
			pass(2 * interval)
			r.write(func(tx *store.Tx) error { // the request has gone well
				before, err := tx.Node(n.UUID)
				if err != nil {
					return err
				}
				after := *before
				after.TargetPowerState = ""
				return tx.UpdateNode(before, &after)
			})
		}
		if r.restored[n.UUID] != 3 {
			t.Errorf("restored %d times, want 3", r.restored[n.UUID])
		}
		rows := r.history(n)
		if len(rows) < 4 || !strings.Contains(rows[3], "was restored 3 times in a row") {
			t.Errorf("history %q", rows)
		}
		pass(2 * recovery)
		if got := r.stored(n); got.PowerState != node.PowerOn || got.Maintenance || r.restored[n.UUID] != 3 {
			t.Errorf("after a while: power %q, maintenance %v, restored %d times; want it left as it is", got.PowerState, got.Maintenance, r.restored[n.UUID])
		}
	})
}

func TestObservedPowerIsKept(t *testing.T) {
	inRack(t, func(r *rack) {
		t := r.t
		n := r.add(switched)
		r.run("one", func(c *Config) { c.Accept = true })
		pass(firstWithin)
		if got := r.stored(n); got.PowerState != node.PowerOn || r.restorations() != 0 {
			t.Errorf("power %q, restored %d", got.PowerState, r.restorations())
		}
		if rows := r.history(n); len(rows) != 1 || !strings.Contains(rows[0], "which is kept") {
			t.Errorf("history %q", rows)
		}
	})
}

func TestMachinesThatAreSomebodyElsesAreNotRead(t *testing.T) {
	inRack(t, func(r *rack) {
		t := r.t
		leased := r.add(switched)
		r.write(func(tx *store.Tx) error {
			_, err := tx.AcquireLease(leased.ID, "other", 24*time.Hour)
			return err
		})
		nodes := []*node.Node{
			leased,
			r.add(switched, func(n *node.Node, _ *machine) { n.Maintenance = true }),
			r.add(switched, func(n *node.Node, _ *machine) { n.TargetPowerState = node.PowerOn }),
		}
		for _, state := range node.States() {
			if class := state.Class(); class == node.Working || class == node.Waiting || class == node.Held {
				nodes = append(nodes, r.add(switched, func(n *node.Node, _ *machine) { n.ProvisionState = state }))
			}
		}
		r.run("one")
		pass(10 * time.Minute)
		for _, n := range nodes {
			if rows, reads := r.history(n), r.reads(n); len(rows) != 0 || len(reads) != 0 {
				t.Errorf("node in %q: read %d times, history %q", n.ProvisionState, len(reads), rows)
			}
		}
	})
}

func TestNodeThatChangedWhileItsMachineWasReadIsLeftAlone(t *testing.T) {
	for name, change := range map[string]func(*node.Node){
		"power":       func(n *node.Node) { n.PowerState = node.PowerOn },
		"maintenance": func(n *node.Node) { n.Maintenance = true },
		"address":     func(n *node.Node) { n.DriverInfo = node.ObjectOf(map[string]any{"fake_bmc": "192.0.2.9"}) },
		"work":        func(n *node.Node) { n.ProvisionState = node.Deploying },
	} {
		t.Run(name, func(t *testing.T) {
			inRack(t, func(r *rack) {
				t := r.t
				n := r.add(switched, func(_ *node.Node, m *machine) { m.latency = 10 * time.Second })
				_, stop := r.run("one")
				for len(r.reads(n)) == 0 {
					pass(100 * time.Millisecond)
				}
				r.change(n, change)
				pass(12 * time.Second)
				stop()
				if rows := r.history(n); len(rows) != 0 || r.restorations() != 0 {
					t.Errorf("history %q, restored %d", rows, r.restorations())
				}
			})
		})
	}
}

// TestMachineIsLeftAloneWhileItsWorkIsToBeTriedAgain has work wait for its next
// attempt without a lease, such as a change of the boot mode in the middle of its restart.
func TestMachineIsLeftAloneWhileItsWorkIsToBeTriedAgain(t *testing.T) {
	for _, accept := range []bool{false, true} {
		inRack(t, func(r *rack) {
			t := r.t
			n := r.add(switched)
			work := &store.Work{NodeID: n.ID, Kind: "boot mode"}
			r.write(func(tx *store.Tx) error { return tx.AddWork(work) })
			r.run("one", func(c *Config) { c.Accept = accept })
			pass(2 * interval)
			if rows := r.history(n); len(r.reads(n)) == 0 || len(rows) != 0 || r.restorations() != 0 {
				t.Errorf("accept %t: read %d times, history %q, restored %d", accept, len(r.reads(n)), rows, r.restorations())
			}
			r.write(func(tx *store.Tx) error { return tx.FinishWork(work) })
			pass(2 * interval)
			if rows := r.history(n); len(rows) != 1 {
				t.Errorf("accept %t: history %q after the end of the work, want one row", accept, rows)
			}
		})
	}
}

func TestUnreadablePowerBecomesAFaultAndEndsByItself(t *testing.T) {
	inRack(t, func(r *rack) {
		t := r.t
		n := r.add(func(_ *node.Node, m *machine) { m.broken = errors.New("no route to host") })
		r.run("one")
		for len(r.reads(n)) < 3 {
			if got := r.stored(n); got.Maintenance {
				t.Fatalf("maintenance after %d readings", len(r.reads(n)))
			}
			pass(time.Second)
		}
		got := r.stored(n)
		if !got.Maintenance || got.Fault != node.FaultPowerFailure || got.PowerState != node.PowerError || !strings.Contains(got.MaintenanceReason, "no route to host") {
			t.Fatalf("maintenance %v, fault %q, power %q, reason %q", got.Maintenance, got.Fault, got.PowerState, got.MaintenanceReason)
		}
		pass(2 * recovery)
		if reads := len(r.reads(n)); reads < 4 || !r.stored(n).Maintenance {
			t.Fatalf("%d readings, maintenance %v", reads, r.stored(n).Maintenance)
		}
		r.set(n, func(m *machine) { m.broken = nil })
		pass(recovery + time.Second)
		if got := r.stored(n); got.Maintenance || got.Fault != "" || got.PowerState != node.PowerOff {
			t.Errorf("maintenance %v, fault %q, power %q", got.Maintenance, got.Fault, got.PowerState)
		}
	})
}

func TestNothingFollowsFromThePowerOfTheMachineOfAnotherNode(t *testing.T) {
	inRack(t, func(r *rack) {
		t := r.t
		switchedOn, withFault := r.add(switched, anothers), r.add(switched, anothers, withPowerFault)
		r.run("one")
		pass(6 * recovery)
		for _, n := range []*node.Node{switchedOn, withFault} {
			if got := r.stored(n); got.PowerState != node.PowerError || got.Fault != node.FaultPowerFailure || r.restored[n.UUID] != 0 {
				t.Errorf("power %q, fault %q, restored %d times", got.PowerState, got.Fault, r.restored[n.UUID])
			}
		}
		if got := r.stored(switchedOn); !strings.Contains(got.MaintenanceReason, "a machine of another node") {
			t.Errorf("maintenance because %q", got.MaintenanceReason)
		}
		r.set(withFault, func(m *machine) { m.another = false })
		pass(recovery + time.Second)
		if got := r.stored(withFault); got.Maintenance || got.PowerState != node.PowerOn {
			t.Errorf("after the address was corrected: power %q, maintenance %v", got.PowerState, got.Maintenance)
		}
	})
}

func TestDriverThatPanicsIsAMachineThatDoesNotAnswer(t *testing.T) {
	inRack(t, func(r *rack) {
		t := r.t
		n := r.add(func(_ *node.Node, m *machine) { m.panics = true })
		r.run("one")
		for len(r.reads(n)) < 3 {
			pass(time.Second)
		}
		if got := r.stored(n); got.Fault != node.FaultPowerFailure || !strings.Contains(got.MaintenanceReason, "internal error") {
			t.Errorf("fault %q, reason %q", got.Fault, got.MaintenanceReason)
		}
	})
}

func TestABMCThatIsBusyWithOtherCallsHasNotFailed(t *testing.T) {
	inRack(t, func(r *rack) {
		t := r.t
		n := r.add()
		for range 2 {
			leave, err := r.gate.Enter(context.Background(), n.UUID)
			if err != nil {
				t.Fatal(err)
			}
			defer leave()
		}
		r.run("one")
		pass(time.Hour)
		if got := r.stored(n); got.Maintenance || len(r.reads(n)) != 0 {
			t.Errorf("maintenance %v after %d readings", got.Maintenance, len(r.reads(n)))
		}
	})
}
