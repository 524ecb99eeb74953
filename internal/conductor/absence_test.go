package conductor

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// severed is a database that can be away, or full.
type severed struct {
	Database
	away, full atomic.Bool
}

func (d *severed) answer() error {
	if d.away.Load() {
		return &node.UnavailableError{Reason: "The database is away."}
	}
	return nil
}

func (d *severed) Write(ctx context.Context, fn func(*store.Tx) error) error {
	if err := d.answer(); err != nil {
		return err
	}
	if d.full.Load() {
		return &node.UnavailableError{Reason: "The disk is full."}
	}
	return d.Database.Write(ctx, fn)
}

func (d *severed) Read(ctx context.Context, fn func(*store.Tx) error) error {
	if err := d.answer(); err != nil {
		return err
	}
	return d.Database.Read(ctx, fn)
}

func (d *severed) ReadSingle(ctx context.Context, fn func(*store.Tx) error) error {
	if err := d.answer(); err != nil {
		return err
	}
	return d.Database.ReadSingle(ctx, fn)
}

// withoutDatabase is an absence of the database, of that kind.
func withoutDatabase(kind func(*severed) *atomic.Bool) func(*world, time.Duration) {
	return func(w *world, away time.Duration) {
		broken := kind(w.Conductor.store.(*severed))
		broken.Store(true)
		w.clock.Advance(away)
		w.runner.ClaimDue(w.t.Context())
		broken.Store(false)
	}
}

// TestAgentsHaveTimeToBeHeardAfterTheEngineWasAway has nobody hear an agent for longer than
// it may be silent.
func TestAgentsHaveTimeToBeHeardAfterTheEngineWasAway(t *testing.T) {
	for name, absence := range map[string]func(w *world, away time.Duration){
		"engine": func(w *world, away time.Duration) {
			if err := w.Stop(w.t.Context()); err != nil {
				w.t.Fatal(err)
			}
			w.clock.Advance(away)
			w.Conductor = w.start("conductor-1")
		},
		"database": withoutDatabase(func(d *severed) *atomic.Bool { return &d.away }),
		"disk":     withoutDatabase(func(d *severed) *atomic.Bool { return &d.full }),
	} {
		for end, tc := range map[string]struct {
			heard bool
			want  node.State
		}{"heard": {true, node.Manageable}, "silent": {false, node.CleanFailed}} {
			t.Run(name+"/"+end, func(t *testing.T) {
				w := emptyWorld(t)
				w.Conductor = w.run(w.idleOn(&severed{Database: w.store}, "conductor-1"))
				n := w.fake(node.Manageable, nil)
				w.send(n, "clean", with(step("deploy.wait")))
				w.arrive(n, node.CleanWait)
				token := w.tokenOf(n)
				absence(w, 2*w.cfg.Limits.CallbackTimeout)
				w.runner.ClaimDue(t.Context())
				w.eventually("the work to wait anew", func() bool { return !w.anyDue() })
				w.pass(heartbeatTimeout - time.Second)
				w.eventually("the work to wait on", func() bool { return !w.anyDue() })
				if got := w.stored(n.UUID); got.ProvisionState != node.CleanWait {
					t.Fatalf("node is %q: %s", got.ProvisionState, got.LastError)
				}
				if tc.heard {
					if err := w.Heartbeat(t.Context(), n.UUID, beat(token)); err != nil {
						t.Fatal(err)
					}
				}
				w.pass(2 * time.Second)
				got := w.arrive(n, tc.want)
				if timedOut := strings.Contains(got.LastError, "timed out"); timedOut == tc.heard {
					t.Errorf("last_error %q", got.LastError)
				}
			})
		}
	}
}

