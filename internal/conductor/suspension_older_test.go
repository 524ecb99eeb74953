package conductor

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/driver/fake"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
	"github.com/ingot-metal/ingot/internal/store/storetest"
)

// sharedWorld is restorableWorld on PostgreSQL, which can go back under conductors that run.
func sharedWorld(t *testing.T) (*world, *counter) {
	t.Helper()
	machine := newCounter()
	w := &world{t: t, clock: storetest.NewClock(), url: storetest.NewSchema(t)}
	w.machine = func(*node.Node) (fake.Machine, bool) { return machine, true }
	w.open()
	return w, machine
}

// goBack makes the database count as older than the process of this world has seen it.
func (w *world) goBack() {
	w.t.Helper()
	for range 3 {
		w.write(func(tx *store.Tx) error {
			_, err := tx.CountUse()
			return err
		})
	}
	storetest.GoBack(w.t, w.url)
}

func TestNothingResumesWorkOfADatabaseThatWentBackBeforeThatIsTold(t *testing.T) {
	for name, test := range map[string]struct {
		waits  func(w *world) *node.Node
		resume func(w *world, n *node.Node) error // prepares itself in the first call
	}{
		"a heartbeat": {cleanWaiting, func(w *world, n *node.Node) error {
			w.cfg.AgentRules.VerifyAddress = false
			answer, err := w.Lookup(w.t.Context(), node.LookupRequest{NodeUUID: n.UUID, WantsToken: true})
			if err != nil {
				return err
			}
			w.goBack()
			return w.Heartbeat(w.t.Context(), n.UUID, node.Heartbeat{CallbackURL: "https://192.0.2.1:9999", AgentToken: answer.Token})
		}},
		"the end of a hold": {func(w *world) *node.Node {
			n := w.fake(node.Manageable, nil)
			w.send(n, "clean", with(step("deploy.hold"), step("deploy.erase_devices")))
			return w.arrive(n, node.CleanHold)
		}, func(w *world, n *node.Node) error {
			w.goBack()
			wantAs[*node.SuspendedError](w.t, w.try(n, "unhold"))
			return nil
		}},
		"an inventory": {func(w *world) *node.Node {
			n := w.agentNode(nil)
			w.addPort(n, unknown(1).macs[0])
			w.send(n, "inspect")
			return w.arrive(n, node.InspectWait)
		}, func(w *world, _ *node.Node) error {
			w.goBack()
			_, err := send(w.t, w.Conductor, unknown(1))
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w, machine := sharedWorld(t)
			w.Conductor = w.start("conductor-1")
			n := test.waits(w)
			before := machine.done()
			if err := test.resume(w, n); err != nil {
				t.Fatal(err)
			}
			w.eventually("the work to be suspended", func() bool { return w.suspension().InForce() && w.stored(n.UUID).Lease.Suspended() })
			if done := machine.done(); !cmp.Equal(done, before) {
				t.Errorf("done to the machine: %v, before %v", done, before)
			}
			if works := w.works(); works == 0 {
				t.Error("the work was done")
			}
		})
	}
}

// suspendElsewhere suspends work as another replica does.
func (w *world) suspendElsewhere() {
	w.t.Helper()
	w.clock.Advance(time.Second)
	w.write(func(tx *store.Tx) error {
		_, _, err := tx.Suspend(node.Restored, "another replica has found out")
		return err
	})
}

func TestASettingLetsRestoredWorkGoOnWhoeverFoundOut(t *testing.T) {
	w := emptyWorld(t)
	w.Conductor = w.idle("conductor-1", func(c *Config) { c.ResumeAfterRestore = true })
	for range 2 {
		w.suspendElsewhere()
		if err := w.keepAlive(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s := w.suspension(); s.InForce() {
			t.Errorf("suspended %+v", s)
		}
	}
}

func TestEachReplicaSaysOnceThatWorkIsSuspended(t *testing.T) {
	w, out := emptyWorld(t), &strings.Builder{}
	w.out = out
	w.Conductor = w.idle("conductor-1")
	for times := range 3 {
		for range 2 {
			if err := w.keepAlive(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if told := strings.Count(out.String(), "level=ERROR msg=\"Work is suspended"); told != times {
			t.Errorf("%d suspensions were told of %d times:\n%s", times, told, out)
		}
		w.suspendElsewhere()
	}
}
