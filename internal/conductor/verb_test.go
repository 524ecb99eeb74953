package conductor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/node"
)

// provision sends a verb by its wire name.
func provision(t *testing.T, c *Conductor, ident, name string) error {
	t.Helper()
	verb, ok := node.VerbNamed(name)
	if !ok {
		t.Fatalf("no verb %q", name)
	}
	return c.Provision(t.Context(), ident, node.VerbRequest{Verb: verb})
}

func manage(t *testing.T, c *Conductor, ident string) {
	t.Helper()
	if err := provision(t, c, ident, "manage"); err != nil {
		t.Fatal(err)
	}
}

// create stores a node the way the API does.
func (w *world) create(driver string, changes ...func(*node.Node)) *node.Node {
	w.t.Helper()
	n := &node.Node{Driver: driver}
	for _, change := range changes {
		change(n)
	}
	created, err := w.CreateNode(w.t.Context(), n)
	if err != nil {
		w.t.Fatal(err)
	}
	return created
}

func TestVerbShowsItsStateBeforeItIsDone(t *testing.T) {
	w := emptyWorld(t)
	c := w.idle("conductor-1")
	n := w.register(func(n *node.Node) { n.LastError = "stale" })
	manage(t, c, n.UUID)
	got := w.stored(n.UUID)
	if got.ProvisionState != node.Verifying || got.TargetProvisionState != node.Manageable || got.LastError != "" || got.Lease.Holder != "conductor-1" {
		t.Errorf("node = %+v, want verifying under a lease, the old error gone", got)
	}
	if w.works() != 1 {
		t.Errorf("%d pieces of work, want one", w.works())
	}
}

// TestAbortWithoutWorkLeavesWhyAServiceFailed lets a client that lost the answer to its abort know.
func TestAbortWithoutWorkLeavesWhyAServiceFailed(t *testing.T) {
	w := newWorld(t)
	n := w.fake(node.Active, map[string]any{"fake_service_error": "the disk is on fire"})
	w.send(n, "service", with(step("bios.factory_reset")))
	w.awaitWorkDone()
	failed := w.arrive(n, node.ServiceFailed)
	w.send(n, "abort")
	if got := w.arrive(n, node.Active); got.LastError != failed.LastError || w.works() != 0 {
		t.Errorf("last_error %q with %d works, want %q and none", got.LastError, w.works(), failed.LastError)
	}
	if history := w.history(n); !strings.Contains(history[len(history)-1], `"abort" was asked for`) {
		t.Errorf("the history ends with %q, want the abort", history[len(history)-1])
	}
	if err := w.SetPower(t.Context(), n.UUID, node.PowerOn, 0); err != nil {
		t.Fatal(err)
	}
	w.awaitWorkDone()
	if got := w.stored(n.UUID).LastError; got != "" {
		t.Errorf("after another request last_error is still %q", got)
	}
}

func TestFakeHardwareGoesFromEnrollToAvailableAndBack(t *testing.T) {
	w := newWorld(t)
	n := w.create("fake-hardware")
	for _, step := range []struct {
		verb string
		want node.State
	}{
		{"manage", node.Manageable}, {"provide", node.Available}, {"manage", node.Manageable}, {"provide", node.Available},
	} {
		now := w.clock.Advance(time.Second)
		if err := provision(t, w.Conductor, n.UUID, step.verb); err != nil {
			t.Fatalf("%s: %v", step.verb, err)
		}
		w.awaitWorkDone()
		got := w.stored(n.UUID)
		if got.ProvisionState != step.want || got.TargetProvisionState != "" || got.LastError != "" || got.Lease != (node.Lease{}) {
			t.Errorf("after %s: %q, target %q, last_error %q; want %q", step.verb, got.ProvisionState, got.TargetProvisionState, got.LastError, step.want)
		}
		if got.PowerState != node.PowerOff || !got.ProvisionUpdatedAt.Equal(now) {
			t.Errorf("after %s: power %q, state since %v", step.verb, got.PowerState, got.ProvisionUpdatedAt)
		}
	}
}

func TestMachineWithoutBMCIsManageableWhileItsAgentIsAlive(t *testing.T) {
	w := newWorld(t)
	n := w.enrol(unknown(1)) // the end of the inspection counts as a sign of life
	w.clock.Advance(heartbeatTimeout)
	manage(t, w.Conductor, n.UUID)
	w.awaitWorkDone()
	if got := w.stored(n.UUID); got.ProvisionState != node.Manageable || got.PowerState != node.PowerOn {
		t.Fatalf("node is in %q, power %q, last_error %q; want it manageable", got.ProvisionState, got.PowerState, got.LastError)
	}
	if err := provision(t, w.Conductor, n.UUID, "provide"); err != nil {
		t.Fatal(err)
	}
	w.awaitWorkDone()
	if got := w.stored(n.UUID); got.ProvisionState != node.Available || got.LastError != "" {
		t.Errorf("node is in %q, last_error %q; want it available", got.ProvisionState, got.LastError)
	}
}

