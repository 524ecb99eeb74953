package storetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

var workBehaviours = []behaviour{
	{"claimed work reads back as it was stored, with a lease", checkWorkRoundTrip},
	{"work is claimed in the order it is due", checkWorkOrder},
	{"one node's pieces of work are never done at once", checkWorkOneAtATime},
	{"work of a leased node waits, work of an expired lease is taken over", checkWorkTakenOver},
	{"postponed work comes back later and counts", checkPostponeWork},
	{"the next due time follows work and leases", checkNextDue},
	{"finished work is gone", checkFinishWork},
	{"ended work gives its node back", checkEndWork},
	{"work is free again however its lease ends", checkWorkFreed},
	{"leases that ran out are removed", checkExpiredLeases},
	{"work outside a scope is neither claimed nor due", checkWorkScope},
	{"leases of others that ran out can be kept", checkKeptLeases},
	{"a lease in use outlives its end for its holder alone", checkLeasesInUse},
}

func (e *env) addWork(n *node.Node, kind store.WorkKind, notBefore time.Time) *store.Work {
	e.t.Helper()
	w := &store.Work{NodeID: n.ID, Kind: kind, NotBefore: notBefore}
	e.write(func(tx *store.Tx) error { return tx.AddWork(w) })
	return w
}

func (e *env) claim(owner string, limit int) []*store.Work {
	e.t.Helper()
	var claimed []*store.Work
	e.write(func(tx *store.Tx) (err error) {
		claimed, err = tx.ClaimWork(owner, ttl, limit, store.WorkScope{})
		return err
	})
	return claimed
}

func kinds(work []*store.Work) []store.WorkKind {
	all := []store.WorkKind{}
	for _, w := range work {
		all = append(all, w.Kind)
	}
	return all
}

func (e *env) nextDue() (at time.Time, ok bool) {
	e.t.Helper()
	e.read(func(tx *store.Tx) (err error) {
		at, ok, err = tx.NextDue(store.WorkScope{})
		return err
	})
	return at, ok
}

// sameObject takes the two forms of the empty object as equal.
var sameObject = cmp.Comparer(func(a, b node.Object) bool { return a.String() == b.String() })

func checkWorkRoundTrip(t *testing.T, e *env) {
	n := e.createNode()
	want := &store.Work{NodeID: n.ID, NodeUUID: n.UUID, Kind: "inspect", Checkpoint: "hooks", Intent: node.ObjectOf(map[string]any{"document": 7}), Attempts: 2, NotBefore: e.clock.Now()}
	plain := e.createNode()
	bare := &store.Work{NodeID: plain.ID, NodeUUID: plain.UUID, Kind: "verify"}
	e.write(func(tx *store.Tx) error { return errors.Join(tx.AddWork(want), tx.AddWork(bare)) })
	got := e.claim(here, 10)
	if len(got) != 2 {
		t.Fatalf("claimed %v, want both", kinds(got))
	}
	for i, stored := range []*store.Work{want, bare} {
		stored.Lease = got[i].Lease
		if diff := cmp.Diff(stored, got[i], sameObject); diff != "" {
			t.Errorf("work (-stored +claimed):\n%s", diff)
		}
		if err := e.checkLease(&node.Node{ID: stored.NodeID}, got[i].Lease); err != nil || got[i].Lease.Holder != here {
			t.Errorf("lease %+v: %v, want one in force for the claimer", got[i].Lease, err)
		}
	}
}

func checkWorkOrder(t *testing.T, e *env) {
	now := e.clock.Now()
	e.addWork(e.createNode(), "third", now.Add(2*time.Second))
	e.addWork(e.createNode(), "first", now)
	e.addWork(e.createNode(), "second", now)
	e.addWork(e.createNode(), "later", now.Add(time.Minute))
	e.clock.Advance(2 * time.Second)
	if got, want := kinds(e.claim(here, 2)), []store.WorkKind{"first", "second"}; !slices.Equal(got, want) {
		t.Errorf("claimed %v, want %v", got, want)
	}
	if got, want := kinds(e.claim(there, 2)), []store.WorkKind{"third"}; !slices.Equal(got, want) {
		t.Errorf("claimed %v, want %v", got, want)
	}
	if got := e.claim(here, 2); len(got) != 0 {
		t.Errorf("claimed %v, want nothing", kinds(got))
	}
}

