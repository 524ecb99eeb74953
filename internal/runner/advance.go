package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// progress is the state of a session after a commit.
type progress struct {
	node    *node.Node
	work    store.Work
	cp      checkpoint
	within  time.Duration // limit of the call that keeps the machine busy; 0 without a call
	fresh   bool          // the call is the first of its operation
	child   bool          // the child node was given back
	chained bool          // the row has become the next kind of work, which goes on at once
	ending  error         // how the attempt ends; nil when it goes on
}

// advance stores the outcome of an operation, and then everything that needs no machine, up to the
// next operation that needs one, to a hold, or to the end of the work. If the call of the next
// operation can follow at once, the same commit stores that the operation begins. Done and write
// may be nil.
//
// If what follows cannot be stored, advance stores the outcome by itself, so that another attempt
// does not repeat the operation.
func (s *session) advance(ctx context.Context, done *Operation, write Write) error {
	finish := func(tx *store.Tx, p *progress) error { return s.finish(tx, p, done, write) }
	err := s.store(ctx, done != nil, func(tx *store.Tx, p *progress) error {
		if err := finish(tx, p); err != nil {
			return err
		}
		return s.proceed(tx, p)
	})
	if done == nil || !unstored(err) {
		return err
	}
	return s.store(ctx, true, finish)
}

// finish writes the outcome of the operation done; it does nothing for nil.
func (s *session) finish(tx *store.Tx, p *progress, done *Operation, write Write) error {
	if done == nil {
		return nil
	}
	p.cp = s.cp.finished(done.Ref)
	if write != nil {
		if err := write(tx, p.node); err != nil {
			return err
		}
	}
	if done.After != nil {
		if err := done.After(p.node); err != nil {
			p.cp = s.failing(p.node, err)
		}
	}
	if done.Child != "" {
		return s.dropChild(tx, p)
	}
	return nil
}

// unstored reports whether a commit failed although the database answered and this process still
// has the node. Another attempt would fail in the same way.
func unstored(err error) bool {
	_, over := ended(err)
	return err != nil && !over && !errors.Is(err, node.ErrUnavailable) && !errors.Is(err, node.ErrLeaseLost)
}

// proceed does everything that needs no machine, inside the transaction.
func (s *session) proceed(tx *store.Tx, p *progress) error {
	for {
		if p.cp.Operation == (Ref{}) {
			if err := s.resume(tx, p.node); err != nil {
				return err
			}
		}
		task := s.taskOf(&p.work, p.node, p.cp)
		operations, err := s.operations(task)
		if final(err) {
			p.cp = s.failing(p.node, err)
			continue
		}
		if err != nil {
			return err
		}
		op, err := p.cp.next(operations)
		if err != nil {
			return err
		}
		switch {
		case op == nil:
			return s.end(tx, p, task)
		case op.Skip && p.cp.Operation == (Ref{}):
			p.cp = p.cp.passed(op.Ref)
			continue
		case op.Hold:
			return s.hold(tx, p, op)
		case op.Change != nil && !op.ReadsOnly:
			return s.begin(tx, p, op)
		case op.Change != nil:
			return nil
		case op.Read != nil:
			return nil
		}
		switch err := op.Store(tx, p.node); {
		case final(err):
			p.cp = s.failing(p.node, err)
		case err != nil:
			return err
		default:
			p.cp = p.cp.finished(op.Ref)
		}
	}
}

// resume brings a waiting node back into its working state.
func (s *session) resume(tx *store.Tx, n *node.Node) error {
	if !s.waits(n) {
		return nil
	}
	return s.r.conductor.Move(tx, n, node.OnResume)
}

// waits reports whether the node is in the waiting state of this work.
func (s *session) waits(n *node.Node) bool {
	return s.script.DrivesState && n.ProvisionState.Class() == node.Waiting
}

// begin stores that an operation begins, and that its call keeps the machine busy, if this session
// has the lease and a place at the BMC. Otherwise a later commit does that.
func (s *session) begin(tx *store.Tx, p *progress, op *Operation) error {
	target := p.node
	if op.Child != "" {
		if target = s.childNode(op); p.child {
			target = nil // the child was just given back
		}
	}
	if target == nil || p.cp.Operation == op.Ref || s.bmc == "" || s.bmc != s.r.conductor.BMC(target) ||
		!p.work.Lease.InForce(tx.Now()) || s.r.stopping() {
		return nil
	}
	p.cp = p.cp.began(op.Ref, tx.Now())
	if op.Begin != nil {
		op.Begin(p.node)
	}
	p.fresh = true
	return s.setBusy(tx, p, op)
}

