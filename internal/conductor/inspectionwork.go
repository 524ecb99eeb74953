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

// runInspect runs the hooks over a posted document and commits their result. It
// may run again at any point: nothing is written before the end.
func (c *Conductor) runInspect(ctx context.Context, j job) error {
	var documentID int64
	if !j.Intent.Get(documentIntent, &documentID) {
		return c.fail(ctx, j, "Failed to finish inspection: the work names no document.")
	}
	input, err := c.inspectionInput(ctx, j, documentID)
	if err != nil {
		return err
	}
	result, err := c.pipeline.Run(input)
	if err != nil {
		return c.fail(ctx, j, fmt.Sprintf("Failed to finish inspection: %v", err))
	}
	for _, skipped := range result.Skipped {
		c.log.Info("Inspection passed over a part of the data", "node_id", j.NodeID, "reason", skipped)
	}
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
		return tx.FinishInspection(n.ID, documentID, result.PluginData)
	})
}

// inspectionInput reads what the hooks need.
func (c *Conductor) inspectionInput(ctx context.Context, j job, documentID int64) (inspect.Input, error) {
	input := inspect.Input{Document: j.document, Logger: c.log}
	err := c.store.Read(ctx, func(tx *store.Tx) error {
		if input.Document == nil {
			data, err := tx.Document(documentID)
			if err != nil {
				return err
			}
			if input.Document, err = inventory.Restore(data.Inventory, data.PluginData); err != nil {
				return fmt.Errorf("read stored inspection document %d: %w", documentID, err)
			}
		}
		n := j.node
		if n == nil {
			var err error
			if n, err = tx.NodeByID(j.NodeID); err != nil {
				return err
			}
		}
		input.Properties = n.Properties
		ports, err := tx.PortsOf(n.ID)
		if err != nil {
			return err
		}
		for _, p := range ports {
			input.Ports = append(input.Ports, inspect.Port{
				UUID: p.UUID, Address: p.Address, PXEEnabled: p.PXEEnabled, Extra: p.Extra,
				LocalLinkConnection: p.LocalLinkConnection, PhysicalNetwork: p.PhysicalNetwork, PortgroupUUID: p.PortgroupUUID,
			})
		}
		if c.pipeline.ReadsPrevious() {
			if input.Previous, err = previousInventory(tx, n); err != nil {
				return err
			}
		}
		taken, err := tx.PortOwners(input.Document.Hardware.MACs())
		maps.DeleteFunc(taken, func(_, owner string) bool { return owner == n.UUID })
		input.Taken = taken
		return err
	})
	return input, err
}

// previousInventory returns the inventory of the node's last successful
// inspection, nil when there was none.
func previousInventory(tx *store.Tx, n *node.Node) (*inventory.Inventory, error) {
	data, err := tx.Inspection(n)
	if errors.Is(err, node.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
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
