package conductor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/driver/fake"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
	"github.com/ingot-metal/ingot/internal/store/storetest"
)

// counter is a machine that outlives databases and counts what was done to it.
type counter struct {
	mu     sync.Mutex
	power  node.PowerState
	busy   bool // what it is asked to do does not end
	tasks  map[string]bool
	counts map[string]int // effects by kind
}

func newCounter() *counter {
	return &counter{power: node.PowerOff, tasks: map[string]bool{}, counts: map[string]int{}}
}

func (c *counter) PowerState(context.Context) (node.PowerState, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.power, nil
}

func (c *counter) Do(_ context.Context, e fake.Effect) (fake.Task, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[string(e.Kind)]++
	if c.tasks != nil { // else it cannot tell what it was asked for
		c.tasks[e.Origin.Request] = true
	}
	switch e.Kind {
	case fake.PowerOn:
		c.power = node.PowerOn
	case fake.PowerOff, fake.SoftPowerOff:
		c.power = node.PowerOff
	}
	return c.task(), nil
}

func (c *counter) Outcome(_ context.Context, request string) (fake.Task, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.tasks == nil:
		return fake.Task{State: fake.Unknown}, nil
	case !c.tasks[request]:
		return fake.Task{State: fake.None}, nil
	}
	return c.task(), nil
}

// Settings returns none that were changed.
func (c *counter) Settings(context.Context) (fake.Settings, error) { return fake.Settings{}, nil }

func (c *counter) task() fake.Task {
	if c.busy {
		return fake.Task{State: fake.Running, ID: "1"}
	}
	return fake.Task{State: fake.Done}
}

// set changes the machine.
func (c *counter) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// done returns what was done to the machine.
func (c *counter) done() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.counts)
}

// restorableWorld has a database that can be put back, and one machine behind every
// node of fake hardware.
func restorableWorld(t *testing.T) (*world, *counter) {
	t.Helper()
	machine := newCounter()
	w := &world{t: t, clock: storetest.NewClock(), dir: t.TempDir()}
	w.machine = func(*node.Node) (fake.Machine, bool) { return machine, true }
	if storetest.OnPostgres() {
		w.url = storetest.NewSchema(t)
	}
	w.open()
	return w, machine
}

