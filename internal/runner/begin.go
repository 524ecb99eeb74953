package runner

import (
	"slices"
	"time"

	"github.com/ingot-metal/ingot/internal/store"
)

// Begin begins the first operation of new work in the write that leases the node and is about to
// store the work. The write sets the machine busy for the call, which then follows without a commit
// of its own. Begin does nothing unless that operation changes the machine and the machine shows
// whether it was done, so that it does not matter whether the call was made when this process dies.
// Asked is when the write was requested.
func (r *Runner) Begin(tx *store.Tx, j *Job, asked time.Time) error {
	script, _ := r.owner.Script(j.work.Kind)
	s := &session{r: r, j: j, script: script, node: j.node}
	op := s.firstCall()
	if op == nil {
		return nil
	}
	within := s.within(op)
	j.work.Step, j.deadline = checkpoint{}.began(op.Ref, tx.Now()).encode(), callDeadline(asked, within)
	return tx.SetBusy(&j.work.Lease, tx.Now().Add(within), r.cfg.LeaseTTL/3)
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
