package powersync

import (
	"cmp"
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

// Times that every test uses.
const (
	interval    = 2 * time.Minute
	recovery    = 5 * time.Minute
	callTimeout = 15 * time.Second
)

// rack is machines, nodes in a database, and the syncer. It lives in the bubble of a test, and all
// of it uses the bubble's clock.
type rack struct {
	t    *testing.T
	db   *store.Store
	gate *runner.Gate
	log  strings.Builder

	mu       sync.Mutex
	machines map[string]*machine // by the UUID of their nodes
	calls    int
	most     int            // calls at once
	restored map[string]int // how often each was to be restored
	alive    []string       // conductors
}

// machine is what stands behind a node.
type machine struct {
	r       *rack
	state   node.PowerState
	latency time.Duration
	hangs   bool
	broken  error
	panics  bool
	another bool        // it is the machine of another node
	reads   []time.Time // when each reading began
}

// inRack runs a test in a bubble, with an empty rack.
func inRack(t *testing.T, test func(r *rack)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		db, err := store.Open(t.Context(), store.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		test(&rack{
			t: t, db: db, gate: runner.NewGate(1024, 2), machines: map[string]*machine{}, restored: map[string]int{}, alive: []string{"one"},
		})
	})
}

// add stores a node in "power off", with a machine that shows the same and answers at once.
func (r *rack) add(changes ...func(*node.Node, *machine)) *node.Node {
	r.t.Helper()
	return r.addMany(1, changes...)[0]
}

func (r *rack) addMany(count int, changes ...func(*node.Node, *machine)) []*node.Node {
	r.t.Helper()
	nodes := make([]*node.Node, count)
	r.write(func(tx *store.Tx) error {
		for i := range nodes {
			n := &node.Node{UUID: uuid.NewString(), Driver: "fake-hardware", ProvisionState: node.Active, PowerState: node.PowerOff}
			n.Interfaces[node.PowerInterface] = "fake"
			m := &machine{r: r, state: node.PowerOff}
			for _, change := range changes {
				change(n, m)
			}
			if err := tx.CreateNode(n); err != nil {
				return err
			}
			nodes[i] = n
			r.mu.Lock()
			r.machines[n.UUID] = m
			r.mu.Unlock()
		}
		return nil
	})
	return nodes
}

// Changes for add.
func hanging(_ *node.Node, m *machine)  { m.hangs = true }
func anothers(_ *node.Node, m *machine) { m.another = true }
func switched(_ *node.Node, m *machine) { m.state = node.PowerOn }
func withPowerFault(n *node.Node, _ *machine) {
	n.Maintenance, n.Fault, n.PowerState = true, node.FaultPowerFailure, node.PowerError
}

// run starts a syncer and returns it with a function that stops it.
func (r *rack) run(name string, changes ...func(*Config)) (s *Syncer, stop func()) {
	r.t.Helper()
	cfg := Config{Interval: interval, Recovery: recovery, Tries: 3, Calls: 1024, CallsPerBMC: 2, CallTimeout: callTimeout}
	for _, change := range changes {
		change(&cfg)
	}
	s = New(r.db, r, r.gate, conductor{r, name}, cfg, slog.New(slog.NewTextHandler(&r.log, nil)))
	ctx, cancel := context.WithCancel(r.t.Context())
	ended := make(chan struct{})
	go func() {
		s.Run(ctx)
		close(ended)
	}()
	stop = func() {
		cancel()
		<-ended
	}
	r.t.Cleanup(stop)
	return s, stop
}

// pass lets time go by.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (r *rack) write(fn func(*store.Tx) error) {
	r.t.Helper()
	if err := r.db.Write(r.t.Context(), fn); err != nil {
		r.t.Fatal(err)
	}
}

// stored reads a node.
func (r *rack) stored(n *node.Node) (got *node.Node) {
	r.t.Helper()
	err := r.db.Read(r.t.Context(), func(tx *store.Tx) (err error) {
		got, err = tx.NodeByID(n.ID)
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return got
}

// change changes a stored node.
func (r *rack) change(n *node.Node, change func(*node.Node)) {
	r.t.Helper()
	r.write(func(tx *store.Tx) error {
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
func (r *rack) history(n *node.Node) (lines []string) {
	r.t.Helper()
	err := r.db.Read(r.t.Context(), func(tx *store.Tx) error {
		events, err := tx.Events(n.ID)
		for _, e := range events {
			lines = append(lines, string(e.Severity)+" "+e.Message)
		}
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return lines
}

// reads returns when a node's machine was read.
func (r *rack) reads(n *node.Node) []time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.machines[n.UUID].reads
}

// set changes a machine.
func (r *rack) set(n *node.Node, change func(*machine)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(r.machines[n.UUID])
}

// restorations returns how many machines were to be restored.
func (r *rack) restorations() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.restored)
}

func (r *rack) Power(n *node.Node) (driver.Power, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, ok := r.machines[n.UUID]
	if !ok {
		return nil, errors.New("no machine")
	}
	return m, nil
}

// BMC returns the address in driver_info, or a name of its own for a node without one.
func (r *rack) BMC(n *node.Node) string { return cmp.Or(n.DriverInfo.Text("fake_bmc"), n.UUID) }

func (m *machine) PowerState(ctx context.Context, _ *node.Node) (node.PowerState, error) {
	r := m.r
	r.mu.Lock()
	m.reads = append(m.reads, time.Now())
	r.calls++
	r.most = max(r.most, r.calls)
	latency, hangs, panics := m.latency, m.hangs, m.panics
	r.mu.Unlock()
	if panics {
		panic("the answer is not understood")
	}
	if hangs {
		<-ctx.Done()
	} else if latency > 0 {
		<-time.After(latency)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls--
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
	r    *rack
	name string
}

func (c conductor) Watch(*store.Tx) (func(*node.Node) bool, string, error) {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	var conductors []node.Conductor
	for _, name := range c.r.alive {
		conductors = append(conductors, node.Conductor{Hostname: name, Alive: true})
	}
	return func(n *node.Node) bool { return node.Responsible(n.UUID, "", conductors) == c.name }, strings.Join(c.r.alive, ","), nil
}

func (c conductor) Restore(_ *store.Tx, n *node.Node) (func(), error) {
	return func() {
		c.r.mu.Lock()
		defer c.r.mu.Unlock()
		c.r.restored[n.UUID]++
	}, nil
}

func (c conductor) CheckBMCIsOwn(_ context.Context, n *node.Node) error {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	if c.r.machines[n.UUID].another {
		return errors.New("the BMC belongs to a machine of another node")
	}
	return nil
}

func (c conductor) Suspend(tx *store.Tx, detail string) (began bool, err error) {
	_, began, err = tx.Suspend(node.MachinesDiffer, detail)
	return began, err
}

func (c conductor) Record(tx *store.Tx, n *node.Node, severity node.Severity, message string) error {
	return tx.AddEvent(&node.Event{UUID: uuid.NewString(), NodeID: n.ID, Severity: severity, Type: "power", Message: message})
}
