package runner

import (
	"context"
	"errors"
	"fmt"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// finalError is a permanent failure.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

// Final marks a failure as permanent: the work is not tried again.
func Final(err error) error { return finalError{err} }

// final reports whether a failure is permanent.
func final(err error) bool {
	var marked finalError
	var invalid *node.ValidationError
	var missing *node.NotSupportedError
	var hardware *node.DriverError
	var timeout *timeoutError
	switch {
	case errors.As(err, &hardware):
		return !hardware.Retryable
	case errors.As(err, &marked), errors.As(err, &timeout), errors.As(err, &invalid), errors.As(err, &missing):
		return true
	}
	return false
}

// afterOperation decides how the work goes on after an operation that returned err; it does nothing
// for nil. After a failure, either the work is tried again, or it fails, or the operation has an
// OnFailure, and afterOperation stores what that returns and returns nil. The operations that leave
// the machine of failed work in order get as many attempts as the work had, because a machine in
// use may be off.
func (s *session) afterOperation(ctx context.Context, op *Operation, err error) error {
	_, over := ended(err)
	var later *LaterError
	switch {
	case err == nil, over, ctx.Err() != nil,
		errors.Is(err, node.ErrLeaseLost), errors.Is(err, node.ErrUnavailable), errors.Is(err, errUnknownOperation):
		return err
	case errors.Is(err, node.ErrNotFound) && s.r.gone(ctx, s.j.work.NodeID):
		return err
	case errors.As(err, &later):
		return s.later(ctx, later)
	case op != nil && op.OnFailure != nil:
		return s.advance(ctx, op, op.OnFailure(err))
	}
	s.r.log.Warn("Work failed", "work", s.j.work.Kind, "node", s.j.work.NodeUUID, "attempt", s.j.work.Attempts+1, "err", err)
	permanent := s.script.NoRetry || final(err)
	switch {
	case !permanent && s.j.work.Attempts+1 < s.r.cfg.MaxAttempts:
		return s.postpone(ctx, err)
	case s.cp.Failing != "":
		return s.endFailed(ctx, node.CutText(s.cp.Failing+" Then, leaving the machine in order failed: "+err.Error()))
	case !permanent:
		err = fmt.Errorf("gave up after %d attempts%s: %w", s.j.work.Attempts+1, s.doubt(op), err)
	}
	return s.fail(ctx, err)
}

// doubt returns the part of an error that says that the outcome of the call in progress is unknown.
// It is empty if the outcome is known.
func (s *session) doubt(op *Operation) string {
	if op == nil || op.Change == nil || s.attempt != driver.Unknown {
		return ""
	}
	return ", outcome unknown, so check the machine"
}

// fail stores that the work has failed, and goes on to leave the machine in order.
func (s *session) fail(ctx context.Context, cause error) error {
	return s.store(ctx, true, func(tx *store.Tx, p *progress) error {
		if err := s.dropChild(tx, p); err != nil {
			return err
		}
		p.cp = s.failing(p.node, cause)
		return s.proceed(tx, p)
	})
}

// endFailed ends failed work when leaving the machine in order has failed, too.
func (s *session) endFailed(ctx context.Context, reason string) error {
	return s.store(ctx, true, func(tx *store.Tx, p *progress) error {
		p.cp.Failing = reason
		if err := s.resume(tx, p.node); err != nil {
			return err
		}
		return s.end(tx, p, s.taskOf(&p.work, p.node, p.cp))
	})
}

// later stores when to try an operation again that waits for something other than its machine.
func (s *session) later(ctx context.Context, later *LaterError) error {
	return s.store(ctx, false, func(tx *store.Tx, p *progress) error {
		p.work.Intent, p.work.NotBefore, p.ending = later.Intent, tx.Now().Add(later.After), errPostponed
		if later.Write == nil {
			return nil
		}
		return later.Write(tx, p.node)
	})
}

// postpone stores when to try the work again and how far the failed call got, and gives the lease
// back. If the machine asks to be left alone for longer than the usual pause, postpone grants that.
func (s *session) postpone(ctx context.Context, cause error) error {
	pause := s.r.cfg.Jitter(retryAfter << s.j.work.Attempts)
	var asked *node.DriverError
	if errors.As(cause, &asked) {
		pause = max(pause, asked.RetryAfter)
	}
	return s.store(ctx, true, func(tx *store.Tx, p *progress) error {
		if err := s.dropChild(tx, p); err != nil {
			return err
		}
		if p.cp.Operation != (Ref{}) {
			p.cp.Attempt = s.attempt
		}
		p.work.NotBefore = tx.Now().Add(pause)
		p.work.Attempts++
		p.ending = errPostponed
		return nil
	})
}