func TestMachineWithoutBMCStaysInEnrollWhenItsAgentIsGone(t *testing.T) {
	w := newWorld(t)
	n := w.enrol(unknown(1))
	w.clock.Advance(heartbeatTimeout + time.Second)
	manage(t, w.Conductor, n.UUID)
	w.awaitWorkDone()
	got := w.stored(n.UUID)
	if got.ProvisionState != node.Enroll || got.TargetProvisionState != "" || !strings.HasPrefix(got.LastError, "Failed to verify node "+n.UUID) || !strings.Contains(got.LastError, "boot it into the ramdisk") {
		t.Errorf("node is in %q, last_error %q; want enroll and what to do", got.ProvisionState, got.LastError)
	}
	if rows := w.history(n); !slices.Contains(rows, "ERROR verify: "+got.LastError) {
		t.Errorf("history = %q, want the failure in it", rows)
	}
	answer, err := w.Lookup(t.Context(), node.LookupRequest{NodeUUID: n.UUID, WantsToken: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Heartbeat(t.Context(), n.UUID, beat(answer.Token)); err != nil {
		t.Fatal(err)
	}
	manage(t, w.Conductor, n.UUID)
	w.awaitWorkDone()
	if got := w.stored(n.UUID); got.ProvisionState != node.Manageable || got.LastError != "" {
		t.Errorf("node is in %q, last_error %q; want it manageable once the agent is back", got.ProvisionState, got.LastError)
	}
}

func TestUnknownPowerInterfaceFailsVerification(t *testing.T) {
	w := newWorld(t)
	n := w.register(func(n *node.Node) { n.Interfaces[node.PowerInterface] = "crystal" })
	manage(t, w.Conductor, n.UUID)
	w.awaitWorkDone()
	if got := w.stored(n.UUID); got.ProvisionState != node.Enroll || !strings.Contains(got.LastError, "crystal") {
		t.Errorf("node is in %q, last_error %q", got.ProvisionState, got.LastError)
	}
}

func TestVerbOnALockedNodeNamesTheHolder(t *testing.T) {
	w := newWorld(t)
	n := w.register()
	w.lease(n, "conductor-2")
	locked := errorAs[*node.LockedError](t, provision(t, w.Conductor, n.UUID, "manage"))
	if locked.Holder != "conductor-2" || locked.Node != n.UUID {
		t.Errorf("error = %v", locked)
	}
	w.clock.Advance(time.Minute) // expired: nobody works on it
	manage(t, w.Conductor, n.UUID)
	w.awaitWorkDone()
}

func TestVerbWaitsForWorkBesideTheStateOnly(t *testing.T) {
	for name, tc := range map[string]struct {
		state node.State
		taken time.Duration // when somebody else moved the node, after the request arrived
		waits bool
	}{
		"state allows the verb":     {state: node.Enroll, waits: true},
		"state is of the same verb": {state: node.Verifying},
		"somebody was quicker":      {state: node.Enroll, taken: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			var observer listener
			w := emptyWorld(t)
			c := w.idle("conductor-1", func(cfg *Config) { cfg.Observer = &observer; cfg.LockWait = time.Second })
			w.Conductor = c
			n := w.fake(tc.state, nil, func(n *node.Node) { n.ProvisionUpdatedAt = w.clock.Now().Add(tc.taken) })
			w.lease(n, "conductor-2")
			if locked := errorAs[*node.LockedError](t, provision(t, c, n.UUID, "manage")); locked.Holder != "conductor-2" {
				t.Errorf("error = %v", locked)
			}
			if got := len(observer.notices) > 0; got != tc.waits {
				t.Errorf("waited: %v, want %v", got, tc.waits)
			}
		})
	}
}

// TestVerbThatIsNamedLikeAnEndOfWorkDoesNotEndIt asks for each verb whose trigger work
// itself uses in a working state, while the work has a lease and while it waits without.
func TestVerbThatIsNamedLikeAnEndOfWorkDoesNotEndIt(t *testing.T) {
	for _, transition := range node.Transitions() {
		verbs := slices.DeleteFunc(node.Verbs(), func(v node.Verb) bool { return v.On != transition.On })
		if transition.From.Class() != node.Working || len(verbs) == 0 {
			continue
		}
		for _, leased := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s in %s, leased %v", verbs[0].Name, transition.From, leased), func(t *testing.T) {
				w := newWorld(t)
				n := w.fake(transition.From, nil)
				if leased {
					w.lease(n, "conductor-2")
				}
				before := w.stored(n.UUID)
				wantAs[*node.LockedError](t, w.try(n, verbs[0].Name, with(step("deploy.erase_devices"))))
				if diff := cmp.Diff(before, w.stored(n.UUID)); diff != "" || w.works() != 0 {
					t.Errorf("node (-before +after), %d works:\n%s", w.works(), diff)
				}
			})
		}
	}
}

