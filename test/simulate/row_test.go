package simulate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// checkWork compares a call with the stored work. A process that has itself replaced or deleted the
// row of the work must not make calls for that work any more. It may have leased the node anew since
// the call's lease was lost, so the leases are compared and not their holders.
func (r *replica) checkWork(ctx context.Context, m *machine) {
	info := runner.InfoOf(ctx)
	if info.Work == "" {
		return
	}
	_ = r.w.db.Read(context.Background(), func(tx *store.Tx) error {
		n, err := tx.Node(info.Node)
		if err != nil || n.Lease.Epoch != info.Epoch || r.isDead() {
			return err
		}
		works, err := tx.WorkOf(n.ID)
		if err == nil && !slices.ContainsFunc(works, func(w *store.Work) bool { return w.Kind == info.Work }) {
			r.w.violated("%s: %s makes a call for %s (%s), which is not the node's work any more", m.name, r.name, info.Work, info.Operation.Name)
		}
		return err
	})
}

// leaseProblem returns why an effect must not begin, or "" if it may. The lease under which it is
// sent must be in force.
func (w *world) leaseProblem(uuid string, origin driver.Origin) string {
	problem := ""
	err := w.db.Read(context.Background(), func(tx *store.Tx) error {
		n, err := tx.Node(uuid)
		switch {
		case err != nil:
			return err
		case n.Lease.Epoch != origin.Epoch:
			problem = fmt.Sprintf("under epoch %d, while the lease is %+v", origin.Epoch, n.Lease)
		case !n.Lease.ExpiresAt.After(tx.Now()):
			problem = fmt.Sprintf("under a lease that ended %s ago", tx.Now().Sub(n.Lease.ExpiresAt))
		}
		return nil
	})
	if err != nil {
		return "while its node is gone: " + err.Error()
	}
	return problem
}

// epoch returns the epoch of a node's lease, or 0 if the node is gone.
func (w *world) epoch(uuid string) int64 {
	n, err := w.node(uuid)
	if err != nil {
		return 0
	}
	return n.Lease.Epoch
}

// noteCommit notes what a commit of work has made of its node.
func (w *world) noteCommit(info runner.Info) {
	w.trackWork(info)
	if info.Task == "claim" {
		w.noteExpiredClaims()
	}
	if info.Work == "" {
		return
	}
	n, err := w.node(info.Node)
	if err != nil {
		return
	}
	m := w.machines[info.Node]
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lease = n.Lease
	if n.TargetPowerState == "" {
		m.powerIdle = append(m.powerIdle, time.Now())
	}
}

// noteExpiredClaims looks for work that was claimed after its lease had run out in the middle of an
// operation. The process before has not stored what it knows of its calls.
func (w *world) noteExpiredClaims() {
	_ = w.db.Read(context.Background(), func(tx *store.Tx) error {
		for uuid, m := range w.machines {
			n, err := tx.Node(uuid)
			if err != nil || !m.leaseExpired(n.Lease) {
				continue
			}
			works, err := tx.WorkOf(n.ID)
			if err == nil && slices.ContainsFunc(works, func(w *store.Work) bool { return strings.Contains(w.Checkpoint, `"attempt":"`+string(driver.Unknown)) }) {
				m.noteUnknown()
			}
		}
		return nil
	})
}

// leaseExpired reports whether a lease is a new one and nobody has given back the last one.
func (m *machine) leaseExpired(lease node.Lease) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if lease.Epoch == 0 || lease.Epoch == m.lease.Epoch {
		return false
	}
	before := m.lease
	m.lease = lease
	return before != (node.Lease{})
}
