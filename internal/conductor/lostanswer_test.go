package conductor

import (
	"context"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// lostAnswer is the database of a process that does not get the answer to one of its commits.
type lostAnswer struct {
	Database
	answers int  // so many commits before
	armed   bool // the process has taken its request
	lost    bool
}

func (d *lostAnswer) Write(ctx context.Context, fn func(*store.Tx) error) error {
	err := d.Database.Write(ctx, fn)
	if err != nil || !d.armed || d.lost {
		return err
	}
	if d.answers--; d.answers >= 0 {
		return nil
	}
	d.lost = true
	return &node.UnavailableError{Reason: "The answer was lost."}
}

// TestLostAnswerOfTheDatabaseFailsNoWork loses the answer to each commit of work in turn.
func TestLostAnswerOfTheDatabaseFailsNoWork(t *testing.T) {
	for name, tc := range map[string]struct {
		state, want node.State
		verb        string
		with        func(*node.VerbRequest)
	}{
		"clean":    {state: node.Manageable, want: node.Manageable, verb: "clean", with: with(step("raid.create_configuration"), step("power.reboot"))},
		"deploy":   {state: node.Available, want: node.Active, verb: "active", with: func(*node.VerbRequest) {}},
		"undeploy": {state: node.Active, want: node.Available, verb: "deleted", with: func(*node.VerbRequest) {}},
		"rebuild":  {state: node.Active, want: node.Active, verb: "rebuild", with: func(*node.VerbRequest) {}},
	} {
		t.Run(name, func(t *testing.T) {
			commits := 0
			for lost := true; lost; commits++ {
				lost = loseAnswer(t, commits, tc.state, tc.want, tc.verb, tc.with)
			}
			if commits < 3 {
				t.Errorf("the work has %d commits: no answer was lost", commits-1)
			}
		})
	}
}

// loseAnswer runs a verb in a process that does not hear the answer to a commit, and reports
// whether there was such a commit.
func loseAnswer(t *testing.T, commit int, state, want node.State, verb string, change func(*node.VerbRequest)) bool {
	t.Helper()
	w := emptyWorld(t)
	db := &lostAnswer{Database: w.store, answers: commit}
	w.Conductor = w.idleOn(db, "conductor-1", func(cfg *Config) { cfg.Jitter = func(time.Duration) time.Duration { return time.Millisecond } })
	n := w.fake(state, nil)
	w.send(n, verb, change)
	db.armed = true
	w.runner.RunNext(t.Context())
	w.clock.Advance(w.storageWithin() + time.Minute) // no call is on its way any more
	w.Conductor = w.start("conductor-2")             // for what the first one has given back
	w.awaitWorkDone()
	if got := w.arrive(n, want); got.LastError != "" {
		t.Errorf("without the answer to commit %d: last_error %q", commit, got.LastError)
	}
	return db.lost
}

// lostLeaseAnswer is the database of a process that does not get the answer that it has the lease
// of a node.
type lostLeaseAnswer struct {
	Database
	node string // UUID
	lost bool
}

func (d *lostLeaseAnswer) Write(ctx context.Context, fn func(*store.Tx) error) error {
	err := d.Database.Write(ctx, fn)
	if err != nil || d.node == "" || d.lost {
		return err
	}
	return d.Read(ctx, func(tx *store.Tx) error {
		leases, err := tx.LeasesOf([]string{d.node})
		if err != nil || len(leases) == 0 {
			return err
		}
		d.lost = true
		return &node.UnavailableError{Reason: "The answer was lost."}
	})
}

// TestChildWhoseLeaseWasGrantedUnheardDoesNotDelayItsParent moves no clock: nothing that
// waits for one would go on.
func TestChildWhoseLeaseWasGrantedUnheardDoesNotDelayItsParent(t *testing.T) {
	w := emptyWorld(t)
	db := &lostLeaseAnswer{Database: w.store}
	c := w.idleOn(db, "conductor-1", func(cfg *Config) { cfg.Jitter = func(time.Duration) time.Duration { return time.Millisecond } })
	w.Conductor = c
	parent, children := w.family(node.Manageable, nil)
	w.send(parent, "clean", with(onChildren("bios.apply_configuration")))
	db.node = children[0].UUID
	w.run(c)
	if got := w.arrive(parent, node.Manageable); got.LastError != "" || !db.lost {
		t.Errorf("last_error %q, answer lost: %v", got.LastError, db.lost)
	}
}
