package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

var suspensionBehaviours = []behaviour{
	{"suspended work is not claimed, new work is", checkSuspendedWork},
	{"the end of a suspension frees its work and begins waits anew", checkEndOfSuspension},
	{"work under a lease goes on unless the database was restored", checkSuspensionAndLeases},
	{"work behind a call of a process that is gone is suspended, too", checkSuspensionAndCalls},
	{"a restore keeps nodes until the calls to their machines have ended", checkRestoreAndCalls},
	{"a suspension in force stays, unless the database was restored", checkSecondSuspension},
	{"epochs of before a restore are never granted again", checkEpochsAfterRestore},
	{"differences of power are noted once and listed", checkPowerDifferences},
}

func (e *env) suspend(reason node.SuspensionReason) (suspended []*store.Work, began bool) {
	e.t.Helper()
	e.write(func(tx *store.Tx) (err error) {
		suspended, began, err = tx.Suspend(reason, "of a test")
		return err
	})
	return suspended, began
}

func (e *env) suspension() (s node.Suspension) {
	e.t.Helper()
	e.read(func(tx *store.Tx) (err error) {
		s, err = tx.Suspension()
		return err
	})
	return s
}

// claimAll claims all that is due and returns its keys.
func (e *env) claimAll() (claimed []int64) {
	e.t.Helper()
	for _, w := range e.claim(here, 100) {
		claimed = append(claimed, w.ID)
	}
	return claimed
}

func checkSuspendedWork(t *testing.T, e *env) {
	if e.suspension().InForce() {
		t.Fatal("something is suspended in a new database")
	}
	old, other := e.createNode(), e.createNode()
	first, second := e.addWork(old, "test", time.Time{}), e.addWork(old, "test", time.Time{})
	suspended, began := e.suspend(node.Restored)
	if len(suspended) != 2 || !began || suspended[0].ID != first.ID || suspended[1].ID != second.ID || suspended[0].NodeUUID != old.UUID {
		t.Fatalf("suspended %v, began %v", suspended, began)
	}
	want := node.Suspension{Reason: node.Restored, Detail: "of a test", Since: e.clock.Now().UTC()}
	if diff := cmp.Diff(want, e.suspension()); diff != "" {
		t.Errorf("suspension (-want +got):\n%s", diff)
	}
	late, fresh := e.addWork(old, "test", time.Time{}), e.addWork(other, "test", time.Time{})
	e.clock.Advance(1000 * time.Hour)
	if claimed := e.claimAll(); len(claimed) != 1 || claimed[0] != fresh.ID {
		t.Errorf("claimed %v, want %d alone, and not %d", claimed, fresh.ID, late.ID)
	}
	if lease := e.node(old.UUID).Lease; !lease.Suspended() || !lease.InForce(e.clock.Now()) {
		t.Errorf("lease %+v", lease)
	}
	var suspendedError *node.SuspendedError
	err := e.refused(func(tx *store.Tx) error {
		_, err := tx.AcquireLease(old.ID, here, ttl)
		return err
	})
	if !errors.As(err, &suspendedError) || suspendedError.Node != old.UUID {
		t.Errorf("lease of a suspended node: %v", err)
	}
	e.read(func(tx *store.Tx) error {
		versions, err := tx.PowerVersions([]int64{old.ID})
		if versions[old.ID].Held {
			t.Error("the power of a suspended node may not be read")
		}
		return err
	})
}

func checkEndOfSuspension(t *testing.T, e *env) {
	waits := e.createNode(func(n *node.Node) { n.ProvisionState = node.CleanWait })
	idle := e.createNode(func(n *node.Node) { n.ProvisionState = node.CleanWait }) // without work
	w := e.addWork(waits, "test", time.Time{})
	e.suspend(node.MachinesDiffer)
	ended := e.clock.Advance(time.Hour).UTC()
	e.write(func(tx *store.Tx) error { return tx.EndSuspension() })
	if diff := cmp.Diff(node.Suspension{Ended: ended}, e.suspension()); diff != "" {
		t.Errorf("suspension (-want +got):\n%s", diff)
	}
	if got := e.node(waits.UUID); !got.ProvisionUpdatedAt.Equal(ended) || got.Lease != (node.Lease{}) {
		t.Errorf("the wait began at %v, lease %+v", got.ProvisionUpdatedAt, got.Lease)
	}
	if got := e.node(idle.UUID); !got.ProvisionUpdatedAt.IsZero() {
		t.Error("a node without suspended work was changed")
	}
	if claimed := e.claimAll(); len(claimed) != 1 || claimed[0] != w.ID {
		t.Errorf("claimed %v", claimed)
	}
	if _, began := e.suspend(node.MachinesDiffer); !began || !e.suspension().Ended.Equal(ended) {
		t.Error("no second suspension, or one that forgets the end of the first")
	}
}

