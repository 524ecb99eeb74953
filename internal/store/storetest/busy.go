package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

var busyBehaviours = []behaviour{
	{"a busy lease reads back and lasts longer than the call", checkBusyReadsBack},
	{"a lease can begin busy", checkLeaseBeginsBusy},
	{"renewing does not shorten a lease that is longer because it is busy", checkBusyOutlastsRenewal},
	{"a lease that is over cannot become busy", checkBusyNeedsLease},
	{"a node of a dropped lease is free when its call has ended", checkBusyAfterDrop},
	{"a node of a released lease is free when its call has ended", checkBusyAfterRelease},
	{"work of a node waits for a call of the conductor before", checkBusyKeepsWork},
	{"the end of the call frees the node of a lease that is over", checkEndBusy},
}

// margin is how much longer a lease lasts than it is busy.
const margin = 5 * time.Second

func (e *env) setBusy(lease *node.Lease, within time.Duration) {
	e.t.Helper()
	e.write(func(tx *store.Tx) error { return tx.SetBusy(lease, tx.Now().Add(within), margin) })
}

// wantLocked ends the test unless nobody gets the node.
func (e *env) wantLocked(n *node.Node) {
	e.t.Helper()
	for _, owner := range []string{here, there} {
		wantIs(e.t, e.refused(func(tx *store.Tx) error {
			_, err := tx.AcquireLease(n.ID, owner, ttl)
			return err
		}), node.ErrLocked)
	}
	if got := e.node(n.UUID).Lease; !got.InForce(e.clock.Now()) {
		e.t.Errorf("lease %+v is not in force", got)
	}
}

func checkBusyReadsBack(t *testing.T, e *env) {
	n := e.createNode()
	lease := e.acquire(n, here)
	granted := lease
	e.setBusy(&lease, time.Second)
	if want := e.clock.Now().Add(time.Second); !lease.ExpiresAt.Equal(granted.ExpiresAt) || !lease.BusyUntil.Equal(want) {
		t.Errorf("lease that is busy for a short time = %+v, want it busy until %v and as long as before", lease, want)
	}
	e.setBusy(&lease, 2*ttl)
	busy := e.clock.Now().Add(2 * ttl)
	if want := (node.Lease{Holder: here, Epoch: granted.Epoch, ExpiresAt: busy.Add(margin), BusyUntil: busy}); lease != want {
		t.Errorf("lease that is busy for a long time = %+v, want %+v", lease, want)
	}
	if got := e.node(n.UUID).Lease; got != lease {
		t.Errorf("lease of the node = %+v, want %+v", got, lease)
	}
	e.clock.Advance(2*ttl + margin - time.Microsecond)
	e.wantLease(n, lease)
	e.clock.Advance(time.Microsecond)
	e.wantLost(n, lease)
	e.acquire(n, there)
}

func checkLeaseBeginsBusy(t *testing.T, e *env) {
	for _, within := range []time.Duration{time.Second, 2 * ttl} {
		n := e.createNode()
		var lease node.Lease
		e.write(func(tx *store.Tx) (err error) {
			lease, err = tx.AcquireBusyLease(n.ID, here, ttl, within, margin)
			return err
		})
		now := e.clock.Now()
		want := node.Lease{Holder: here, Epoch: lease.Epoch, ExpiresAt: now.Add(max(ttl, within+margin)), BusyUntil: now.Add(within)}
		if lease != want {
			t.Errorf("lease that is busy for %v = %+v, want %+v", within, lease, want)
		}
		if got := e.node(n.UUID).Lease; got != want {
			t.Errorf("lease of the node = %+v, want %+v", got, want)
		}
		e.wantLocked(n)
	}
}

func checkBusyOutlastsRenewal(t *testing.T, e *env) {
	n := e.createNode()
	lease := e.acquire(n, here)
	e.setBusy(&lease, 2*ttl)
	if lost := e.renew(here, []int64{lease.Epoch}); len(lost) > 0 {
		t.Errorf("lost %v, want nothing", lost)
	}
	if got := e.node(n.UUID).Lease; got != lease {
		t.Errorf("renewed lease = %+v, want %+v", got, lease)
	}
}

