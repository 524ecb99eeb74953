package conductor

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

func TestAnsweredWorkIsFinishedAfterACrash(t *testing.T) {
	w := emptyWorld(t)
	crashed := w.idle("conductor-1")
	const machines = 30
	for i := range machines {
		if _, err := send(t, crashed, unknown(i)); err != nil {
			t.Fatal(err)
		}
	}
	manage(t, crashed, w.register().UUID)
	for _, n := range w.all() {
		if n.Lease.Holder != "conductor-1" || !n.InspectionFinishedAt.IsZero() {
			t.Fatalf("node %s = %+v, want it leased and unfinished", n.UUID, n)
		}
	}
	w.reopen()
	w.Conductor = w.start("conductor-1") // at once: it knows its own leases
	w.awaitWorkDone()
	for _, n := range w.all() {
		finished := !n.InspectionFinishedAt.IsZero() && len(w.portsOf(n)) == 2 || n.ProvisionState == node.Manageable
		if !finished || n.LastError != "" || n.Lease != (node.Lease{}) {
			t.Errorf("node %s is in %q, last_error %q, lease %v; want it finished", n.UUID, n.ProvisionState, n.LastError, n.Lease)
		}
	}
}

func TestPostsBeforeTheStartAreFinishedToo(t *testing.T) {
	w := emptyWorld(t)
	w.Conductor = w.idle("conductor-1")
	if _, err := send(t, w.Conductor, unknown(1)); err != nil {
		t.Fatal(err)
	}
	w.run(w.Conductor)
	w.awaitWorkDone()
	if n := w.all()[0]; n.InspectionFinishedAt.IsZero() {
		t.Errorf("node = %+v, want it inspected", n)
	}
}

func TestLeaseOfALiveConductorIsRespectedAndOfADeadOneTakenOver(t *testing.T) {
	w := newWorld(t)
	dead := w.idle("conductor-2")
	if _, err := send(t, dead, unknown(1)); err != nil {
		t.Fatal(err)
	}
	n := w.all()[0]
	w.clock.Advance(dead.cfg.LeaseTTL - time.Microsecond)
	w.runner.ClaimDue(t.Context())
	if got := w.stored(n.UUID).Lease; got.Holder != "conductor-2" || w.works() != 1 {
		t.Fatalf("lease = %+v, want it left alone while it is in force", got)
	}
	w.clock.Advance(time.Microsecond)
	w.runner.WakeClaim()
	w.awaitWorkDone()
	finished := w.stored(n.UUID)
	if finished.InspectionFinishedAt.IsZero() || finished.LastError != "" || len(w.portsOf(n)) != 2 {
		t.Errorf("node = %+v, want it finished and not failed", finished)
	}

	// The silent conductor was only paused. What it does now changes nothing.
	w.clock.Advance(time.Hour)
	dead.runner.RunNext(t.Context())
	if diff := cmp.Diff(finished, w.stored(n.UUID)); diff != "" {
		t.Errorf("node (-before +after the old holder woke up):\n%s", diff)
	}
}

func TestStoppedConductorGivesItsNodesBack(t *testing.T) {
	w := emptyWorld(t)
	stopped := w.start("conductor-1", func(c *Config) { c.Calls = 0 }) // so that nothing is done
	w.Conductor = stopped
	known := w.fake(node.InspectWait, nil, func(n *node.Node) { n.Interfaces[node.InspectInterface] = "agent" })
	w.addPort(known, unknown(2).macs[0])
	for number := range 2 {
		if _, err := send(t, stopped, unknown(1+number)); err != nil {
			t.Fatal(err)
		}
	}
	if err := stopped.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, n := range w.all() {
		if n.Lease != (node.Lease{}) {
			t.Errorf("lease = %+v, want it given back", n.Lease)
		}
	}
	w.Conductor = w.start("conductor-2") // nobody waits for the lease to expire
	w.awaitWorkDone()
}

// nextDue returns how long from now work is due, or -1.
func (w *world) nextDue() time.Duration {
	w.t.Helper()
	wait := time.Duration(-1)
	w.read(func(tx *store.Tx) error {
		at, ok, err := tx.NextDue(store.WorkScope{})
		if ok {
			wait = at.Sub(tx.Now())
		}
		return err
	})
	return wait
}

// broken returns a conductor whose pipeline panics on every document.
func (w *world) broken(hostname string) *Conductor {
	w.t.Helper()
	c := w.idle(hostname)
	c.pipeline = nil
	return c
}

