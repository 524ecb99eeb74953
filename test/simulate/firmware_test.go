package simulate

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ingot-metal/ingot/internal/driver/fake"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/redfish"
	"github.com/ingot-metal/ingot/internal/store"
)

// TestFirmwareThatFailedWorkLeftIsWrittenWithoutInterruption runs one scenario with several ends.
// The BMC accepts an update and ignores the next requests, so that the cleaning fails. A person
// presses the power button, and the BMC begins to write the firmware. Then a client wants the
// machine to be switched off.
func TestFirmwareThatFailedWorkLeftIsWrittenWithoutInterruption(t *testing.T) {
	for _, vendor := range redfish.Vendors {
		t.Run(vendor+", by a client", func(t *testing.T) {
			leaveFirmware(t, vendor, func(w *world, c *computer) {
				w.must(w.drawReplica().SetPower(context.Background(), c.uuid, node.PowerOff, 0))
				w.waitUntilIdle(c)
				if n, _ := w.node(c.uuid); n.PowerState != node.PowerOff || n.LastError != "" {
					w.violated("the machine is in %q, last_error %q", n.PowerState, n.LastError)
				}
			})
		})
		t.Run(vendor+", for the ramdisk", func(t *testing.T) {
			leaveFirmware(t, vendor, func(w *world, c *computer) {
				w.provision(c, "clean", node.Step{Interface: "deploy", Step: "erase_devices"})
				w.waitUntilIdle(c)
				if vendor == "hpe" { // an iLO takes no boot device before the machine has booted
					return
				}
				if n, _ := w.node(c.uuid); n.ProvisionState != node.Manageable || !c.hasEffect(fake.Wipe, w.sched.began, time.Now()) {
					w.violated("the node is in %q, last_error %q; want it cleaned", n.ProvisionState, n.LastError)
				}
			})
		})
		for requests := 1; requests <= 6; requests++ {
			t.Run(fmt.Sprintf("%s, behind %d requests without an answer", vendor, requests), func(t *testing.T) {
				leaveFirmware(t, vendor, func(w *world, c *computer) {
					c.ignoreRequests(requests)
					w.provision(c, "clean", node.Step{Interface: "deploy", Step: "erase_devices"})
					w.waitUntilIdle(c)
				})
			})
		}
	}
}

// leaveFirmware runs the scenario up to its end, and looks for what must not be.
func leaveFirmware(t *testing.T, vendor string, end func(*world, *computer)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w, err := newWorld(computersEvery, dir)
		if err != nil {
			t.Fatal(err)
		}
		defer w.close()
		c := w.computers[0]
		c.addBMC(vendor, 0)
		w.must(w.db.Write(context.Background(), func(tx *store.Tx) error {
			before, err := tx.Node(c.uuid)
			if err != nil {
				return err
			}
			after := *before
			after.ProvisionState = node.Manageable
			return tx.UpdateNode(before, &after)
		}))
		w.sched.end()
		w.restartReplicas()
		advance(time.Second)

		file := "http://images/bios@9.9"
		w.provision(c, "clean", node.Step{Interface: "firmware", Step: "update", Args: map[string]any{
			"settings": []any{map[string]any{"component": "bios", "url": file}},
		}})
		w.waitUntil("the update is on the BMC", 100*time.Microsecond, func() bool { return c.hasEffect(fake.Flash, w.sched.began, time.Now()) })
		c.ignoreRequests(1 << 30)
		w.waitUntil("the cleaning has failed", time.Second, func() bool { return w.stateOf(c) == node.CleanFailed })
		c.ignoreRequests(0)
		w.must(w.drawReplica().SetMaintenance(context.Background(), c.uuid, false, ""))
		w.provision(c, "manage")
		if c.bmc.Power() == bmc.On { // it is about to boot
			c.pressPowerButton()
		}
		c.pressPowerButton()
		advance(time.Second)
		if c.flashing() == "" {
			t.Fatal("the BMC writes nothing")
		}
		end(w, c)
		advance(10 * time.Minute)
		if versions := c.bmc.Components(); versions[0].Version != "9.9" {
			w.violated("the firmware is %+v", versions)
		}
		if text := w.problems(); text != "" {
			t.Error(text)
		}
	})
}

// must ends the scenario when a part of it fails.
func (*world) must(err error) {
	if err != nil {
		panic(err)
	}
}

// provision requests a verb with steps.
func (w *world) provision(c *computer, name string, steps ...node.Step) {
	verb, _ := node.VerbNamed(name)
	w.must(w.drawReplica().Provision(context.Background(), c.uuid, node.VerbRequest{Verb: verb, Steps: steps}))
}

func (w *world) stateOf(c *computer) node.State {
	n, err := w.node(c.uuid)
	w.must(err)
	return n.ProvisionState
}

// waitUntil lets time pass in small parts, four hours at most.
func (w *world) waitUntil(condition string, part time.Duration, holds func() bool) {
	for end := time.Now().Add(4 * time.Hour); !holds(); advance(part) {
		if time.Now().After(end) {
			panic("this never happens: " + condition)
		}
	}
}

// waitUntilIdle lets time pass until nothing is left to do for a machine.
func (w *world) waitUntilIdle(c *computer) {
	w.waitUntil("the work ends", time.Second, func() bool {
		n, err := w.node(c.uuid)
		w.must(err)
		return len(w.works(n)) == 0 && !n.Lease.InForce(time.Now())
	})
}

// advance lets time pass, as a bubble does by itself when everybody waits.
func advance(d time.Duration) {
	synctest.Wait()
	time.Sleep(d) //nolint:forbidigo // time of a bubble, which passes by itself
}
