package conductor

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/inspect"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/objectstore/objectstoretest"
	"github.com/ingot-metal/ingot/internal/store"
)

// maxWait is how long inspections of these tests wait for their object store.
const maxWait = 10 * time.Minute

// keeping is a change of a conductor's configuration.
func keeping(backend InventoryBackend, objects ObjectStore) func(*Config) {
	return func(c *Config) {
		c.Inventories = Inventories{Backend: backend, Objects: objects, Prefix: "machines/", Timeout: 10 * time.Second, MaxWait: maxWait}
	}
}

// inObjects starts an S3 server and a conductor that keeps inventories there.
func inObjects(t *testing.T) (*world, *objectstoretest.Server) {
	t.Helper()
	server := objectstoretest.Start(t)
	return newWorld(t, keeping(InObjectStore, server.Bucket())), server
}

// restart stops the conductor and starts one with another configuration.
func (w *world) restart(change func(*Config)) {
	w.t.Helper()
	if err := w.Stop(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.Conductor = w.start("conductor-1", change)
}

// inspectAgain has an enrolled machine inspected once more and waits for the end.
func (w *world) inspectAgain(n *node.Node, m machine) *node.Node {
	w.t.Helper()
	w.await(n)
	if _, err := send(w.t, w.Conductor, m); err != nil {
		w.t.Fatalf("post: %v", err)
	}
	w.awaitWorkDone()
	return w.stored(n.UUID)
}

// await has a node wait for the post of its machine.
func (w *world) await(n *node.Node) {
	w.t.Helper()
	w.write(func(tx *store.Tx) error {
		before, err := tx.NodeByID(n.ID)
		if err != nil {
			return err
		}
		after := *before
		after.ProvisionState, after.TargetProvisionState = node.InspectWait, node.Manageable
		return tx.UpdateNode(before, &after)
	})
}

// wantInventory compares a node's inventory as clients read it.
func (w *world) wantInventory(n *node.Node, m machine) {
	w.t.Helper()
	data, err := w.Inspection(w.t.Context(), n.UUID)
	if err != nil {
		w.t.Fatalf("inventory: %v", err)
	}
	if string(data.Inventory) != m.inventory() {
		w.t.Errorf("inventory has %d bytes, want the %d that were posted", len(data.Inventory), len(m.inventory()))
	}
	if !strings.Contains(string(data.PluginData), `"valid_interfaces"`) {
		w.t.Errorf("plugin data %.200s, want what hooks left", data.PluginData)
	}
}

// wantObjects waits until the server has exactly these objects.
func wantObjects(t *testing.T, w *world, server *objectstoretest.Server, want ...string) {
	t.Helper()
	w.eventually("removal of objects", func() bool {
		w.wakeGarbage()
		return cmp.Equal(append([]string(nil), want...), server.Objects())
	})
}

// object returns the key of a node's inventory.
func (w *world) object(n *node.Node) (key string) {
	w.t.Helper()
	w.read(func(tx *store.Tx) (err error) {
		key, err = tx.InspectionObject(n)
		return err
	})
	if !strings.HasPrefix(key, "machines/"+n.UUID+"/") {
		w.t.Errorf("object %q, want the prefix and the node in its name", key)
	}
	return key
}

// hasDocument reports whether the database has a document of the node.
func (w *world) hasDocument(n *node.Node) bool {
	w.t.Helper()
	var err error
	w.read(func(tx *store.Tx) error {
		_, err = tx.LastDocument(n)
		return nil
	})
	return err == nil
}

func TestInventoryIsKeptInTheObjectStoreAndNotInTheDatabase(t *testing.T) {
	w, server := inObjects(t)
	m := unknown(1)
	n := w.enrol(m)
	if n.LastError != "" || len(w.portsOf(n)) != 2 {
		t.Fatalf("last_error %q, %d ports", n.LastError, len(w.portsOf(n)))
	}
	w.wantInventory(n, m)
	wantObjects(t, w, server, w.object(n))
	if w.hasDocument(n) {
		t.Error("the database has the document too")
	}
	m.arch = "aarch64"
	n = w.inspectAgain(n, m)
	w.wantInventory(n, m)
	w.clock.Advance(w.cfg.Inventories.removalDelay())
	wantObjects(t, w, server, w.object(n))
}

func TestInventoryIsKeptNowhere(t *testing.T) {
	w := newWorld(t, keeping(Nowhere, nil))
	n := w.enrol(unknown(1))
	if n.LastError != "" || n.InspectionFinishedAt.IsZero() || len(w.portsOf(n)) != 2 {
		t.Fatalf("last_error %q, %d ports; want a finished inspection", n.LastError, len(w.portsOf(n)))
	}
	_, err := w.Inspection(t.Context(), n.UUID)
	wantIs(t, err, node.ErrNotFound)
	if w.hasDocument(n) {
		t.Error("the database has the document")
	}
	w.inspectAgain(n, unknown(1))
}

func TestAgentsAreCheckedAgainstAnInventoryThatIsElsewhere(t *testing.T) {
	server := objectstoretest.Start(t)
	for name, keep := range map[string]func(*Config){"none": keeping(Nowhere, nil), "s3": keeping(InObjectStore, server.Bucket())} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, keep)
			n := w.enrol(unknown(1)) // has 192.0.2.1 and 192.0.2.2
			token := w.token(unknown(1))
			foreign := beat(token, func(b *node.Heartbeat) { b.CallbackURL = "https://203.0.113.9:9999" })
			if err := w.Heartbeat(t.Context(), n.UUID, foreign); err == nil {
				t.Error("an address that the machine does not have was accepted")
			}
			if err := w.Heartbeat(t.Context(), n.UUID, beat(token)); err != nil {
				t.Errorf("an address of the machine was refused: %v", err)
			}
			w.restart(keeping(InDatabase, nil))
			if n = w.inspectAgain(n, unknown(1)); strings.Contains(string(n.DriverInternalInfo), addressesKey) {
				t.Errorf("driver_internal_info %s has addresses that the document has", n.DriverInternalInfo)
			}
		})
	}
}

