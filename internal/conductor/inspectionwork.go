package conductor

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/google/uuid"

	"github.com/ingot-metal/ingot/internal/inspect"
	"github.com/ingot-metal/ingot/internal/inventory"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// documentIntent is the key of the document in the intent of inspection work.
const documentIntent = "document"

// inspection is a posted document under work.
type inspection struct {
	documentID int64
	node       *node.Node // as it was when the work began
	input      inspect.Input
	previous   string // key of the object with the node's last result; empty unless it is needed
}

// runInspect runs the hooks over a posted document and commits their result. It
// may run again at any point: nothing but an object that the database knows of is
// written before the end.
func (c *Conductor) runInspect(ctx context.Context, j job) error {
	in := &inspection{}
	if !j.Intent.Get(documentIntent, &in.documentID) {
		return c.fail(ctx, j, "Failed to finish inspection: the work names no document.")
	}
	if err := c.readInspection(ctx, j, in); err != nil {
		return c.awaitObjects(ctx, j, err)
	}
	result, err := c.pipeline.Run(in.input)
	if err != nil {
		return c.fail(ctx, j, fmt.Sprintf("Failed to finish inspection: %v", err))
	}
	if len(result.Skipped) > 0 {
		c.log.Info("Inspection passed over parts of the data", "node", j.NodeUUID, "reasons", result.Skipped)
	}
	if err := c.putResult(ctx, j, in, result); err != nil {
		return c.awaitObjects(ctx, j, err)
	}
	defer c.wakeGarbage() // the result before this one may be an object
	return c.finish(ctx, j, func(tx *store.Tx, n *node.Node) error {
		if len(result.Properties) > 0 {
			n.Properties = n.Properties.With(result.Properties)
		}
		n.InspectionFinishedAt = tx.Now()
		n.LastError = ""
		if n.ProvisionState == node.Inspecting {
			if err := c.move(tx, n, node.OnDone); err != nil {
				return err
			}
		}
		if err := c.storePorts(tx, n, result); err != nil {
			return err
		}
		return c.storeResult(tx, n, in, result)
	})
}

// readInspection reads what the hooks need.
func (c *Conductor) readInspection(ctx context.Context, j job, in *inspection) error {
	in.node, in.input = j.node, inspect.Input{Document: j.document, Logger: c.log}
	err := c.store.Read(ctx, func(tx *store.Tx) (err error) {
		if in.input.Document == nil {
			if in.input.Document, err = storedDocument(tx, in.documentID); err != nil {
				return err
			}
		}
		if in.node == nil {
			if in.node, err = tx.NodeByID(j.NodeID); err != nil {
				return err
			}
		}
		in.input.Properties = in.node.Properties
		if in.input.Ports, err = inspectedPorts(tx, in.node.ID); err != nil {
			return err
		}
		if c.pipeline.ReadsPrevious() {
			if in.input.Previous, in.previous, err = previousInventory(tx, in.node); err != nil {
				return err
			}
		}
		taken, err := tx.PortOwners(in.input.Document.Hardware.MACs())
		maps.DeleteFunc(taken, func(_, owner string) bool { return owner == in.node.UUID })
		in.input.Taken = taken
		return err
	})
	if err != nil || in.previous == "" {
		return err
	}
	in.input.Previous, err = c.fetchPrevious(ctx, in)
	return err
}

// storedDocument reads a document as it was posted.
func storedDocument(tx *store.Tx, id int64) (*inventory.Document, error) {
	data, err := tx.Document(id)
	if err != nil {
		return nil, err
	}
	document, err := inventory.Restore(data.Inventory, data.PluginData)
	if err != nil {
		return nil, fmt.Errorf("read stored inspection document %d: %w", id, err)
	}
	return document, nil
}

// inspectedPorts returns what hooks know of a node's ports.
func inspectedPorts(tx *store.Tx, nodeID int64) ([]inspect.Port, error) {
	stored, err := tx.PortsOf(nodeID)
	if err != nil {
		return nil, err
	}
	ports := make([]inspect.Port, len(stored))
	for i, p := range stored {
		ports[i] = inspect.Port{
			UUID: p.UUID, Address: p.Address, PXEEnabled: p.PXEEnabled, Extra: p.Extra,
			LocalLinkConnection: p.LocalLinkConnection, PhysicalNetwork: p.PhysicalNetwork, PortgroupUUID: p.PortgroupUUID,
		}
	}
	return ports, nil
}

// previousInventory returns the inventory of the node's last successful inspection,
// or the key of the object that has it; neither when there was none.
func previousInventory(tx *store.Tx, n *node.Node) (*inventory.Inventory, string, error) {
	data, key, err := storedInspection(tx, n)
	switch {
	case errors.Is(err, node.ErrNotFound):
		return nil, "", nil
	case err != nil || data == nil:
		return nil, key, err
	}
	hardware, err := parsePrevious(n, data)
	return hardware, "", err
}

// fetchPrevious reads the inventory of the node's last successful inspection from
// the object store; nil when somebody has removed it there.
func (c *Conductor) fetchPrevious(ctx context.Context, in *inspection) (*inventory.Inventory, error) {
	data, err := c.fetchInspection(ctx, in.node, in.previous)
	switch {
	case errors.Is(err, node.ErrNotFound):
		c.log.Warn("Inventory is no longer in the object store, going on without it", "node", in.node.UUID, "err", err)
		return nil, nil
	case err != nil:
		return nil, &objectsError{err}
	}
	return parsePrevious(in.node, data)
}

func parsePrevious(n *node.Node, data *node.InspectionData) (*inventory.Inventory, error) {
	hardware, err := inventory.ParseInventory(data.Inventory)
	if err != nil {
		return nil, fmt.Errorf("read previous inventory of node %s: %w", n.UUID, err)
	}
	return hardware, nil
}

// storePorts writes the ports that hooks created, changed and deleted.
func (c *Conductor) storePorts(tx *store.Tx, n *node.Node, result *inspect.Result) error {
	created := make([]*node.Port, len(result.PortsToCreate))
	for i, p := range result.PortsToCreate {
		id, err := portUUID()
		if err != nil {
			return err
		}
		created[i] = &node.Port{UUID: id, Address: p.Address}
		setPort(created[i], p)
	}
	if err := tx.AddPorts(n.ID, created); err != nil {
		return err
	}
	for _, changed := range result.PortsToUpdate {
		before, err := tx.Port(changed.UUID)
		if err != nil {
			return err
		}
		after := *before
		setPort(&after, changed)
		if err := tx.UpdatePort(before, &after); err != nil {
			return err
		}
	}
	for _, gone := range result.PortsToDelete {
		p, err := tx.Port(gone.UUID)
		if err != nil {
			return err
		}
		if err := tx.DeletePort(p); err != nil {
			return err
		}
	}
	return nil
}

// setPort gives a port what hooks decided about it.
func setPort(stored *node.Port, decided inspect.Port) {
	stored.PXEEnabled, stored.Extra = decided.PXEEnabled, decided.Extra
	stored.LocalLinkConnection, stored.PhysicalNetwork = decided.LocalLinkConnection, decided.PhysicalNetwork
}

// portUUID returns a UUID that begins with the time (RFC 9562, version 7). Ports
// that are stored together then stand together in the index by UUID, and a storm
// of machines changes fewer of its pages.
func portUUID() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("make a UUID for a port: %w", err)
	}
	return id.String(), nil
}
