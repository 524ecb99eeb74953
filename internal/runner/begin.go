package runner

import (
	"slices"
	"time"

	"github.com/ingot-metal/ingot/internal/store"
)

// Begin leases the node of new work to this process, in the write that is about to store the work.
// It also begins the first operation of the work: the machine is then busy for the call, which
// follows without a commit of its own. It does so only if that operation changes the machine and the
// machine shows whether it was done, so that it does not matter whether the call was made when this
// process dies. Asked is when the write was requested.
func (r *Runner) Begin(tx *store.Tx, j *Job, asked time.Time) (err error) {
	script, _ := r.conductor.Script(j.work.Kind)
	s := &session{r: r, j: j, script: script, node: j.node}
	op := s.firstCall()
	if op == nil {
		j.work.Lease, err = tx.AcquireLease(j.work.NodeID, r.cfg.Hostname, r.cfg.LeaseTTL)
		return err
	}
	within := s.within(op)
	j.work.Checkpoint, j.deadline = checkpoint{}.began(op.Ref, tx.Now()).encode(), callDeadline(asked, within)
	j.work.Lease, err = tx.AcquireBusyLease(j.work.NodeID, r.cfg.Hostname, r.cfg.LeaseTTL, within, r.cfg.LeaseTTL/3)
	return err
}

// firstCall returns the first operation of new work if it is a call that Begin may begin, else nil.
func (s *session) firstCall() *Operation {
	operations, err := s.operations(s.task())
	first := slices.IndexFunc(operations, func(o Operation) bool { return !o.Skip })
	if err != nil || first < 0 {
		return nil // the session handles that
	}
	if op := &operations[first]; op.Change != nil && op.Shown && !op.ReadsOnly && op.Child == "" && op.Begin == nil {
		return op
	}
	return nil
}