func TestInventoriesStayReadableWhenTheBackendChanges(t *testing.T) {
	server := objectstoretest.Start(t)
	w := newWorld(t, keeping(InDatabase, nil))
	m, other := unknown(1), unknown(2)
	n, stays := w.enrol(m), w.enrol(other)

	w.restart(keeping(InObjectStore, server.Bucket()))
	w.wantInventory(n, m)
	n = w.inspectAgain(n, m)
	w.wantInventory(n, m)
	wantObjects(t, w, server, w.object(n))
	if w.hasDocument(n) {
		t.Error("the database has the inventory still")
	}

	w.restart(keeping(InDatabase, server.Bucket()))
	w.wantInventory(n, m)
	w.wantInventory(stays, other)
	m.arch = "aarch64"
	n = w.inspectAgain(n, m)
	w.wantInventory(n, m)
	w.clock.Advance(w.cfg.Inventories.removalDelay())
	wantObjects(t, w, server)

	w.restart(keeping(InObjectStore, server.Bucket()))
	n = w.inspectAgain(n, m)
	w.restart(keeping(Nowhere, server.Bucket()))
	w.wantInventory(n, m)
	w.inspectAgain(n, m)
	_, err := w.Inspection(t.Context(), n.UUID)
	wantIs(t, err, node.ErrNotFound)
	w.clock.Advance(w.cfg.Inventories.removalDelay())
	wantObjects(t, w, server)
}

func TestObjectStoreThatIsNoLongerConfiguredIsMissed(t *testing.T) {
	w, _ := inObjects(t)
	n := w.enrol(unknown(1))
	w.restart(keeping(InDatabase, nil))
	_, err := w.Inspection(t.Context(), n.UUID)
	wantIs(t, err, node.ErrUnavailable)
}

// endWaits lets the time pass in which an inspection waits for its object store,
// until the inspection has ended.
func (w *world) endWaits(n *node.Node) {
	w.t.Helper()
	w.eventually("the inspection to end", func() bool {
		if !w.stored(n.UUID).Lease.InForce(w.clock.Now()) {
			w.pass(longestWait)
		}
		return w.works() == 0
	})
}

