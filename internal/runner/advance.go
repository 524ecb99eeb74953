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

// progress is what one commit makes of a session.
type progress struct {
	node    *node.Node
	work    store.Work
	cp      checkpoint
	within  time.Duration // bound of the call that the machine is held for; 0 when it is not
	fresh   bool          // the call is the first of its operation
	child   bool          // the child node was given back
	chained bool          // the row is other work now, which goes on at once
	ending  error         // how the attempt ends; nil when it goes on
}

// advance stores what an operation has brought and whatever follows without a
// machine, up to the next operation that needs one, to a hold, or to the end of the
// work. That the next operation begins is stored with it when its call can follow
// at once. Done and write may be nil.
//
// When what follows cannot be stored, what was done is stored by itself, so that
// another attempt does not repeat it.
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

// finish writes what an operation has brought; nil for none.
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

// unstored reports whether a commit failed although the database answered and the node
// is still ours. Another attempt would fail in the same way.
func unstored(err error) bool {
	_, over := ended(err)
	return err != nil && !over && !errors.Is(err, node.ErrUnavailable) && !errors.Is(err, node.ErrLeaseLost)
}

// proceed does what needs no machine, inside the transaction.
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
		case op.Change != nil && !op.Harmless:
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

// resume brings a node that waited back to work.
func (s *session) resume(tx *store.Tx, n *node.Node) error {
	if !s.waits(n) {
		return nil
	}
	return s.r.owner.Move(tx, n, node.OnResume)
}

// waits reports whether the node is in a state in which this work waited.
func (s *session) waits(n *node.Node) bool {
	return s.script.DrivesState && n.ProvisionState.Class() == node.Waiting
}

// begin stores that an operation begins and holds its machine, when this session
// has its place at the BMC and its lease; otherwise a later commit does.
func (s *session) begin(tx *store.Tx, p *progress, op *Operation) error {
	target := p.node
	if op.Child != "" {
		if target = s.childNode(op); p.child {
			target = nil // it was just given back
		}
	}
	if target == nil || p.cp.Operation == op.Ref || s.bmc == "" || s.bmc != s.r.owner.BMC(target) ||
		!p.work.Lease.Held(tx.Now()) || s.r.stopping() {
		return nil
	}
	p.cp = p.cp.began(op.Ref, tx.Now())
	if op.Begin != nil {
		op.Begin(p.node)
	}
	p.fresh = true
	return s.holdMachine(tx, p, op)
}

// holdMachine makes the lease, and that of the child node, last beyond the call
// that follows.
func (s *session) holdMachine(tx *store.Tx, p *progress, op *Operation) error {
	p.within = s.within(op)
	until := tx.Now().Add(p.within)
	if op.Child != "" {
		p.cp.ChildEpoch = s.j.child.Epoch
		if err := tx.HoldMachine(&s.j.child, until, s.r.cfg.LeaseTTL/3); err != nil {
			return err
		}
	}
	return tx.HoldMachine(&p.work.Lease, until, s.r.cfg.LeaseTTL/3)
}

// extend holds the machine for another call of the operation under way.
func (s *session) extend(ctx context.Context, op *Operation) error {
	return s.store(ctx, false, func(tx *store.Tx, p *progress) error {
		p.cp.Attempt = driver.Unknown
		return s.holdMachine(tx, p, op)
	})
}

// hold puts the node into its hold state, behind the operation that asks for it.
func (s *session) hold(tx *store.Tx, p *progress, op *Operation) error {
	p.cp, p.ending = p.cp.finished(op.Ref), errParked
	if op.Begin != nil {
		op.Begin(p.node)
	}
	p.work.NotBefore = tx.Now().Add(never)
	return s.r.owner.Move(tx, p.node, node.OnHold)
}