func checkWorkOneAtATime(t *testing.T, e *env) {
	n, other := e.createNode(), e.createNode()
	e.addWork(n, "first", time.Time{})
	e.addWork(n, "second", time.Time{})
	e.addWork(other, "third", time.Time{})
	claimed := e.claim(here, 10)
	if got, want := kinds(claimed), []store.WorkKind{"first", "third"}; !slices.Equal(got, want) {
		t.Fatalf("claimed %v, want %v", got, want)
	}
	if got := e.claim(there, 10); len(got) != 0 {
		t.Errorf("claimed %v while the node is worked on", kinds(got))
	}
	e.write(func(tx *store.Tx) error {
		return errors.Join(tx.FinishWork(claimed[0]), tx.EndLeaseKeepBusy(claimed[0].Lease))
	})
	if got, want := kinds(e.claim(there, 10)), []store.WorkKind{"second"}; !slices.Equal(got, want) {
		t.Errorf("claimed %v, want %v", got, want)
	}
}

func checkWorkTakenOver(t *testing.T, e *env) {
	n := e.createNode()
	e.addWork(n, "verify", time.Time{})
	old := e.claim(here, 1)[0]
	e.clock.Advance(ttl - time.Microsecond)
	if got := e.claim(there, 1); len(got) != 0 {
		t.Fatalf("claimed %v under a lease in force", kinds(got))
	}
	e.clock.Advance(time.Microsecond)
	taken := e.claim(there, 1)
	if len(taken) != 1 || taken[0].ID != old.ID || taken[0].Lease.Holder != there {
		t.Fatalf("claimed %+v, want the work of the silent conductor", taken)
	}
	e.wantLost(n, old.Lease)
	e.wantLease(n, taken[0].Lease)
}

func checkPostponeWork(t *testing.T, e *env) {
	n := e.createNode()
	e.addWork(n, "verify", time.Time{})
	for attempt := 1; attempt <= 2; attempt++ {
		w := e.claim(here, 1)[0]
		due := e.clock.Now().Add(time.Minute)
		w.Attempts, w.NotBefore = w.Attempts+1, due
		e.write(func(tx *store.Tx) error { return errors.Join(tx.CheckpointWork(w), tx.EndLeaseKeepBusy(w.Lease)) })
		if got := e.claim(here, 1); len(got) != 0 {
			t.Fatalf("claimed %v before it is due", kinds(got))
		}
		if at, ok := e.nextDue(); !ok || !at.Equal(due) {
			t.Errorf("next due = %v, %v; want %v", at, ok, due)
		}
		e.clock.Advance(time.Minute)
		e.read(func(tx *store.Tx) error {
			_, err := tx.CountWork()
			return err
		})
		if w.Attempts != attempt {
			t.Errorf("attempts = %d, want %d", w.Attempts, attempt)
		}
	}
	if got := e.claim(here, 1); len(got) != 1 || got[0].Attempts != 2 {
		t.Errorf("claimed %+v, want the work with two attempts", got)
	}
}

func checkNextDue(t *testing.T, e *env) {
	if at, ok := e.nextDue(); ok {
		t.Errorf("next due = %v without work", at)
	}
	now := e.clock.Now()
	n := e.createNode()
	e.addWork(n, "later", now.Add(time.Hour))
	e.addWork(n, "sooner", now.Add(time.Second))
	if at, ok := e.nextDue(); !ok || !at.Equal(now.Add(time.Second)) {
		t.Errorf("next due = %v, want the sooner work's time", at)
	}
	lease := e.acquire(n, here)
	if at, ok := e.nextDue(); !ok || !at.Equal(lease.ExpiresAt) {
		t.Errorf("next due = %v, want the end of the lease at %v", at, lease.ExpiresAt)
	}
	e.addWork(e.createNode(), "free", time.Time{})
	if at, ok := e.nextDue(); !ok || !at.Equal(now) {
		t.Errorf("next due = %v, want now: the other node is free", at)
	}
}