func checkSuspensionAndLeases(t *testing.T, e *env) {
	n, late := e.createNode(), e.createNode()
	own, others := e.addWork(n, "test", time.Time{}), e.addWork(late, "test", time.Time{})
	lease := e.acquire(n, here)
	e.acquire(late, there)
	e.clock.Advance(ttl - time.Second)
	e.write(func(tx *store.Tx) error {
		_, err := tx.RenewLeases(here, []int64{lease.Epoch}, ttl)
		return err
	})
	e.clock.Advance(2 * time.Second)
	if suspended, _ := e.suspend(node.MachinesDiffer); len(suspended) != 1 || suspended[0].ID != others.ID {
		t.Errorf("suspended %v, want the work whose lease has run out", suspended)
	}
	if err := e.checkLease(n, lease); err != nil {
		t.Errorf("lease in force: %v", err)
	}
	if suspended, _ := e.suspend(node.Restored); len(suspended) != 2 || suspended[0].ID != own.ID {
		t.Errorf("suspended %v, want all", suspended)
	}
	wantIs(t, e.checkLease(n, lease), node.ErrLeaseLost)
}

func checkSuspensionAndCalls(t *testing.T, e *env) {
	const call = 15 * time.Second
	for name, tc := range map[string]struct {
		suspended time.Duration // how long
		end       func(*store.Tx, node.Lease) error
	}{
		"the call ends first":                      {suspended: 20 * time.Second, end: func(tx *store.Tx, _ node.Lease) error { return tx.EndSuspension() }},
		"the suspension ends first":                {suspended: 5 * time.Second, end: func(tx *store.Tx, _ node.Lease) error { return tx.EndSuspension() }},
		"the suspension of this work ends first":   {suspended: 5 * time.Second, end: (*store.Tx).EndLeaseKeepBusy},
		"the suspension ends in the call's moment": {suspended: call, end: func(tx *store.Tx, _ node.Lease) error { return tx.EndSuspension() }},
	} {
		n := e.createNode()
		w := e.addWork(n, "test", time.Time{})
		lease := e.acquire(n, here)
		e.setBusy(&lease, call)
		e.write(func(tx *store.Tx) error { return tx.EndLeasesKeepBusy(here) })
		if suspended, _ := e.suspend(node.MachinesDiffer); len(suspended) != 1 || suspended[0].ID != w.ID {
			t.Errorf("%s: suspended %v, want the work", name, suspended)
		}
		e.write(func(tx *store.Tx) error { return tx.EndLeaseAndBusy(lease) }) // of the process that is gone after all
		e.clock.Advance(tc.suspended)
		own := e.node(n.UUID).Lease
		if claimed := e.claimAll(); len(claimed) != 0 || !own.Suspended() || own.Epoch <= lease.Epoch {
			t.Errorf("%s: claimed %v under %+v, want nothing under a lease of its own", name, claimed, own)
		}
		versions := map[int64]store.NodeVersion{}
		e.read(func(tx *store.Tx) (err error) { versions, err = tx.PowerVersions([]int64{n.ID}); return err })
		if held := tc.suspended < call; versions[n.ID].Held != held || own.Busy(e.clock.Now()) != held {
			t.Errorf("%s: version %+v under %+v, want held %v", name, versions[n.ID], own, held)
		}
		e.write(func(tx *store.Tx) error { return tc.end(tx, own) })
		if left := call - tc.suspended; left > 0 {
			if claimed, own := e.claimAll(), e.node(n.UUID).Lease; len(claimed) != 0 || own.Suspended() || !own.InForce(e.clock.Now()) {
				t.Errorf("%s: claimed %v under %+v, want nothing until the call has ended", name, claimed, own)
			}
			e.clock.Advance(left)
		}
		if claimed := e.claimAll(); len(claimed) != 1 || claimed[0] != w.ID {
			t.Errorf("%s: claimed %v, want the work", name, claimed)
		}
		e.write(func(tx *store.Tx) error {
			return errors.Join(tx.EndSuspension(), tx.FinishWork(w), tx.EndLeasesKeepBusy(here))
		})
	}
}

