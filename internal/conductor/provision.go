package conductor

import (
	"context"
	"fmt"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// verbWork says which work each verb asks for. A verb that is not here has no
// work in this version; one whose work is empty ends in a stable state at once.
var verbWork = map[node.Trigger]store.WorkKind{
	node.OnManage:  workVerify,
	node.OnProvide: workClean,
}

// Provision starts a verb. The state that shows it and the work it asks for are
// one commit, after which Provision returns.
func (c *Conductor) Provision(ctx context.Context, ident string, verb node.Verb) error {
	var started *job
	err := c.store.Write(ctx, func(tx *store.Tx) error {
		before, err := unleased(tx, ident)
		if err != nil {
			return err
		}
		n := *before
		if err := c.move(tx, &n, verb.On); err != nil {
			if transition, ok := err.(*node.TransitionError); ok { //nolint:errorlint // Move returns it bare
				transition.Verb = verb.Name
			}
			return err
		}
		if err := c.permit(before, verb); err != nil {
			return err
		}
		n.LastError = ""
		if n.ProvisionState.Class() == node.Working {
			if started, err = c.startWork(tx, n.ID, verbWork[verb.On], nil); err != nil {
				return err
			}
		}
		return tx.UpdateNode(before, &n)
	})
	if err != nil {
		return err
	}
	if started != nil {
		c.enqueue(*started)
	}
	return nil
}

// permit refuses verbs that the state allows but the node or this version does
// not.
func (c *Conductor) permit(n *node.Node, verb node.Verb) error {
	if _, ok := verbWork[verb.On]; !ok {
		return &node.UnsupportedError{What: fmt.Sprintf("The verb %q", verb.Name)}
	}
	if verb.On == node.OnProvide && n.Retired {
		return node.Invalid("Node %s is retired and can not be made available: clear its retired flag first.", n.UUID)
	}
	if verb.On == node.OnProvide && c.cleans(n) {
		return node.Invalid("Node %s asks for automated cleaning, which this version does not have: set automated_clean to false.", n.UUID)
	}
	return nil
}

// cleans reports whether provide runs automated cleaning on the node.
func (c *Conductor) cleans(n *node.Node) bool {
	if n.AutomatedClean != nil {
		return *n.AutomatedClean
	}
	return c.cfg.AutomatedClean
}

// startWork stores work together with a lease of this conductor, so that no
// other one picks it up in between. The caller enqueues it after the commit.
func (c *Conductor) startWork(tx *store.Tx, nodeID int64, kind store.WorkKind, intent node.Object) (*job, error) {
	w := &store.Work{NodeID: nodeID, Kind: kind, Intent: intent}
	var err error
	if w.Lease, err = tx.AcquireLease(nodeID, c.cfg.Hostname, c.cfg.LeaseTTL); err != nil {
		return nil, err
	}
	if err := tx.AddWork(w); err != nil {
		return nil, err
	}
	return &job{Work: w}, nil
}

// UnsupportedError is a request that the API knows and this version cannot
// fulfil yet (HTTP 501).
type UnsupportedError struct{ What string }

func (e *UnsupportedError) Error() string {
	return e.What + " is not available in this version of Ingot."
}

// runVerify checks that a node can be managed: its power interface is configured
// and tells the power state. A node that cannot goes back to enroll.
func (c *Conductor) runVerify(ctx context.Context, j job) error {
	n, err := c.nodeByID(ctx, j.NodeID)
	if err != nil {
		return err
	}
	state, err := c.readPower(ctx, n)
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		return c.fail(ctx, j, fmt.Sprintf("Failed to verify node %s: %v", n.UUID, err))
	}
	return c.finish(ctx, j, func(tx *store.Tx, n *node.Node) error {
		n.PowerState = state
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

// runClean makes a node available. Automated cleaning is refused when the verb
// is asked for, so there is nothing to wipe here.
func (c *Conductor) runClean(ctx context.Context, j job) error {
	return c.finish(ctx, j, func(tx *store.Tx, n *node.Node) error {
		if n.Retired {
			return c.move(tx, n, node.OnManage)
		}
		return c.move(tx, n, node.OnDone)
	})
}

func (c *Conductor) nodeByID(ctx context.Context, id int64) (*node.Node, error) {
	var n *node.Node
	err := c.store.Read(ctx, func(tx *store.Tx) (err error) {
		n, err = tx.NodeByID(id)
		return err
	})
	return n, err
}
