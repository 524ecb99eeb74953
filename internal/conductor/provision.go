package conductor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// Provision starts a verb. The state that shows it and the work it asks for are
// one commit, after which Provision returns. It waits for work beside the state,
// like other requests, and not for the work of another verb.
func (c *Conductor) Provision(ctx context.Context, ident string, request node.VerbRequest) error {
	arrived := c.store.Now()
	var after *node.Node
	var started *job
	err := c.retryWhile(ctx, isBeside, func() error {
		return c.store.Write(ctx, func(tx *store.Tx) (err error) {
			after, started, err = c.provision(tx, ident, request, arrived)
			return err
		})
	})
	if err != nil {
		return err
	}
	c.log.Info("Verb accepted", "node", after.UUID, "verb", request.Verb.Name, "state", after.ProvisionState, "user", request.User)
	c.enqueueStarted(started)
	return nil
}

// provision starts a verb inside a transaction. It returns the node as it is then
// and the work to do.
func (c *Conductor) provision(tx *store.Tx, ident string, request node.VerbRequest, arrived time.Time) (*node.Node, *job, error) {
	before, err := tx.Node(ident)
	if err != nil {
		return nil, nil, err
	}
	n := *before
	_, _, err = n.Move(request.Verb.On)
	switch {
	case before.Lease.Held(tx.Now()):
		return nil, nil, underWork(before, arrived, err == nil)
	case err != nil:
		return nil, nil, refused(before, request, arrived, c.cfg.Hostname)
	case before.ProvisionUpdatedAt.After(arrived): // by an equal verb, it may be, that led back to this state
		return nil, nil, &node.LockedError{Node: n.UUID, Owner: c.cfg.Hostname}
	}
	if request, err = withRunbook(tx, &n, request); err != nil {
		return nil, nil, err
	}
	if err := c.permit(tx, before, request); err != nil {
		return nil, nil, err
	}
	n.LastError = ""
	started, err := c.begin(tx, &n, request)
	if err != nil {
		return nil, nil, err
	}
	if err := c.recordRequest(tx, request, before, &n); err != nil {
		return nil, nil, err
	}
	return &n, started, tx.UpdateNode(before, &n)
}

// besideError is a *node.LockedError that passes soon: the state allows the verb,
// and what holds the node is work beside the state, such as a power change or
// cleaning up behind an abort.
type besideError struct{ *node.LockedError }

func (e besideError) Unwrap() error { return e.LockedError }

func isBeside(err error) bool {
	var beside besideError
	return errors.As(err, &beside)
}

// underWork refuses a verb for a node that work holds. When the state has changed
// since the request arrived, somebody was quicker and may have asked for the same.
func underWork(n *node.Node, arrived time.Time, allowed bool) error {
	locked := &node.LockedError{Node: n.UUID, Owner: n.Lease.Owner}
	if allowed && !n.ProvisionUpdatedAt.After(arrived) {
		return besideError{locked}
	}
	return locked
}

// refused says why the state does not allow a verb. A state that is younger than
// the request was changed by somebody who was quicker: the client may try again.
func refused(n *node.Node, request node.VerbRequest, arrived time.Time, hostname string) error {
	if n.ProvisionUpdatedAt.After(arrived) {
		return &node.LockedError{Node: n.UUID, Owner: hostname}
	}
	return &node.TransitionError{Node: n.UUID, Verb: request.Verb.Name, State: n.ProvisionState}
}

// begin moves the node and stores the work that the verb asks for.
func (c *Conductor) begin(tx *store.Tx, n *node.Node, request node.VerbRequest) (*job, error) {
	switch request.Verb.On {
	case node.OnAbort:
		return c.abort(tx, n)
	case node.OnUnhold:
		if err := c.move(tx, n, node.OnUnhold); err != nil {
			return nil, err
		}
		return c.unhold(tx, n)
	}
	parked := n.ProvisionState.Class() == node.Waiting || n.ProvisionState.Class() == node.Held
	if err := c.move(tx, n, request.Verb.On); err != nil {
		return nil, err
	}
	if n.ProvisionState.Class() != node.Working {
		return nil, nil
	}
	if parked {
		if err := c.dropParked(tx, n.ID); err != nil {
			return nil, err
		}
		endSteps(n)
	}
	rule := verbRules[request.Verb.On]
	if rule.begin != nil {
		rule.begin(tx, n, request)
	}
	return c.startServed(tx, n, rule.work, verbIntent(request))
}