func TestInspectionWaitsForTheObjectStore(t *testing.T) {
	w, server := inObjects(t)
	m := unknown(1)
	n := w.enrol(m)
	server.Stop()

	_, err := w.Inspection(t.Context(), n.UUID)
	wantIs(t, err, node.ErrUnavailable)

	w.await(n)
	if _, err := send(t, w.Conductor, m); err != nil {
		t.Fatalf("post while the store is down: %v", err)
	}
	w.eventually("the node to say what it waits for", func() bool {
		return strings.HasPrefix(w.stored(n.UUID).LastError, "Inspection waits for the object store")
	})
	if got := w.stored(n.UUID); got.ProvisionState != node.Inspecting || !strings.Contains(got.LastError, server.Endpoint) || !strings.Contains(got.LastError, maxWait.String()) {
		t.Errorf("node is in %q with last_error %q; want it inspecting, and the address and the limit", got.ProvisionState, got.LastError)
	}
	server.Resume()
	w.eventually("the store to be noticed", func() bool {
		_, err := w.Inspection(t.Context(), n.UUID)
		return err == nil
	})
	w.endWaits(n)
	if n = w.stored(n.UUID); n.ProvisionState != node.Manageable || n.LastError != "" {
		t.Errorf("node is in %q with last_error %q", n.ProvisionState, n.LastError)
	}
	w.wantInventory(n, m)
}

func TestInspectionFailsWhenTheObjectStoreStaysAway(t *testing.T) {
	w, server := inObjects(t)
	m := unknown(1)
	n := waiting(w)
	w.addPort(n, m.macs[0])
	server.Hide(true)
	if _, err := send(t, w.Conductor, m); err != nil {
		t.Fatal(err)
	}
	w.endWaits(n)
	n = w.stored(n.UUID)
	if n.ProvisionState != node.InspectFailed || !strings.HasPrefix(n.LastError, "Failed to finish inspection: the object store") || !strings.Contains(n.LastError, "inventory.s3_bucket") {
		t.Errorf("node is in %q with last_error %q; want one sentence that says what to do", n.ProvisionState, n.LastError)
	}
	if got := w.history(n); len(got) != 1 {
		t.Errorf("history %q, want the failure alone", got)
	}
	server.Hide(false)
	n = w.inspectAgain(n, m)
	w.wantInventory(n, m)
}

func TestDeletedNodeLeavesNothingInAnObjectStoreThatWasAway(t *testing.T) {
	w, server := inObjects(t)
	kept, gone := w.enrol(unknown(1)), w.enrol(unknown(2))
	server.Stop()
	if err := w.DeleteNode(t.Context(), gone.UUID); err != nil {
		t.Fatalf("delete while the store is down: %v", err)
	}
	w.clock.Advance(w.cfg.Inventories.removalDelay())
	w.removeGarbage(t.Context())
	if got := server.Objects(); len(got) != 2 {
		t.Fatalf("objects %q of a stopped server", got)
	}
	if err := w.Stop(t.Context()); err != nil { // and the engine is restarted meanwhile
		t.Fatal(err)
	}
	server.Resume()
	w.Conductor = w.start("conductor-1", keeping(InObjectStore, server.Bucket()))
	w.clock.Advance(garbageClaim) // the engine may have been stopped while it tried
	wantObjects(t, w, server, w.object(kept))
	w.eventually("the database to forget the object", func() bool { return w.objects() == 1 })
}

// objects counts the objects that the database knows.
func (w *world) objects() (count int) {
	w.t.Helper()
	w.read(func(tx *store.Tx) (err error) {
		count, err = tx.CountObjects()
		return err
	})
	return count
}

