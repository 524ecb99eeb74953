package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// session is a running job: its node as last read, its progress, and what only this process knows.
type session struct {
	r      *Runner
	j      *Job
	script Script
	node   *node.Node
	cp     checkpoint
	// attempt is what this process knows about the calls of the operation in progress.
	attempt driver.Attempt
	// deadline is the end of the time for calls under the present lease, by this process's clock;
	// zero when no call may be made.
	deadline time.Time
	child    *node.Node // leased child node that the operation in progress changes
	// found are the results of operations since the last commit. The next commit stores them.
	found []Write
	bmc   string // BMC at which this session has a place; empty for none
	leave func() // gives the place at the BMC back
}

func (s *session) task() Task { return s.taskOf(s.j.work, s.node, s.cp) }

func (s *session) taskOf(w *store.Work, n *node.Node, cp checkpoint) Task {
	return Task{Work: w, Node: n, Hint: s.j.hint, Failing: cp.Failing}
}

// operations lists the operations of the work, or, once the work fails, those that leave the
// machine in order.
func (s *session) operations(t Task) ([]Operation, error) {
	switch {
	case t.Failing == "":
		return s.script.Operations(t)
	case s.script.CleanUp != nil:
		return s.script.CleanUp(t), nil
	}
	return nil, nil
}

// runOperation runs the next operation, or one turn of it.
func (s *session) runOperation(ctx context.Context) error {
	op, err := s.perform(ctx)
	return s.afterOperation(ctx, op, err)
}

// perform runs the next operation, or one turn of it, and returns that operation; nil for none. A
// panic becomes an error, so that one bad document cannot end the process.
func (s *session) perform(ctx context.Context) (op *Operation, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = s.r.panicked(s.j, panicked)
		}
	}()
	operations, err := s.operations(s.task())
	if err != nil {
		return nil, err
	}
	if err := s.endNumbered(operations); err != nil {
		return nil, err
	}
	if op, err = s.cp.next(operations); err != nil {
		return nil, err
	}
	if op != nil {
		s.j.info.Epoch, s.j.info.Operation, s.j.info.Request = s.j.work.Lease.Epoch, op.Ref, s.request(op)
	}
	switch {
	case op != nil && op.Skip && s.cp.Operation == (Ref{}):
		return op, s.skip(ctx, op)
	case op != nil && op.Change != nil:
		return op, s.change(ctx, op)
	case op != nil && op.Read != nil:
		return op, s.read(ctx, op)
	}
	return op, s.advance(ctx, nil, nil)
}

// endNumbered calls After of the last operation of a numbered checkpoint. Releases with numbered
// operations called it only after the commit that stored the operation's end.
func (s *session) endNumbered(operations []Operation) error {
	if !s.cp.numbered {
		return nil
	}
	s.cp.numbered = false
	done := slices.IndexFunc(operations, func(o Operation) bool { return o.Ref == s.cp.Done })
	if done < 0 || s.cp.Operation != (Ref{}) || operations[done].After == nil {
		return nil
	}
	return operations[done].After(s.node)
}

// skip skips an operation. It makes no commit before an operation that only reads or is skipped
// too, because nothing would be saved by it. But if the node waits, it makes the commit that brings
// the node back to work.
func (s *session) skip(ctx context.Context, op *Operation) error {
	passed := s.cp.passed(op.Ref)
	next := s.following(passed)
	if next == nil || next.Read == nil && !next.Skip || s.waits(s.node) {
		return s.advance(ctx, nil, nil)
	}
	s.cp = passed
	return nil
}

// read runs an operation that reads, and keeps its result.
func (s *session) read(ctx context.Context, op *Operation) error {
	within := op.Within
	if op.Processor {
		s.exit()
		if err := s.r.processors.Acquire(ctx, 1); err != nil {
			return err
		}
		defer s.r.processors.Release(1)
		if within == 0 {
			within = s.r.cfg.ProcessTimeout
		}
	} else if err := s.enter(ctx, s.node); err != nil {
		return err
	}
	if within == 0 {
		within = s.r.cfg.CallTimeout
	}
	bounded, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	write, err := op.Read(bounded, s.node)
	if err != nil {
		return err
	}
	return s.keep(ctx, op, write)
}

// keep goes on after an operation that may be repeated. It makes no commit if nothing would be
// saved by it.
func (s *session) keep(ctx context.Context, op *Operation, write Write) error {
	after := s.cp.finished(op.Ref)
	next := s.following(after)
	if next == nil || !op.storedWith(next) {
		return s.advance(ctx, op, write)
	}
	s.cp, s.j.work.Attempts = after, 0
	if write != nil {
		s.found = append(s.found, write)
	}
	return nil
}

// following returns the operation after a checkpoint. It returns nil when there is none, or when
// the node must first be read again.
func (s *session) following(cp checkpoint) *Operation {
	operations, err := s.operations(s.taskOf(s.j.work, s.node, cp))
	if err != nil {
		return nil
	}
	next, err := cp.next(operations)
	if err != nil {
		return nil
	}
	return next
}

// enter waits for a place at the BMC of a node, unless the session has one. It returns errStopped
// when Stop was called meanwhile, so that no call follows.
func (s *session) enter(ctx context.Context, n *node.Node) error {
	bmc := s.r.conductor.BMC(n)
	if s.bmc == bmc {
		return nil
	}
	s.exit()
	leave, err := s.r.gate.Enter(ctx, bmc)
	if err != nil {
		return err
	}
	s.bmc, s.leave = bmc, leave
	if s.r.stopping() {
		return errStopped
	}
	return nil
}

