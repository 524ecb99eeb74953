package conductor

import (
	"context"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// verifyOperations returns the operations that check whether a node can be managed: its power
// interface must be configured and report the power state. They also read which machine it is, and
// its settings.
func (c *Conductor) verifyOperations(runner.Task) ([]runner.Operation, error) {
	return []runner.Operation{
		{Ref: runner.Ref{Name: "verify"}, Change: c.drivers.Verify, ReadsOnly: true},
		{Ref: runner.Ref{Name: "read power"}, Read: func(ctx context.Context, n *node.Node) (runner.Write, error) {
			state, err := c.readPower(ctx, n)
			if err != nil {
				return nil, err
			}
			found := c.readIdentity(ctx, n)
			if err := c.refuseMachineOfAnother(ctx, n, found); err != nil {
				return nil, err
			}
			return func(tx *store.Tx, n *node.Node) error {
				n.PowerState = state
				return setIdentity(tx, n, found)
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
