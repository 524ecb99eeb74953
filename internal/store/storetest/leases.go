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

var leaseBehaviours = []behaviour{
	{"a lease in force keeps everybody out", checkLeaseExcludes},
	{"epochs grow and are never used again", checkEpochsGrow},
	{"the epoch of a write that failed is not granted again", checkEpochsOfFailedWrites},
	{"an expired lease passes on and stops its old holder", checkLeaseTakenOver},
	{"renewing keeps a lease, also one that has run out, until somebody takes the node", checkRenewLeases},
	{"releasing a lease that passed on does nothing", checkReleaseOldLease},
	{"a conductor drops its own leases only", checkDropLeases},
	{"a lease is good for its node alone", checkLeaseOfOtherNode},
	{"the leases of nodes are read together", checkLeasesOf},
}

const (
	ttl   = 30 * time.Second
	here  = "conductor-1"
	there = "conductor-2"
)

func (e *env) acquire(n *node.Node, owner string) node.Lease {
	e.t.Helper()
	var lease node.Lease
	e.write(func(tx *store.Tx) (err error) {
		lease, err = tx.AcquireLease(n.ID, owner, ttl)
		return err
	})
	return lease
}

func (e *env) checkLease(n *node.Node, lease node.Lease) error {
	return e.store.Write(e.t.Context(), func(tx *store.Tx) error { return tx.CheckLease(n.ID, lease) })
}

func (e *env) wantLease(n *node.Node, lease node.Lease) {
	e.t.Helper()
	if err := e.checkLease(n, lease); err != nil {
		e.t.Errorf("lease of epoch %d: %v, want it in force", lease.Epoch, err)
	}
}

func (e *env) wantLost(n *node.Node, lease node.Lease) {
	e.t.Helper()
	if err := e.checkLease(n, lease); !errors.Is(err, node.ErrLeaseLost) {
		e.t.Errorf("lease of epoch %d: %v, want it lost", lease.Epoch, err)
	}
}

func checkLeaseExcludes(t *testing.T, e *env) {
	n := e.createNode()
	lease := e.acquire(n, here)
	if want := (node.Lease{Holder: here, Epoch: lease.Epoch, ExpiresAt: e.clock.Now().Add(ttl)}); lease != want || lease.Epoch == 0 {
		t.Errorf("lease = %+v, want %+v", lease, want)
	}
	if diff := cmp.Diff(lease, e.node(n.UUID).Lease); diff != "" {
		t.Errorf("lease of the node (-granted +read):\n%s", diff)
	}
	e.clock.Advance(ttl - time.Microsecond)
	for _, owner := range []string{here, there} {
		err := e.refused(func(tx *store.Tx) error {
			_, err := tx.AcquireLease(n.ID, owner, ttl)
			return err
		})
		var locked *node.LockedError
		if !errors.As(err, &locked) || locked.Holder != here || locked.Node != n.UUID {
			t.Errorf("error for %s = %v, want one that names node and holder", owner, err)
		}
	}
	e.wantLease(n, lease)
}

func checkEpochsGrow(t *testing.T, e *env) {
	n, other := e.createNode(), e.createNode()
	last := int64(0)
	for range 3 {
		for _, held := range []*node.Node{n, other} {
			lease := e.acquire(held, here)
			if lease.Epoch <= last {
				t.Errorf("epoch %d after %d, want it to grow", lease.Epoch, last)
			}
			last = lease.Epoch
			e.write(func(tx *store.Tx) error { return tx.EndLeaseKeepBusy(lease) })
			e.wantLost(held, lease)
		}
	}
}

// checkEpochsOfFailedWrites has writes fail whose caller remembers the lease.
func checkEpochsOfFailedWrites(t *testing.T, e *env) {
	n, other := e.createNode(), e.createNode()
	lose := func() (lost node.Lease) {
		_ = e.refused(func(tx *store.Tx) (err error) {
			if lost, err = tx.AcquireLease(n.ID, here, ttl); err == nil {
				err = node.Invalid("it fails at its end")
			}
			return err
		})
		return lost
	}
	lost := lose()
	lease := e.acquire(other, there)
	if lease.Epoch <= lost.Epoch {
		t.Errorf("granted epoch %d after %d was lost", lease.Epoch, lost.Epoch)
	}
	e.write(func(tx *store.Tx) error { return tx.EndLeaseKeepBusy(lease) })
	e.addWork(other, "test", e.clock.Now())
	lost = lose()
	if claimed := e.claim(there, 1); len(claimed) != 1 || claimed[0].Lease.Epoch <= lost.Epoch {
		t.Errorf("claimed %+v after epoch %d was lost", claimed, lost.Epoch)
	}
}