func TestPanicInAHookIsTriedAgainAndThenFails(t *testing.T) {
	w := emptyWorld(t)
	w.Conductor = w.run(w.broken("conductor-1"))
	answer, err := send(t, w.Conductor, unknown(1))
	if err != nil {
		t.Fatal(err)
	}
	for _, wait := range []time.Duration{2 * time.Second, 4 * time.Second} {
		w.eventually("the attempt to be postponed", func() bool { return w.nextDue() == wait })
		if n := w.stored(answer.Node.UUID); n.LastError != "" || n.Lease != (node.Lease{}) {
			t.Errorf("last_error %q, lease %+v between attempts; want neither", n.LastError, n.Lease)
		}
		w.clock.Advance(wait)
		w.runner.WakeClaim()
	}
	w.awaitWorkDone()
	n := w.stored(answer.Node.UUID)
	if !strings.HasPrefix(n.LastError, "gave up after 3 attempts: internal error in inspect: ") || strings.Contains(n.LastError, "goroutine") {
		t.Errorf("last_error = %q, want a sentence", n.LastError)
	}
	if got := w.history(n); !slices.Contains(got, "ERROR inspect: "+n.LastError) {
		t.Errorf("history = %q, want the failure in it", got)
	}
	manage(t, w.Conductor, w.register().UUID)
	w.awaitWorkDone() // the workers live
}

func TestAttemptThatFailedIsRepeatedByAnotherConductor(t *testing.T) {
	w := emptyWorld(t)
	first := w.run(w.broken("conductor-1"))
	if _, err := send(t, first, unknown(1)); err != nil {
		t.Fatal(err)
	}
	w.eventually("the attempt to be postponed", func() bool { return w.nextDue() == 2*time.Second })
	if err := first.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Conductor = w.start("conductor-2")
	w.clock.Advance(2 * time.Second)
	w.runner.WakeClaim()
	w.awaitWorkDone()
	if n := w.all()[0]; n.InspectionFinishedAt.IsZero() || n.LastError != "" {
		t.Errorf("last_error = %q, want it inspected", n.LastError)
	}
}

// TestWorkOfANewerVersionIsLeftAlone has work of a kind, and work with an operation,
// that only a newer version knows.
func TestWorkOfANewerVersionIsLeftAlone(t *testing.T) {
	for name, work := range map[string]store.Work{
		"kind":                {Kind: "paint"},
		"operation under way": {Kind: workVerify, Checkpoint: `{"operation":{"name":"paint"}}`},
		"operation done":      {Kind: workVerify, Checkpoint: `{"done":{"name":"paint"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			w, out := emptyWorld(t), &strings.Builder{}
			w.out = out
			w.Conductor = w.idle("conductor-1")
			n := w.register(inState(node.Verifying))
			work.NodeID = n.ID
			w.write(func(tx *store.Tx) error { return tx.AddWork(&work) })
			w.runner.ClaimDue(t.Context())
			for w.runner.RunNext(t.Context()) {
			}
			w.clock.Advance(time.Minute)
			w.runner.ClaimDue(t.Context())
			if w.runner.RunNext(t.Context()) {
				t.Error("the work was taken up again")
			}
			got := w.stored(n.UUID)
			if got.LastError != "" || got.ProvisionState != node.Verifying || got.Lease.InForce(w.clock.Now()) {
				t.Errorf("node is in %q with last_error %q, lease %+v; want it as it was", got.ProvisionState, got.LastError, got.Lease)
			}
			if left := w.workOf(n); left.Checkpoint != work.Checkpoint || left.Kind != work.Kind {
				t.Errorf("work = %+v, want it as it was", left)
			}
			if !strings.Contains(out.String(), "left to a newer version") || !strings.Contains(out.String(), "paint") {
				t.Errorf("log = %s", out)
			}
			wantAs[*node.LockedError](t, w.DeleteNode(t.Context(), n.UUID))
			if err := w.SetMaintenance(t.Context(), n.UUID, true, "there is no newer version any more"); err != nil {
				t.Fatal(err)
			}
			if err := w.DeleteNode(t.Context(), n.UUID); err != nil {
				t.Errorf("delete in maintenance: %v", err)
			}
		})
	}
}

func TestInspectionWhoseDocumentIsGoneFails(t *testing.T) {
	for name, intent := range map[string]node.Object{"no document": nil, "missing document": node.ObjectOf(map[string]any{"document": 4711})} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(c *Config) { c.MaxAttempts = 1 })
			n := w.register(inState(node.Inspecting))
			w.write(func(tx *store.Tx) error {
				return tx.AddWork(&store.Work{NodeID: n.ID, Kind: workHooks, Intent: intent})
			})
			w.runner.WakeClaim()
			w.awaitWorkDone()
			if n = w.stored(n.UUID); n.ProvisionState != node.InspectFailed || n.LastError == "" {
				t.Errorf("node is in %q with last_error %q, want the inspection failed", n.ProvisionState, n.LastError)
			}
		})
	}
}

func TestConductorsAreListed(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Group = "row1" })
	if err := w.Ready(t.Context()); err != nil {
		t.Errorf("ready: %v", err)
	}
	got, err := w.Conductors(t.Context())
	want := []node.Conductor{{
		Hostname: "conductor-1", Group: "row1", Drivers: []string{"fake-hardware", "manual-management"}, Alive: true, CreatedAt: w.clock.Now(), UpdatedAt: w.clock.Now(),
	}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("conductors (-want +got), %v:\n%s", err, diff)
	}
	w.clock.Advance(aliveFor + time.Second)
	if got, err := w.Conductors(t.Context()); err != nil || got[0].Alive {
		t.Errorf("conductors = %+v, %v; want the silent one not alive", got, err)
	}
}
