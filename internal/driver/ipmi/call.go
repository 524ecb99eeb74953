package ipmi

import (
	"context"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// call is one call of the engine to the BMC of a node.
type call struct {
	*session
	access access
	turn   driver.Turn

	sent    bool // a request that changes something
	changed bool // such a request may have had its effect
}

// with makes a call with an open session, in do. Errors of do become errors of the driver, in which
// op says what was tried. A call that only reads has the zero turn.
func (d Driver) with(ctx context.Context, n *node.Node, op string, turn driver.Turn, do func(*call) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	a, err := accessOf(n)
	if err != nil {
		return err
	}
	account := d.accounts.take(a)
	defer d.accounts.release(account)
	c := &call{access: a, turn: turn}
	if c.session, err = account.open(ctx, d.accounts.options); err != nil {
		return c.failure(op, err)
	}
	defer c.close(ctx)
	return c.failure(op, do(c))
}

// change makes a request that changes the machine, and notes how it ended: only a
// refusal is sure to have changed nothing.
func (c *call) change(ctx context.Context, request command, data ...byte) error {
	c.sent = true
	err := c.session.change(ctx, request, data...)
	if !isRefusal(err) {
		c.changed = true
	}
	return err
}

// refused reports whether a failed call is sure to have changed nothing. A failed read proves
// nothing about a change that an earlier call may have made.
func (c *call) refused() bool {
	return !c.changed && (c.sent || c.turn.Attempt == driver.Fresh || c.turn.Attempt == driver.Refused)
}
