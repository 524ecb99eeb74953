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
	inFleet(t, func(f *fleet) {
		t := f.t
		n := f.add(switched)
		f.run("one")
		pass(time.Hour)
		if got := f.stored(n); got.PowerState != node.PowerOff || got.TargetPowerState != node.PowerOff || f.restored[n.UUID] != 1 {
			t.Errorf("power %q to %q, brought back %d times", got.PowerState, got.TargetPowerState, f.restored[n.UUID])
		}
		if rows := f.history(n); len(rows) != 1 || !strings.Contains(rows[0], "brought back") {
			t.Errorf("history %q", rows)
		}
	})
}

func TestObservedPowerIsKept(t *testing.T) {
	inFleet(t, func(f *fleet) {
		t := f.t
		n := f.add(switched)
		f.run("one", func(c *Config) { c.Accept = true })
		pass(firstWithin)
		if got := f.stored(n); got.PowerState != node.PowerOn || f.restorations() != 0 {
			t.Errorf("power %q, brought back %d", got.PowerState, f.restorations())
		}
		if rows := f.history(n); len(rows) != 1 || !strings.Contains(rows[0], "which is kept") {
			t.Errorf("history %q", rows)
		}
	})
}

func TestMachinesThatAreSomebodyElsesAreNotRead(t *testing.T) {
	inFleet(t, func(f *fleet) {
		t := f.t
		leased := f.add(switched)
		f.write(func(tx *store.Tx) error {
			_, err := tx.AcquireLease(leased.ID, "other", 24*time.Hour)
			return err
		})
		nodes := []*node.Node{
			leased,
			f.add(switched, func(n *node.Node, _ *machine) { n.Maintenance = true }),
			f.add(switched, func(n *node.Node, _ *machine) { n.TargetPowerState = node.PowerOn }),
		}
		for _, state := range node.States() {
			if class := state.Class(); class == node.Working || class == node.Waiting || class == node.Held {
				nodes = append(nodes, f.add(switched, func(n *node.Node, _ *machine) { n.ProvisionState = state }))
			}
		}
		f.run("one")
		pass(10 * time.Minute)
		for _, n := range nodes {
			if rows, reads := f.history(n), f.reads(n); len(rows) != 0 || len(reads) != 0 {
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
			inFleet(t, func(f *fleet) {
				t := f.t
				n := f.add(switched, func(_ *node.Node, m *machine) { m.latency = 10 * time.Second })
				_, stop := f.run("one")
				for len(f.reads(n)) == 0 {
					pass(100 * time.Millisecond)
				}
				f.change(n, change)
				pass(12 * time.Second)
				stop()
				if rows := f.history(n); len(rows) != 0 || f.restorations() != 0 {
					t.Errorf("history %q, brought back %d", rows, f.restorations())
				}
			})
		})
	}
}

func TestUnreadablePowerBecomesAFaultAndEndsByItself(t *testing.T) {
	inFleet(t, func(f *fleet) {
		t := f.t
		n := f.add(func(_ *node.Node, m *machine) { m.broken = errors.New("no route to host") })
		f.run("one")
		for len(f.reads(n)) < 3 {
			if got := f.stored(n); got.Maintenance {
				t.Fatalf("maintenance after %d readings", len(f.reads(n)))
			}
			pass(time.Second)
		}
		got := f.stored(n)
		if !got.Maintenance || got.Fault != node.FaultPowerFailure || got.PowerState != node.PowerError || !strings.Contains(got.MaintenanceReason, "no route to host") {
			t.Fatalf("maintenance %v, fault %q, power %q, reason %q", got.Maintenance, got.Fault, got.PowerState, got.MaintenanceReason)
		}
		pass(2 * recovery)
		if reads := len(f.reads(n)); reads < 4 || !f.stored(n).Maintenance {
			t.Fatalf("%d readings, maintenance %v", reads, f.stored(n).Maintenance)
		}
		f.set(n, func(m *machine) { m.broken = nil })
		pass(recovery + time.Second)
		if got := f.stored(n); got.Maintenance || got.Fault != "" || got.PowerState != node.PowerOff {
			t.Errorf("maintenance %v, fault %q, power %q", got.Maintenance, got.Fault, got.PowerState)
		}
	})
}

func TestDriverThatPanicsIsAMachineThatDoesNotAnswer(t *testing.T) {
	inFleet(t, func(f *fleet) {
		t := f.t
		n := f.add(func(_ *node.Node, m *machine) { m.panics = true })
		f.run("one")
		for len(f.reads(n)) < 3 {
			pass(time.Second)
		}
		if got := f.stored(n); got.Fault != node.FaultPowerFailure || !strings.Contains(got.MaintenanceReason, "internal error") {
			t.Errorf("fault %q, reason %q", got.Fault, got.MaintenanceReason)
		}
	})
}

func TestABMCThatIsBusyWithOtherCallsHasNotFailed(t *testing.T) {
	inFleet(t, func(f *fleet) {
		t := f.t
		n := f.add()
		for range 2 {
			leave, err := f.gate.Enter(context.Background(), n.UUID)
			if err != nil {
				t.Fatal(err)
			}
			defer leave()
		}
		f.run("one")
		pass(time.Hour)
		if got := f.stored(n); got.Maintenance || len(f.reads(n)) != 0 {
			t.Errorf("maintenance %v after %d readings", got.Maintenance, len(f.reads(n)))
		}
	})
}
