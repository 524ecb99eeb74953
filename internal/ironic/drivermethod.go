package ironic

import (
	"context"
	"net/http"
	"net/url"

	"github.com/gophercloud/gophercloud/v2"
)

// DriverMethods returns the names of the vendor methods that a driver has without a node.
func (c *Client) DriverMethods(ctx context.Context, driver string) (map[string]bool, error) {
	return c.vendorMethods(ctx, "list vendor methods of driver "+driver, "drivers", driver)
}

// NodeMethods returns the names of the vendor methods that the driver of a node has for the node.
func (c *Client) NodeMethods(ctx context.Context, ident string) (map[string]bool, error) {
	return c.vendorMethods(ctx, "list vendor methods of node "+ident, "nodes", ident)
}

// vendorMethods returns the names of the vendor methods of one member of a collection.
func (c *Client) vendorMethods(ctx context.Context, op, collection, name string) (map[string]bool, error) {
	segment, err := pathSegment(op, name)
	if err != nil {
		return nil, err
	}
	var documents map[string]any
	if err := c.get(ctx, op, &documents, nil, collection, segment, "vendor_passthru", "methods"); err != nil {
		return nil, err
	}
	methods := map[string]bool{}
	for name := range documents {
		methods[name] = true
	}
	return methods, nil
}

// CallDriver calls a vendor method of a driver that answers at once. It decodes the answer into
// result.
func (c *Client) CallDriver(ctx context.Context, driver, method string, body map[string]any, result any) error {
	op := "call vendor method " + method + " of driver " + driver
	segment, err := pathSegment(op, driver)
	if err != nil {
		return err
	}
	return c.call(ctx, op, func(ctx context.Context, service *gophercloud.ServiceClient) error {
		address := service.ServiceURL("drivers", segment, "vendor_passthru") + "?" + url.Values{"method": {method}}.Encode()
		_, err := service.Post(ctx, address, body, result, &gophercloud.RequestOpts{OkCodes: []int{http.StatusOK}})
		return err
	})
}