func TestRefusedRemovalIsTriedLessAndLessOften(t *testing.T) {
	w, server := inObjects(t)
	n := w.enrol(unknown(1))
	w.clock.Advance(w.cfg.Inventories.removalDelay())
	server.Hide(true)
	if err := w.Stop(t.Context()); err != nil { // from here on this test is the garbage loop
		t.Fatal(err)
	}
	if err := w.DeleteNode(t.Context(), n.UUID); err != nil {
		t.Fatal(err)
	}
	var waits []time.Duration
	for range 7 {
		w.removeGarbage(t.Context())
		var next time.Time
		w.read(func(tx *store.Tx) (err error) {
			next, _, err = tx.NextGarbage()
			return err
		})
		waits = append(waits, next.Sub(w.clock.Now()))
		w.clock.Advance(waits[len(waits)-1])
	}
	want := []time.Duration{2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute, 32 * time.Minute, time.Hour, time.Hour}
	if diff := cmp.Diff(want, waits); diff != "" {
		t.Errorf("waits (-want +got):\n%s", diff)
	}
	server.Hide(false)
	w.removeGarbage(t.Context())
	if got := server.Objects(); len(got) != 0 || w.objects() != 0 {
		t.Errorf("objects %q and %d known, want none", got, w.objects())
	}
}

// TestNoObjectIsLostOrLeftWhereverTheProcessDied ends the process before each
// commit of an inspection in turn. Then the work is resumed, or the node is deleted.
func TestNoObjectIsLostOrLeftWhereverTheProcessDied(t *testing.T) {
	server := objectstoretest.Start(t)
	for name, resume := range map[string]bool{"and is resumed": true, "and the node is deleted": false} {
		t.Run(name, func(t *testing.T) {
			deaths := map[int]int{} // by the number of objects there were
			for commits := 0; ; commits++ {
				objects, died := dieInspecting(t, server, commits, resume)
				if !died {
					break
				}
				deaths[objects]++
			}
			if deaths[0] == 0 || deaths[1] == 0 {
				t.Errorf("deaths by objects: %v, want some before the object was written and some after", deaths)
			}
		})
	}
}

// dieInspecting processes a post in a process that dies after some commits. It
// returns how many objects there were then, and whether the process did die.
func dieInspecting(t *testing.T, server *objectstoretest.Server, commits int, resume bool) (objects int, died bool) {
	t.Helper()
	w := emptyWorld(t)
	db := &crashing{Database: w.store}
	w.Conductor = w.idleOn(db, "conductor-1", keeping(InObjectStore, server.Bucket()))
	m := unknown(1)
	answer, err := send(t, w.Conductor, m)
	if err != nil {
		t.Fatal(err)
	}
	died = !db.run(t, w.Conductor, commits)
	objects = len(server.Objects())
	n := w.stored(answer.Node.UUID)
	w.clock.Advance(time.Minute) // the lease is over
	w.Conductor = w.idle("conductor-2", keeping(InObjectStore, server.Bucket()))
	if resume {
		w.run(w.Conductor)
		w.awaitWorkDone()
		w.wantInventory(n, m)
		wantObjects(t, w, server, w.object(n))
	}
	if err := w.DeleteNode(t.Context(), n.UUID); err != nil {
		t.Fatal(err)
	}
	w.removeGarbage(t.Context()) // sees what nobody kept
	w.clock.Advance(w.cfg.Inventories.removalDelay())
	w.removeGarbage(t.Context())
	w.eventually("the object to be removed", func() bool { return len(server.Objects()) == 0 && w.objects() == 0 })
	return objects, died
}

func TestLargeInventory(t *testing.T) {
	w, server := inObjects(t)
	m := unknown(1)
	n := w.enrol(m)
	m.padding = 10 << 20
	if n = w.inspectAgain(n, m); n.LastError != "" {
		t.Fatal(n.LastError)
	}
	w.wantInventory(n, m)
	w.clock.Advance(w.cfg.Inventories.removalDelay())
	wantObjects(t, w, server, w.object(n))
}

func TestInventoryWhoseObjectWasRemovedIsNotFound(t *testing.T) {
	w, server := inObjects(t)
	n := w.enrol(unknown(1))
	if err := server.Bucket().Delete(t.Context(), w.object(n)); err != nil {
		t.Fatal(err)
	}
	_, err := w.Inspection(t.Context(), n.UUID)
	wantIs(t, err, node.ErrNotFound)
}

