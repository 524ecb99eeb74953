package conductor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/builtin"
	"github.com/ingot-metal/ingot/internal/driver/fake"
	"github.com/ingot-metal/ingot/internal/inspect"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
	"github.com/ingot-metal/ingot/internal/store/storetest"
)

// heartbeatTimeout is the window in which agents of test machines count as
// alive.
const heartbeatTimeout = 5 * time.Minute

// world is a database, a clock that stands still, and a conductor that runs on
// both.
type world struct {
	*Conductor
	t     *testing.T
	clock *storetest.Clock
	store *store.Store
	dir   string
	out   io.Writer // what its conductors log; nil for nothing
	url   string    // of its database; empty for the one that belongs to dir
	// machine finds what stands behind nodes of fake hardware; nil is what their
	// driver_info says.
	machine fake.Machines
	agents  ramdisks
}

// newWorld starts a conductor that enrols unknown machines.
func newWorld(t *testing.T, changes ...func(*Config)) *world {
	t.Helper()
	w := emptyWorld(t)
	w.Conductor = w.start("conductor-1", changes...)
	return w
}

// emptyWorld has a database and no conductor.
func emptyWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, clock: storetest.NewClock(), dir: t.TempDir()}
	w.open()
	return w
}

func (w *world) open() {
	w.t.Helper()
	options := storetest.Options(w.t, w.dir)
	if w.url != "" {
		options = store.Options{URL: w.url}
	}
	options.Clock = w.clock.Now
	db, err := store.Open(w.t.Context(), options)
	if err != nil {
		w.t.Fatal(err)
	}
	w.store = db
	w.t.Cleanup(func() { _ = db.Close() }) // reopen may have closed it
}

// reopen closes the database and opens it again, as a restart does.
func (w *world) reopen() {
	w.t.Helper()
	if err := w.store.Close(); err != nil {
		w.t.Fatal(err)
	}
	w.open()
}

// idle returns a conductor that was never started: it takes requests and does
// none of the work, as if its process died right after each answer.
func (w *world) idle(hostname string, changes ...func(*Config)) *Conductor {
	w.t.Helper()
	return w.idleOn(w.store, hostname, changes...)
}

