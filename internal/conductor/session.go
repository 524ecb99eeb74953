package conductor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// Endings of a job that are no failure and need nothing more from its worker.
var (
	// errAsleep: the job keeps its lease and goes on later in this process.
	errAsleep = errors.New("asleep")
	// errParked: the job gave its lease back and goes on when it is due, or when
	// somebody calls.
	errParked = errors.New("parked")
)

// never is how far away the due time of work is that waits for a person alone.
const never = 100 * 365 * 24 * time.Hour

// progress is how far a job has come, as its checkpoint holds it. A job is a
// script of operations that is run from its beginning each time; operations that
// are done are passed over by their number.
type progress struct {
	At    int       `json:"at,omitempty"`    // number of the operation that is next or under way
	Begun bool      `json:"begun,omitempty"` // whether that operation may have had an effect
	Since time.Time `json:"since,omitzero"`  // when it began
	Phase string    `json:"phase,omitempty"` // driver.Outcome.Phase of its last turn
	// Callback says that the agent ends the wait, and Called that it has.
	Callback bool `json:"callback,omitempty"`
	Called   bool `json:"called,omitempty"`
	// Doomed is why the work fails; what is left of it is to clean up.
	Doomed string `json:"doomed,omitempty"`
}

// session is a job at work: its node as last read, its progress, and what the
// next commit writes.
type session struct {
	*Conductor
	j job
	n *node.Node
	progress

	course  bool               // see script
	next    int                // number of the script's next operation
	pending []func(*node.Node) // results of operations since the last commit
}

// open reads what a job needs to go on.
func (c *Conductor) open(ctx context.Context, j job) (*session, error) {
	n, err := c.nodeByID(ctx, j.NodeID)
	if err != nil {
		return nil, err
	}
	s := &session{Conductor: c, j: j, n: n, course: c.scripts[j.Kind].course}
	if err := s.decode(j.Step); err != nil {
		return nil, fmt.Errorf("read checkpoint of work %d: %w", j.ID, err)
	}
	return s, nil
}

// commit writes the results of operations, change and the progress under the
// job's lease. Change may be nil.
func (s *session) commit(ctx context.Context, change func(*store.Tx, *node.Node) error) error {
	return s.commitDue(ctx, 0, change)
}

// commitDue is commit for work that goes on after wait.
func (s *session) commitDue(ctx context.Context, wait time.Duration, change func(*store.Tx, *node.Node) error) error {
	var after node.Node
	work := *s.j.Work
	err := s.store.Write(ctx, func(tx *store.Tx) error {
		before, err := leased(tx, s.j)
		if err != nil {
			return err
		}
		work = *s.j.Work
		work.Step, work.NotBefore, work.Attempts = s.encode(), tx.Now().Add(wait), 0
		after = *before
		s.apply(&after)
		if change != nil {
			if err := change(tx, &after); err != nil {
				return err
			}
		}
		if err := tx.UpdateNode(before, &after); err != nil {
			return err
		}
		return tx.CheckpointWork(&work)
	})
	if err != nil {
		return err
	}
	s.pending = nil
	s.n, *s.j.Work = &after, work
	return nil
}

// leased returns the job's node while the job's lease is in force, else
// node.ErrLeaseLost.
func leased(tx *store.Tx, j job) (*node.Node, error) {
	n, err := tx.NodeByID(j.NodeID)
	if err != nil {
		return nil, err
	}
	if n.Lease.Epoch != j.Lease.Epoch || !n.Lease.Held(tx.Now()) {
		return nil, node.ErrLeaseLost
	}
	return n, nil
}

// apply writes the results of operations into n.
func (s *session) apply(n *node.Node) {
	for _, write := range s.pending {
		write(n)
	}
}

// encode returns the checkpoint's text, empty before the first one.
func (p progress) encode() string {
	if p == (progress{}) {
		return ""
	}
	text, err := json.Marshal(p)
	if err != nil { // plain values always marshal
		panic(fmt.Sprintf("conductor: progress: %v", err))
	}
	return string(text)
}

// decode reads a checkpoint.
func (p *progress) decode(text string) error {
	if text == "" {
		return nil
	}
	return json.Unmarshal([]byte(text), p)
}

// finish ends the job: change is its outcome.
func (s *session) finish(ctx context.Context, change func(*store.Tx, *node.Node) error) error {
	return s.Conductor.finish(ctx, s.j, func(tx *store.Tx, n *node.Node) error {
		s.apply(n)
		return change(tx, n)
	})
}

// operation is one call of a driver, see driver.Turn.
type operation func(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error)

