package runner

import (
	"slices"
	"time"

	"github.com/ingot-metal/ingot/internal/store"
)

// Begin makes new work begin with its first operation, in the write that leases the node and
// is about to store the work: the machine is held for the call, which then follows without
// a commit of its own. It does nothing unless that operation changes the machine and the
// machine shows whether it was done, so that it does not matter whether the call was made
// when this process dies. Asked is when the write was asked for.
func (r *Runner) Begin(tx *store.Tx, j *Job, asked time.Time) error {
	script, _ := r.owner.Script(j.work.Kind)
	s := &session{r: r, j: j, script: script, node: j.node}
	op := s.firstCall()
	if op == nil {
		return nil
	}
	within := s.within(op)
	j.work.Step, j.deadline = checkpoint{}.began(op.Ref, tx.Now()).encode(), callDeadline(asked, within)
	return tx.HoldMachine(&j.work.Lease, tx.Now().Add(within), r.cfg.LeaseTTL/3)
}

// firstCall returns the operation that new work begins with when that is a call to the
// machine which Begin may begin, else nil.
func (s *session) firstCall() *Operation {
	operations, err := s.operations(s.task())
	first := slices.IndexFunc(operations, func(o Operation) bool { return !o.Skip })
	if err != nil || first < 0 {
		return nil // which the session deals with
	}
	if op := &operations[first]; op.Change != nil && op.Shown && !op.Harmless && op.Child == "" && op.Begin == nil {
		return op
	}
	return nil
}