// idleOn is idle with another way to the database.
func (w *world) idleOn(db Database, hostname string, changes ...func(*Config)) *Conductor {
	w.t.Helper()
	cfg := Config{
		Hostname: hostname, Workers: 2, LeaseTTL: 30 * time.Second, WorkTimeout: time.Minute, MaxAttempts: 3,
		Calls: 64, CallsPerBMC: 2, CallTimeout: 10 * time.Second, Jitter: func(d time.Duration) time.Duration { return d },
		HeartbeatTimeout: heartbeatTimeout, AgentRules: agent.Rules{VerifyAddress: true}, Agents: &w.agents,
		Discovery: Discovery{Enabled: true, Driver: "manual-management", MaxNodes: 1000, MaxPorts: 64, Rate: 1e6, Burst: 1e6},
		Limits:    Limits{PowerSync: -1},
	}
	for _, change := range changes {
		change(&cfg)
	}
	drivers, err := builtin.New(driver.Config{}, builtin.Dependencies{
		AgentAlive:  func(n *node.Node) bool { return agent.Alive(n, w.clock.Now(), heartbeatTimeout) },
		FakeMachine: w.machine,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	pipeline, err := inspect.NewPipeline(inspect.DefaultConfig())
	if err != nil {
		w.t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	if w.out != nil {
		log = slog.New(slog.NewTextHandler(w.out, nil))
	}
	return New(db, drivers, pipeline, cfg, log)
}

// start returns a conductor at work.
func (w *world) start(hostname string, changes ...func(*Config)) *Conductor {
	w.t.Helper()
	return w.run(w.idle(hostname, changes...))
}

// run starts a conductor; the test's end stops it.
func (w *world) run(c *Conductor) *Conductor {
	w.t.Helper()
	if err := c.Start(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Stop(context.Background()) }) // a closed database refuses
	return c
}

// eventually polls until condition holds.
func (w *world) eventually(what string, condition func() bool) {
	w.t.Helper()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	deadline := time.After(2 * time.Minute)
	for !condition() {
		select {
		case <-poll.C:
		case <-deadline:
			w.t.Fatalf("gave up waiting: %s", what)
		}
	}
}

// awaitWorkDone waits until no work is left.
func (w *world) awaitWorkDone() {
	w.t.Helper()
	w.eventually("work to end", func() bool { return w.works() == 0 })
}

// pass lets time pass for everything that waits.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	w.clock.Advance(d)
	w.runner.WakeClaim()
}

// passUntilDone lets time pass until no work is left. Time stands still while any work
// is due, so that none comes to its time limit because the machine that tests is slow.
func (w *world) passUntilDone() {
	w.t.Helper()
	for w.works() > 0 {
		w.pass(time.Minute)
		w.eventually("the work to go on", func() bool { return !w.anyDue() })
	}
}

// anyDue reports whether work of any node is due, or running: it stays due until its
// turn is over.
func (w *world) anyDue() bool {
	w.t.Helper()
	due := false
	w.read(func(tx *store.Tx) error {
		nodes, err := tx.Nodes(node.Query{})
		if err != nil {
			return err
		}
		for _, n := range nodes {
			works, err := tx.WorkOf(n.ID)
			if err != nil {
				return err
			}
			due = due || slices.ContainsFunc(works, func(work *store.Work) bool { return !work.NotBefore.After(w.clock.Now()) })
		}
		return nil
	})
	return due
}

func (w *world) read(fn func(*store.Tx) error) {
	w.t.Helper()
	if err := w.store.Read(w.t.Context(), fn); err != nil {
		w.t.Fatalf("read: %v", err)
	}
}

func (w *world) write(fn func(*store.Tx) error) {
	w.t.Helper()
	if err := w.store.Write(w.t.Context(), fn); err != nil {
		w.t.Fatalf("write: %v", err)
	}
}

func (w *world) works() int {
	w.t.Helper()
	var count int
	w.read(func(tx *store.Tx) (err error) {
		count, err = tx.CountWork()
		return err
	})
	return count
}

// stored reads a node.
func (w *world) stored(ident string) *node.Node {
	w.t.Helper()
	var n *node.Node
	w.read(func(tx *store.Tx) (err error) {
		n, err = tx.Node(ident)
		return err
	})
	return n
}

func (w *world) all() []*node.Node {
	w.t.Helper()
	var nodes []*node.Node
	w.read(func(tx *store.Tx) (err error) {
		nodes, err = tx.Nodes(node.Query{})
		return err
	})
	return nodes
}

func (w *world) portsOf(n *node.Node) []*node.Port {
	w.t.Helper()
	var ports []*node.Port
	w.read(func(tx *store.Tx) (err error) {
		ports, err = tx.PortsOf(n.ID)
		return err
	})
	return ports
}

// history returns a node's history as "SEVERITY type: message".
func (w *world) history(n *node.Node) []string {
	w.t.Helper()
	var rows []string
	w.read(func(tx *store.Tx) error {
		events, err := tx.Events(n.ID)
		for _, e := range events {
			rows = append(rows, fmt.Sprintf("%s %s: %s", e.Severity, e.Type, e.Message))
		}
		return err
	})
	return rows
}

// register stores a node below the API, in whatever state a test needs.
func (w *world) register(changes ...func(*node.Node)) *node.Node {
	w.t.Helper()
	n := &node.Node{UUID: uuid.NewString(), Driver: "fake-hardware", ProvisionState: node.Enroll}
	n.Interfaces[node.PowerInterface] = "fake"
	for _, change := range changes {
		change(n)
	}
	w.write(func(tx *store.Tx) error {
		if err := tx.CreateNode(n); err != nil {
			return err
		}
		return tx.ClaimBMC(n.ID, bmcClaims(n.DriverInfo))
	})
	return n
}

// inState is a change for register.
func inState(s node.State) func(*node.Node) {
	return func(n *node.Node) { n.ProvisionState = s }
}

// lease gives a node to another conductor.
func (w *world) lease(n *node.Node, owner string) node.Lease {
	w.t.Helper()
	var lease node.Lease
	w.write(func(tx *store.Tx) (err error) {
		lease, err = tx.AcquireLease(n.ID, owner, time.Minute)
		return err
	})
	return lease
}

// machine is what a ramdisk posts about its hardware.
type machine struct {
	macs    []string
	arch    string // empty: the ramdisk does not know
	bmc     string
	failure string // the ramdisk's own error
	padding int    // bytes that make the inventory larger
}

// unknown returns a machine with two NICs that no other number has.
func unknown(number int) machine {
	return machine{arch: "x86_64", macs: []string{
		fmt.Sprintf("02:00:00:%02x:%02x:01", number>>8, number&0xff), fmt.Sprintf("02:00:00:%02x:%02x:02", number>>8, number&0xff),
	}}
}

// inventory is the machine's inventory with unusual spacing, which must be kept.
func (m machine) inventory() string {
	nics := make([]string, len(m.macs))
	for i, mac := range m.macs {
		nics[i] = fmt.Sprintf(`{"name":"eth%d","mac_address":%q,"ipv4_address":"192.0.2.%d","has_carrier":true}`, i, mac, i%250+1)
	}
	return fmt.Sprintf(`{ "interfaces" : [%s],"cpu":{"architecture":%q},"memory":{"physical_mb":65536},"bmc_address":%q,"boot":{"pxe_interface":%q},"x":%q}`,
		strings.Join(nics, ","), m.arch, m.bmc, m.macs[0], strings.Repeat("x", m.padding))
}

// body is the document that the ramdisk posts.
func (m machine) body() []byte {
	return fmt.Appendf(nil, `{"inventory":%s,"error":%q,"root_disk":{"name":"/dev/sda"},"logs":"H4sI"}`, m.inventory(), m.failure)
}

// send posts the machine's document without a version, as agents do.
func send(t *testing.T, c *Conductor, m machine) (*node.LookupAnswer, error) {
	t.Helper()
	return c.ContinueInspection(t.Context(), node.InspectionPost{Body: m.body(), Source: netip.MustParseAddr("192.0.2.1")})
}

// enrol posts an unknown machine and waits for its inspection to end.
func (w *world) enrol(m machine) *node.Node {
	w.t.Helper()
	answer, err := send(w.t, w.Conductor, m)
	if err != nil {
		w.t.Fatalf("post: %v", err)
	}
	w.awaitWorkDone()
	return w.stored(answer.Node.UUID)
}

func wantIs(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("error = %v, want %v", err, target)
	}
}

// wantAs ends the test unless the error chain has a T.
func wantAs[T error](t *testing.T, err error) {
	t.Helper()
	_ = errorAs[T](t, err)
}

// errorAs returns the T in the error chain, or ends the test.
func errorAs[T error](t *testing.T, err error) T {
	t.Helper()
	var target T
	if !errors.As(err, &target) {
		t.Fatalf("error = %v (%T), want a %T", err, err, target)
	}
	return target
}
