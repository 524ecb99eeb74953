package conductor

import (
	"errors"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// outlive has all other conductors count as dead.
func (w *world) outlive() {
	w.t.Helper()
	w.clock.Advance(aliveFor + time.Second)
	w.registered.add(w.clock.Now())
	w.clock.Advance(registerTick)
	w.registered.add(w.clock.Now())
}

// TestOutageOfTheDatabaseLeavesTheWorkOfAGroupToItsConductors has a conductor that is the first
// one to register behind an outage.
func TestOutageOfTheDatabaseLeavesTheWorkOfAGroupToItsConductors(t *testing.T) {
	w := emptyWorld(t)
	w.Conductor = w.idle("conductor-1")
	n := w.fake(node.Verifying, nil, func(n *node.Node) { n.ConductorGroup = "row1" })
	w.write(func(tx *store.Tx) error { return tx.AddWork(&store.Work{NodeID: n.ID, Kind: workVerify}) })
	other := func() {
		w.write(func(tx *store.Tx) error {
			return tx.RegisterConductor(node.Conductor{Hostname: "conductor-2", Group: "row1"})
		})
	}
	own := func() {
		if err := w.keepAlive(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	wantClaimed := func(when string, want int) {
		t.Helper()
		w.runner.ClaimDue(t.Context())
		if held := len(w.runner.Load().Leases); held != want {
			t.Errorf("%s: %d pieces of work of the group are claimed, want %d", when, held, want)
		}
		w.read(func(tx *store.Tx) error {
			watches, _, err := powerOwner{w.Conductor}.Watch(tx)
			if err == nil && watches(n) != (want > 0) {
				t.Errorf("%s: power is synchronized: %v", when, watches(n))
			}
			return err
		})
	}
	for range 3 {
		other()
		w.clock.Advance(registerTick - time.Second)
		own()
	}
	w.clock.Advance(aliveFor + time.Second)
	wantClaimed("nobody has registered again", 0)
	own()
	wantClaimed("this one was the first", 0)
	other()
	for range 3 {
		w.clock.Advance(registerTick)
		own()
		wantClaimed("all have registered", 0)
	}
	for range 2 {
		w.clock.Advance(registerTick)
		own()
	}
	wantClaimed("the conductor of the group is dead", 1)
}

func TestPostIsProcessedByTheConductorsOfTheGroup(t *testing.T) {
	w := newWorld(t)
	m := unknown(1)
	n := waiting(w, func(n *node.Node) { n.ConductorGroup = "row1" })
	w.addPort(n, m.macs[0])
	w.write(func(tx *store.Tx) error {
		return tx.RegisterConductor(node.Conductor{Hostname: "conductor-2", Group: "row1"})
	})
	if answer, err := send(t, w.Conductor, m); err != nil || answer.Node.UUID != n.UUID {
		t.Fatalf("post: answer %+v, %v; want the node", answer, err)
	}
	w.runner.ClaimDue(t.Context())
	if got := w.stored(n.UUID); got.ProvisionState != node.Inspecting || got.Lease.Epoch != 0 || w.works() != 1 {
		t.Errorf("node is in %q under the lease %+v with %d pieces of work; want one that is left to conductor-2", got.ProvisionState, got.Lease, w.works())
	}
}

// TestRestoreOfTheDatabaseLeavesTheWorkOfAGroupToItsConductors has the conductor of a group show no life since the
// time of the copy, as far as that says.
func TestRestoreOfTheDatabaseLeavesTheWorkOfAGroupToItsConductors(t *testing.T) {
	w, _ := sharedWorld(t)
	w.Conductor = w.idle("conductor-1", func(c *Config) { c.ResumeAfterRestore = true })
	n := w.fake(node.Verifying, nil, func(n *node.Node) { n.ConductorGroup = "row1" })
	w.write(func(tx *store.Tx) error {
		return errors.Join(tx.AddWork(&store.Work{NodeID: n.ID, Kind: workVerify}), tx.RegisterConductor(node.Conductor{Hostname: "conductor-2", Group: "row1"}))
	})
	own := func() {
		t.Helper()
		if err := w.keepAlive(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	wantServed := func(when string, want bool) {
		t.Helper()
		w.runner.ClaimDue(t.Context())
		var serves bool
		w.read(func(tx *store.Tx) (err error) {
			serves, err = w.serves(tx, "row1")
			return err
		})
		if held := len(w.runner.Load().Leases); (held > 0) != want || serves != want {
			t.Errorf("%s: %d pieces of work of the group are claimed, its verbs are run: %v; want %v", when, held, serves, want)
		}
	}
	w.clock.Advance(time.Hour) // since the copy was taken
	for range 3 {
		w.registered.add(w.clock.Now())
		w.clock.Advance(registerTick)
	}
	w.goBack()
	own()
	wantServed("the restore was found", false)
	for range 5 {
		w.clock.Advance(registerTick)
		own()
	}
	wantServed("the conductor of the group is dead", true)
}