// setBusy stores that the machine is busy with the call that follows, and extends the node's lease,
// and the child node's, beyond the end of that call.
func (s *session) setBusy(tx *store.Tx, p *progress, op *Operation) error {
	p.within = s.within(op)
	until := tx.Now().Add(p.within)
	if op.Child != "" {
		p.cp.ChildEpoch = s.j.child.Epoch
		if err := tx.SetBusy(&s.j.child, until, s.r.cfg.LeaseTTL/3); err != nil {
			return err
		}
	}
	return tx.SetBusy(&p.work.Lease, until, s.r.cfg.LeaseTTL/3)
}

// extend keeps the machine busy for another call of the operation in progress.
func (s *session) extend(ctx context.Context, op *Operation) error {
	return s.store(ctx, false, func(tx *store.Tx, p *progress) error {
		p.cp.Attempt = driver.Unknown
		return s.setBusy(tx, p, op)
	})
}

// hold puts the node into its hold state, after the operation that asks for the hold.
func (s *session) hold(tx *store.Tx, p *progress, op *Operation) error {
	p.cp, p.ending = p.cp.finished(op.Ref), errLeaseGivenBack
	if op.Begin != nil {
		op.Begin(p.node)
	}
	p.work.NotBefore = tx.Now().Add(never)
	return s.r.conductor.Move(tx, p.node, node.OnHold)
}

// end ends the work: the script writes its result into the node, or the failure is stored.
func (s *session) end(tx *store.Tx, p *progress, task Task) error {
	if p.cp.Failing != "" {
		reason := p.cp.Failing
		if s.script.Failed != nil {
			reason = s.script.Failed(p.node, reason)
		}
		p.ending = errFailed
		return s.r.conductor.Failed(tx, &p.work, p.node, reason)
	}
	if err := s.script.End(tx, task, p.node); err != nil {
		if !final(err) {
			return err
		}
		p.cp = s.failing(p.node, err)
		return s.proceed(tx, p)
	}
	p.ending = errDone
	return nil
}

// store runs change in a transaction and writes the node and the row. If known is true, change
// stores facts that nobody can find out again. Then store repeats the commit until the database
// answers, as long as nobody else has the node.
func (s *session) store(ctx context.Context, known bool, change func(*store.Tx, *progress) error) error {
	err := s.commit(ctx, change)
	for known && errors.Is(err, node.ErrUnavailable) {
		s.r.log.Warn("What a machine did waits for the database", "work", s.j.work.Kind, "node", s.j.work.NodeUUID, "err", err)
		if !s.r.pause(ctx, s.r.cfg.Jitter(retryAfter)) {
			return err
		}
		err = s.commit(ctx, func(tx *store.Tx, p *progress) error {
			if err := s.checkKind(tx); err != nil {
				return err
			}
			return change(tx, p)
		})
		if errors.Is(err, errChained) {
			return fmt.Errorf("%w: %w", err, node.ErrUnavailable) // the same as without another try
		}
	}
	return err
}

// errChained is the error of a repeated commit whose first try succeeded, but lost its answer, and
// turned the row into the next kind of work.
var errChained = errors.New("the row is other work now")

// checkKind returns errChained when the row is not the work of this session any more.
func (s *session) checkKind(tx *store.Tx) error {
	works, err := tx.WorkOf(s.j.work.NodeID)
	if err == nil && !slices.ContainsFunc(works, func(w *store.Work) bool { return w.ID == s.j.work.ID && w.Kind == s.j.work.Kind }) {
		err = errChained
	}
	return err
}

