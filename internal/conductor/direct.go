package conductor

import (
	"context"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// direct does something quick to a machine while the client waits, under a lease
// and without work: when the process dies, the client knows that it got no
// answer.
func (c *Conductor) direct(ctx context.Context, ident string, do func(ctx context.Context, n *node.Node) (driver.Outcome, error)) error {
	var n *node.Node
	var lease node.Lease
	err := c.retryLocked(ctx, func() error {
		return c.store.Write(ctx, func(tx *store.Tx) (err error) {
			if n, err = unleased(tx, ident); err != nil {
				return err
			}
			lease, err = tx.AcquireLease(n.ID, c.cfg.Hostname, c.cfg.LeaseTTL)
			return err
		})
	})
	if err != nil {
		return err
	}
	c.queue.hold(lease)
	defer c.queue.drop(lease)
	bounded, cancel := context.WithTimeout(ctx, c.cfg.WorkTimeout)
	defer cancel()
	out, failure := do(bounded, n)
	// The client may be gone, but the lease must not stay.
	err = c.store.Write(context.WithoutCancel(ctx), func(tx *store.Tx) error {
		before, err := leased(tx, job{Work: &store.Work{NodeID: n.ID, Lease: lease}})
		if err != nil {
			return err
		}
		if failure == nil && out.Apply != nil {
			after := *before
			out.Apply(&after)
			if err := tx.UpdateNode(before, &after); err != nil {
				return err
			}
		}
		return tx.ReleaseLease(lease)
	})
	if failure != nil {
		return failure
	}
	return err
}
