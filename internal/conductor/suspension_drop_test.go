package conductor

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

func TestSuspendedWorkIsGivenUpWithoutATouch(t *testing.T) {
	nodes := map[node.State]*node.Node{}
	w, machine := restored(t, func(w *world) {
		nodes[node.CleanFailed] = cleanWaiting(w)
		held := w.fake(node.Available, nil)
		w.send(held, "active", with(deployHold))
		nodes[node.DeployFailed] = w.arrive(held, node.DeployHold)
		w.end()
		idle := w.idle("conductor-9")
		rescued := w.fake(node.Active, nil)
		verb, _ := node.VerbNamed("rescue")
		if err := idle.Provision(w.t.Context(), rescued.UUID, node.VerbRequest{Verb: verb, RescuePassword: "hush"}); err != nil {
			w.t.Fatal(err)
		}
		nodes[node.RescueFailed] = rescued
		switched := w.fake(node.Active, nil)
		if err := idle.SetPower(w.t.Context(), switched.UUID, node.PowerOn, 0); err != nil {
			w.t.Fatal(err)
		}
		nodes[node.Active] = switched
	})
	before := machine.done()
	for state, n := range nodes {
		if err := w.DropSuspended(t.Context(), n.UUID, "ann"); err != nil {
			t.Errorf("%s: %v", state, err)
			continue
		}
		got := w.arrive(n, state)
		if !strings.Contains(got.LastError, "given up by request") || got.TargetPowerState != "" || got.Lease != (node.Lease{}) {
			t.Errorf("%s: last_error %q, power to %q, lease %+v", state, got.LastError, got.TargetPowerState, got.Lease)
		}
		wantAs[*node.ConflictError](t, w.DropSuspended(t.Context(), n.UUID, "ann"))
	}
	if w.works() != 0 || !cmp.Equal(machine.done(), before) {
		t.Errorf("%d pieces of work are left, done to machines: %v", w.works(), machine.done())
	}
	if !w.suspension().InForce() {
		t.Error("power states are restored although nobody said so")
	}
	w.send(nodes[node.CleanFailed], "manage") // it is an ordinary node again
}

// TestWorkThatIsGivenUpLeavesNothingServed has an engine serve a node's boot when the work is
// given up that it is for: at its next start the machine would run a ramdisk that nobody expects.
func TestWorkThatIsGivenUpLeavesNothingServed(t *testing.T) {
	for name, boot := range map[string]node.RamdiskBoot{
		"ramdisk": {Secret: node.NewBootSecret()}, "instance": {Secret: node.NewBootSecret(), Instance: true},
	} {
		t.Run(name, func(t *testing.T) {
			var n *node.Node
			w, _ := restored(t, func(w *world) {
				n = cleanWaiting(w)
				w.write(func(tx *store.Tx) error {
					before, err := tx.NodeByID(n.ID)
					if err != nil {
						return err
					}
					after := *before
					boot.StoreIn(&after)
					return tx.UpdateNode(before, &after)
				})
			})
			if err := w.DropSuspended(t.Context(), n.UUID, "ann"); err != nil {
				t.Fatal(err)
			}
			if _, served := node.RamdiskBootOf(w.stored(n.UUID)); served != boot.Instance {
				t.Errorf("served %v, want that only an instance is", served)
			}
		})
	}
}

// TestCleanUpThatIsGivenUpLeavesNothingServed gives up what is to withdraw the ramdisk of aborted work.
func TestCleanUpThatIsGivenUpLeavesNothingServed(t *testing.T) {
	var n *node.Node
	w, _ := restored(t, func(w *world) {
		n = w.fake(node.CleanFailed, nil, func(n *node.Node) { node.RamdiskBoot{Secret: node.NewBootSecret()}.StoreIn(n) })
		w.end()
		w.write(func(tx *store.Tx) error { return tx.AddWork(&store.Work{NodeID: n.ID, Kind: workCleanUp}) })
	})
	if err := w.DropSuspended(t.Context(), n.UUID, "ann"); err != nil {
		t.Fatal(err)
	}
	if _, served := node.RamdiskBootOf(w.stored(n.UUID)); served {
		t.Error("the ramdisk is still served")
	}
}

// TestWorkOfANewerVersionIsNotGivenUp: only that version knows what state it leaves the node in.
func TestWorkOfANewerVersionIsNotGivenUp(t *testing.T) {
	var n *node.Node
	w, _ := restored(t, func(w *world) {
		n = cleanWaiting(w)
		w.end()
		w.write(func(tx *store.Tx) error { return tx.AddWork(&store.Work{NodeID: n.ID, Kind: "newer"}) })
	})
	wantAs[*node.ConflictError](t, w.DropSuspended(t.Context(), n.UUID, "ann"))
	if got := w.stored(n.UUID); got.ProvisionState != node.CleanWait || w.works() != 2 {
		t.Errorf("node is %q with %d pieces of work, want it untouched", got.ProvisionState, w.works())
	}
}

// TestThePowerChangeThatIsGivenUpLeavesTheRescueServed: its ramdisk is for other work.
func TestThePowerChangeThatIsGivenUpLeavesTheRescueServed(t *testing.T) {
	var n *node.Node
	w, _ := restored(t, func(w *world) {
		n = w.fake(node.Rescue, nil, func(n *node.Node) { node.RamdiskBoot{Secret: node.NewBootSecret()}.StoreIn(n) })
		w.end()
		if err := w.idle("conductor-9").SetPower(w.t.Context(), n.UUID, node.PowerOff, 0); err != nil {
			w.t.Fatal(err)
		}
	})
	if err := w.DropSuspended(t.Context(), n.UUID, "ann"); err != nil {
		t.Fatal(err)
	}
	if _, served := node.RamdiskBootOf(w.stored(n.UUID)); !served {
		t.Error("the ramdisk of the rescue is withdrawn")
	}
}