func (s *session) commit(ctx context.Context, change func(*store.Tx, *progress) error) error {
	asked := time.Now()
	var before *node.Node
	var p progress
	err := s.r.db.Write(ctx, func(tx *store.Tx) (err error) {
		if before, err = s.leased(tx); err != nil {
			return err
		}
		after := *before
		p = progress{node: &after, work: *s.j.work, cp: s.cp}
		p.work.Lease = before.Lease
		if s.j.claimed || p.work.NotBefore.After(tx.Now()) { // another process may take over now
			p.work.NotBefore = tx.Now()
		}
		for _, write := range s.found {
			if err := write(tx, p.node); err != nil {
				return err
			}
		}
		if err := change(tx, &p); err != nil {
			return err
		}
		if p.cp.Done != s.cp.Done || p.cp.Failing != s.cp.Failing {
			p.work.Attempts = 0
		}
		return s.write(tx, before, &p)
	})
	if err != nil {
		return err
	}
	s.stored(asked, before, &p)
	return p.ending
}

// write stores the node and the row. It gives the lease back if the attempt ends with that.
func (s *session) write(tx *store.Tx, before *node.Node, p *progress) error {
	ends := errors.Is(p.ending, errDone) || errors.Is(p.ending, errFailed)
	if ends {
		if err := s.r.conductor.Ended(tx, &p.work, before, p.node); err != nil {
			return err
		}
	}
	if err := tx.UpdateNode(before, p.node); err != nil {
		return err
	}
	chained := errors.Is(p.ending, errDone) && s.script.Then != ""
	keeps := p.ending == nil || chained || errors.Is(p.ending, errLeaseKept) // the session keeps the lease
	// Every call has returned, and none follows yet.
	if p.within == 0 && keeps && !p.work.Lease.BusyUntil.IsZero() {
		if err := tx.EndBusy(&p.work.Lease); err != nil {
			return err
		}
	}
	switch {
	case chained:
		p.work.Kind, p.work.Intent = s.script.Then, nil
		p.cp, p.chained, p.ending = checkpoint{InDoubt: p.cp.InDoubt}, true, nil
		p.work.Checkpoint = p.cp.encode()
		return tx.CheckpointWork(&p.work)
	case ends:
		return tx.EndWork(&p.work)
	}
	p.work.Checkpoint = p.cp.encode()
	if err := tx.CheckpointWork(&p.work); err != nil || keeps {
		return err
	}
	return tx.EndLeaseAndBusy(p.work.Lease)
}

// stored updates the session with what was committed; asked is when the commit was requested.
func (s *session) stored(asked time.Time, before *node.Node, p *progress) {
	s.r.logEnd(s.j.work, before, p)
	s.node, s.cp, *s.j.work, s.found = p.node, p.cp, p.work, nil
	if p.child {
		s.r.leases.release(s.j.child)
		if s.child != nil { // otherwise an earlier attempt had read it
			s.r.waiters.free(s.child.UUID)
		}
		s.j.child, s.child = node.Lease{}, nil
	}
	s.deadline = time.Time{}
	if p.within > 0 {
		s.deadline = callDeadline(asked, p.within)
	}
	if p.fresh {
		s.attempt = p.cp.firstAttempt()
	}
	s.j.claimed = false
	if p.chained {
		s.script, _ = s.r.conductor.Script(p.work.Kind)
		s.j.hint, s.j.info.Work = nil, p.work.Kind
	}
}

// logEnd logs the result of work on a node, if it is new.
func (r *Runner) logEnd(w *store.Work, before *node.Node, p *progress) {
	after := p.node
	switch {
	case after.LastError != "" && after.LastError != before.LastError:
		r.log.Warn("Work failed for good", "node", after.UUID, "work", w.Kind, "state", after.ProvisionState, "err", after.LastError)
	case after.ProvisionState != before.ProvisionState && after.ProvisionState.Class() == node.Stable:
		r.log.Info("Work done", "node", after.UUID, "work", w.Kind, "state", after.ProvisionState)
	}
}

// failing returns the checkpoint of work that has failed and from now on only leaves the machine in
// order.
func (s *session) failing(n *node.Node, cause error) checkpoint {
	reason := cause.Error()
	if s.script.Does != "" {
		reason = fmt.Sprintf("Failed to %s node %s: %s", s.script.Does, n.UUID, reason)
	}
	return checkpoint{Failing: node.CutText(reason), InDoubt: s.cp.InDoubt}
}

// callDeadline returns the deadline of a call for which the database was asked to set the machine
// busy. The database does so later than it was asked, so the machine is busy beyond the deadline. The
// millisecond is because the database stores times in microseconds.
func callDeadline(asked time.Time, within time.Duration) time.Time {
	return asked.Add(within - time.Millisecond)
}