// TestOutcomeThatWaitsForTheDatabaseOutlivesItsLease has a machine be called once before the
// database fails for longer than the lease lasts, and everything else that looks at leases come
// before the outcome when it is back.
func TestOutcomeThatWaitsForTheDatabaseOutlivesItsLease(t *testing.T) {
	for name, kind := range map[string]func(*severed) *atomic.Bool{
		"database": func(d *severed) *atomic.Bool { return &d.away },
		"disk":     func(d *severed) *atomic.Bool { return &d.full },
	} {
		t.Run(name, func(t *testing.T) {
			w := emptyWorld(t)
			db := &severed{Database: w.store}
			broken := kind(db)
			waits, goOn := make(chan struct{}), make(chan struct{})
			w.Conductor = w.idleOn(db, "conductor-1", func(c *Config) {
				c.Jitter = func(time.Duration) time.Duration {
					waits <- struct{}{}
					<-goOn
					return time.Millisecond
				}
			})
			calls := 0
			w.scripts["paint"] = runner.Script{End: keepNode, Operations: func(runner.Task) ([]runner.Operation, error) {
				return []runner.Operation{{Ref: runner.Ref{Name: "paint"}, Change: func(_ context.Context, _ *node.Node, turn driver.Turn) (driver.Outcome, error) {
					if turn.Attempt == driver.Unknown {
						return driver.Outcome{}, driver.OutcomeUnknown("paint")
					}
					calls++
					broken.Store(true)
					return driver.Outcome{}, nil
				}}}, nil
			}}
			n := w.register()
			w.write(func(tx *store.Tx) error { return tx.AddWork(&store.Work{NodeID: n.ID, Kind: "paint"}) })
			w.runner.ClaimDue(t.Context())
			ended := make(chan struct{})
			go func() {
				w.runner.RunNext(t.Context())
				close(ended)
			}()
			<-waits
			w.clock.Advance(w.cfg.LeaseTTL + w.cfg.CallTimeout)
			broken.Store(false)
			w.runner.ClaimDue(t.Context())
			w.runner.RenewLeases(t.Context())
			if load := w.runner.Load(); load.Waiting != 0 || len(load.Leases) != 1 {
				t.Errorf("%d pieces of work wait and %d leases are held; want the one that is running", load.Waiting, len(load.Leases))
			}
			close(goOn)
			<-ended
			w.runner.RunNext(t.Context())
			if got := w.stored(n.UUID); got.LastError != "" || got.Lease != (node.Lease{}) || w.works() != 0 || calls != 1 {
				t.Errorf("last_error %q, lease %+v, %d pieces of work, %d calls; want the one that was made", got.LastError, got.Lease, w.works(), calls)
			}
		})
	}
}

// TestAnEngineThatStartsAgainAndAgainEndsAWait has each process end before the silent agent's
// time is over.
func TestAnEngineThatStartsAgainAndAgainEndsAWait(t *testing.T) {
	w := newWorld(t)
	n := w.fake(node.Manageable, nil)
	w.send(n, "clean", with(step("deploy.wait")))
	w.arrive(n, node.CleanWait)
	w.clock.Advance(w.cfg.Limits.CallbackTimeout)
	for range 10 {
		w.restart(func(*Config) {})
		w.eventually("the work to wait or to end", func() bool { return !w.anyDue() })
		w.clock.Advance(heartbeatTimeout - time.Second)
	}
	if got := w.stored(n.UUID); got.ProvisionState != node.CleanFailed {
		t.Errorf("node is %q, want that the wait has ended", got.ProvisionState)
	}
}

// failingOnce is a database that is away for the first write of work.
type failingOnce struct {
	Database
	failed atomic.Bool
}

func (d *failingOnce) Write(ctx context.Context, fn func(*store.Tx) error) error {
	if runner.InfoOf(ctx).Task == "work" && d.failed.CompareAndSwap(false, true) {
		return &node.UnavailableError{Reason: "The database is away."}
	}
	return d.Database.Write(ctx, fn)
}

// TestAnAbsenceIsLeftOutOnce has a process die in the middle of a power change, and the
// database fail the next one before it has done anything.
func TestAnAbsenceIsLeftOutOnce(t *testing.T) {
	w := emptyWorld(t)
	first := &crashing{Database: w.store}
	w.Conductor = w.idleOn(first, "conductor-1")
	n := w.fake(node.Active, map[string]any{"fake_power_delay": 50})
	if err := w.SetPower(t.Context(), n.UUID, node.PowerOn, 0); err != nil {
		t.Fatal(err)
	}
	first.run(t, w.Conductor, 1) // it waits for the machine then, and never goes on
	w.clock.Advance(time.Hour)
	next := &failingOnce{Database: w.store}
	w.Conductor = w.run(w.idleOn(next, "conductor-2"))
	w.eventually("the work to go on", func() bool { return next.failed.Load() && !w.anyDue() })
	w.read(func(tx *store.Tx) error {
		works, err := tx.WorkOf(n.ID)
		if err != nil || len(works) != 1 {
			t.Fatalf("work %v, %v; last error %q", works, err, w.stored(n.UUID).LastError)
		}
		if works[0].NotBefore.Before(w.clock.Now()) {
			t.Errorf("the row is due since %s before now, which the next process would leave out again", w.clock.Now().Sub(works[0].NotBefore))
		}
		return nil
	})
}