func TestObjectThatIsNoInspectionResultIsNotShown(t *testing.T) {
	w, server := inObjects(t)
	n := w.enrol(unknown(1))
	for _, content := range []string{"", "x", "{}", `{"inventory":{}}`, "[]"} {
		if err := server.Bucket().Put(t.Context(), w.object(n), []byte(content)); err != nil {
			t.Fatal(err)
		}
		if data, err := w.Inspection(t.Context(), n.UUID); err == nil {
			t.Errorf("content %q: inventory %s", content, data.Inventory)
		}
	}
}

func TestHooksReadThePreviousInventoryFromTheObjectStore(t *testing.T) {
	server := objectstoretest.Start(t)
	w := emptyWorld(t)
	w.Conductor = w.idle("conductor-1", keeping(InObjectStore, server.Bucket()))
	hooks := inspect.DefaultConfig()
	hooks.Hooks = append(hooks.Hooks, "raid-device")
	pipeline, err := inspect.NewPipeline(hooks)
	if err != nil {
		t.Fatal(err)
	}
	w.pipeline = pipeline
	w.run(w.Conductor)
	m := unknown(1)
	n := w.enrol(m)
	in := &processing{node: n}
	w.read(func(tx *store.Tx) (err error) {
		in.input.Previous, in.previous, err = previousInventory(tx, n)
		return err
	})
	previous, err := w.fetchPrevious(t.Context(), in)
	if err != nil || previous == nil || !cmp.Equal(previous.MACs(), m.macs) {
		t.Fatalf("previous inventory = %+v, %v; want that of the machine", previous, err)
	}
	// An inspection goes on without one that somebody removed.
	if err := server.Bucket().Delete(t.Context(), w.object(n)); err != nil {
		t.Fatal(err)
	}
	n = w.inspectAgain(n, m)
	w.wantInventory(n, m)
}

// TestVerbDoesNotRunBesideTheHooksOfADiscoveredMachine has the hooks wait for the object store. The
// work of a verb, which decides the state too, would be taken for them.
func TestVerbDoesNotRunBesideTheHooksOfADiscoveredMachine(t *testing.T) {
	w, server := inObjects(t)
	other := w.enrol(unknown(2))
	server.Stop()
	answer, err := send(t, w.Conductor, unknown(1))
	if err != nil {
		t.Fatalf("post: %v", err)
	}
	n := w.stored(answer.Node.UUID)
	w.eventually("the hooks to wait", func() bool {
		return strings.HasPrefix(w.stored(n.UUID).LastError, "Inspection waits for the object store")
	})
	wantIs(t, w.try(n, "manage"), node.ErrLocked)
	server.Resume()
	w.eventually("the store to be noticed", func() bool {
		_, err := w.Inspection(t.Context(), other.UUID)
		return err == nil
	})
	w.endWaits(n)
	w.send(n, "manage")
	w.awaitWorkDone()
	if got := w.stored(n.UUID); got.ProvisionState != node.Manageable || got.Properties.Values()["cpu_arch"] != "x86_64" {
		t.Errorf("node is in %q with last_error %q and properties %v; want it manageable, and what the hooks found", got.ProvisionState, got.LastError, got.Properties)
	}
}

// TestDiscoveredNodeWhoseHooksWaitStaysBesideTheNodeThatTakesItsAddress: nobody would run the hooks for
// the other node.
func TestDiscoveredNodeWhoseHooksWaitStaysBesideTheNodeThatTakesItsAddress(t *testing.T) {
	w, server := inObjects(t)
	server.Stop()
	m := unknown(1)
	answer, err := send(t, w.Conductor, m)
	if err != nil {
		t.Fatalf("post: %v", err)
	}
	w.eventually("the hooks to wait", func() bool {
		return strings.HasPrefix(w.stored(answer.Node.UUID).LastError, "Inspection waits for the object store")
	})
	n := w.create("fake-hardware")
	w.addPort(n, m.macs[0])
	if got := w.stored(answer.Node.UUID); !node.IsAddressesTaken(got.LastError) || w.works() != 1 {
		t.Errorf("discovered node has last_error %q and %d pieces of work; want it without the address, and its hooks", got.LastError, w.works())
	}
	if got := w.stored(n.UUID); !got.InspectionStartedAt.IsZero() {
		t.Error("the other node got an inspection that nobody ends")
	}
}
