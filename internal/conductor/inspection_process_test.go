package conductor

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/fake"
	"github.com/ingot-metal/ingot/internal/inspect"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
	"github.com/ingot-metal/ingot/internal/store/storetest"
)

// wiringWorld is a world whose inspections find out how ports are wired.
func wiringWorld(t *testing.T) *world {
	t.Helper()
	cfg := inspect.DefaultConfig()
	cfg.Hooks = []string{"$default_hooks,local-link-connection,physical-network"}
	cfg.PhysicalNetworkCIDRMap = []string{"192.0.2.1/32:provisioning"}
	pipeline, err := inspect.NewPipeline(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w := emptyWorld(t)
	c := w.idle("conductor-1")
	c.pipeline = pipeline
	w.Conductor = w.run(c)
	return w
}

// post sends a machine's document with what its switch told on eth0.
func (w *world) post(m machine) {
	w.t.Helper()
	body := fmt.Appendf(nil, `{"inventory":%s,"lldp_raw":{"eth0":[[1,"04102233445501"],[2,"0573777037"],[5,"6c656166"]]}}`, m.inventory())
	if _, err := w.ContinueInspection(w.t.Context(), node.InspectionPost{Body: body}); err != nil {
		w.t.Fatalf("post: %v", err)
	}
	w.awaitWorkDone()
}

// wiring returns how the node's ports are wired, by address.
func (w *world) wiring(n *node.Node) map[string]string {
	w.t.Helper()
	wiring := map[string]string{}
	w.read(func(tx *store.Tx) error {
		ports, err := tx.PortsOf(n.ID)
		for _, p := range ports {
			wiring[p.Address] = p.LocalLinkConnection.Text("switch_id") + " " + p.LocalLinkConnection.Text("port_id") + " " + p.PhysicalNetwork
		}
		return err
	})
	return wiring
}

func TestInspectionWiresNewPorts(t *testing.T) {
	w, m := wiringWorld(t), unknown(1)
	n := waiting(w)
	w.addPort(n, m.macs[1])
	w.post(m)
	want := map[string]string{m.macs[0]: "10:22:33:44:55:01 swp7 provisioning", m.macs[1]: "  "}
	if diff := cmp.Diff(want, w.wiring(n)); diff != "" {
		t.Errorf("switch, port and physical network (-want +got):\n%s", diff)
	}
}

func TestInspectionKeepsThePortsOfAGroupInOnePhysicalNetwork(t *testing.T) {
	w, m := wiringWorld(t), unknown(1)
	n := waiting(w)
	group, err := w.Portgroups().Create(t.Context(), &node.Portgroup{NodeUUID: n.UUID, StandalonePortsSupported: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, mac := range m.macs {
		p := &node.Port{NodeUUID: n.UUID, Address: mac, PortgroupUUID: group.UUID, PhysicalNetwork: "old"}
		if _, err := w.CreatePort(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	w.post(m)
	want := map[string]string{m.macs[0]: "10:22:33:44:55:01 swp7 provisioning", m.macs[1]: "  provisioning"}
	if diff := cmp.Diff(want, w.wiring(n)); diff != "" {
		t.Errorf("switch, port and physical network (-want +got):\n%s", diff)
	}
}

// postedTo returns a conductor that has not started and what its machine does, after that
// machine has posted its document.
func postedTo(w *world, db Database, changes ...func(*Config)) (*Conductor, *standIn, *node.Node) {
	w.t.Helper()
	c := w.idleOn(db, "conductor-1", changes...)
	m := machineOf(w.t, c)
	m.power, w.Conductor = node.PowerOn, c
	n := w.fake(node.InspectWait, nil, func(n *node.Node) {
		n.Interfaces[node.InspectInterface] = "agent"
	})
	w.addPort(n, unknown(1).macs[0])
	if _, err := send(w.t, c, unknown(1)); err != nil {
		w.t.Fatal(err)
	}
	return c, m, n
}

// TestInspectedMachineIsSwitchedOffWithoutACommitBeforeIt lets a process die behind the first
// commit after a machine's post, which is that of the result.
func TestInspectedMachineIsSwitchedOffWithoutACommitBeforeIt(t *testing.T) {
	w := emptyWorld(t)
	db := &crashing{Database: w.store}
	c, m, n := postedTo(w, db)
	if held := w.stored(n.UUID).Lease; held.BusyUntil.Before(w.clock.Now()) {
		t.Errorf("lease %+v, want the machine held for the call before it is made", held)
	}
	if !db.run(t, c, 1) {
		t.Error("the work needs a second commit")
	}
	if got := w.arrive(n, node.Manageable); got.InspectionFinishedAt.IsZero() || got.Lease != (node.Lease{}) {
		t.Errorf("inspection finished %v, lease %+v", got.InspectionFinishedAt, got.Lease)
	}
	if got := m.kinds(); !slices.Equal(got, []fake.Kind{fake.PowerOff}) {
		t.Errorf("effects %q, want the machine switched off once", got)
	}
}

// TestPortThatAClientCreatesWhileAMachineGoesOffIsInspected lets the BMC answer late: the hooks see
// the ports that there are then, and not those that PostgreSQL has sent with the commit of the post.
func TestPortThatAClientCreatesWhileAMachineGoesOffIsInspected(t *testing.T) {
	w := emptyWorld(t)
	c, m, n := postedTo(w, w.store)
	m.answer = func(context.Context, int) (fake.Task, error) {
		w.clock.Advance(2 * portsValidFor)
		_, err := w.CreatePort(t.Context(), &node.Port{NodeUUID: n.UUID, Address: unknown(1).macs[1], PXEEnabled: true})
		return fake.Task{State: fake.Done}, err
	}
	if !c.runner.RunNext(t.Context()) {
		t.Fatal("no work waits")
	}
	w.arrive(n, node.Manageable)
	wantPorts(t, w, n, map[string]bool{unknown(1).macs[0]: true, unknown(1).macs[1]: false})
}

// TestPortsOfALargeDocumentAreInspected posts a document that does not stay in memory until its hooks
// run.
func TestPortsOfALargeDocumentAreInspected(t *testing.T) {
	w := emptyWorld(t)
	c := w.idle("conductor-1")
	w.Conductor = c
	n := w.fake(node.InspectWait, nil, func(n *node.Node) { n.Interfaces[node.InspectInterface] = "agent" })
	m := unknown(1)
	m.padding = maxHintDocument + 1
	w.addPort(n, m.macs[0])
	if _, err := send(t, c, m); err != nil {
		t.Fatal(err)
	}
	if !c.runner.RunNext(t.Context()) {
		t.Fatal("no work waits")
	}
	w.arrive(n, node.Manageable)
	wantPorts(t, w, n, map[string]bool{m.macs[0]: true, m.macs[1]: false})
}

func TestPortThatHasMovedToAnotherNodeSinceTheHooksRanIsKept(t *testing.T) {
	w := emptyWorld(t)
	w.Conductor = w.idle("conductor-1")
	n, other := w.register(), w.register()
	w.addPort(other, unknown(1).macs[0])
	result := &inspect.Result{PortsToDelete: []inspect.Port{{UUID: w.portsOf(other)[0].UUID}}}
	w.write(func(tx *store.Tx) error {
		return w.storePorts(tx, n, &processing{ports: &store.MachinePorts{}}, result)
	})
	wantPorts(t, w, other, map[string]bool{unknown(1).macs[0]: false})
}

// readCounter counts the reads of a database.
type readCounter struct {
	Database
	reads atomic.Int64
}

func (r *readCounter) Read(ctx context.Context, fn func(*store.Tx) error) error {
	r.reads.Add(1)
	return r.Database.Read(ctx, fn)
}

func (r *readCounter) ReadSingle(ctx context.Context, fn func(*store.Tx) error) error {
	r.reads.Add(1)
	return r.Database.ReadSingle(ctx, fn)
}

func TestUnknownMachineIsInspectedWithoutReadingWhatItCannotHave(t *testing.T) {
	w := emptyWorld(t)
	db := &readCounter{Database: w.store}
	c := w.idleOn(db, "conductor-1")
	w.Conductor = c
	m := unknown(1)
	if _, err := send(t, c, m); err != nil {
		t.Fatal(err)
	}
	before := db.reads.Load()
	if !c.runner.RunNext(t.Context()) {
		t.Fatal("no work waits")
	}
	if reads := db.reads.Load() - before; reads > 0 {
		t.Errorf("%d reads between the post and its result, want none", reads)
	}
	wantPorts(t, w, w.all()[0], map[string]bool{m.macs[0]: true, m.macs[1]: false})
}

func TestInspectionOnAServerReadsWhatItNeedsWithThePost(t *testing.T) {
	storetest.NeedsServer(t)
	w := emptyWorld(t)
	db := &readCounter{Database: w.store}
	c, _, n := postedTo(w, db)
	before := db.reads.Load()
	if !c.runner.RunNext(t.Context()) {
		t.Fatal("no work waits")
	}
	w.arrive(n, node.Manageable)
	if reads := db.reads.Load() - before; reads > 0 {
		t.Errorf("%d reads between the post and its result, want none", reads)
	}
}

func TestInspectedMachineThatMustStayOnIsRebooted(t *testing.T) {
	for name, spoil := range map[string]func(*machine){"done": func(*machine) {}, "hook failed": func(m *machine) { m.arch = "" }} {
		t.Run(name, func(t *testing.T) {
			w := emptyWorld(t)
			c := w.idle("conductor-1")
			m, posted := machineOf(t, c), unknown(1)
			m.power, w.Conductor = node.PowerOn, w.run(c)
			n := w.fake(node.InspectWait, nil, func(n *node.Node) {
				n.Interfaces[node.InspectInterface], n.DisablePowerOff = "agent", true
			})
			w.addPort(n, posted.macs[0])
			spoil(&posted)
			if _, err := send(t, c, posted); err != nil {
				t.Fatal(err)
			}
			w.passUntilDone()
			if got := m.kinds(); !slices.Equal(got, []fake.Kind{fake.PowerOff, fake.PowerOn}) {
				t.Errorf("effects %q, want a reboot", got)
			}
			if got := w.stored(n.UUID); got.PowerState != node.PowerOn {
				t.Errorf("power is %q, want on", got.PowerState)
			}
		})
	}
}

// TestRamdiskIsWithdrawnBeforeAReboot keeps a machine from starting the ramdisk again.
func TestRamdiskIsWithdrawnBeforeAReboot(t *testing.T) {
	for stays, want := range map[bool][]string{
		true: {leaveRamdiskName, rebootName, "run hooks"}, false: {powerOffName, leaveRamdiskName, "run hooks"},
	} {
		c, _, n := withRamdisk(t, inState(node.Inspecting), func(n *node.Node) {
			n.DisablePowerOff = stays
			node.RamdiskBoot{Secret: node.NewBootSecret()}.StoreIn(n)
		})
		work := &store.Work{ID: 7, Intent: node.ObjectOf(map[string]any{servedIntent: true})}
		operations, err := c.processOperations(runner.Task{Work: work, Node: n})
		if diff := cmp.Diff(want, unskipped(operations)); diff != "" || err != nil {
			t.Errorf("must stay on: %v, %v (-want +got):\n%s", stays, err, diff)
		}
	}
}

// TestOperationThatIsPassedOverIsNotStoredAsDone lets releases that do not know the operation go on with the work.
func TestOperationThatIsPassedOverIsNotStoredAsDone(t *testing.T) {
	w := emptyWorld(t)
	c := w.broken("conductor-1") // its hooks are tried again
	m, posted := machineOf(t, c), unknown(1)
	m.power, w.Conductor = node.PowerOn, w.run(c)
	n := w.fake(node.InspectWait, nil, func(n *node.Node) {
		n.Interfaces[node.InspectInterface] = "agent"
		node.RamdiskBoot{Secret: node.NewBootSecret()}.StoreIn(n)
	})
	w.addPort(n, posted.macs[0])
	if _, err := send(t, c, posted); err != nil {
		t.Fatal(err)
	}
	w.eventually("the hooks to be postponed", func() bool { return w.nextDue() == 2*time.Second })
	var step struct{ Done, Passed runner.Ref }
	if err := json.Unmarshal([]byte(w.workOf(n).Checkpoint), &step); err != nil {
		t.Fatal(err)
	}
	if step.Done.Name != leaveRamdiskName || step.Passed.Name != rebootName {
		t.Errorf("done is %q and passed over %q, want %q and %q", step.Done.Name, step.Passed.Name, leaveRamdiskName, rebootName)
	}
}

// TestStopAfterAnInspectionIsKnownWhateverTheNodeSays keeps work going on that has come as
// far as one of the operations when the node is changed, or stored by an earlier release.
func TestStopAfterAnInspectionIsKnownWhateverTheNodeSays(t *testing.T) {
	for name, operationsOf := range map[string]func(*Conductor, runner.Task) []runner.Operation{
		"served": func(c *Conductor, task runner.Task) []runner.Operation {
			task.Work.Intent = node.ObjectOf(map[string]any{servedIntent: true})
			operations, err := c.processOperations(task)
			wantIs(t, err, nil)
			return operations
		},
		"not served": func(c *Conductor, task runner.Task) []runner.Operation {
			operations, err := c.processOperations(task)
			wantIs(t, err, nil)
			return operations
		},
		"failed": (*Conductor).cleanUpInspection,
		"aborted": func(c *Conductor, task runner.Task) []runner.Operation {
			task.Work.Intent = node.ObjectOf(map[string]any{abortedIntent: workInspect})
			operations, err := c.cleanUpOperations(task)
			wantIs(t, err, nil)
			return operations
		},
	} {
		for _, stays := range []bool{true, false} {
			c, _, n := withRamdisk(t, inState(node.Inspecting), func(n *node.Node) { n.DisablePowerOff = stays })
			var names []string
			for _, o := range operationsOf(c, runner.Task{Work: &store.Work{ID: 7}, Node: n}) {
				names = append(names, o.Name)
				if stop := map[string]bool{powerOffName: !stays, rebootName: stays}; o.Name == powerOffName || o.Name == rebootName {
					if name != "failed" && o.Skip == stop[o.Name] { // that machine was not started
						t.Errorf("%s, must stay on %v: %q is left out: %v", name, stays, o.Name, o.Skip)
					}
				}
			}
			if !slices.Contains(names, powerOffName) || !slices.Contains(names, rebootName) {
				t.Errorf("%s, must stay on %v: operations %q, want both stops", name, stays, names)
			}
		}
	}
}

// TestInspectedMachineIsLeftAloneUntilTheCallOfADeadProcessHasEnded has a process die before
// it switches a machine off: whether it did so is known to nobody.
func TestInspectedMachineIsLeftAloneUntilTheCallOfADeadProcessHasEnded(t *testing.T) {
	w := emptyWorld(t)
	_, m, n := postedTo(w, w.store)
	calls := w.stored(n.UUID).Lease.BusyUntil.Sub(w.clock.Now())
	next := w.idle("conductor-1") // the same name: it takes its leases back when it starts
	other := machineOf(t, next)
	other.power = node.PowerOn
	w.Conductor = w.run(next)
	w.pass(calls - time.Millisecond)
	if got := other.kinds(); len(got) > 0 {
		t.Errorf("effects %q while the call of the process before may be on its way", got)
	}
	w.pass(time.Minute)
	w.awaitWorkDone()
	w.arrive(n, node.Manageable)
	if got := other.kinds(); !slices.Equal(got, []fake.Kind{fake.PowerOff}) || len(m.kinds()) > 0 {
		t.Errorf("effects %q, want the machine switched off once", got)
	}
}

// TestMachineThatWaitedForItsTurnIsHeldAnew has work wait in the queue until little is left of
// the time that its machine is held for.
func TestMachineThatWaitedForItsTurnIsHeldAnew(t *testing.T) {
	w := emptyWorld(t)
	c, m, n := postedTo(w, w.store, func(cfg *Config) { cfg.CallTimeout = time.Second })
	posted, first := time.Now(), w.stored(n.UUID).Lease.BusyUntil
	w.clock.Advance(time.Second)
	w.eventually("time to pass", func() bool { return time.Since(posted) > c.cfg.CallTimeout/2 })
	m.answer = func(context.Context, int) (fake.Task, error) {
		if held := w.stored(n.UUID).Lease.BusyUntil; !held.After(first) {
			t.Errorf("machine held until %s during the call, want it later than %s", held, first)
		}
		return fake.Task{State: fake.Done}, nil
	}
	if !c.runner.RunNext(t.Context()) {
		t.Fatal("no work waits")
	}
	w.arrive(n, node.Manageable)
	if got := m.kinds(); !slices.Equal(got, []fake.Kind{fake.PowerOff}) {
		t.Errorf("effects %q, want the machine switched off once", got)
	}
}

// TestHooksDoNotWaitBehindMachinesThatHang has more work with machines that do not answer than there
// are sessions for it.
func TestHooksDoNotWaitBehindMachinesThatHang(t *testing.T) {
	w := emptyWorld(t)
	w.hang(sessionsPerCall + 2)
	w.eventually("work to wait for a session", func() bool { return w.runner.Load().Waiting > 0 })
	found, err := send(t, w.Conductor, unknown(1))
	if err != nil {
		t.Fatalf("post: %v", err)
	}
	w.eventually("the hooks to run", func() bool { return !w.stored(found.Node.UUID).InspectionFinishedAt.IsZero() })
}

// TestHooksOfADeadProcessDoNotWaitBehindMachinesThatHang has so much work with machines that do not
// answer that no more of it is claimed.
func TestHooksOfADeadProcessDoNotWaitBehindMachinesThatHang(t *testing.T) {
	const hang, waiting = 200, 64 // the runner claims work until so many jobs wait
	w := emptyWorld(t)
	w.hang(hang)
	w.eventually("work to wait for a session", func() bool { return w.runner.Load().Waiting >= waiting })
	found, err := send(t, w.idle("conductor-2"), unknown(1)) // it dies
	if err != nil {
		t.Fatalf("post: %v", err)
	}
	w.pass(w.cfg.LeaseTTL)
	w.eventually("the hooks to run", func() bool { return !w.stored(found.Node.UUID).InspectionFinishedAt.IsZero() })
	if got := w.runner.Load().Waiting; got >= hang-sessionsPerCall {
		t.Errorf("%d pieces of work were claimed that wait for a session", got)
	}
}

// hang starts a conductor with this much work whose machines do not answer.
func (w *world) hang(machines int) {
	w.t.Helper()
	w.Conductor = w.idle("conductor-1", func(c *Config) { c.Calls = 1 })
	answer := make(chan struct{})
	w.scripts["paint"] = runner.Script{End: keepNode, Operations: func(runner.Task) ([]runner.Operation, error) {
		return []runner.Operation{{Ref: runner.Ref{Name: "paint"}, Change: func(context.Context, *node.Node, driver.Turn) (driver.Outcome, error) {
			<-answer
			return driver.Outcome{}, nil
		}}}, nil
	}}
	for range machines {
		n := w.register()
		w.write(func(tx *store.Tx) error { return tx.AddWork(&store.Work{NodeID: n.ID, Kind: "paint"}) })
	}
	w.run(w.Conductor)
	w.t.Cleanup(func() { close(answer) }) // before the conductor stops
}