// perform makes the next operation of the script, or passes over it when it is
// done. That the operation begins is on disk, together with begin, before its
// first turn. It returns errAsleep or errParked when the operation needs time.
func (s *session) perform(ctx context.Context, begin func(*node.Node), do operation) error {
	number := s.next
	s.next++
	if number < s.At {
		return nil
	}
	first := number > s.At || !s.Begun
	if first {
		s.progress = progress{At: number, Begun: true, Since: s.store.Now(), Doomed: s.Doomed}
		err := s.commit(ctx, func(_ *store.Tx, n *node.Node) error {
			if begin != nil {
				begin(n)
			}
			return nil
		})
		if err != nil {
			return err
		}
	} else if err := s.resumeWait(ctx); err != nil {
		return err
	}
	return s.turn(ctx, first, do)
}

// resumeWait decides what becomes of a node that was parked and is due.
func (s *session) resumeWait(ctx context.Context) error {
	if s.n.ProvisionState.Class() != node.Waiting || s.Called || !s.Callback {
		return s.checkLease(ctx)
	}
	silent := s.store.Now().Sub(s.n.ProvisionUpdatedAt)
	if limit := s.cfg.Limits.CallbackTimeout; silent < limit {
		return s.park(ctx, driver.Outcome{Callback: true, Park: limit - silent, Phase: s.Phase})
	}
	return &timeoutError{state: s.n.ProvisionState, since: s.n.ProvisionUpdatedAt, silent: silent}
}

// checkLease refuses to touch a machine whose node is no longer ours.
func (s *session) checkLease(ctx context.Context) error {
	return s.store.Read(ctx, func(tx *store.Tx) error { return tx.CheckLease(s.j.NodeID, s.j.Lease) })
}

// turn makes one turn of the operation under way.
func (s *session) turn(ctx context.Context, first bool, do operation) error {
	out, err := do(ctx, s.n, driver.Turn{
		First: first, Elapsed: s.store.Now().Sub(s.Since), Phase: s.Phase, Called: s.Called,
	})
	if err != nil {
		return err
	}
	if out.Apply != nil {
		s.pending = append(s.pending, out.Apply)
	}
	switch {
	case out.Again > 0:
		return s.sleep(ctx, out)
	case !out.Done() && !s.course:
		out.Again = cmp.Or(out.Park, s.cfg.Limits.CallbackTimeout)
		return s.sleep(ctx, out)
	case !out.Done():
		return s.park(ctx, out)
	}
	s.progress = progress{At: s.At + 1, Doomed: s.Doomed}
	if s.course && s.n.ProvisionState.Class() == node.Waiting {
		return s.commit(ctx, func(tx *store.Tx, n *node.Node) error { return s.move(tx, n, node.OnResume) })
	}
	return nil
}

// sleep keeps the lease and lets the worker go until the next turn.
func (s *session) sleep(ctx context.Context, out driver.Outcome) error {
	s.Phase = out.Phase
	if err := s.commitDue(ctx, out.Again, nil); err != nil {
		return err
	}
	s.queue.sleep(s.j)
	s.wakeClaim()
	return errAsleep
}

// park brings the node into its waiting state and gives the lease back.
func (s *session) park(ctx context.Context, out driver.Outcome) error {
	s.Phase, s.Callback, s.Called = out.Phase, out.Callback, false
	wait := out.Park
	if wait <= 0 {
		wait = s.cfg.Limits.CallbackTimeout
	}
	return s.leave(ctx, wait, node.OnWait)
}

// hold brings the node into its hold state, from which the script goes on behind
// the operation that asked for it.
func (s *session) hold(ctx context.Context) error {
	s.progress = progress{At: s.At + 1}
	return s.leave(ctx, never, node.OnHold)
}

// leave moves the node, makes the work due after wait and releases the lease.
func (s *session) leave(ctx context.Context, wait time.Duration, on node.Trigger) error {
	err := s.store.Write(ctx, func(tx *store.Tx) error {
		before, err := leased(tx, s.j)
		if err != nil {
			return err
		}
		after := *before
		s.apply(&after)
		if before.ProvisionState.Class() == node.Working {
			if err := s.move(tx, &after, on); err != nil {
				return err
			}
		}
		if err := tx.UpdateNode(before, &after); err != nil {
			return err
		}
		work := *s.j.Work
		work.Step, work.NotBefore, work.Attempts = s.encode(), tx.Now().Add(wait), 0
		if err := tx.CheckpointWork(&work); err != nil {
			return err
		}
		return tx.ReleaseLease(s.j.Lease)
	})
	if err != nil {
		return err
	}
	return errParked
}
