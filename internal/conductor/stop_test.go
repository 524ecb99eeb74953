package conductor

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/builtin"
	"github.com/ingot-metal/ingot/internal/driver/fake"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// TestStopLeavesLeasesOfWorkThatDoesNotEnd stops a conductor whose driver pays no
// heed.
func TestStopLeavesLeasesOfWorkThatDoesNotEnd(t *testing.T) {
	w := emptyWorld(t)
	called, stuck := make(chan struct{}), make(chan struct{})
	c := w.idle("conductor-1")
	drivers, err := builtin.New(driver.Config{}, builtin.Dependencies{
		AgentAlive: func(*node.Node) bool { return true },
		AgentReboot: func(context.Context, *node.Node, driver.Turn) (driver.Outcome, error) {
			close(called)
			<-stuck
			return driver.Outcome{}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	c.drivers = drivers
	w.Conductor = w.run(c)
	n := w.create("manual-management")
	if err := w.SetPower(t.Context(), n.UUID, node.Rebooting, 0); err != nil {
		t.Fatal(err)
	}
	<-called

	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Stop(canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the deadline", err)
	}
	if got := w.stored(n.UUID).Lease; got.Holder != "conductor-1" || !got.ExpiresAt.After(w.clock.Now()) {
		t.Errorf("lease = %+v, want that of work that runs kept", got)
	}
	close(stuck)
	if err := w.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.clock.Advance(c.cfg.CallTimeout) // nobody has stored the end of the call
	if got := w.stored(n.UUID).Lease; got.InForce(w.clock.Now()) {
		t.Errorf("lease = %+v, want it given back after the work ended", got)
	}
}

func TestStopDoesNotWaitForALoopThatDoesNotEnd(t *testing.T) {
	w := newWorld(t)
	stuck := make(chan struct{})
	w.running.Go(func() { <-stuck })
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Stop(canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the deadline", err)
	}
	close(stuck)
	if err := w.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestStopOfAConductorThatWasNeverStartedDoesNothing(t *testing.T) {
	if err := emptyWorld(t).idle("conductor-1").Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestStopDuringACallLeavesItsNodeToTheNextProcessAtOnce stops a conductor in the
// first of two steps.
func TestStopDuringACallLeavesItsNodeToTheNextProcessAtOnce(t *testing.T) {
	w := emptyWorld(t)
	c := w.idle("conductor-1")
	m := machineOf(t, c)
	called, end := make(chan struct{}), make(chan struct{})
	m.answer = func(context.Context, int) (fake.Task, error) {
		close(called)
		<-end
		return fake.Task{State: fake.Done}, nil
	}
	w.Conductor = w.run(c)
	n, other := w.fake(node.Manageable, nil), w.fake(node.Manageable, nil)
	w.send(n, "clean", with(step("deploy.erase_devices"), step("deploy.erase_pstore")))
	<-called
	stopped := make(chan error)
	go func() { stopped <- c.Stop(t.Context()) }()
	w.eventually("the conductor to refuse calls", func() bool { return stopping(t, c, other) })
	close(end)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	if got := w.stored(n.UUID).Lease; got != (node.Lease{}) {
		t.Errorf("lease = %+v, want none", got)
	}
	m.answer = nil
	successor := w.idle("conductor-2")
	successor.drivers = c.drivers
	w.Conductor = w.run(successor)
	w.awaitWorkDone()
	w.arrive(n, node.Manageable)
	if got := m.kinds(); !slices.Equal(got, []fake.Kind{fake.Wipe, fake.Wipe}) {
		t.Errorf("effects %q, want two", got)
	}
}

// TestStopBeginsNoCallOfWorkThatWaitsForItsBMC has a second node wait while the BMC
// of both carries something out.
func TestStopBeginsNoCallOfWorkThatWaitsForItsBMC(t *testing.T) {
	w := emptyWorld(t)
	c := w.idle("conductor-1", func(cfg *Config) { cfg.CallsPerBMC = 1 })
	m := machineOf(t, c)
	called, end := make(chan struct{}), make(chan struct{})
	m.answer = func(context.Context, int) (fake.Task, error) {
		close(called)
		<-end
		return fake.Task{State: fake.Done}, nil
	}
	var reads atomic.Int32
	c.scripts["watch"] = runner.Script{End: keepNode, Operations: func(runner.Task) ([]runner.Operation, error) {
		return []runner.Operation{{Ref: runner.Ref{Name: "read"}, Read: func(context.Context, *node.Node) (runner.Write, error) {
			reads.Add(1)
			return nil, nil
		}}}, nil
	}}
	w.Conductor = w.run(c)
	shared := map[string]any{"fake_bmc": "shared"}
	first, second, other := w.fake(node.Manageable, shared), w.fake(node.Enroll, shared), w.fake(node.Enroll, nil)
	w.send(first, "clean", with(step("deploy.erase_devices")))
	<-called
	w.write(func(tx *store.Tx) error { return tx.AddWork(&store.Work{NodeID: second.ID, Kind: "watch"}) })
	w.runner.WakeClaim()
	w.eventually("the second node's work to begin", func() bool { return w.stored(second.UUID).Lease.Epoch != 0 && w.QueueLength() == 0 })
	stopped := make(chan error)
	go func() { stopped <- c.Stop(t.Context()) }()
	w.eventually("the conductor to refuse calls", func() bool { return stopping(t, c, other) })
	close(end)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	if got := reads.Load(); got != 0 {
		t.Errorf("the BMC was read %d times after Stop", got)
	}
}

// stopping reports whether a conductor takes no more calls of clients. The node is one
// that nobody works on.
func stopping(t *testing.T, c *Conductor, n *node.Node) bool {
	t.Helper()
	return errors.Is(c.SetBootDevice(t.Context(), n.UUID, node.BootDevice{Device: "none"}), node.ErrUnavailable)
}
