package runner

import (
	"context"
	"fmt"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// childWait is how long an operation waits for a child node that other work has locked.
const childWait = 10 * time.Second

// target returns the node whose machine the operation changes: the node of the work, or a child of
// it. A child has a lease of its own from the first turn to the last.
func (s *session) target(ctx context.Context, op *Operation) (*node.Node, error) {
	if op.Child == "" {
		return s.node, nil
	}
	if s.childNode(op) != nil {
		return s.child, nil
	}
	err := s.r.WhenFree(ctx, childWait, isLocked, func() error {
		return s.r.db.Write(ctx, func(tx *store.Tx) error { return s.leaseChild(tx, op) })
	})
	if err != nil {
		return nil, fmt.Errorf("child node %s: %w", op.Child, err)
	}
	return s.child, nil
}

// childNode returns the child that an operation changes if this process has its lease, else nil.
func (s *session) childNode(op *Operation) *node.Node {
	if s.child == nil || s.child.UUID != op.Child {
		return nil
	}
	return s.child
}

// leaseChild takes the lease of a child, or continues with the lease of the previous turn.
func (s *session) leaseChild(tx *store.Tx, op *Operation) error {
	child, err := tx.Node(op.Child)
	if isNotFound(err) {
		return node.Invalid("it was deleted.")
	}
	if err != nil {
		return err
	}
	if err := op.CheckChild(tx, s.node, child); err != nil {
		return err
	}
	// A lease that this process has requested is its own even if the answer was lost.
	ours := child.Lease.Epoch == s.cp.ChildEpoch || child.Lease.Epoch == s.j.child.Epoch
	if !ours || child.Lease.Holder != s.r.cfg.Hostname || !child.Lease.ExpiresAt.After(tx.Now()) {
		if child.Lease, err = tx.AcquireLease(child.ID, s.r.cfg.Hostname, s.r.cfg.LeaseTTL); err != nil {
			return err
		}
	}
	if s.j.child.Epoch != child.Lease.Epoch {
		s.r.leases.release(s.j.child)
		s.r.leases.keepRenewed(child.Lease)
		s.j.child = child.Lease
	}
	s.child = child
	return nil
}

// coverChild makes a call to the child end when the child's lease is lost. First it ends whatever
// this process still does for the child under an earlier lease. The caller calls end once.
func (s *session) coverChild(ctx context.Context) (call context.Context, end func(), err error) {
	lease := s.j.child
	call, lost := context.WithCancelCause(ctx)
	s.r.leases.watch(lease, lost)
	release := func() {
		s.r.leases.watch(lease, nil)
		lost(nil)
	}
	leave, err := s.r.exclusive.begin(call, s.child.ID, lease, lost)
	if err != nil {
		release()
		return nil, nil, err
	}
	return call, func() {
		leave()
		release()
	}, nil
}

// endChildTurn stores the outcome of a turn on a child. A child has no waiting state for this, so
// it cannot wait for its ramdisk.
func (s *session) endChildTurn(ctx context.Context, op *Operation, out driver.Outcome) error {
	if out.Callback {
		return fmt.Errorf("child node %s: %w", op.Child, node.Invalid("the step waits for the machine's ramdisk, which steps on child nodes cannot."))
	}
	write := func(tx *store.Tx, _ *node.Node) error {
		before, err := tx.NodeByID(s.child.ID)
		if err != nil {
			return err
		}
		if !holds(before, s.j.child) {
			return node.ErrLeaseLost
		}
		after := *before
		if err := s.apply(tx, &after, out); err != nil {
			return err
		}
		return tx.UpdateNode(before, &after)
	}
	if out.Done() {
		return s.advance(ctx, op, write)
	}
	s.j.attempt = driver.Continued
	return s.store(ctx, true, func(tx *store.Tx, p *progress) error {
		if err := write(tx, p.node); err != nil {
			return err
		}
		p.cp = p.cp.continued(out)
		p.cp.Attempt = driver.Unknown
		p.work.NotBefore, p.work.Attempts, p.ending = tx.Now().Add(max(out.Again, out.Park)), 0, errLeaseKept
		return nil
	})
}

// dropChild gives back the child node of the finished operation, if any.
func (s *session) dropChild(tx *store.Tx, p *progress) error {
	if s.j.child.Epoch == 0 {
		return nil
	}
	p.child, p.cp.ChildEpoch = true, 0
	return tx.EndLeaseAndBusy(s.j.child) // every call has returned
}
