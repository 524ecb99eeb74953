package conductor

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
	"github.com/ingot-metal/ingot/internal/store/storetest"
)

// replicasEnrol bounds the discovered nodes of all replicas together.
const replicasEnrol = 10

// newReplicas starts conductors that share nothing but a database.
func newReplicas(t *testing.T, hostnames ...string) []*world {
	t.Helper()
	first := emptyWorld(t)
	if storetest.Options(t, first.dir).URL == "" {
		t.Skip("SQLite is for one process")
	}
	worlds := make([]*world, len(hostnames))
	for i, hostname := range hostnames {
		w := &world{t: t, clock: first.clock, dir: first.dir}
		w.open()
		w.Conductor = w.start(hostname, func(c *Config) { c.Discovery.MaxNodes = replicasEnrol })
		worlds[i] = w
	}
	return worlds
}

func TestPostsOfOneMachineToSeveralReplicasGiveOneNode(t *testing.T) {
	replicas := newReplicas(t, "conductor-1", "conductor-2", "conductor-3")
	refused := 0
	for _, err := range concurrently(30, func(i int) error {
		_, err := send(t, replicas[i%len(replicas)].Conductor, unknown(1))
		return err
	}) {
		if err != nil {
			refused++
		}
	}
	if nodes := replicas[0].all(); len(nodes) != 1 || refused != 29 {
		t.Errorf("%d nodes, %d posts refused; want one node for the one post that was taken", len(nodes), refused)
	}
	replicas[0].awaitWorkDone()
}

func TestReplicasEnrolTogetherNoMoreThanTheBound(t *testing.T) {
	replicas := newReplicas(t, "conductor-1", "conductor-2", "conductor-3")
	post := func(first, posts int) (enrolled int) {
		for _, err := range concurrently(posts, func(i int) error {
			_, err := send(t, replicas[i%len(replicas)].Conductor, unknown(first+i))
			return err
		}) {
			if err == nil {
				enrolled++
			}
		}
		return enrolled
	}
	if enrolled := post(0, 60); enrolled != replicasEnrol {
		t.Fatalf("%d machines were enrolled, want %d", enrolled, replicasEnrol)
	}
	replicas[0].awaitWorkDone()
	nodes := replicas[0].all()
	if err := replicas[0].DeleteNode(t.Context(), nodes[0].UUID); err != nil {
		t.Fatal(err)
	}
	for _, w := range replicas { // as each does every few seconds
		w.write(w.Conductor.register)
	}
	if enrolled := post(100, 30); enrolled != 1 {
		t.Errorf("%d machines were enrolled in place of one that was deleted", enrolled)
	}
}

func TestChangesThroughSeveralReplicasAllTakeEffect(t *testing.T) {
	replicas := newReplicas(t, "conductor-1", "conductor-2")
	n := replicas[0].register()
	const changes = 40
	for _, err := range concurrently(changes, func(i int) error {
		_, err := replicas[i%len(replicas)].UpdateNode(t.Context(), n.UUID, func(n *node.Node) error {
			n.Description += "x"
			return nil
		})
		return err
	}) {
		if err != nil {
			t.Errorf("change: %v", err)
		}
	}
	if got := replicas[0].stored(n.UUID).Description; len(got) != changes {
		t.Errorf("%d changes took effect, want %d", len(got), changes)
	}
}

func TestOfEqualVerbsToSeveralReplicasOneIsAccepted(t *testing.T) {
	replicas := newReplicas(t, "conductor-1", "conductor-2")
	n := replicas[0].register()
	accepted := 0
	for _, err := range concurrently(20, func(i int) error { return replicas[i%len(replicas)].try(n, "manage") }) {
		if err == nil {
			accepted++
		}
	}
	replicas[0].awaitWorkDone()
	if got := replicas[0].stored(n.UUID); accepted != 1 || got.ProvisionState != node.Manageable {
		t.Errorf("%d were accepted and the node is %q, want one and manageable", accepted, got.ProvisionState)
	}
}

// TestReplicaThatWasPausedLosesItsWork lets a conductor go on with a job after
// another one has finished it.
func TestReplicaThatWasPausedLosesItsWork(t *testing.T) {
	replicas := newReplicas(t, "conductor-2")
	other := replicas[0]
	paused := &world{t: t, clock: other.clock, dir: other.dir}
	paused.open()
	paused.Conductor = paused.idle("conductor-1")
	n := other.register()
	if err := paused.try(n, "manage"); err != nil {
		t.Fatal(err)
	}
	other.clock.Advance(other.stored(n.UUID).Lease.ExpiresAt.Sub(other.clock.Now()))
	other.runner.WakeClaim()
	other.awaitWorkDone()
	finished := other.stored(n.UUID)
	paused.runner.RunNext(t.Context())
	other.read(func(tx *store.Tx) error {
		now, err := tx.Node(n.UUID)
		if err == nil && (now.UpdatedAt != finished.UpdatedAt || now.ProvisionState != node.Manageable) {
			t.Errorf("node = %+v, want it as the other replica left it", now)
		}
		return err
	})
}

// outage is a database that does not answer for some calls.
type outage struct {
	Database
	calls atomic.Int32
}

func (o *outage) refuses() error {
	if o.calls.Add(-1) >= 0 {
		return fmt.Errorf("connect: %w", node.ErrUnavailable)
	}
	return nil
}

func (o *outage) Write(ctx context.Context, fn func(*store.Tx) error) error {
	if err := o.refuses(); err != nil {
		return err
	}
	return o.Database.Write(ctx, fn)
}

func (o *outage) Read(ctx context.Context, fn func(*store.Tx) error) error {
	if err := o.refuses(); err != nil {
		return err
	}
	return o.Database.Read(ctx, fn)
}

func (o *outage) ReadSingle(ctx context.Context, fn func(*store.Tx) error) error {
	return o.Read(ctx, fn)
}

// TestUnavailableDatabaseFailsNoWork meets an outage more often than work is
// tried.
func TestUnavailableDatabaseFailsNoWork(t *testing.T) {
	w := emptyWorld(t)
	away := &outage{Database: w.store}
	soon := func(c *Config) {
		c.MaxAttempts, c.Jitter = 1, func(time.Duration) time.Duration { return time.Millisecond }
	}
	w.Conductor = w.idleOn(away, "conductor-1", soon)
	n := w.register()
	if err := w.try(n, "manage"); err != nil {
		t.Fatal(err)
	}
	away.calls.Store(5)
	if !w.runner.RunNext(t.Context()) {
		t.Fatal("no work waits")
	}
	w.run(w.Conductor)
	w.awaitWorkDone()
	if left := away.calls.Load(); left > 0 {
		t.Errorf("the database was to be away for %d more calls", left)
	}
	if got := w.stored(n.UUID); got.ProvisionState != node.Manageable || got.LastError != "" {
		t.Errorf("node is %q with last_error %q, want it manageable", got.ProvisionState, got.LastError)
	}
}
