package ironic

import (
	"context"
	"encoding/json"
	"iter"
	"net/url"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/drivers"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/ports"
)

// Port is a network port of a node.
type Port = ports.Port

// Ports lists the ports of the node with the UUID or name ident, with every field, in the order of
// their creation. If the engine has no such node, the error is of kind [ErrNotFound].
func (c *Client) Ports(ctx context.Context, ident string) ([]Port, error) {
	if _, err := pathSegment("list ports", ident); err != nil {
		return nil, err
	}
	return collect(list(ctx, c, "list ports", []string{"ports"}, url.Values{"node": {ident}, "detail": {"true"}}, portID))
}

// AllPorts lists the ports of all nodes in the order of their creation. Only their UUID, address
// and node UUID are filled. Engines send a thousand at a time.
func (c *Client) AllPorts(ctx context.Context) iter.Seq2[Port, error] {
	return list(ctx, c, "list ports", []string{"ports"}, url.Values{"fields": {"uuid,address,node_uuid"}}, portID)
}

func portID(p Port) string { return p.UUID }

func collect[T any](items iter.Seq2[T, error]) ([]T, error) {
	var all []T
	for item, err := range items {
		if err != nil {
			return nil, err
		}
		all = append(all, item)
	}
	return all, nil
}

// Inventory is what inspection found on a node, byte for byte as the engine sent it.
type Inventory struct {
	// Inventory is the hardware as the ramdisk or the BMC reported it.
	Inventory json.RawMessage `json:"inventory"`
	// PluginData is what the inspection hooks derived from the inventory.
	PluginData json.RawMessage `json:"plugin_data"`
}

// Inventory reads the inventory of the node. The error is of kind [ErrNotFound] both for an unknown
// node and for a node that was never inspected; its message says which.
func (c *Client) Inventory(ctx context.Context, ident string) (Inventory, error) {
	op := "read inventory of node " + ident
	segment, err := pathSegment(op, ident)
	if err != nil {
		return Inventory{}, err
	}
	var inventory Inventory
	if err := c.get(ctx, op, &inventory, nil, "nodes", segment, "inventory"); err != nil {
		return Inventory{}, err
	}
	return inventory, nil
}

// DriverNames lists the hardware types that the engine has enabled.
func (c *Client) DriverNames(ctx context.Context) ([]string, error) {
	var names []string
	err := c.call(ctx, "list drivers", func(ctx context.Context, service *gophercloud.ServiceClient) error {
		page, err := drivers.ListDrivers(service, nil).AllPages(ctx)
		if err != nil {
			return err
		}
		found, err := drivers.ExtractDrivers(page)
		for _, driver := range found {
			names = append(names, driver.Name)
		}
		return err
	})
	return names, err
}

// InspectInterfaces lists the inspect interfaces that the engine has enabled for a hardware type.
// If the engine does not have that type, the error is of kind [ErrNotFound].
func (c *Client) InspectInterfaces(ctx context.Context, driver string) ([]string, error) {
	op := "show driver " + driver
	segment, err := pathSegment(op, driver)
	if err != nil {
		return nil, err
	}
	var shown drivers.Driver
	err = c.get(ctx, op, &shown, nil, "drivers", segment)
	return shown.EnabledInspectInterfaces, err
}

// Ready returns nil if the engine is ready: it answers and has at least one driver. An engine may
// answer before it has a driver.
func (c *Client) Ready(ctx context.Context) error {
	names, err := c.DriverNames(ctx)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return &Error{Op: "check the engine at " + c.endpoint, Kind: ErrOverloaded, Message: "it has no driver yet, it may be starting"}
	}
	return nil
}
