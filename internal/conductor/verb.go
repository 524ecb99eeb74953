package conductor

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// Provision starts a verb. It stores the new state and the work in one commit and then returns.
// Like other requests, it waits for the end of work that does not decide the state, such as a power
// change. It does not wait for the work of another verb.
func (c *Conductor) Provision(ctx context.Context, ident string, request node.VerbRequest) error {
	arrived := c.store.Now()
	if prepare := verbRules[request.Verb.On].prepare; prepare != nil {
		if err := prepare(c, &request); err != nil {
			return err
		}
	}
	var after *node.Node
	var started *runner.Job
	err := c.runner.WhenFree(ctx, c.cfg.LockWait, isWaitableLock, func() error {
		return c.store.Write(ctx, func(tx *store.Tx) (err error) {
			after, started, err = c.provision(tx, ident, request, arrived)
			return err
		})
	})
	if err != nil {
		return err
	}
	c.log.Info("Verb accepted", "node", after.UUID, "verb", request.Verb.Name, "state", after.ProvisionState, "user", request.User)
	c.runner.Enqueue(started)
	return nil
}

// provision starts a verb inside a transaction. It returns the changed node and the
// job to run.
func (c *Conductor) provision(tx *store.Tx, ident string, request node.VerbRequest, arrived time.Time) (*node.Node, *runner.Job, error) {
	tx.ExpectWork()
	before, err := tx.Node(ident)
	if err != nil {
		return nil, nil, err
	}
	n := *before
	_, _, err = n.Move(request.Verb.On)
	switch {
	case before.Lease.Suspended():
		return nil, nil, before.Locked()
	case before.ProvisionState.Class() == node.Working:
		// Work is in progress, even if its lease has expired or it waits without one.
		// Some triggers that end work are named like a verb: clients must not use them.
		return nil, nil, &node.LockedError{Node: n.UUID, Holder: cmp.Or(before.Lease.Holder, c.cfg.Hostname)}
	case before.Lease.InForce(tx.Now()):
		return nil, nil, underWork(before, arrived, err == nil)
	case err != nil:
		return nil, nil, refused(before, request, arrived, c.cfg.Hostname)
	case before.ProvisionUpdatedAt.After(arrived):
		// The state has changed since, perhaps by the same verb, which led back to it.
		return nil, nil, &node.LockedError{Node: n.UUID, Holder: c.cfg.Hostname}
	}
	if err := c.refuseBesideWork(tx, before, request); err != nil {
		return nil, nil, err
	}
	if request, err = withRunbook(tx, &n, request); err != nil {
		return nil, nil, err
	}
	if request.Verb.On != node.OnAbort {
		if err := checkInterruptible(before); err != nil {
			return nil, nil, err
		}
	}
	if err := c.permit(tx, before, request); err != nil {
		return nil, nil, err
	}
	if request.Verb.Accepts() {
		if err := c.acceptNode(tx, &n); err != nil {
			return nil, nil, err
		}
	}
	// An abort keeps the error of work that has failed, and writes its own for work that waits.
	if request.Verb.On != node.OnAbort {
		n.ClearError()
	}
	started, err := c.begin(tx, &n, request)
	if err != nil {
		return nil, nil, err
	}
	if err := c.recordRequest(tx, request, before, &n); err != nil {
		return nil, nil, err
	}
	return &n, started, tx.UpdateNode(before, &n)
}

// refuseBesideWork refuses a verb while work of the node is to be tried again, except the work that
// the node waits in. In a stable state that may be the hooks of a machine that was discovered: they
// decide the state, as the work of the verb would, and one would be taken for the other.
//
// An abort of waiting work only has the machine left in order. One of a failed servicing declares the
// instance healthy, which the machine may not be while it is still left in order.
func (c *Conductor) refuseBesideWork(tx *store.Tx, n *node.Node, request node.VerbRequest) error {
	switch class := n.ProvisionState.Class(); {
	case request.Verb.On == node.OnAbort && n.ProvisionState != node.ServiceFailed:
		return nil
	case class == node.Waiting || class == node.Held:
		return c.refuseDuringOtherWork(tx, n)
	}
	return c.refuseDuring(tx, n, func(runner.Script) bool { return true })
}

// refuseDuringOtherWork refuses a request while work that does not decide the state, such as a
// power change, is to be tried again. Otherwise that work would interfere with the work of a verb
// that waits, or undo what the request has done.
func (c *Conductor) refuseDuringOtherWork(tx *store.Tx, n *node.Node) error {
	return c.refuseDuring(tx, n, func(script runner.Script) bool { return !script.DrivesState })
}

// refuseDuring refuses a request while the node has work with such a script.
func (c *Conductor) refuseDuring(tx *store.Tx, n *node.Node, such func(runner.Script) bool) error {
	works, err := tx.WorkOf(n.ID)
	if err != nil {
		return err
	}
	for _, w := range works {
		if script, known := c.scripts[w.Kind]; known && such(script) {
			return c.underWay(n)
		}
	}
	return nil
}