// end stops the conductor. Work that is added afterwards has nobody to claim it.
func (w *world) end() {
	w.t.Helper()
	if err := w.Stop(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// backup copies the database. Restore ends what runs on it and puts the copy in its
// place.
func (w *world) backup() (restore func()) {
	w.t.Helper()
	end := func() {
		if err := errors.Join(w.Stop(w.t.Context()), w.store.Close()); err != nil {
			w.t.Fatal(err)
		}
	}
	if w.url != "" {
		copied := storetest.NewSchema(w.t)
		storetest.Dump(w.t, w.url, copied)
		return func() {
			end()
			storetest.Dump(w.t, copied, w.url)
			w.open()
		}
	}
	file := filepath.Join(w.t.TempDir(), "backup.db")
	if _, err := store.Backup(w.t.Context(), w.dir, file, false); err != nil {
		w.t.Fatal(err)
	}
	return func() {
		end()
		if _, err := store.Restore(w.t.Context(), file, w.dir, time.Now()); err != nil {
			w.t.Fatal(err)
		}
		w.open()
	}
}

// startAgain ends the conductor, if there is one that runs, and starts the next one.
func (w *world) startAgain(changes ...func(*Config)) {
	w.t.Helper()
	if w.Conductor != nil {
		_ = w.Stop(w.t.Context()) // it may have been stopped
	}
	w.Conductor = w.start("conductor-1", changes...)
}

func (w *world) suspension() node.Suspension {
	w.t.Helper()
	suspension, err := w.Suspension(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return suspension
}

func (w *world) resume() {
	w.t.Helper()
	if err := w.Resume(w.t.Context(), "ann"); err != nil {
		w.t.Fatal(err)
	}
}

// cleanWithBackup cleans a node and takes a backup while its disks are wiped. The
// cleaning then goes on to its end.
func cleanWithBackup(w *world, machine *counter) (n *node.Node, restore func()) {
	w.t.Helper()
	w.Conductor = w.start("conductor-1")
	machine.set(func() { machine.busy = true })
	n = w.fake(node.Manageable, nil)
	w.send(n, "clean", with(step("deploy.erase_devices"), step("raid.create_configuration"), step("power.power_on")))
	w.eventually("the machine to be wiped", func() bool { return machine.done()["wipe"] == 1 && w.delayed() == 1 })
	restore = w.backup()
	machine.set(func() { machine.busy = false })
	w.pass(10 * time.Second)
	w.awaitWorkDone()
	if got := w.arrive(n, node.Manageable); got.LastError != "" {
		w.t.Fatal(got.LastError)
	}
	return n, restore
}

// cleanedOnce is what a cleaning does to a machine.
var cleanedOnce = map[string]int{"wipe": 1, "configure": 1, "power on": 1}

func TestWorkInARestoredDatabaseWaitsForAPersonAndIsNotDoneTwice(t *testing.T) {
	w, machine := restorableWorld(t)
	n, restore := cleanWithBackup(w, machine)
	if diff := cmp.Diff(cleanedOnce, machine.done()); diff != "" {
		t.Fatalf("done to the machine (-want +got):\n%s", diff)
	}
	restore()
	for range 3 { // it stays suspended through restarts
		w.startAgain(syncing)
		for range 20 {
			w.pass(time.Hour)
			w.runner.ClaimDue(t.Context())
		}
	}
	if diff := cmp.Diff(cleanedOnce, machine.done()); diff != "" {
		t.Errorf("done to the machine while work is suspended (-want +got):\n%s", diff)
	}
	if s := w.suspension(); s.Reason != node.Restored || s.Detail == "" || s.Nodes != 1 {
		t.Errorf("suspension %+v", s)
	}
	nodes, err := w.SuspendedNodes(t.Context())
	if err != nil || len(nodes) != 1 || nodes[0].UUID != n.UUID || !cmp.Equal(nodes[0].Work, []string{"clean"}) {
		t.Errorf("nodes %+v, %v", nodes, err)
	}
	if got := w.stored(n.UUID); got.ProvisionState != node.CleanWait || got.Lease.Holder != node.SuspendedHolder {
		t.Errorf("node is %q, reserved by %q", got.ProvisionState, got.Lease.Holder)
	}
	w.resume()
	w.awaitWorkDone()
	if got := w.arrive(n, node.Manageable); got.LastError != "" || w.suspension().InForce() {
		t.Errorf("last_error %q, suspended %+v", got.LastError, w.suspension())
	}
	if diff := cmp.Diff(cleanedOnce, machine.done()); diff != "" {
		t.Errorf("done to the machine after a person let it go on (-want +got):\n%s", diff)
	}
	rows := strings.Join(w.history(n), "\n")
	for _, want := range []string{`INFO suspension: The work "clean" is suspended`, `INFO suspension: The suspended work "clean" goes on`} {
		if strings.Count(rows, want) != 1 {
			t.Errorf("history lacks %q, or has it twice:\n%s", want, rows)
		}
	}
}

func TestWorkThatFollowsRestoredWorkIsNotDoneTwiceEither(t *testing.T) {
	w, machine := restorableWorld(t)
	w.Conductor = w.start("conductor-1")
	machine.set(func() { machine.busy = true })
	cleaned := true
	n := w.fake(node.Active, nil, func(n *node.Node) { n.AutomatedClean = &cleaned })
	w.send(n, "deleted")
	w.eventually("the instance to be taken down", func() bool { return machine.done()["tear down"] == 1 && w.delayed() == 1 })
	restore := w.backup()
	machine.set(func() { machine.busy = false })
	w.pass(10 * time.Second)
	w.awaitWorkDone()
	w.arrive(n, node.Available)
	want := machine.done()
	if want["wipe"] == 0 {
		t.Fatalf("done to the machine: %v", want)
	}
	restore()
	w.startAgain()
	w.resume()
	w.awaitWorkDone()
	w.arrive(n, node.Available)
	if diff := cmp.Diff(want, machine.done()); diff != "" {
		t.Errorf("done to the machine (-want +got):\n%s", diff)
	}
}

func TestRestoredWorkOfWhichTheMachineCannotTellFails(t *testing.T) {
	w, machine := restorableWorld(t)
	n, restore := cleanWithBackup(w, machine)
	restore()
	machine.set(func() { machine.tasks = nil })
	w.startAgain()
	w.resume()
	w.awaitWorkDone()
	if got := w.arrive(n, node.CleanFailed); !strings.Contains(got.LastError, "outcome unknown") {
		t.Errorf("last_error %q", got.LastError)
	}
	if done := machine.done(); done["wipe"] != 1 || done["configure"] != 1 {
		t.Errorf("done to the machine: %v", done)
	}
}

func TestRestoredWorkThatWasNotBegunDoesNotBeginAsNew(t *testing.T) {
	w, machine := restorableWorld(t)
	if err := w.start("conductor-1").Stop(t.Context()); err != nil { // the database was used
		t.Fatal(err)
	}
	w.Conductor = w.idle("conductor-1")
	n := w.fake(node.Manageable, nil)
	w.send(n, "clean", with(step("deploy.erase_devices")))
	restore := w.backup()
	w.run(w.Conductor)
	w.awaitWorkDone()
	restore()
	w.startAgain()
	w.resume()
	w.awaitWorkDone()
	w.arrive(n, node.Manageable)
	if done := machine.done(); done["wipe"] != 1 {
		t.Errorf("done to the machine: %v", done)
	}
}

func TestASettingLetsRestoredWorkGoOn(t *testing.T) {
	w, machine := restorableWorld(t)
	n, restore := cleanWithBackup(w, machine)
	restore()
	w.startAgain(func(c *Config) { c.ResumeAfterRestore = true })
	w.awaitWorkDone()
	w.arrive(n, node.Manageable)
	if diff := cmp.Diff(cleanedOnce, machine.done()); diff != "" || w.suspension().InForce() {
		t.Errorf("suspended %+v, done to the machine (-want +got):\n%s", w.suspension(), diff)
	}
}

// TestAnyEngineLetsWorkGoOn has one conductor resume that does no work, beside one that
// is told nothing.
func TestAnyEngineLetsWorkGoOn(t *testing.T) {
	w, machine := restorableWorld(t)
	n, restore := cleanWithBackup(w, machine)
	restore()
	w.startAgain()
	other := &world{t: t, clock: w.clock, dir: w.dir, url: w.url, store: w.store}
	if w.url != "" { // in a process of its own, as far as the database can tell
		other.open()
	}
	if err := other.idle("conductor-2").Resume(t.Context(), "ann"); err != nil {
		t.Fatal(err)
	}
	w.awaitWorkDone()
	w.arrive(n, node.Manageable)
}

// restored has a database with nodes in the middle of work, which was restored.
func restored(t *testing.T, prepare func(w *world)) (*world, *counter) {
	t.Helper()
	w, machine := restorableWorld(t)
	w.Conductor = w.start("conductor-1")
	prepare(w)
	w.backup()()
	w.startAgain()
	return w, machine
}

// cleanWaiting cleans a node that waits for its ramdisk.
func cleanWaiting(w *world) *node.Node {
	w.t.Helper()
	n := w.fake(node.Manageable, nil)
	w.send(n, "clean", with(step("power.wait"), step("deploy.erase_devices")))
	return w.arrive(n, node.CleanWait)
}

func TestWhatAClientMayDoWithSuspendedWork(t *testing.T) {
	var n, switched *node.Node
	w, machine := restored(t, func(w *world) {
		n, switched = cleanWaiting(w), w.fake(node.Active, nil)
		w.end()
		if err := w.idle("conductor-9").SetPower(w.t.Context(), switched.UUID, node.PowerOn, 0); err != nil {
			w.t.Fatal(err)
		}
	})
	ctx := t.Context()
	other := w.fake(node.Manageable, nil)
	for name, refused := range map[string]error{
		"abort":       w.try(n, "abort"),
		"another":     w.try(n, "provide"),
		"power":       w.SetPower(ctx, switched.UUID, node.PowerOff, 0),
		"boot device": w.SetBootDevice(ctx, n.UUID, node.BootDevice{Device: "pxe"}),
		"boot mode":   w.SetBootMode(ctx, n.UUID, "uefi"),
		"medium":      w.AttachMedium(ctx, n.UUID, node.Medium{}),
		"deletion":    w.DeleteNode(ctx, n.UUID),
	} {
		var suspended *node.SuspendedError
		var state *node.ConflictError
		if !errors.As(refused, &suspended) && (name != "deletion" || !errors.As(refused, &state)) {
			t.Errorf("%s: %v", name, refused)
		}
	}
	w.send(other, "clean", with(step("deploy.erase_devices")))
	w.eventually("the other node to be cleaned", func() bool { return machine.done()["wipe"] == 1 })
	w.arrive(other, node.Manageable)
	if _, err := w.UpdateNode(ctx, n.UUID, func(n *node.Node) error {
		n.Description = "changed"
		return nil
	}); err != nil {
		t.Errorf("change of the record: %v", err)
	}
	if err := w.SetMaintenance(ctx, n.UUID, true, "wrong record"); err != nil {
		t.Errorf("maintenance: %v", err)
	}
	if err := w.DeleteNode(ctx, n.UUID); err != nil {
		t.Errorf("deletion in maintenance: %v", err)
	}
	if nodes, err := w.SuspendedNodes(ctx); err != nil || len(nodes) != 1 || nodes[0].UUID != switched.UUID {
		t.Errorf("suspended nodes %v, %v", nodes, err)
	}
	if done := machine.done(); !cmp.Equal(done, map[string]int{"wipe": 1}) {
		t.Errorf("done to machines: %v", done)
	}
}

func TestWaitsForRamdisksBeginAnewWhenWorkGoesOn(t *testing.T) {
	var n *node.Node
	w, machine := restored(t, func(w *world) { n = cleanWaiting(w) })
	limit := w.cfg.Limits.CallbackTimeout
	w.pass(100 * limit)
	w.runner.ClaimDue(t.Context())
	if err := w.ResumeNode(t.Context(), n.UUID, "ann"); err != nil {
		t.Fatal(err)
	}
	w.eventually("the work to be looked at", func() bool { return w.rest() > 0 })
	w.pass(limit - time.Second)
	w.runner.ClaimDue(t.Context())
	if got := w.stored(n.UUID); got.ProvisionState != node.CleanWait {
		t.Fatalf("node is %q: %s", got.ProvisionState, got.LastError)
	}
	w.pass(2 * time.Second)
	w.awaitWorkDone()
	if got := w.arrive(n, node.CleanFailed); !strings.Contains(got.LastError, "timed out") {
		t.Errorf("last_error %q", got.LastError)
	}
	if done := machine.done(); done["wipe"] != 0 {
		t.Errorf("done to the machine: %v", done)
	}
	wantAs[*node.ConflictError](t, w.ResumeNode(t.Context(), n.UUID, "ann"))
}

func TestARamdiskIsHeardButWakesNoSuspendedWork(t *testing.T) {
	var n *node.Node
	w, machine := restored(t, func(w *world) { n = cleanWaiting(w) })
	answer, err := w.Lookup(t.Context(), node.LookupRequest{NodeUUID: n.UUID, WantsToken: true})
	if err != nil {
		t.Fatal(err)
	}
	heartbeat := node.Heartbeat{CallbackURL: "https://192.0.2.1:9999", AgentToken: answer.Token}
	w.cfg.AgentRules.VerifyAddress = false
	if err := w.Heartbeat(t.Context(), n.UUID, heartbeat); err != nil {
		t.Fatal(err)
	}
	w.runner.ClaimDue(t.Context())
	if got := w.stored(n.UUID); got.ProvisionState != node.CleanWait || !got.Lease.Suspended() || len(machine.done()) != 0 {
		t.Errorf("node is %q, done to the machine: %v", got.ProvisionState, machine.done())
	}
	w.resume()
	w.eventually("the work to be looked at", func() bool { return w.rest() > 0 })
	if err := w.Heartbeat(t.Context(), n.UUID, heartbeat); err != nil {
		t.Fatal(err)
	}
	w.awaitWorkDone()
	w.arrive(n, node.Manageable)
	if done := machine.done(); done["wipe"] != 1 {
		t.Errorf("done to the machine: %v", done)
	}
}

func TestAnInventoryIsKeptForSuspendedWork(t *testing.T) {
	var n *node.Node
	w, machine := restored(t, func(w *world) {
		n = w.agentNode(nil)
		w.addPort(n, unknown(1).macs[0])
		w.send(n, "inspect")
		w.arrive(n, node.InspectWait)
	})
	before := machine.done()
	answer, err := send(t, w.Conductor, unknown(1))
	if err != nil || answer.Node.UUID != n.UUID {
		t.Fatalf("answer %+v, %v", answer, err)
	}
	w.pass(time.Hour)
	w.runner.ClaimDue(t.Context())
	if got := w.stored(n.UUID); got.ProvisionState != node.Inspecting || !got.Lease.Suspended() || !cmp.Equal(machine.done(), before) {
		t.Errorf("node is %q, done to the machine: %v", got.ProvisionState, machine.done())
	}
	w.resume()
	w.awaitWorkDone()
	if got := w.arrive(n, node.Manageable); got.InspectionFinishedAt.IsZero() || len(w.portsOf(n)) != 2 {
		t.Errorf("node %+v", got)
	}
	if _, err := send(t, w.Conductor, unknown(2)); err != nil {
		t.Errorf("an unknown machine: %v", err)
	}
}

func TestManyMachinesThatDifferSuspendWorkThatNobodyIsAt(t *testing.T) {
	w, _ := restorableWorld(t)
	w.Conductor = w.start("conductor-1")
	n := cleanWaiting(w)
	w.write(func(tx *store.Tx) error {
		_, err := powerOwner{w.Conductor}.Suspend(tx, "11 of the 20 machines differ")
		return err
	})
	w.pass(10 * w.cfg.Limits.CallbackTimeout)
	w.runner.ClaimDue(t.Context())
	if got := w.stored(n.UUID); got.ProvisionState != node.CleanWait || !got.Lease.Suspended() {
		t.Errorf("node is %q, lease %+v", got.ProvisionState, got.Lease)
	}
	if rows := strings.Join(w.history(n), "\n"); !strings.Contains(rows, "11 of the 20 machines differ.") {
		t.Errorf("history %s", rows)
	}
	w.startAgain(func(c *Config) { c.ResumeAfterRestore = true }) // which is about restores
	if !w.suspension().InForce() {
		t.Error("a setting about restores ended it")
	}
	w.resume()
	w.eventually("the work to be looked at", func() bool { return w.rest() > 0 })
}

func TestAllocationsFromBeforeARestoreWait(t *testing.T) {
	var old string
	w, _ := restored(t, func(w *world) {
		w.end() // it would fail one without a node to choose
		old = w.ask(w.idle("conductor-9"))
		w.write(func(tx *store.Tx) error { return tx.EndLeasesKeepBusy("nobody") })
	})
	w.free()
	w.free()
	w.clock.Advance(time.Second)
	fresh := w.ask(w.Conductor)
	w.eventually("the new allocation to get a node", func() bool { return w.allocation(fresh).State == node.AllocationActive })
	if got := w.allocation(old); got.State != node.Allocating {
		t.Errorf("the old one is %q", got.State)
	}
	w.resume()
	w.eventually("the old allocation to get a node", func() bool { return w.allocation(old).State == node.AllocationActive })
}

func TestAnEngineSaysWhatIsSuspended(t *testing.T) {
	out := &strings.Builder{}
	w, machine := restorableWorld(t)
	_, restore := cleanWithBackup(w, machine)
	restore()
	var guarded lockedWriter
	guarded.to = out
	w.out = &guarded
	for i, want := range []string{"level=ERROR msg=\"Work is suspended", "level=WARN msg=\"Work is still suspended"} {
		w.startAgain()
		if text := guarded.text(); !strings.Contains(text, want) || !strings.Contains(text, "nodes=1") {
			t.Errorf("start %d says %q", i, text)
		}
	}
}

// lockedWriter is for logs of conductors that run.
type lockedWriter struct {
	mu sync.Mutex
	to *strings.Builder
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Fprint(l.to, string(p))
}

func (l *lockedWriter) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.String()
}
