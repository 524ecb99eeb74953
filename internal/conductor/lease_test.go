package conductor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/driver/fake"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
	"github.com/ingot-metal/ingot/internal/store/storetest"
)

// TestLeasesOfQueuedWorkAreRenewed holds a job that no worker takes for many
// times the life of a lease.
func TestLeasesOfQueuedWorkAreRenewed(t *testing.T) {
	const ttl = 30 * time.Millisecond // renewed every third of it by the wall clock, measured by the test's
	w := newWorld(t, func(c *Config) { c.Calls, c.LeaseTTL = 0, ttl })
	if _, err := send(t, w.Conductor, unknown(1)); err != nil {
		t.Fatal(err)
	}
	granted := w.all()[0].Lease
	for range 5 {
		expires := w.clock.Advance(ttl / 2).Add(ttl)
		w.eventually("the lease to be renewed", func() bool { return w.all()[0].Lease.ExpiresAt.Equal(expires) })
	}
	if got := w.all()[0].Lease; got.Epoch != granted.Epoch || got.Holder != granted.Holder {
		t.Errorf("lease = %+v, want %+v renewed and not granted anew", got, granted)
	}
}

// TestLeaseThatNoJobHoldsRunsOut has a process hold leases for work it does beside
// one that it knows nothing of, as after a commit whose answer was lost.
func TestLeaseThatNoJobHoldsRunsOut(t *testing.T) {
	const ttl = 30 * time.Millisecond
	w := newWorld(t, func(c *Config) { c.Calls, c.LeaseTTL = 0, ttl })
	if _, err := send(t, w.Conductor, unknown(1)); err != nil {
		t.Fatal(err)
	}
	leased := w.register()
	var orphan node.Lease
	w.write(func(tx *store.Tx) (err error) {
		orphan, err = tx.AcquireLease(leased.ID, "conductor-1", ttl)
		return err
	})
	known := w.all()[0]
	expires := w.clock.Advance(ttl / 2).Add(ttl)
	w.eventually("the lease of the job to be renewed", func() bool { return w.stored(known.UUID).Lease.ExpiresAt.Equal(expires) })
	if got := w.stored(leased.UUID).Lease.ExpiresAt; !got.Equal(orphan.ExpiresAt) {
		t.Errorf("the lease of no job runs out at %v, want %v", got, orphan.ExpiresAt)
	}
}

// stopDisk makes every write to the database fail until the returned function is
// called: the kernel lets no file of this process grow.
func (w *world) stopDisk() (resume func()) {
	w.t.Helper()
	storetest.NeedsFiles(w.t)
	wal, err := os.Stat(filepath.Join(w.dir, "ingot.db-wal"))
	if err != nil {
		w.t.Fatal(err)
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		w.t.Fatal(err)
	}
	set := func(cur uint64) {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: cur, Max: limit.Max}); err != nil {
			w.t.Error(err)
		}
	}
	set(uint64(wal.Size()))
	w.t.Cleanup(func() { set(limit.Cur) })
	return func() { set(limit.Cur) }
}

func TestFullDiskRefusesRequestsAndDelaysWork(t *testing.T) {
	storetest.InOwnProcess(t, func() { fullDisk(t) })
}

func fullDisk(t *testing.T) {
	t.Helper()
	w := emptyWorld(t)
	paused := make(chan struct{}, 1)
	c := w.idle("conductor-1", func(c *Config) {
		c.Discovery.MaxNodes = 1 // what is not stored must not count
		c.Jitter = func(time.Duration) time.Duration {
			select {
			case paused <- struct{}{}:
			default:
			}
			return time.Millisecond
		}
	})
	n := w.register()
	manage(t, c, n.UUID)
	resume := w.stopDisk()

	if _, err := send(t, c, unknown(1)); err == nil {
		t.Error("a post was answered that cannot be stored")
	}
	ended := make(chan bool)
	go func() { ended <- c.runner.RunNext(t.Context()) }()
	<-paused
	select {
	case <-ended:
		t.Fatal("the job ended although its outcome cannot be stored")
	case <-paused: // it was tried again
	}
	if held := len(c.runner.Load().Leases); held != 1 {
		t.Fatalf("%d jobs are held, want the one that could not be recorded", held)
	}
	resume()
	if !<-ended {
		t.Fatal("no job was there")
	}
	w.run(c)
	w.awaitWorkDone()
	if got := w.stored(n.UUID); got.ProvisionState != node.Manageable || got.LastError != "" {
		t.Errorf("node is in %q, last_error %q; want it manageable as if nothing had been", got.ProvisionState, got.LastError)
	}
	if nodes := w.all(); len(nodes) != 1 {
		t.Errorf("%d nodes, want only the one that was answered", len(nodes))
	}
	if _, err := send(t, c, unknown(1)); err != nil {
		t.Errorf("the same post afterwards: %v", err)
	}
	w.awaitWorkDone()
}