func TestVerbsAtOnceOnOneNodeStartOnce(t *testing.T) {
	w := newWorld(t)
	n := w.create("fake-hardware")
	answers := concurrently(20, func(int) error { return provision(t, w.Conductor, n.UUID, "manage") })
	if answers[0] != nil {
		t.Errorf("best answer = %v, want a success", answers[0])
	}
	w.awaitWorkDone()
	if got := w.stored(n.UUID).ProvisionState; got != node.Manageable {
		t.Errorf("node is in %q", got)
	}
}

// TestRefusedVerbs checks the error of verbs that start nothing, and that the
// node is as before.
func TestRefusedVerbs(t *testing.T) {
	yes, no := true, false
	isTransitionOf := func(verb string) func(*testing.T, error) {
		return func(t *testing.T, err error) {
			t.Helper()
			if transition := errorAs[*node.TransitionError](t, err); transition.Verb != verb {
				t.Errorf("error = %v, want it to name the verb %q as the client did", err, verb)
			}
		}
	}
	invalid := func(part string) func(*testing.T, error) {
		return func(t *testing.T, err error) {
			t.Helper()
			if e := errorAs[*node.ValidationError](t, err); !strings.Contains(e.Reason, part) {
				t.Errorf("error = %v, want it about %q", err, part)
			}
		}
	}
	for name, tc := range map[string]struct {
		n    func(*node.Node)
		verb string
		want func(*testing.T, error)
	}{
		"provide in enroll":        {inState(node.Enroll), "provide", isTransitionOf("provide")},
		"manage in active":         {inState(node.Active), "manage", isTransitionOf("manage")},
		"undeploy in enroll":       {inState(node.Enroll), "undeploy", isTransitionOf("undeploy")},
		"deleted in enroll":        {inState(node.Enroll), "deleted", isTransitionOf("deleted")},
		"inspect without a driver": {inState(node.Manageable), "inspect", invalid("This engine does not have")},
		"active without a driver":  {inState(node.Available), "active", invalid("This engine does not have")},
		"clean without steps":      {inState(node.Manageable), "clean", invalid("needs steps")},
		"service in maintenance":   {func(n *node.Node) { n.ProvisionState, n.Maintenance = node.Active, true }, "service", invalid("maintenance")},
		"unrescue in maintenance":  {func(n *node.Node) { n.ProvisionState, n.Maintenance = node.Rescue, true }, "unrescue", invalid("maintenance")},
		"provide of a retired":     {func(n *node.Node) { n.ProvisionState, n.Retired = node.Manageable, true }, "provide", invalid("retired")},
		"provide with cleaning":    {func(n *node.Node) { n.ProvisionState, n.AutomatedClean = node.Manageable, &yes }, "provide", invalid("automated_clean")},
		"transition before retire": {func(n *node.Node) { n.Retired = true }, "provide", isTransitionOf("provide")},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			n := w.register(func(n *node.Node) { n.LastError = "kept" }, tc.n)
			before := w.stored(n.UUID)
			tc.want(t, provision(t, w.Conductor, n.UUID, tc.verb))
			if diff := cmp.Diff(before, w.stored(n.UUID)); diff != "" || w.works() != 0 {
				t.Errorf("node (-before +after), %d works:\n%s", w.works(), diff)
			}
		})
	}
	w := newWorld(t, func(c *Config) { c.AutomatedClean = true })
	wantIs(t, provision(t, w.Conductor, "nobody", "manage"), node.ErrNotFound)
	cleans := w.register(inState(node.Manageable))
	wantAs[*node.ValidationError](t, provision(t, w.Conductor, cleans.UUID, "provide"))
	exempt := w.register(inState(node.Manageable), func(n *node.Node) { n.AutomatedClean = &no })
	if err := provision(t, w.Conductor, exempt.UUID, "provide"); err != nil {
		t.Errorf("provide of a node that asks for no cleaning: %v", err)
	}
	w.awaitWorkDone()
}

func TestNodeRetiredWhileItIsProvidedStaysManageable(t *testing.T) {
	w := emptyWorld(t)
	n := w.register(inState(node.Manageable))
	if err := provision(t, w.idle("conductor-1"), n.UUID, "provide"); err != nil {
		t.Fatal(err)
	}
	before := w.stored(n.UUID)
	after := *before
	after.Retired = true
	w.update(before, &after)
	w.Conductor = w.start("conductor-1")
	w.awaitWorkDone()
	if got := w.stored(n.UUID).ProvisionState; got != node.Manageable {
		t.Errorf("node is in %q, want a retired node never offered", got)
	}
}