// end ends the work: with what its script makes of the node, or with its failure.
func (s *session) end(tx *store.Tx, p *progress, task Task) error {
	if p.cp.Failing != "" {
		reason := p.cp.Failing
		if s.script.Failed != nil {
			reason = s.script.Failed(p.node, reason)
		}
		p.ending = errFailed
		return s.r.owner.Failed(tx, &p.work, p.node, reason)
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

// store runs change and writes what it makes of the node and the row. What is known
// already cannot be found out again: known makes it try until the database answers,
// for as long as nobody else has the node.
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
			return fmt.Errorf("%w: %w", err, node.ErrUnavailable) // as for whoever does not try again
		}
	}
	return err
}

// errChained is the error of a commit whose first try, of which only the answer was lost, has
// made other work of the row.
var errChained = errors.New("the row is other work now")

// checkKind returns errChained when the row is not the work that this session knows.
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
		if s.j.claimed || p.work.NotBefore.After(tx.Now()) { // whoever takes the work over may begin now
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

// write stores the node and the row, and gives the lease back when the attempt ends
// with that.
func (s *session) write(tx *store.Tx, before *node.Node, p *progress) error {
	ends := errors.Is(p.ending, errDone) || errors.Is(p.ending, errFailed)
	if ends {
		if err := s.r.owner.Ended(tx, &p.work, before, p.node); err != nil {
			return err
		}
	}
	if err := tx.UpdateNode(before, p.node); err != nil {
		return err
	}
	chained := errors.Is(p.ending, errDone) && s.script.Then != ""
	keeps := p.ending == nil || chained || errors.Is(p.ending, errAsleep) // the lease
	if p.within == 0 && keeps && !p.work.Lease.BusyUntil.IsZero() {       // every call has returned, and none follows yet
		if err := tx.EndHold(&p.work.Lease); err != nil {
			return err
		}
	}
	switch {
	case chained:
		p.work.Kind, p.work.Intent = s.script.Then, nil
		p.cp, p.chained, p.ending = checkpoint{InDoubt: p.cp.InDoubt}, true, nil
		p.work.Step = p.cp.encode()
		return tx.CheckpointWork(&p.work)
	case ends:
		if err := tx.FinishWork(&p.work); err != nil {
			return err
		}
		return tx.EndLease(p.work.Lease)
	}
	p.work.Step = p.cp.encode()
	if err := tx.CheckpointWork(&p.work); err != nil || keeps {
		return err
	}
	return tx.EndLease(p.work.Lease)
}

// stored takes over what was committed; asked is when the commit was asked for.
func (s *session) stored(asked time.Time, before *node.Node, p *progress) {
	s.r.logEnd(s.j.work, before, p)
	s.node, s.cp, *s.j.work, s.found = p.node, p.cp, p.work, nil
	if p.child {
		s.r.leases.release(s.j.child)
		if s.child != nil { // else an earlier attempt had read it
			s.r.freed.free(s.child.ID)
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
		s.script, _ = s.r.owner.Script(p.work.Kind)
		s.j.hint, s.j.info.Work = nil, p.work.Kind
	}
}

// logEnd tells the log what work made of a node, when that is news.
func (r *Runner) logEnd(w *store.Work, before *node.Node, p *progress) {
	after := p.node
	switch {
	case after.LastError != "" && after.LastError != before.LastError:
		r.log.Warn("Work failed for good", "node", after.UUID, "work", w.Kind, "state", after.ProvisionState, "err", after.LastError)
	case after.ProvisionState != before.ProvisionState && after.ProvisionState.Class() == node.Stable:
		r.log.Info("Work done", "node", after.UUID, "work", w.Kind, "state", after.ProvisionState)
	}
}

// failing is the checkpoint of work that fails from now on.
func (s *session) failing(n *node.Node, cause error) checkpoint {
	reason := cause.Error()
	if s.script.Does != "" {
		reason = fmt.Sprintf("Failed to %s node %s: %s", s.script.Does, n.UUID, reason)
	}
	return checkpoint{Failing: node.CutText(reason), InDoubt: s.cp.InDoubt}
}

// callDeadline is when a call has to end that the database was asked to hold the
// machine for. The database granted that later than it was asked, and keeps times in
// microseconds.
func callDeadline(asked time.Time, within time.Duration) time.Time {
	return asked.Add(within - time.Millisecond)
}
