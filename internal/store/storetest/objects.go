package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

var objectBehaviours = []behaviour{
	{"an object is reserved once for a document", checkReserveObject},
	{"an object that is kept takes the place of every other result", checkKeepObject},
	{"a result in the database is asked for first", checkObjectBesideResult},
	{"an object that was never kept is garbage after a grace", checkUnkeptGarbage},
	{"objects outlive their node until they are removed", checkGarbageOfDeletedNode},
	{"garbage is handed to one caller at a time", checkClaimGarbage},
}

// Times of garbage in these checks.
const (
	garbageHold  = time.Minute
	garbageGrace = 10 * time.Minute
)

func (e *env) reserve(n *node.Node, document int64, key string) (reserved string) {
	e.t.Helper()
	e.write(func(tx *store.Tx) (err error) {
		reserved, err = tx.ReserveObject(n.ID, document, key)
		return err
	})
	return reserved
}

// keep stores a document of a node and makes an object its result, which may be
// removed at once when it is garbage.
func (e *env) keep(n *node.Node, key string) (documentID int64) {
	e.t.Helper()
	documentID = e.addDocument(n, document("{}", "{}"))
	e.reserve(n, documentID, key)
	e.write(func(tx *store.Tx) error { return tx.KeepObject(n.ID, documentID, tx.Now()) })
	return documentID
}

// object returns the key of the node's result, "" when it has none.
func (e *env) object(n *node.Node) (key string) {
	e.t.Helper()
	e.read(func(tx *store.Tx) error {
		found, err := tx.InspectionObject(n)
		if key = found; err != nil {
			wantIs(e.t, err, node.ErrNotFound)
		}
		return nil
	})
	return key
}

// garbage claims what is due and returns the keys.
func (e *env) garbage() []string {
	e.t.Helper()
	var keys []string
	e.write(func(tx *store.Tx) error {
		keys = nil
		claimed, err := tx.ClaimGarbage(100, garbageHold, garbageGrace)
		for _, g := range claimed {
			keys = append(keys, g.Key)
		}
		return err
	})
	return keys
}

func (e *env) wantGarbage(want ...string) {
	e.t.Helper()
	if diff := cmp.Diff(want, e.garbage()); diff != "" {
		e.t.Errorf("garbage (-want +got):\n%s", diff)
	}
}

func checkReserveObject(t *testing.T, e *env) {
	n := e.createNode()
	id := e.addDocument(n, document("{}", "{}"))
	for _, key := range []string{"first", "second"} {
		if got := e.reserve(n, id, key); got != "first" {
			t.Errorf("reserved %q, want the first key again", got)
		}
	}
	if got := e.object(n); got != "" {
		t.Errorf("result %q of an object that was never kept", got)
	}
}

func checkKeepObject(t *testing.T, e *env) {
	n, other := e.createNode(), e.createNode()
	e.keep(other, "other")
	e.finishInspection(n, e.addDocument(n, document("{}", "{}")), "{}")
	first := e.keep(n, "first")
	wantIs(t, e.store.Read(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Inspection(n)
		return err
	}), node.ErrNotFound)
	wantIs(t, e.store.Read(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Document(first)
		return err
	}), node.ErrNotFound)
	e.wantGarbage()
	e.keep(n, "second")
	if got := e.object(n); got != "second" {
		t.Errorf("result %q, want the newer", got)
	}
	e.wantGarbage("first")
	if got := e.object(other); got != "other" {
		t.Errorf("result %q of another node", got)
	}
}

func checkObjectBesideResult(t *testing.T, e *env) {
	n := e.createNode()
	e.keep(n, "object")
	e.finishInspection(n, e.addDocument(n, document(`{"newer":1}`, "{}")), "{}")
	e.wantInspection(n, document(`{"newer":1}`, "{}"))
	e.write(func(tx *store.Tx) error { return tx.ReleaseObjects(n.ID) })
	if got := e.object(n); got != "" {
		t.Errorf("result %q after its release", got)
	}
	e.wantGarbage("object")
}

func checkUnkeptGarbage(_ *testing.T, e *env) {
	n := e.createNode()
	e.keep(n, "kept")
	e.reserve(n, e.addDocument(n, document("{}", "{}")), "failed")
	e.wantGarbage()
	e.reserve(n, e.addDocument(n, document("{}", "{}")), "tried again")
	e.wantGarbage()
	e.clock.Advance(garbageGrace - time.Microsecond)
	e.wantGarbage()
	e.clock.Advance(time.Microsecond)
	e.wantGarbage("failed")
}

func checkGarbageOfDeletedNode(t *testing.T, e *env) {
	n := e.createNode()
	e.keep(n, "kept")
	e.reserve(n, e.addDocument(n, document("{}", "{}")), "reserved")
	e.write(func(tx *store.Tx) error { return tx.DeleteNode(n) })
	e.wantGarbage("kept")
	e.clock.Advance(garbageGrace)
	e.wantGarbage("kept", "reserved")
	e.read(func(tx *store.Tx) error {
		count, err := tx.CountObjects()
		if count != 2 {
			t.Errorf("%d objects, want both until they are removed", count)
		}
		return err
	})
}

func checkClaimGarbage(t *testing.T, e *env) {
	n := e.createNode()
	e.keep(n, "object")
	due := func() (at time.Time, ok bool) {
		e.read(func(tx *store.Tx) (err error) {
			at, ok, err = tx.NextGarbage()
			return err
		})
		return at, ok
	}
	if at, ok := due(); ok {
		t.Errorf("garbage is due at %v, want none", at)
	}
	e.write(func(tx *store.Tx) error { return tx.DeleteNode(n) })
	if at, ok := due(); !ok || at.After(e.clock.Now()) {
		t.Errorf("garbage is due at %v, %t; want now", at, ok)
	}
	e.wantGarbage("object")
	e.wantGarbage()
	if at, ok := due(); !ok || !at.Equal(e.clock.Now().Add(garbageHold)) {
		t.Errorf("claimed garbage is due at %v, %t; want it when the claim has passed", at, ok)
	}
	e.clock.Advance(garbageHold)
	var claimed []store.Garbage
	e.write(func(tx *store.Tx) (err error) {
		claimed, err = tx.ClaimGarbage(100, garbageHold, garbageGrace)
		return err
	})
	if len(claimed) != 1 || claimed[0].Attempts != 0 {
		t.Fatalf("claimed %+v, want the object that nobody has removed", claimed)
	}
	claimed[0].Attempts++
	e.write(func(tx *store.Tx) error { return tx.PostponeGarbage(claimed[0], time.Hour) })
	e.clock.Advance(time.Hour)
	e.write(func(tx *store.Tx) (err error) {
		claimed, err = tx.ClaimGarbage(100, garbageHold, garbageGrace)
		return err
	})
	if len(claimed) != 1 || claimed[0].Attempts != 1 {
		t.Fatalf("claimed %+v, want the refusal counted", claimed)
	}
	e.write(func(tx *store.Tx) error { return tx.DropGarbage(claimed[0].ID) })
	if at, ok := due(); ok {
		t.Errorf("garbage is due at %v, want it forgotten", at)
	}
}