func checkFinishWork(t *testing.T, e *env) {
	n := e.createNode()
	first, second := e.addWork(n, "first", time.Time{}), e.addWork(n, "second", time.Time{})
	if first.ID == second.ID || first.ID == 0 {
		t.Errorf("keys %d and %d, want two", first.ID, second.ID)
	}
	e.write(func(tx *store.Tx) error { return tx.FinishWork(first) })
	var left int
	e.read(func(tx *store.Tx) (err error) {
		left, err = tx.CountWork()
		return err
	})
	if got := kinds(e.claim(here, 5)); left != 1 || !slices.Equal(got, []store.WorkKind{"second"}) {
		t.Errorf("%d left, claimed %v; want the second alone", left, got)
	}
}

func checkEndWork(t *testing.T, e *env) {
	for name, lost := range map[string]bool{"under its lease": false, "after its lease": true} {
		n := e.createNode()
		first, second := e.addWork(n, "first", time.Time{}), e.addWork(n, "second", time.Time{})
		claimed := e.claim(here, 5)
		if len(claimed) != 1 || claimed[0].ID != first.ID {
			t.Fatalf("%s: claimed %v, want the first work", name, kinds(claimed))
		}
		lease := claimed[0].Lease
		e.write(func(tx *store.Tx) error { return tx.SetBusy(&lease, tx.Now().Add(ttl), 0) })
		if lost { // the call keeps others from the node
			e.write(func(tx *store.Tx) error { return tx.EndLeasesKeepBusy(here) })
		}
		e.write(func(tx *store.Tx) error { return tx.EndWork(claimed[0]) }) // the call has returned
		again := e.claim(there, 5)
		if len(again) != 1 || again[0].ID != second.ID {
			t.Errorf("%s: claimed %v by another conductor, want the second work", name, kinds(again))
		}
	}
}

func checkWorkScope(t *testing.T, e *env) {
	grouped := func(group string) *node.Node {
		return e.createNode(func(n *node.Node) { n.ConductorGroup = group })
	}
	now := e.clock.Now()
	e.addWork(grouped("row1"), "verify", now)
	e.addWork(grouped("row2"), "verify", now.Add(time.Second))
	e.addWork(grouped(""), "polish", now.Add(2*time.Second))
	e.addWork(grouped(""), "verify", now.Add(3*time.Second))
	scope := store.WorkScope{NotGroups: []string{"row1", "row3"}, Kinds: []store.WorkKind{"verify", "inspect"}}
	var at time.Time
	e.read(func(tx *store.Tx) (err error) {
		at, _, err = tx.NextDue(scope)
		return err
	})
	if !at.Equal(now.Add(time.Second)) {
		t.Errorf("next due = %v, want the work of row2", at)
	}
	e.clock.Advance(time.Minute)
	var claimed []*store.Work
	e.write(func(tx *store.Tx) (err error) {
		claimed, err = tx.ClaimWork(here, ttl, 2, scope) // as many as there are within it
		return err
	})
	if got := kinds(claimed); !slices.Equal(got, []store.WorkKind{"verify", "verify"}) {
		t.Errorf("claimed %v, want the two within the scope, though others were due before", got)
	}
	e.write(func(tx *store.Tx) (err error) {
		claimed, err = tx.ClaimWork(here, ttl, 2, store.WorkScope{Kinds: []store.WorkKind{"polish"}})
		return err
	})
	if got := kinds(claimed); !slices.Equal(got, []store.WorkKind{"polish"}) {
		t.Errorf("claimed %v, want the only one of that kind, though another was due before", got)
	}
}

