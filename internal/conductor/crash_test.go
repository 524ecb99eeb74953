package conductor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/driver/fake"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// crashing is the database of a process that dies at its n-th commit: from then
// on it writes nothing, and everything that it does ends.
type crashing struct {
	Database
	commits int
	die     context.CancelFunc // nil until the process has taken its request
	dead    bool
}

func (m *crashing) Write(ctx context.Context, fn func(*store.Tx) error) error {
	if m.die != nil && m.commits <= 0 {
		m.dead = true
		m.die()
		return context.Canceled
	}
	if m.die != nil {
		m.commits--
	}
	return m.Database.Write(ctx, fn)
}

// run makes one attempt at the work that c has waiting, and reports whether the
// process lived to its end.
func (m *crashing) run(t *testing.T, c *Conductor, commits int) (lived bool) {
	t.Helper()
	ctx, die := context.WithCancel(t.Context())
	defer die()
	m.commits, m.die = commits, die
	if !c.runner.RunNext(ctx) {
		t.Fatal("no work waits")
	}
	return !m.dead
}

// TestWorkGoesOnWhereverItsProcessDied stops work before each of its commits in
// turn, and lets another conductor go on.
func TestWorkGoesOnWhereverItsProcessDied(t *testing.T) {
	for name, tc := range map[string]struct {
		state, want node.State
		verb        string
		with        func(*node.VerbRequest)
		info        map[string]any
		text        string
	}{
		"clean":    {state: node.Manageable, want: node.Manageable, verb: "clean", with: with(step("raid.create_configuration"), step("power.reboot"), step("bios.factory_reset"))},
		"deploy":   {state: node.Available, want: node.Active, verb: "active"},
		"undeploy": {state: node.Active, want: node.Available, verb: "deleted"},
		"service":  {state: node.Active, want: node.Active, verb: "service", with: with(step("bios.factory_reset"))},
		"rescue":   {state: node.Active, want: node.Rescue, verb: "rescue", with: rescuePassword},
		"unrescue": {state: node.Rescue, want: node.Active, verb: "unrescue"},
		"adopt":    {state: node.Manageable, want: node.Active, verb: "adopt"},
		"inspect":  {state: node.Manageable, want: node.Manageable, verb: "inspect"},
		"failure": {
			state: node.Manageable, want: node.CleanFailed, verb: "clean", with: with(step("deploy.erase_devices")),
			info: map[string]any{"fake_clean_error": "broken"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			commits := 0
			for done := false; !done; commits++ {
				done = dieAfter(t, commits, tc.state, tc.want, tc.verb, tc.with, tc.info)
			}
			if commits < 2 {
				t.Errorf("the work has %d commits: nothing was interrupted", commits)
			}
		})
	}
}

// dieAfter runs a verb in a process that dies after some commits, then in another
// one. It reports whether the first one came to the end.
func dieAfter(t *testing.T, commits int, state, want node.State, verb string, change func(*node.VerbRequest), info map[string]any) bool {
	t.Helper()
	w := emptyWorld(t)
	db := &crashing{Database: w.store}
	w.Conductor = w.idleOn(db, "conductor-1")
	n := w.fake(state, info)
	if change == nil {
		change = func(*node.VerbRequest) {}
	}
	w.send(n, verb, change)
	lived := db.run(t, w.Conductor, commits)
	if works := w.works(); lived != (works == 0) {
		t.Fatalf("after %d commits: %d pieces of work are left, lived %v", commits, works, lived)
	}
	w.clock.Advance(w.storageWithin() + time.Minute) // no call is on its way any more
	w.Conductor = w.start("conductor-2")
	w.awaitWorkDone()
	got := w.arrive(n, want)
	rows := w.history(n) // the request and one outcome, however often it was tried
	if failed := want.Class() == node.Failed; failed != (got.LastError != "") || len(rows) != 2 || failed != strings.HasPrefix(rows[1], "ERROR") {
		t.Errorf("after %d commits: last_error %q, history %q", commits, got.LastError, rows)
	}
	return lived
}

func TestSleepingWorkIsTakenOverWhenItIsDue(t *testing.T) {
	w := newWorld(t)
	n := w.fake(node.Available, map[string]any{"fake_deploy_delay": 60})
	w.send(n, "active")
	w.eventually("the work to wait", func() bool { return w.delayed() == 1 })
	if err := w.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Conductor = w.start("conductor-2")
	w.pass(59 * time.Second)
	if got := w.stored(n.UUID); got.ProvisionState != node.Deploying {
		t.Fatalf("node is in %q before its minute has passed", got.ProvisionState)
	}
	w.pass(time.Second)
	w.awaitWorkDone()
	w.arrive(n, node.Active)
}

func TestOfEqualVerbsAtOnceOneIsAcceptedAndTheRestConflict(t *testing.T) {
	w := newWorld(t)
	n := w.fake(node.Manageable, map[string]any{"fake_inspect_delay": 60})
	accepted := 0
	for _, err := range concurrently(50, func(int) error { return w.try(n, "inspect") }) {
		switch {
		case err == nil:
			accepted++
		case !errors.Is(err, node.ErrLocked):
			t.Errorf("answer = %v, want a conflict", err)
		}
	}
	if accepted != 1 {
		t.Errorf("%d verbs were accepted", accepted)
	}
}

// TestPassingOverAnOperationCostsNoCommit lets a process die behind the first commit of
// the work of an enrolled machine, which needs no second one: the operation before
// its hooks is skipped.
func TestPassingOverAnOperationCostsNoCommit(t *testing.T) {
	w := emptyWorld(t)
	m := &crashing{Database: w.store}
	c := w.idleOn(m, "conductor-1")
	if _, err := c.ContinueInspection(t.Context(), node.InspectionPost{Body: unknown(1).body()}); err != nil {
		t.Fatal(err)
	}
	if !m.run(t, c, 1) {
		t.Error("the work needs a second commit")
	}
}

// TestWorkIsNotTooLateBecauseTheEngineWasAway has a process die before it switches a machine,
// and nobody go on for far longer than the machine may take.
func TestWorkIsNotTooLateBecauseTheEngineWasAway(t *testing.T) {
	w := emptyWorld(t)
	db := &crashing{Database: w.store}
	w.Conductor = w.idleOn(db, "conductor-1")
	unreached := machineOf(t, w.Conductor)
	n := w.fake(node.Active, nil)
	if err := w.SetPower(t.Context(), n.UUID, node.PowerOn, 0); err != nil {
		t.Fatal(err)
	}
	if db.run(t, w.Conductor, 1) || len(unreached.kinds()) != 1 {
		t.Fatalf("effects %q, want the process to die before the answer is stored", unreached.kinds())
	}
	w.clock.Advance(time.Hour)
	next := w.idle("conductor-2")
	m := machineOf(t, next) // which the call has not reached
	w.Conductor = w.run(next)
	w.awaitWorkDone()
	if got := w.stored(n.UUID); got.LastError != "" || got.PowerState != node.PowerOn || !slices.Equal(m.kinds(), []fake.Kind{fake.PowerOn}) {
		t.Errorf("last_error %q, power %q, effects %q; want the machine switched on", got.LastError, got.PowerState, m.kinds())
	}
}
