package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

const (
	// never is the time after which work is due that only a client resumes.
	never = 100 * 365 * 24 * time.Hour
	// longWait is the wait from which on work gives its lease back, if the provision state keeps
	// others from the node. Heartbeats and changes of the node need the lease to be free.
	longWait = 10 * time.Second
)

// wait ends the attempt until the operation wants its next turn. Work that does not drive the state
// keeps its lease, so that nobody interferes with what it does to the machine. It gives the lease
// back only while it waits for something else, which may take hours.
func (s *session) wait(ctx context.Context, out driver.Outcome) error {
	if out.Again > 0 {
		out.Again = max(out.Again, clockGrain)
	}
	if out.Park > 0 {
		out.Park = max(out.Park, clockGrain)
	}
	if out.Again <= 0 && out.Park > 0 && !out.Callback && !s.mayPark() {
		out.Again, out.Park = out.Park, 0
	}
	after := cmp.Or(max(out.Again, 0), max(out.Park, 0), s.r.cfg.CallbackTimeout)
	switch drives := s.script.DrivesState; {
	case drives && out.Again <= 0:
		return s.park(ctx, out)
	case drives && after < longWait, !drives && !out.Waits:
		return s.waitWithLease(ctx, out, after)
	}
	return s.store(ctx, true, func(tx *store.Tx, p *progress) error {
		p.work.NotBefore, p.ending = tx.Now().Add(after), errLeaseGivenBack
		return s.note(tx, p, out)
	})
}

// mayPark reports whether the node may go into a waiting state now. It may not while failed work
// leaves its machine in order, because a client could abort that in a waiting state.
func (s *session) mayPark() bool {
	if s.cp.Failing != "" {
		return false
	}
	_, _, err := s.node.Move(node.OnWait)
	return err == nil || s.node.ProvisionState.Class() != node.Working
}

// note stores what a turn leaves for the next one.
func (s *session) note(tx *store.Tx, p *progress, out driver.Outcome) error {
	p.cp, p.work.Attempts = p.cp.continued(out), 0
	return s.apply(tx, p.node, out)
}

// waitWithLease keeps the lease, and the work in this process, until the next turn. The stored
// checkpoint tells a process that takes the row over that the outcome is unknown.
func (s *session) waitWithLease(ctx context.Context, out driver.Outcome, after time.Duration) error {
	s.j.attempt = driver.Continued
	next := s.cp.continued(out)
	next.Attempt = driver.Unknown
	if out.Apply == nil && out.Note == "" && next.encode() == s.j.work.Checkpoint {
		s.j.work.NotBefore, s.j.work.Attempts = s.r.db.Now().Add(after), 0
		return errLeaseKept
	}
	return s.store(ctx, true, func(tx *store.Tx, p *progress) error {
		if err := s.note(tx, p, out); err != nil {
			return err
		}
		p.cp.Attempt = driver.Unknown
		p.work.NotBefore, p.ending = tx.Now().Add(after), errLeaseKept
		return nil
	})
}

// park brings the node into its waiting state and gives the lease back.
func (s *session) park(ctx context.Context, out driver.Outcome) error {
	return s.store(ctx, true, func(tx *store.Tx, p *progress) error {
		if err := s.note(tx, p, out); err != nil {
			return err
		}
		p.cp.Callback = out.Callback
		wait := out.Park
		if wait <= 0 {
			wait = s.r.cfg.CallbackTimeout
		} else {
			p.cp.Due = tx.Now().Add(wait)
		}
		p.work.NotBefore, p.ending = tx.Now().Add(wait), errLeaseGivenBack
		if p.node.ProvisionState.Class() != node.Working {
			return nil
		}
		return s.r.conductor.Move(tx, p.node, node.OnWait)
	})
}

// waitOn gives back the lease of work that has to wait longer.
func (s *session) waitOn(ctx context.Context, wait time.Duration) error {
	return s.store(ctx, false, func(tx *store.Tx, p *progress) error {
		p.work.NotBefore, p.ending = tx.Now().Add(wait), errLeaseGivenBack
		return nil
	})
}

// awaitAgent returns how much longer the operation in progress waits for its agent, 0 when its next
// turn may begin. An agent that is silent for too long is an error. But this process may have been
// away, or without its database, for all that time, so it first gives running agents the time in
// which they must send a heartbeat.
func (s *session) awaitAgent() (time.Duration, error) {
	now, limit := s.r.db.Now(), s.node.ProvisionUpdatedAt.Add(s.r.cfg.CallbackTimeout)
	wait, err := stillWaits(s.cp, s.node, now, limit)
	var late *timeoutError
	if errors.As(err, &late) && s.cp.Absences < maxAbsences {
		again := s.r.listening.begun().Add(min(s.r.cfg.HeartbeatTimeout, s.r.cfg.CallbackTimeout))
		if again.Sub(now) >= clockGrain {
			s.cp.Absences++
			return again.Sub(now), nil
		}
	}
	return wait, err
}

// stillWaits returns how much longer the operation in progress waits for its agent, 0 when its next
// turn may begin. It returns an error when the agent has been silent until the limit. Every
// heartbeat counts as a change of the provision state.
func stillWaits(cp checkpoint, n *node.Node, now, until time.Time) (time.Duration, error) {
	if n.ProvisionState.Class() != node.Waiting || !cp.Callback || cp.Heard {
		return 0, nil
	}
	left := until.Sub(now)
	if !cp.Due.IsZero() {
		left = cp.Due.Sub(now)
	}
	switch {
	case left >= clockGrain:
		return left, nil
	case cp.Due.IsZero():
		refusal, _ := node.FirstRefusal(node.HeartbeatRefusals(n.DriverInternalInfo), n.ProvisionUpdatedAt)
		return 0, &timeoutError{state: n.ProvisionState, since: n.ProvisionUpdatedAt, silent: now.Sub(n.ProvisionUpdatedAt), refusal: refusal}
	}
	return 0, nil
}

// clockGrain is the shortest time worth waiting for, because due times are stored in microseconds.
const clockGrain = time.Millisecond

// timeoutError ends a wait that has lasted too long.
type timeoutError struct {
	state  node.State
	since  time.Time
	silent time.Duration
	// refusal is the refusal of a heartbeat during the wait; the zero value means that none was
	// refused.
	refusal node.HeartbeatRefusal
}

// bootAdvice says where to look when the ramdisk has not called.
const bootAdvice = "See that the machine boots the ramdisk (its console, the DHCP server's log) and that the ramdisk reaches api.public_url."

func (e *timeoutError) Error() string {
	what, advice := "nothing was heard from the machine's ramdisk", bootAdvice
	if e.refusal.Reason != "" {
		what, advice = "no heartbeat of the machine's ramdisk was accepted", e.refusal.String()
	}
	if e.state == node.InspectWait {
		what = "the machine's ramdisk has posted no inventory"
		advice += " The engine's log says why it refused a post."
	}
	return fmt.Sprintf("timed out in state %q: %s for %s (since %s). %s", e.state, what, e.silent.Round(time.Second), e.since.UTC().Format(time.RFC3339), advice)
}