// TestLateFailureDoesNotCountAgainstTheNewHolder has a conductor fail at work
// that was taken over while it was paused.
func TestLateFailureDoesNotCountAgainstTheNewHolder(t *testing.T) {
	w := emptyWorld(t)
	paused, successor := w.broken("conductor-1"), w.idle("conductor-2")
	if _, err := send(t, paused, unknown(1)); err != nil {
		t.Fatal(err)
	}
	w.clock.Advance(paused.cfg.LeaseTTL)
	successor.runner.ClaimDue(t.Context())
	paused.runner.RunNext(t.Context())
	if got := w.all()[0].Lease.Holder; got != "conductor-2" {
		t.Errorf("holder = %q, want the successor", got)
	}

	w.clock.Advance(successor.cfg.LeaseTTL) // the successor dies as well
	last := w.idle("conductor-3")
	last.runner.ClaimDue(t.Context())
	if w := w.workOf(w.all()[0]); w.Attempts != 0 || w.Lease.Holder != "conductor-3" {
		t.Errorf("%d attempts, want none: nobody who held the node failed", w.Attempts)
	}
}

// TestLeasesThatRanOutInAnOutageAreLeftToTheirHoldersForAWhile has another conductor see the end
// of an outage first.
func TestLeasesThatRanOutInAnOutageAreLeftToTheirHoldersForAWhile(t *testing.T) {
	w := emptyWorld(t)
	holder, other := w.idle("conductor-1"), w.idle("conductor-2")
	if _, err := send(t, holder, unknown(1)); err != nil {
		t.Fatal(err)
	}
	wantHolder := func(want string) {
		t.Helper()
		for range 2 {
			other.runner.ClaimDue(t.Context())
		}
		if got := w.all()[0].Lease.Holder; got != want {
			t.Fatalf("holder = %q, want %q", got, want)
		}
	}
	ttl := holder.cfg.LeaseTTL
	w.clock.Advance(2 * ttl)
	other.runner.Interrupted()
	wantHolder("conductor-1")
	w.clock.Advance(ttl / 3)
	holder.runner.RenewLeases(t.Context())
	w.clock.Advance(ttl / 2)
	wantHolder("conductor-1")
	w.clock.Advance(ttl) // the holder is gone
	wantHolder("conductor-2")
}

// hangingCall starts a conductor whose first call of a machine lasts until its context ends. The
// first channel is closed when that call begins, the second one has why it ended.
func hangingCall(t *testing.T, w *world, changes ...func(*Config)) (m *standIn, began <-chan struct{}, ended <-chan error) {
	t.Helper()
	c := w.idle("conductor-1", changes...)
	m = machineOf(t, c)
	begin, end := make(chan struct{}), make(chan error, 1)
	m.answer = func(ctx context.Context, number int) (fake.Task, error) {
		if number > 1 {
			return fake.Task{State: fake.Done}, nil
		}
		close(begin)
		<-ctx.Done()
		end <- context.Cause(ctx)
		return fake.Task{}, ctx.Err()
	}
	w.Conductor = w.run(c)
	return m, begin, end
}

// loseLease ends the lease of a node behind the back of who holds it.
func (w *world) loseLease(n *node.Node) {
	w.t.Helper()
	lease := w.stored(n.UUID).Lease
	w.write(func(tx *store.Tx) error { return tx.EndLeaseAndBusy(lease) })
}

func TestCallEndsWhenTheRenewalOfItsLeaseFails(t *testing.T) {
	for name, begin := range map[string]func(w *world, parent, child *node.Node) (called *node.Node){
		"work": func(w *world, parent, _ *node.Node) *node.Node {
			w.send(parent, "clean", with(step("deploy.erase_devices")))
			return parent
		},
		"work on a child node": func(w *world, parent, child *node.Node) *node.Node {
			w.send(parent, "clean", with(onChildren("bios.factory_reset")))
			return child
		},
		"request": func(w *world, parent, _ *node.Node) *node.Node {
			go w.SetBootDevice(w.t.Context(), parent.UUID, node.BootDevice{Device: "disk"}) //nolint:errcheck // it fails
			return parent
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := emptyWorld(t)
			_, began, ended := hangingCall(t, w, func(cfg *Config) { cfg.LeaseTTL, cfg.CallTimeout = 300*time.Millisecond, time.Minute })
			parent, children := w.family(node.Manageable, nil)
			called := begin(w, parent, children[0])
			<-began
			w.loseLease(called)
			if cause := <-ended; !errors.Is(cause, node.ErrLeaseLost) {
				t.Errorf("the call ended with %v, want %v", cause, node.ErrLeaseLost)
			}
		})
	}
}

func TestNoCallIsMadeBesideThatOfAParentOnItsChild(t *testing.T) {
	w := emptyWorld(t)
	m, began, _ := hangingCall(t, w)
	parent, children := w.family(node.Manageable, nil)
	w.send(parent, "clean", with(onChildren("bios.factory_reset")))
	<-began
	w.loseLease(children[0])
	if err := w.SetBootDevice(t.Context(), children[0].UUID, node.BootDevice{Device: "disk"}); err != nil {
		t.Fatal(err)
	}
	if m.most > 1 {
		t.Errorf("%d calls at once, want one at a time", m.most)
	}
}