func checkBusyNeedsLease(t *testing.T, e *env) {
	n := e.createNode()
	expired := e.acquire(n, here)
	e.clock.Advance(ttl)
	before := expired
	wantIs(t, e.refused(func(tx *store.Tx) error { return tx.SetBusy(&expired, tx.Now().Add(ttl), 0) }), node.ErrLeaseLost)
	if expired != before {
		t.Errorf("lease = %+v after the refusal, want %+v", expired, before)
	}
	taken := e.acquire(n, there)
	wantIs(t, e.refused(func(tx *store.Tx) error { return tx.SetBusy(&expired, tx.Now().Add(ttl), 0) }), node.ErrLeaseLost)
	if got := e.node(n.UUID).Lease; got != taken {
		t.Errorf("lease = %+v, want %+v", got, taken)
	}
}

func checkBusyAfterDrop(t *testing.T, e *env) {
	n := e.createNode()
	lease := e.acquire(n, here)
	e.setBusy(&lease, time.Minute)
	for range 2 { // a conductor may start twice meanwhile
		e.write(func(tx *store.Tx) error { return tx.EndLeasesKeepBusy(here) })
		e.wantLost(n, lease)
		e.wantLocked(n)
	}
	if lost := e.renew(here, []int64{lease.Epoch}); len(lost) != 1 {
		t.Errorf("lost %v, want the dropped lease", lost)
	}
	e.clock.Advance(time.Minute - time.Microsecond)
	e.wantLocked(n)
	e.clock.Advance(time.Microsecond)
	if taken := e.acquire(n, there); taken.Epoch <= lease.Epoch {
		t.Errorf("epoch %d after %d, want it to grow", taken.Epoch, lease.Epoch)
	}
}

func checkBusyAfterRelease(_ *testing.T, e *env) {
	n := e.createNode()
	lease := e.acquire(n, here)
	e.setBusy(&lease, time.Minute)
	e.write(func(tx *store.Tx) error { return tx.EndLeaseKeepBusy(lease) })
	e.wantLost(n, lease)
	e.wantLocked(n)
	e.clock.Advance(time.Minute)
	e.wantLease(n, e.acquire(n, there))
}

func checkBusyKeepsWork(t *testing.T, e *env) {
	n := e.createNode()
	e.addWork(n, "verify", time.Time{})
	lease := e.claim(here, 1)[0].Lease
	e.setBusy(&lease, time.Minute)
	e.write(func(tx *store.Tx) error { return tx.EndLeasesKeepBusy(here) })
	if got := e.claim(there, 1); len(got) != 0 {
		t.Errorf("claimed %v while a call may be on its way", kinds(got))
	}
	if at, ok := e.nextDue(); !ok || !at.Equal(lease.BusyUntil) {
		t.Errorf("next due = %v, %v; want the end of the call at %v", at, ok, lease.BusyUntil)
	}
	e.clock.Advance(time.Minute)
	if got := e.claim(there, 1); len(got) != 1 {
		t.Errorf("claimed %v after the end of the call, want the work", kinds(got))
	}
}

func checkEndBusy(t *testing.T, e *env) {
	n, other := e.createNode(), e.createNode()
	lease, dropped := e.acquire(n, here), e.acquire(other, there)
	e.setBusy(&lease, time.Minute)
	e.setBusy(&dropped, time.Minute)
	e.write(func(tx *store.Tx) error {
		return errors.Join(tx.EndLeasesKeepBusy(there), tx.EndBusy(&lease), tx.EndBusy(&dropped))
	})
	if got := e.node(n.UUID).Lease; got != lease || !lease.BusyUntil.IsZero() {
		t.Errorf("lease = %+v, %+v when read, want it not busy", lease, got)
	}
	e.wantLease(n, lease)
	e.acquire(other, here)
	e.write(func(tx *store.Tx) error { return tx.EndLeaseKeepBusy(lease) })
	if got := e.node(n.UUID).Lease; got != (node.Lease{}) {
		t.Errorf("lease = %+v, want none", got)
	}
}