// waitableLockError is a *node.LockedError that is worth waiting for: the state allows the verb,
// and only work that does not decide the state, such as a power change or the clean-up after an
// abort, holds the node.
type waitableLockError struct{ *node.LockedError }

func (e waitableLockError) Unwrap() error { return e.LockedError }

func isWaitableLock(err error) bool {
	var waitable waitableLockError
	return errors.As(err, &waitable)
}

// underWork returns the refusal of a verb for a node under work. If the state has changed since the
// request arrived, waiting is of no use: another client was faster and may have requested the
// same.
func underWork(n *node.Node, arrived time.Time, allowed bool) error {
	locked := &node.LockedError{Node: n.UUID, Holder: n.Lease.Holder}
	if allowed && !n.ProvisionUpdatedAt.After(arrived) {
		return waitableLockError{locked}
	}
	return locked
}

// refused says why the state does not allow a verb. When the state has changed since
// the request arrived, another client was faster: the client may try again.
func refused(n *node.Node, request node.VerbRequest, arrived time.Time, hostname string) error {
	if n.ProvisionUpdatedAt.After(arrived) {
		return &node.LockedError{Node: n.UUID, Holder: hostname}
	}
	return &node.TransitionError{Node: n.UUID, Verb: request.Verb.Name, State: n.ProvisionState}
}

// begin changes the state of the node and stores the work of the verb.
func (c *Conductor) begin(tx *store.Tx, n *node.Node, request node.VerbRequest) (*runner.Job, error) {
	switch request.Verb.On {
	case node.OnAbort:
		return c.abort(tx, n)
	case node.OnUnhold:
		if err := c.Move(tx, n, node.OnUnhold); err != nil {
			return nil, err
		}
		return c.unhold(tx, n)
	}
	parked := n.ProvisionState.Class() == node.Waiting || n.ProvisionState.Class() == node.Held
	if err := c.Move(tx, n, request.Verb.On); err != nil {
		return nil, err
	}
	if n.ProvisionState.Class() != node.Working {
		return nil, nil
	}
	if parked {
		if err := c.dropParked(tx, n.ID); err != nil {
			return nil, err
		}
		clearSteps(n)
		node.ClearRescuePassword(n)
	}
	rule := verbRules[request.Verb.On]
	if rule.begin != nil {
		rule.begin(c, tx, n, request)
	}
	return c.startServed(tx, n, rule.work, verbIntent(request))
}

// verbIntent returns the part of the request that the work needs.
func verbIntent(request node.VerbRequest) node.Object {
	intent := map[string]any{}
	if len(request.Steps) > 0 {
		intent[stepsIntent] = request.Steps
	}
	if request.Verb.On == node.OnClean {
		intent[manualIntent] = true
	}
	if request.DisableRamdisk {
		intent[disableRamdiskIntent] = true
	}
	return node.ObjectOf(intent)
}

// withRunbook replaces the runbook in the request by its steps.
func withRunbook(tx *store.Tx, n *node.Node, request node.VerbRequest) (node.VerbRequest, error) {
	if request.Runbook == "" {
		return request, nil
	}
	runbook, err := store.Runbooks.Refer(tx, request.Runbook)
	switch {
	case isNotFound(err):
		return request, node.Invalid("There is no runbook %s.", node.CutText(request.Runbook))
	case err != nil:
		return request, err
	case !n.Traits.Has(runbook.Name):
		return request, node.Invalid("The runbook %s cannot run on node %s, which does not have the trait of that name.", runbook.Name, n.UUID)
	}
	request.DisableRamdisk = request.DisableRamdisk || runbook.DisableRamdisk
	if request.Steps, err = stepsOf(runbook.Steps); err != nil {
		return request, err
	}
	if on := request.Verb.On; on == node.OnDeploy || on == node.OnRebuild {
		request.Steps = node.RunbookDeploySteps(request.Steps)
	}
	return request, nil
}

// startWork stores work together with a lease of this conductor, so that no other
// conductor claims it first. The caller enqueues the job after the commit.
func (c *Conductor) startWork(tx *store.Tx, n *node.Node, kind store.WorkKind, intent node.Object) (*runner.Job, error) {
	w, err := c.leasedWork(tx, n, kind, intent)
	if err != nil {
		return nil, err
	}
	if err := tx.AddWork(w); err != nil {
		return nil, err
	}
	return runner.NewJob(w, n, nil), nil
}

// leasedWork leases a node to this conductor and returns work of it, which the caller stores.
func (c *Conductor) leasedWork(tx *store.Tx, n *node.Node, kind store.WorkKind, intent node.Object) (*store.Work, error) {
	lease, err := tx.AcquireLease(n.ID, c.cfg.Hostname, c.cfg.LeaseTTL)
	return &store.Work{NodeID: n.ID, NodeUUID: n.UUID, Kind: kind, Intent: intent, Lease: lease}, err
}
