package conductor

import (
	"context"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// verifyOperations check that a node can be managed: its power interface is configured
// and reports the power state. They also read which machine it is, and its settings.
func (c *Conductor) verifyOperations(runner.Task) ([]runner.Operation, error) {
	return []runner.Operation{
		{Ref: runner.Ref{Name: "verify"}, Change: c.drivers.Verify, Harmless: true},
		{Ref: runner.Ref{Name: "read power"}, Read: func(ctx context.Context, n *node.Node) (runner.Write, error) {
			state, err := c.readPower(ctx, n)
			if err != nil {
				return nil, err
			}
			found := c.readIdentity(ctx, n)
			return func(_ *store.Tx, n *node.Node) error {
				n.PowerState = state
				setIdentity(n, found)
				return nil
			}, nil
		}},
		c.readSettings(true),
	}, nil
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