// verbIntent is what the work needs to know of the request.
func verbIntent(request node.VerbRequest) node.Object {
	intent := map[string]any{}
	if len(request.Steps) > 0 {
		intent[stepsIntent] = request.Steps
	}
	if request.Verb.On == node.OnClean {
		intent[manualIntent] = true
	}
	return node.ObjectOf(intent)
}

// withRunbook puts the steps of the runbook that the request names in its place.
func withRunbook(tx *store.Tx, n *node.Node, request node.VerbRequest) (node.VerbRequest, error) {
	if request.Runbook == "" {
		return request, nil
	}
	runbook, err := store.Runbooks.Get(tx, request.Runbook)
	switch {
	case isNotFound(err):
		return request, node.Invalid("There is no runbook %s.", node.CutText(request.Runbook))
	case err != nil:
		return request, err
	case !n.Traits.Has(runbook.Name):
		return request, node.Invalid("The runbook %s does not fit node %s, which has not the trait of this name.", runbook.Name, n.UUID)
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

// startWork stores work together with a lease of this conductor, so that no
// other one picks it up in between. The caller enqueues it after the commit.
func (c *Conductor) startWork(tx *store.Tx, n *node.Node, kind store.WorkKind, intent node.Object) (*job, error) {
	w := &store.Work{NodeID: n.ID, NodeUUID: n.UUID, Kind: kind, Intent: intent}
	var err error
	if w.Lease, err = tx.AcquireLease(n.ID, c.cfg.Hostname, c.cfg.LeaseTTL); err != nil {
		return nil, err
	}
	if err := tx.AddWork(w); err != nil {
		return nil, err
	}
	return &job{Work: w}, nil
}

// runVerify checks that a node can be managed: its power interface is configured
// and tells the power state. A node that cannot goes back to enroll. What the
// machine says of its settings is kept.
func (c *Conductor) runVerify(ctx context.Context, j job) error {
	n, err := c.nodeByID(ctx, j.NodeID)
	if err != nil {
		return err
	}
	out, err := c.drivers.Verify(ctx, n, driver.Turn{First: true, Elapsed: c.store.Now().Sub(j.CreatedAt)})
	if err == nil && out.Again > 0 {
		s := &session{Conductor: c, j: j, n: n}
		return s.sleep(ctx, out)
	}
	var state node.PowerState
	var settings reading
	if err == nil {
		state, err = c.readPower(ctx, n)
	}
	if err == nil {
		settings, err = c.readHardware(ctx, n)
	}
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		return c.fail(ctx, j, fmt.Sprintf("Failed to verify node %s: %v", n.UUID, err))
	}
	return c.finish(ctx, j, func(tx *store.Tx, n *node.Node) error {
		n.PowerState = state
		if err := settings.store(tx, n); err != nil {
			return err
		}
		return c.move(tx, n, node.OnDone)
	})
}

func (c *Conductor) readPower(ctx context.Context, n *node.Node) (node.PowerState, error) {
	power, err := c.drivers.Power(n)
	if err != nil {
		return "", err
	}
	if err := power.Validate(n); err != nil {
		return "", err
	}
	return power.PowerState(ctx, n)
}

func (c *Conductor) nodeByID(ctx context.Context, id int64) (*node.Node, error) {
	var n *node.Node
	err := c.store.Read(ctx, func(tx *store.Tx) (err error) {
		n, err = tx.NodeByID(id)
		return err
	})
	return n, err
}