// exit gives the place at a BMC back.
func (s *session) exit() {
	if s.leave != nil {
		s.leave()
	}
	s.bmc, s.leave = "", nil
}

// leased returns the node, or node.ErrLeaseLost when somebody else has had it. An expired lease
// does not prevent storing an outcome, because nobody else has worked on the node since.
func (s *session) leased(tx *store.Tx) (*node.Node, error) {
	n, err := tx.NodeByID(s.j.work.NodeID)
	if err == nil && !holds(n, s.j.work.Lease) {
		err = node.ErrLeaseLost
	}
	return n, err
}

// change begins an operation that changes a machine, or makes a turn of it.
func (s *session) change(ctx context.Context, op *Operation) error {
	target, err := s.target(ctx, op)
	if err != nil {
		return err
	}
	begun := s.cp.Operation == op.Ref
	if begun {
		wait, err := s.awaitAgent()
		if err != nil {
			return op.explain(err)
		}
		if wait > 0 {
			return s.waitOn(ctx, wait)
		}
	}
	if err := s.enter(ctx, target); err != nil {
		return err
	}
	switch {
	case op.ReadsOnly && !begun:
		s.cp, s.attempt = s.cp.began(op.Ref, s.r.db.Now()), driver.Fresh
		fallthrough
	case op.ReadsOnly:
		s.deadline = time.Now().Add(s.within(op))
	case !begun:
		if err := s.advance(ctx, nil, nil); err != nil || s.j.work.Lease.InForce(s.r.db.Now()) {
			return err
		}
		return node.ErrLeaseLost
	}
	if time.Until(s.deadline) < s.within(op)/2 {
		if err := s.extend(ctx, op); err != nil {
			return err
		}
	}
	return s.turn(ctx, op, target)
}

// within returns the time limit of a call of the operation.
func (s *session) within(op *Operation) time.Duration {
	if op.Within > 0 {
		return op.Within
	}
	return s.r.cfg.CallTimeout
}

// explain adds to a failure what the operation was doing.
func (o *Operation) explain(err error) error {
	if o.Explain == nil {
		return err
	}
	return o.Explain(err)
}

// turn calls the machine. The lease covers the call up to its deadline.
func (s *session) turn(ctx context.Context, op *Operation, target *node.Node) error {
	bounded, cancel := context.WithDeadline(ctx, s.deadline)
	defer cancel()
	if op.Child != "" {
		covered, end, err := s.coverChild(bounded)
		if err != nil {
			return err
		}
		defer end()
		bounded = covered
	}
	if err := driver.CheckDeadline(bounded); err != nil {
		return fmt.Errorf("begin a call to the machine: %w", cmp.Or(context.Cause(ctx), err))
	}
	known := s.attempt
	s.attempt = driver.Unknown // until an answer says more, even if the driver panics
	out, err := op.Change(bounded, target, driver.Turn{
		Attempt: known, Elapsed: s.r.db.Now().Sub(s.cp.Since), Phase: s.cp.Phase, Handle: s.cp.Handle, Heard: s.cp.Heard,
		Origin: driver.Origin{Conductor: s.r.cfg.Hostname, Epoch: target.Lease.Epoch, Request: s.j.info.Request},
	})
	if err != nil {
		var failure *node.DriverError
		if errors.As(err, &failure) && failure.Refused && known != driver.Unknown {
			s.attempt = driver.Refused
		}
		return op.explain(err)
	}
	s.attempt = driver.Continued
	err = s.endTurn(ctx, op, out)
	if unstored(err) && !op.ReadsOnly {
		return Final(err) // the turn was made, and must not be repeated
	}
	return err
}

// endTurn stores the outcome of a turn.
func (s *session) endTurn(ctx context.Context, op *Operation, out driver.Outcome) error {
	switch {
	case op.Child != "":
		return s.endChildTurn(ctx, op, out)
	case out.Done() && (op.ReadsOnly || op.Shown):
		return s.keep(ctx, op, s.applied(out))
	case out.Done():
		return s.advance(ctx, op, s.applied(out))
	}
	return s.wait(ctx, out)
}

// applied returns the function that writes the outcome of a turn into the node; nil for nothing.
func (s *session) applied(out driver.Outcome) Write {
	if out.Apply == nil && out.Note == "" {
		return nil
	}
	return func(tx *store.Tx, n *node.Node) error { return s.apply(tx, n, out) }
}

// apply writes the outcome of a turn into a node and its history.
func (s *session) apply(tx *store.Tx, n *node.Node, out driver.Outcome) error {
	if out.Apply != nil {
		out.Apply(n)
	}
	if out.Note == "" {
		return nil
	}
	return s.r.conductor.Noted(tx, s.j.work, n, out.Note)
}

// request returns the name of an operation of this work. It is the same in every attempt.
func (s *session) request(op *Operation) string {
	w := s.j.work
	request := fmt.Sprintf("%d-%d %s", w.CreatedAt.UnixMicro(), w.ID, op.Name)
	if op.Item != "" {
		request += " " + op.Item
	}
	if s.cp.Failing != "" {
		request += " after failure"
	}
	return request
}
