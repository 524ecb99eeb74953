package powersync

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// Times of fleets.
const (
	interval    = 2 * time.Minute
	recovery    = 5 * time.Minute
	callTimeout = 15 * time.Second
)

// fleet is machines, nodes in a database, and whatever keeps them in step. It lives in
// the bubble of a test, whose clock is everybody's.
type fleet struct {
	t    *testing.T
	db   *store.Store
	gate *runner.Gate
	log  strings.Builder

	mu       sync.Mutex
	machines map[string]*machine // by the UUID of their nodes
	calls    int
	most     int            // calls at once
	restored map[string]int // how often each was to be brought back
	alive    []string       // conductors
}

// machine is what stands behind a node.
type machine struct {
	f       *fleet
	state   node.PowerState
	latency time.Duration
	hangs   bool
	broken  error
	panics  bool
	reads   []time.Time // when each reading began
}

// inFleet runs a test in a bubble, with an empty fleet.
func inFleet(t *testing.T, test func(f *fleet)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		db, err := store.Open(t.Context(), store.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		test(&fleet{
			t: t, db: db, gate: runner.NewGate(1024, 2), machines: map[string]*machine{}, restored: map[string]int{}, alive: []string{"one"},
		})
	})
}

// add stores a node that says "power off", with a machine that shows the same at once.
func (f *fleet) add(changes ...func(*node.Node, *machine)) *node.Node {
	f.t.Helper()
	return f.addMany(1, changes...)[0]
}

func (f *fleet) addMany(count int, changes ...func(*node.Node, *machine)) []*node.Node {
	f.t.Helper()
	nodes := make([]*node.Node, count)
	f.write(func(tx *store.Tx) error {
		for i := range nodes {
			n := &node.Node{UUID: uuid.NewString(), Driver: "fake-hardware", ProvisionState: node.Active, PowerState: node.PowerOff}
			n.Interfaces[node.PowerInterface] = "fake"
			m := &machine{f: f, state: node.PowerOff}
			for _, change := range changes {
				change(n, m)
			}
			if err := tx.CreateNode(n); err != nil {
				return err
			}
			nodes[i] = n
			f.mu.Lock()
			f.machines[n.UUID] = m
			f.mu.Unlock()
		}
		return nil
	})
	return nodes
}

// Changes for add.
func hanging(_ *node.Node, m *machine)  { m.hangs = true }
func switched(_ *node.Node, m *machine) { m.state = node.PowerOn }
func isFaulty(n *node.Node, _ *machine) {
	n.Maintenance, n.Fault, n.PowerState = true, node.FaultPowerFailure, node.PowerError
}

// run starts a syncer and returns it with what stops it.
func (f *fleet) run(name string, changes ...func(*Config)) (s *Syncer, stop func()) {
	f.t.Helper()
	cfg := Config{Interval: interval, Recovery: recovery, Tries: 3, Calls: 1024, CallTimeout: callTimeout}
	for _, change := range changes {
		change(&cfg)
	}
	s = New(f.db, f, f.gate, conductor{f, name}, cfg, slog.New(slog.NewTextHandler(&f.log, nil)))
	ctx, cancel := context.WithCancel(f.t.Context())
	ended := make(chan struct{})
	go func() {
		s.Run(ctx)
		close(ended)
	}()
	stop = func() {
		cancel()
		<-ended
	}
	f.t.Cleanup(stop)
	return s, stop
}

// pass lets time go by.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (f *fleet) write(fn func(*store.Tx) error) {
	f.t.Helper()
	if err := f.db.Write(f.t.Context(), fn); err != nil {
		f.t.Fatal(err)
	}
}

// stored reads a node.
func (f *fleet) stored(n *node.Node) (got *node.Node) {
	f.t.Helper()
	err := f.db.Read(f.t.Context(), func(tx *store.Tx) (err error) {
		got, err = tx.NodeByID(n.ID)
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return got
}

// change changes a stored node.
func (f *fleet) change(n *node.Node, change func(*node.Node)) {
	f.t.Helper()
	f.write(func(tx *store.Tx) error {
		before, err := tx.NodeByID(n.ID)
		if err != nil {
			return err
		}
		after := *before
		change(&after)
		return tx.UpdateNode(before, &after)
	})
}

// history returns a node's history as text.
func (f *fleet) history(n *node.Node) (lines []string) {
	f.t.Helper()
	err := f.db.Read(f.t.Context(), func(tx *store.Tx) error {
		events, err := tx.Events(n.ID)
		for _, e := range events {
			lines = append(lines, string(e.Severity)+" "+e.Message)
		}
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return lines
}

// reads returns when a node's machine was read.
func (f *fleet) reads(n *node.Node) []time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.machines[n.UUID].reads
}

// set changes a machine.
func (f *fleet) set(n *node.Node, change func(*machine)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f.machines[n.UUID])
}

// restorations returns how many machines were to be brought back.
func (f *fleet) restorations() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.restored)
}

func (f *fleet) Power(n *node.Node) (driver.Power, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m, ok := f.machines[n.UUID]
	if !ok {
		return nil, errors.New("no machine")
	}
	return m, nil
}

func (f *fleet) BMC(n *node.Node) string { return n.UUID }

func (m *machine) PowerState(ctx context.Context, _ *node.Node) (node.PowerState, error) {
	f := m.f
	f.mu.Lock()
	m.reads = append(m.reads, time.Now())
	f.calls++
	f.most = max(f.most, f.calls)
	latency, hangs, panics := m.latency, m.hangs, m.panics
	f.mu.Unlock()
	if panics {
		panic("the answer is not understood")
	}
	if hangs {
		<-ctx.Done()
	} else if latency > 0 {
		<-time.After(latency)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls--
	if hangs {
		return "", ctx.Err()
	}
	return m.state, m.broken
}

func (*machine) Validate(*node.Node) error { return nil }

func (*machine) SetPower(context.Context, *node.Node, node.PowerState, driver.Turn) (driver.Outcome, error) {
	return driver.Outcome{}, errors.New("only read it")
}

func (*machine) Supported() []node.PowerState {
	return []node.PowerState{node.PowerOn, node.PowerOff}
}

// conductor is an owner.
type conductor struct {
	f    *fleet
	name string
}

func (c conductor) Watch(*store.Tx) (func(*node.Node) bool, string, error) {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	var conductors []node.Conductor
	for _, name := range c.f.alive {
		conductors = append(conductors, node.Conductor{Hostname: name, Alive: true})
	}
	return func(n *node.Node) bool { return node.Responsible(n.UUID, "", conductors) == c.name }, strings.Join(c.f.alive, ","), nil
}

func (c conductor) Restore(_ *store.Tx, n *node.Node) (func(), error) {
	return func() {
		c.f.mu.Lock()
		defer c.f.mu.Unlock()
		c.f.restored[n.UUID]++
	}, nil
}

func (c conductor) Suspend(tx *store.Tx, detail string) (began bool, err error) {
	_, began, err = tx.Suspend(node.MachinesDiffer, detail)
	return began, err
}

func (c conductor) Record(tx *store.Tx, n *node.Node, severity node.Severity, message string) error {
	return tx.AddEvent(&node.Event{UUID: uuid.NewString(), NodeID: n.ID, Severity: severity, Type: "power", Message: message})
}