func checkLeaseTakenOver(t *testing.T, e *env) {
	n := e.createNode()
	old := e.acquire(n, here)
	e.clock.Advance(ttl)
	e.wantLost(n, old) // expired, although nobody took it
	taken := e.acquire(n, there)
	if taken.Epoch <= old.Epoch {
		t.Errorf("epoch %d after %d, want it to grow", taken.Epoch, old.Epoch)
	}
	e.wantLost(n, old)
	e.wantLease(n, taken)
	if got := e.node(n.UUID).Lease.Holder; got != there {
		t.Errorf("holder = %s, want %s", got, there)
	}
}

func (e *env) renew(owner string, epochs []int64) (lost []int64) {
	e.t.Helper()
	e.write(func(tx *store.Tx) (err error) {
		lost, err = tx.RenewLeases(owner, epochs, ttl)
		return err
	})
	return lost
}

func checkRenewLeases(t *testing.T, e *env) {
	held, foreign, expired, taken, forgotten := e.createNode(), e.createNode(), e.createNode(), e.createNode(), e.createNode()
	late, lost := e.acquire(expired, here), e.acquire(taken, here)
	e.clock.Advance(ttl / 2)
	kept, others, orphan := e.acquire(held, here), e.acquire(foreign, there), e.acquire(forgotten, here)
	e.clock.Advance(ttl / 2)
	successor := e.acquire(taken, there)
	epochs := []int64{kept.Epoch, others.Epoch, late.Epoch, lost.Epoch}
	for i := range int64(600) { // more than one statement takes
		epochs = append(epochs, successor.Epoch+1+i)
	}
	want := slices.DeleteFunc(slices.Clone(epochs), func(epoch int64) bool { return epoch == kept.Epoch || epoch == late.Epoch })
	if got := e.renew(here, epochs); !slices.Equal(got, want) {
		t.Errorf("lost %v, want %v", got, want)
	}
	e.wantLost(taken, lost)
	e.wantLease(taken, successor)
	e.wantLease(expired, late)
	e.clock.Advance(ttl / 2)
	e.wantLost(foreign, others)
	e.wantLost(forgotten, orphan)
	e.clock.Advance(ttl/2 - time.Microsecond)
	e.wantLease(held, kept)
	e.clock.Advance(time.Microsecond)
	e.wantLost(held, kept)
}

func checkReleaseOldLease(_ *testing.T, e *env) {
	n := e.createNode()
	old := e.acquire(n, here)
	e.clock.Advance(ttl)
	taken := e.acquire(n, there)
	e.write(func(tx *store.Tx) error { return tx.EndLeaseKeepBusy(old) })
	e.wantLease(n, taken)
	e.write(func(tx *store.Tx) error { return tx.EndLeaseKeepBusy(taken) })
	e.wantLease(n, e.acquire(n, here))
}

func checkDropLeases(t *testing.T, e *env) {
	mine, other := e.createNode(), e.createNode()
	dropped, kept := e.acquire(mine, here), e.acquire(other, there)
	e.write(func(tx *store.Tx) error { return tx.EndLeasesKeepBusy(here) })
	e.wantLost(mine, dropped)
	e.wantLease(other, kept)
	if got := e.node(mine.UUID).Lease; got != (node.Lease{}) {
		t.Errorf("lease = %+v, want none", got)
	}
}

func checkLeaseOfOtherNode(_ *testing.T, e *env) {
	n, other := e.createNode(), e.createNode()
	lease := e.acquire(n, here)
	e.wantLost(other, lease)
	e.wantLost(n, node.Lease{})
}

func checkLeasesOf(t *testing.T, e *env) {
	n, free, other := e.createNode(), e.createNode(), e.createNode()
	want := map[string]node.Lease{n.UUID: e.acquire(n, here)}
	e.acquire(other, there) // nobody asks for it
	asked := []string{free.UUID, "nobody", n.UUID}
	for range 40 {
		many := e.createNode()
		asked, want[many.UUID] = append(asked, many.UUID), e.acquire(many, there)
	}
	busy := want[n.UUID]
	e.write(func(tx *store.Tx) error { return tx.SetBusy(&busy, e.clock.Now().Add(ttl/2), 0) })
	want[n.UUID] = busy
	e.clock.Advance(ttl)
	for _, test := range []struct {
		asked []string
		want  map[string]node.Lease
	}{{asked, want}, {nil, map[string]node.Lease{}}} {
		if err := e.store.ReadSingle(e.t.Context(), func(tx *store.Tx) error {
			got, err := tx.LeasesOf(test.asked)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("leases of %d nodes (-want +got):\n%s", len(test.asked), diff)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}
