package conductor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/inspect"
	"github.com/ingot-metal/ingot/internal/inventory"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// inventoryReader returns the node's inspect interface if it reads the hardware through
// the BMC.
func (c *Conductor) inventoryReader(n *node.Node) (driver.InventoryReader, bool) {
	implementation, err := c.drivers.Implementation(n, node.InspectInterface)
	if err != nil {
		return nil, false
	}
	reader, ok := implementation.(driver.InventoryReader)
	return reader, ok
}

// inventoryWithin bounds the time for reading the hardware of a machine through its BMC,
// which takes a call for each processor, interface and disk.
const inventoryWithin = 3 * time.Minute

// outOfBandOperations returns the operations that read the hardware through the BMC, store it as
// the inspection document of the machine, and run the hooks over it as over a posted document. They
// neither start nor stop the machine.
func (c *Conductor) outOfBandOperations(t runner.Task) []runner.Operation {
	return []runner.Operation{
		c.noteIdentity(t.Node),
		{Ref: runner.Ref{Name: "read inventory"}, Read: func(ctx context.Context, n *node.Node) (runner.Write, error) {
			return c.readInventory(ctx, t.Work, n)
		}, Within: inventoryWithin},
		{Ref: runner.Ref{Name: "run hooks"}, Processor: true, Read: func(ctx context.Context, _ *node.Node) (runner.Write, error) {
			return c.processShown(ctx, t)
		}},
	}
}

// readInventory reads the hardware through the BMC and stores it. It adds what the BMC does not
// tell from the result of an earlier inspection. As after a post, provisional nodes give up the
// addresses of the machine.
func (c *Conductor) readInventory(ctx context.Context, w *store.Work, n *node.Node) (runner.Write, error) {
	reader, err := driver.Ability[driver.InventoryReader](c.drivers, n, node.InspectInterface, "inspection through the BMC")
	if err != nil {
		return nil, err
	}
	_, earlier, err := c.lastResult(ctx, n.UUID)
	switch {
	case isGone(err):
		c.log.Info("The BMC is inspected without the result of an earlier inspection", "node", n.UUID, "err", err)
	case err != nil:
		return nil, c.awaitObjects(ctx, w, err)
	}
	body, err := reader.ReadInventory(ctx, n)
	if err != nil {
		return nil, err
	}
	document, err := inventory.JoinOutOfBand(body, earlier)
	if err != nil {
		return nil, runner.Final(fmt.Errorf("read what the BMC shows: %w", err))
	}
	delete(document.PluginData, discoveredKey)
	return func(tx *store.Tx, n *node.Node) error {
		if err := tx.DropUnused(n.ID); err != nil {
			return err
		}
		macs, leftOut := c.claimedBy(n, document)
		noteLeftOut(n, leftOut)
		if err := c.takeFromProvisional(tx, n, macs); err != nil {
			return err
		}
		_, err := storeDocument(tx, n, document, macs)
		return err
	}, nil
}

// isGone reports whether an earlier result is out of reach for good: there is none, or it is in an
// object store that is no longer configured.
func isGone(err error) bool {
	return errors.Is(err, node.ErrNotFound) || errors.Is(err, errNoObjectStore)
}

// takeFromProvisional takes the addresses from provisional nodes for a node that is not
// provisional.
func (c *Conductor) takeFromProvisional(tx *store.Tx, n *node.Node, macs []string) error {
	matches, err := tx.MatchClaims(macClaims(macs))
	if err != nil || n.Provisional {
		return err
	}
	t := &macTransfer{to: n, macs: macs}
	for _, m := range matches {
		if m.Provisional {
			if err := c.takeFrom(tx, t, m.UUID); err != nil {
				return err
			}
		}
	}
	return nil
}

// processShown runs the hooks over the document that readInventory has stored. It first drops what
// this process remembers of discovered nodes, because the commit before may have deleted some.
func (c *Conductor) processShown(ctx context.Context, t runner.Task) (runner.Write, error) {
	c.discovered.markStale()
	c.wakeGarbage()
	in := &processing{node: t.Node, input: inspect.Input{Logger: c.log, OutOfBand: true}, failed: runner.Final}
	err := c.store.Read(ctx, func(tx *store.Tx) (err error) {
		in.documentID, err = tx.LastDocumentID(t.Node)
		return err
	})
	if errors.Is(err, node.ErrNotFound) {
		return nil, runner.Final(errors.New("the stored work has no document"))
	}
	if err != nil {
		return nil, err
	}
	return c.runHooks(ctx, t, in)
}