func checkRestoreAndCalls(t *testing.T, e *env) {
	const call = 15 * time.Second
	called, idle, other := e.createNode(), e.createNode(), e.createNode()
	w, free := e.addWork(called, "test", time.Time{}), e.addWork(other, "test", time.Time{})
	for _, n := range []*node.Node{called, idle} {
		lease := e.acquire(n, here)
		e.setBusy(&lease, call)
	}
	if suspended, _ := e.suspend(node.Restored); len(suspended) != 2 || suspended[0].ID != w.ID {
		t.Errorf("suspended %v, want all work", suspended)
	}
	e.write(func(tx *store.Tx) error { return tx.EndSuspension() })
	e.wantLocked(called)
	e.wantLocked(idle)
	if claimed := e.claimAll(); len(claimed) != 1 || claimed[0] != free.ID {
		t.Errorf("claimed %v, want the work of the machine that nobody calls", claimed)
	}
	e.clock.Advance(call)
	if claimed := e.claimAll(); len(claimed) != 1 || claimed[0] != w.ID {
		t.Errorf("claimed %v, want the work whose call has ended", claimed)
	}
}

func checkSecondSuspension(t *testing.T, e *env) {
	e.suspend(node.MachinesDiffer)
	if _, began := e.suspend(node.MachinesDiffer); began {
		t.Error("what is suspended was suspended again")
	}
	if _, began := e.suspend(node.Restored); !began || e.suspension().Reason != node.Restored {
		t.Error("a restore was not noticed")
	}
	if _, began := e.suspend(node.MachinesDiffer); began || e.suspension().Reason != node.Restored {
		t.Error("another reason replaced the restore")
	}
}

func checkEpochsAfterRestore(t *testing.T, e *env) {
	n := e.createNode()
	before := e.acquire(n, here)
	e.suspend(node.Restored)
	e.write(func(tx *store.Tx) error { return tx.EndSuspension() })
	if after := e.acquire(n, here); after.Epoch <= before.Epoch || after.Epoch < e.clock.Now().UnixMilli() {
		t.Errorf("epoch %d after the restore, %d before", after.Epoch, before.Epoch)
	}
}

func checkPowerDifferences(t *testing.T, e *env) {
	works := e.createNode(func(n *node.Node) { n.Name = "works" })
	both := e.createNode(func(n *node.Node) { n.PowerState = node.PowerOff })
	e.createNode()
	e.addWork(works, "test", time.Time{})
	e.addWork(both, "test", time.Time{})
	e.addWork(both, "test", time.Time{})
	e.suspend(node.MachinesDiffer)
	note := func() (news bool) {
		e.write(func(tx *store.Tx) (err error) {
			news, err = tx.NotePowerDifference(both.ID, node.PowerOn)
			return err
		})
		return news
	}
	if !note() || note() {
		t.Error("a difference is news when it is not, or is not when it is")
	}
	e.read(func(tx *store.Tx) error {
		nodes, err := tx.SuspendedNodes()
		want := []*node.SuspendedNode{
			{UUID: works.UUID, Name: "works", ProvisionState: node.Enroll, Work: []string{"test"}},
			{
				UUID: both.UUID, ProvisionState: node.Enroll, PowerState: node.PowerOff, Work: []string{"test", "test"},
				Observed: node.PowerOn, ObservedAt: e.clock.Now().UTC(),
			},
		}
		if diff := cmp.Diff(want, nodes); diff != "" {
			t.Errorf("nodes (-want +got):\n%s", diff)
		}
		works, differ, countErr := tx.CountSuspended()
		if works != 2 || differ != 1 {
			t.Errorf("counted %d and %d", works, differ)
		}
		return errors.Join(err, countErr)
	})
	e.write(func(tx *store.Tx) error { return tx.DropPowerDifference(both.ID) })
	if !note() {
		t.Error("a difference that was over is no news")
	}
	e.write(func(tx *store.Tx) error { return tx.EndSuspension() })
	e.read(func(tx *store.Tx) error {
		works, differ, err := tx.CountSuspended()
		if works != 0 || differ != 0 {
			t.Errorf("counted %d and %d after the end", works, differ)
		}
		return err
	})
}