func checkWorkFreed(t *testing.T, e *env) {
	for name, end := range map[string]func(lease node.Lease){
		"released": func(lease node.Lease) { e.write(func(tx *store.Tx) error { return tx.EndLeaseKeepBusy(lease) }) },
		"dropped":  func(node.Lease) { e.write(func(tx *store.Tx) error { return tx.EndLeasesKeepBusy(here) }) },
		"ran out":  func(node.Lease) { e.clock.Advance(ttl) },
	} {
		before, after := e.createNode(), e.createNode()
		first := e.addWork(before, "added before", time.Time{})
		leases := []node.Lease{e.acquire(before, here), e.acquire(after, here)}
		second := e.addWork(after, "added after", time.Time{})
		if got := e.claim(there, 5); len(got) != 0 {
			t.Errorf("%s: claimed %v under a lease", name, kinds(got))
		}
		for _, lease := range leases {
			end(lease)
		}
		claimed := e.claim(there, 5)
		if len(claimed) != 2 || claimed[0].ID != first.ID || claimed[1].ID != second.ID {
			t.Errorf("%s: claimed %v, want both", name, kinds(claimed))
		}
		for _, w := range claimed {
			e.write(func(tx *store.Tx) error { return errors.Join(tx.FinishWork(w), tx.EndLeaseKeepBusy(w.Lease)) })
		}
	}
}

func checkExpiredLeases(t *testing.T, e *env) {
	n := e.createNode()
	e.acquire(n, here)
	e.clock.Advance(ttl)
	if at, ok := e.nextDue(); !ok || at.After(e.clock.Now()) {
		t.Errorf("next due = %v, %v; want the end of the lease", at, ok)
	}
	e.claim(there, 1)
	if at, ok := e.nextDue(); ok {
		t.Errorf("next due = %v although nothing is left to wait for", at)
	}
	if got := e.node(n.UUID).Lease; got != (node.Lease{}) {
		t.Errorf("lease = %+v, want none", got)
	}
}

func checkKeptLeases(t *testing.T, e *env) {
	others, own := e.createNode(), e.createNode()
	w, free := e.addWork(others, "test", time.Time{}), e.addWork(own, "test", time.Time{})
	e.acquire(others, there)
	e.acquire(own, here)
	e.clock.Advance(ttl)
	keep := store.WorkScope{KeepExpired: true}
	var claimed []*store.Work
	e.write(func(tx *store.Tx) (err error) {
		claimed, err = tx.ClaimWork(here, ttl, 100, keep)
		return err
	})
	if len(claimed) != 1 || claimed[0].ID != free.ID {
		t.Errorf("claimed %v, want the work under a lease of one's own", claimed)
	}
	e.write(func(tx *store.Tx) error { return tx.EndLeaseAndBusy(claimed[0].Lease) })
	e.write(func(tx *store.Tx) error { return tx.FinishWork(free) })
	e.read(func(tx *store.Tx) error {
		at, due, err := tx.NextDue(keep)
		if due {
			t.Errorf("due at %v, want nothing", at)
		}
		return err
	})
	if claimed := e.claimAll(); len(claimed) != 1 || claimed[0] != w.ID {
		t.Errorf("claimed %v, want the work whose lease is not kept", claimed)
	}
}

func checkLeasesInUse(t *testing.T, e *env) {
	held, other := e.createNode(), e.createNode()
	own := e.addWork(held, "test", time.Time{})
	lease, later := e.claim(here, 1)[0].Lease, e.acquire(other, there)
	scope := store.WorkScope{InUse: []int64{lease.Epoch + 1000, lease.Epoch}}
	due := func() (at time.Time, ok bool) {
		e.read(func(tx *store.Tx) (err error) {
			at, ok, err = tx.NextDue(scope)
			return err
		})
		return at, ok
	}
	if at, ok := due(); !ok || !at.Equal(lease.ExpiresAt) {
		t.Errorf("next due = %v, %v; want the ends of the leases", at, ok)
	}
	e.clock.Advance(ttl)
	claim := func() (claimed []*store.Work) {
		e.write(func(tx *store.Tx) (err error) {
			claimed, err = tx.ClaimWork(here, ttl, 5, scope)
			return err
		})
		return claimed
	}
	if got := claim(); len(got) != 0 {
		t.Errorf("claimed %v under a lease that is held", kinds(got))
	}
	if at, ok := due(); ok {
		t.Errorf("next due = %v although the lease of others is over and the other one is held", at)
	}
	if got := e.node(held.UUID).Lease; got != lease {
		t.Errorf("held lease = %+v, want %+v", got, lease)
	}
	e.wantLost(other, later)
	if got := e.claim(there, 5); len(got) != 1 || got[0].ID != own.ID {
		t.Errorf("others claimed %v, want the work", kinds(got))
	}
}
