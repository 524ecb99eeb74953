package runner

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// Ways in which an attempt ends without a failure; nothing more has to be done.
var (
	errDone           = errors.New("done")             // the row is gone, or is other work now
	errFailed         = errors.New("failed")           // the failure is stored and the row is gone
	errLeaseKept      = errors.New("lease kept")       // the job keeps its lease and continues in this process
	errLeaseGivenBack = errors.New("lease given back") // the lease is given back; the row says when the work continues
	errPostponed      = errors.New("postponed")        // the same, after a failure that may pass
	errStopped        = errors.New("stopped")          // the process ends
)

// endings maps each of these errors to the outcome for the observer.
var endings = map[error]Outcome{
	errDone: Done, errFailed: Failed, errLeaseKept: Waiting, errLeaseGivenBack: Waiting, errPostponed: Postponed, errStopped: Stopped,
}

// ended returns the outcome for err; false when err is not one of these.
func ended(err error) (Outcome, bool) {
	outcome, ok := endings[err]
	return outcome, ok
}

// runJob makes one attempt at a job.
func (r *Runner) runJob(ctx context.Context, j *Job) {
	began := r.db.Now()
	attempt, cancel := context.WithCancelCause(ctx)
	j.info = Info{Task: "work", Work: j.work.Kind, Node: j.work.NodeUUID}
	attempt = WithInfo(attempt, &j.info)
	r.leases.watch(j.work.Lease, cancel)
	end, err := r.exclusive.begin(attempt, j.work.NodeID, j.work.Lease, cancel)
	if err == nil {
		err = r.attempt(attempt, j)
		end()
	}
	outcome := r.endAttempt(attempt, j, err)
	cancel(nil)
	r.leases.watch(j.work.Lease, nil)
	kind := string(j.info.Work) // read now, because the next attempt may begin before this one has ended
	switch outcome {
	case Waiting, Postponed:
		r.goOn(ctx, j, err)
	default:
		r.releaseJob(j)
	}
	r.cfg.Observer.WorkEnded(kind, outcome, r.db.Now().Sub(began))
}

// goOn keeps a job whose lease this process keeps, and gives up other jobs.
func (r *Runner) goOn(ctx context.Context, j *Job, err error) {
	switch {
	case errors.Is(err, errLeaseKept):
		r.queue.delay(j)
		r.WakeClaim()
	case errors.Is(err, errLeaseGivenBack), errors.Is(err, errPostponed):
		r.releaseJob(j)
	default: // the database is not available: the row is read again when it is back
		j.stale, j.node, j.hint, j.attempt = true, nil, nil, ""
		r.sessions.Go(func() {
			if r.pause(ctx, r.cfg.Jitter(retryAfter)) {
				r.queue.push(j)
			}
		})
	}
}

// releaseJob undoes Enqueue.
func (r *Runner) releaseJob(j *Job) {
	r.leases.release(j.work.Lease)
	r.leases.release(j.child)
	r.waiters.free(j.work.NodeUUID)
}

// panicked logs a panic and returns it as an error.
func (r *Runner) panicked(j *Job, panicked any) error {
	r.log.Error("Work panicked", "work", j.work.Kind, "node", j.work.NodeUUID, "panic", panicked, "stack", string(debug.Stack()))
	return fmt.Errorf("internal error in %s: %v", j.work.Kind, panicked)
}

// attempt runs the script from where the row says. A panic before or after an operation is an error
// too.
func (r *Runner) attempt(ctx context.Context, j *Job) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = r.panicked(j, panicked)
		}
	}()
	s, err := r.open(ctx, j)
	if err != nil {
		return err
	}
	defer s.exit()
	for err == nil {
		if r.stopping() {
			return errStopped
		}
		err = s.runOperation(ctx)
	}
	return err
}

