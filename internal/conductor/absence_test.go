package conductor

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// severed is a database that can be away.
type severed struct {
	Database
	away atomic.Bool
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
		"database": func(w *world, away time.Duration) {
			database := w.Conductor.store.(*severed)
			database.away.Store(true)
			w.clock.Advance(away)
			w.runner.ClaimDue(w.t.Context())
			database.away.Store(false)
		},
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