// endAttempt handles the end of an attempt and returns its outcome.
func (r *Runner) endAttempt(ctx context.Context, j *Job, err error) Outcome {
	outcome, ok := ended(err)
	switch {
	case ok:
		if outcome != Stopped {
			r.WakeClaim()
		}
		return outcome
	case errors.Is(err, node.ErrLeaseLost), errors.Is(context.Cause(ctx), node.ErrLeaseLost):
		r.log.Warn("Lease lost, leaving work to its new owner", "work", j.work.Kind, "node", j.work.NodeUUID)
		r.WakeClaim()
		return Lost
	case ctx.Err() != nil:
		return Stopped
	case errors.Is(err, errUnknownOperation):
		r.leave(ctx, j, err)
		return Left
	case errors.Is(err, node.ErrNotFound) && r.gone(ctx, j.work.NodeID):
		r.log.Debug("Node is gone, dropping its work", "work", j.work.Kind, "node", j.work.NodeUUID)
		return Dropped
	}
	// The database is not available, or a failure could not be stored. Everything that was done is
	// stored, or the machine shows it, so the row says how to go on.
	r.log.Warn("Work waits for the database", "work", j.work.Kind, "node", j.work.NodeUUID, "err", err)
	return Postponed
}

// leave gives back a row that a newer version has written.
func (r *Runner) leave(ctx context.Context, j *Job, cause error) {
	if r.ignored.add(j.work.ID, r.db.Now()) {
		r.log.Warn("Work is left to a newer version of the engine, which has begun it", "work", j.work.Kind, "node", j.work.NodeUUID, "err", cause)
	}
	if err := r.db.Write(ctx, func(tx *store.Tx) error { return tx.EndLeaseKeepBusy(j.work.Lease) }); err != nil && ctx.Err() == nil {
		r.log.Error("Lease of work for a newer version could not be given back, it runs out", "node", j.work.NodeUUID, "err", err)
	}
}

// Knows reports whether this version can go on with the work of a node; if not, only a newer
// version can.
func (r *Runner) Knows(w *store.Work, n *node.Node) bool {
	script, known := r.conductor.Script(w.Kind)
	if !known {
		return false
	}
	s := &session{r: r, j: &Job{work: w}, script: script, node: n}
	var err error
	if s.cp, err = decode(w.Checkpoint, s.task(), script); err == nil {
		var operations []Operation
		if operations, err = s.operations(s.task()); err == nil {
			_, err = s.cp.next(operations)
		}
	}
	return !errors.Is(err, errUnknownOperation)
}

// gone reports whether a node was deleted.
func (r *Runner) gone(ctx context.Context, id int64) bool {
	err := r.db.Read(ctx, func(tx *store.Tx) error {
		_, err := tx.NodeByID(id)
		return err
	})
	return errors.Is(err, node.ErrNotFound)
}

// open prepares a session for the next attempt at a job.
func (r *Runner) open(ctx context.Context, j *Job) (*session, error) {
	if j.node == nil || j.stale {
		if err := r.read(ctx, j); err != nil {
			return nil, err
		}
	}
	n := *j.node
	n.Lease, j.node = j.work.Lease, nil
	s := &session{r: r, j: j, node: &n}
	var known bool
	if s.script, known = r.conductor.Script(j.work.Kind); !known {
		return nil, fmt.Errorf("work of kind %q: %w", j.work.Kind, errUnknownOperation)
	}
	var err error
	if s.cp, err = decode(j.work.Checkpoint, s.task(), s.script); err != nil {
		return nil, err
	}
	if s.attempt = s.cp.Attempt; j.attempt != "" {
		s.attempt = j.attempt
	}
	if !j.deadline.IsZero() {
		s.attempt, s.deadline, j.deadline = s.cp.firstAttempt(), j.deadline, time.Time{}
		s.cp.Since = r.db.Now()
	}
	if j.claimed {
		s.cp = s.cp.resumed(j.work.NotBefore, r.db.Now())
	}
	return s, nil
}

// read reads the node of a job, and also the row if the job is stale.
func (r *Runner) read(ctx context.Context, j *Job) error {
	return r.db.ReadSingle(ctx, func(tx *store.Tx) error {
		n, err := tx.NodeByID(j.work.NodeID)
		if err != nil {
			return err
		}
		j.node = n
		if !j.stale {
			return nil
		}
		works, err := tx.WorkOf(n.ID)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(works, func(w *store.Work) bool { return w.ID == j.work.ID })
		if i < 0 || !holds(n, j.work.Lease) {
			j.stale = false
			return node.ErrLeaseLost
		}
		works[i].NodeUUID, works[i].Lease = n.UUID, n.Lease
		j.work, j.stale = works[i], false
		j.info.Work = j.work.Kind
		return nil
	})
}
