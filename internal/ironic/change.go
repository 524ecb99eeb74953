package ironic

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/ports"
)

// onNode runs a request about the node ident. It passes the identifier to request in a form for
// URLs, as segment.
func (c *Client) onNode(ctx context.Context, what, ident string, request func(ctx context.Context, service *gophercloud.ServiceClient, segment string) error) error {
	op := what + " node " + ident
	segment, err := pathSegment(op, ident)
	if err != nil {
		return err
	}
	return c.call(ctx, op, func(ctx context.Context, service *gophercloud.ServiceClient) error {
		return request(ctx, service, segment)
	})
}

// Document has the fields of a new object.
type Document map[string]any

// ToNodeCreateMap implements an interface of gophercloud.
func (d Document) ToNodeCreateMap() (map[string]any, error) { return d, nil }

// CreateNode creates a node with these fields and returns it. If the name is taken, the error is
// [ErrConflict].
func (c *Client) CreateNode(ctx context.Context, fields Document) (Node, error) {
	op := "create node"
	if name, ok := fields["name"].(string); ok {
		op += " " + name
	}
	var n Node
	err := c.call(ctx, op, func(ctx context.Context, service *gophercloud.ServiceClient) error {
		return nodes.Create(ctx, service, fields).ExtractInto(&n)
	})
	return n, err
}

// CreatePort creates a port of the node for a MAC address. pxe says whether the machine may boot
// from the port. If the address is taken, the error is [ErrConflict].
func (c *Client) CreatePort(ctx context.Context, node, address string, pxe bool) error {
	return c.call(ctx, "create port "+address, func(ctx context.Context, service *gophercloud.ServiceClient) error {
		return ports.Create(ctx, service, ports.CreateOpts{NodeUUID: node, Address: address, PXEEnabled: &pxe}).Err
	})
}

// ProvisionOptions are what a verb needs besides the node. Unset fields are not sent.
type ProvisionOptions struct {
	// Steps are the steps of clean, service or deploy, in the form of the API.
	Steps []map[string]any
	// ConfigDrive is the config drive of a deployment.
	ConfigDrive map[string]any
}

// stepsField has the name of the steps in a request, by verb.
var stepsField = map[Verb]string{
	Clean: "clean_steps", Service: "service_steps", Deploy: "deploy_steps",
}

// provisioning is the body of a request for a verb.
type provisioning map[string]any

// ToProvisionStateMap implements an interface of gophercloud.
func (p provisioning) ToProvisionStateMap() (map[string]any, error) { return p, nil }

// ProvisionWith requests a verb as [Client.Provision] does, with options.
func (c *Client) ProvisionWith(ctx context.Context, ident string, verb Verb, opts ProvisionOptions) error {
	body := provisioning{"target": verb}
	if opts.Steps != nil {
		body[stepsField[verb]] = opts.Steps
	}
	if opts.ConfigDrive != nil {
		body["configdrive"] = opts.ConfigDrive
	}
	return c.onNode(ctx, string(verb), ident, func(ctx context.Context, service *gophercloud.ServiceClient, segment string) error {
		return nodes.ChangeProvisionState(ctx, service, segment, body).ExtractErr()
	})
}

// ReplaceDriver applies operations that change the driver of the node. Interfaces that the
// operations do not name get the defaults of the new driver.
func (c *Client) ReplaceDriver(ctx context.Context, ident string, operations ...nodes.UpdateOperation) (Node, error) {
	var n Node
	err := c.onNode(ctx, "update", ident, func(ctx context.Context, service *gophercloud.ServiceClient, segment string) error {
		address := service.ServiceURL("nodes", segment) + "?reset_interfaces=true"
		_, err := service.Patch(ctx, address, operations, &n, &gophercloud.RequestOpts{OkCodes: []int{http.StatusOK}})
		return err
	})
	return n, err
}

// SetPower requests a change of power. The timeout limits soft actions, in whole seconds; 0 leaves
// the limit to the engine.
func (c *Client) SetPower(ctx context.Context, ident string, target nodes.TargetPowerState, timeout time.Duration) error {
	opts := nodes.PowerStateOpts{Target: target, Timeout: int(timeout.Seconds())}
	return c.onNode(ctx, fmt.Sprintf("request %q of", target), ident, func(ctx context.Context, service *gophercloud.ServiceClient, segment string) error {
		return nodes.ChangePowerState(ctx, service, segment, opts).ExtractErr()
	})
}

// SetRAID writes the volumes that the next creation of volumes makes. Without volumes, the node
// forgets the volumes of an earlier request.
func (c *Client) SetRAID(ctx context.Context, ident string, volumes []nodes.LogicalDisk) error {
	var opts nodes.RAIDConfigOptsBuilder = noVolumes{}
	if len(volumes) > 0 {
		opts = nodes.RAIDConfigOpts{LogicalDisks: volumes}
	}
	return c.onNode(ctx, "set volumes of", ident, func(ctx context.Context, service *gophercloud.ServiceClient, segment string) error {
		return nodes.SetRAIDConfig(ctx, service, segment, opts).ExtractErr()
	})
}

// noVolumes is a configuration without a list of volumes. Engines refuse a configuration with an
// empty list.
type noVolumes struct{}

func (noVolumes) ToRAIDConfigMap() (map[string]any, error) { return map[string]any{}, nil }

// SetMaintenance puts the node into maintenance with a reason. An empty reason takes the node out
// of maintenance.
func (c *Client) SetMaintenance(ctx context.Context, ident, reason string) error {
	return c.onNode(ctx, "set maintenance of", ident, func(ctx context.Context, service *gophercloud.ServiceClient, segment string) error {
		if reason == "" {
			return nodes.UnsetMaintenance(ctx, service, segment).ExtractErr()
		}
		return nodes.SetMaintenance(ctx, service, segment, nodes.MaintenanceOpts{Reason: reason}).ExtractErr()
	})
}

// ReadBootDevice has the engine ask the BMC of a node for its boot device. It only shows whether
// the BMC answers.
func (c *Client) ReadBootDevice(ctx context.Context, ident string) error {
	return c.onNode(ctx, "read boot device of", ident, func(ctx context.Context, service *gophercloud.ServiceClient, segment string) error {
		return nodes.GetBootDevice(ctx, service, segment).Err
	})
}

// AttachMedium puts the image at url into a virtual CD drive of the machine. The API has this since
// 1.89.
func (c *Client) AttachMedium(ctx context.Context, ident, url string) error {
	opts := nodes.AttachVirtualMediaOpts{DeviceType: nodes.VirtualMediaCD, ImageURL: url}
	return c.onNode(ctx, "attach image to", ident, func(ctx context.Context, service *gophercloud.ServiceClient, segment string) error {
		return nodes.AttachVirtualMedia(ctx, service, segment, opts).ExtractErr()
	})
}

// DetachMedium takes the image out of the virtual CD drive.
func (c *Client) DetachMedium(ctx context.Context, ident string) error {
	opts := nodes.DetachVirtualMediaOpts{DeviceTypes: []nodes.VirtualMediaDeviceType{nodes.VirtualMediaCD}}
	return c.onNode(ctx, "detach image from", ident, func(ctx context.Context, service *gophercloud.ServiceClient, segment string) error {
		return nodes.DetachVirtualMedia(ctx, service, segment, opts).ExtractErr()
	})
}

// Medium is the content of a virtual drive of the machine.
type Medium struct {
	// Inserted says whether there is an image in the drive. Image is its URL, with a password
	// masked.
	Inserted bool   `json:"inserted"`
	Image    string `json:"image"`
}

// Media lists the virtual drives of the machine. The API has this since 1.93. Engines may leave out
// empty drives.
func (c *Client) Media(ctx context.Context, ident string) ([]Medium, error) {
	op := "list virtual media of node " + ident
	document, err := c.Do(ctx, Request{Op: op, Method: http.MethodGet, Path: []string{"nodes", ident, "vmedia"}})
	if err != nil {
		return nil, err
	}
	var media []Medium
	if err := json.Unmarshal(document, &media); err != nil {
		return nil, fmt.Errorf("%s: decode the answer: %w", op, err)
	}
	return media, nil
}

// Subscription says where and in which form a BMC sends its events.
type Subscription = nodes.CreateSubscriptionOpts

// Subscribe asks the BMC to send its events, and returns the ID of the subscription.
func (c *Client) Subscribe(ctx context.Context, ident string, s Subscription) (id string, err error) {
	err = c.onNode(ctx, "subscribe to events of", ident, func(ctx context.Context, service *gophercloud.ServiceClient, segment string) error {
		created, err := nodes.CreateSubscription(ctx, service, segment, nodes.CallVendorPassthruOpts{Method: "create_subscription"}, s).Extract()
		id = created.Id
		return err
	})
	return id, err
}

// Unsubscribe ends a subscription.
func (c *Client) Unsubscribe(ctx context.Context, ident, subscription string) error {
	opts := nodes.DeleteSubscriptionOpts{Id: subscription}
	return c.onNode(ctx, "end subscription to events of", ident, func(ctx context.Context, service *gophercloud.ServiceClient, segment string) error {
		return nodes.DeleteSubscription(ctx, service, segment, nodes.CallVendorPassthruOpts{Method: "delete_subscription"}, opts).Err
	})
}

// MethodSubscriptions is the vendor method that Subscriptions calls.
const MethodSubscriptions = "get_all_subscriptions"

// Subscriptions lists the IDs of all subscriptions on the BMC.
func (c *Client) Subscriptions(ctx context.Context, ident string) ([]string, error) {
	var ids []string
	err := c.onNode(ctx, "list subscriptions to events of", ident, func(ctx context.Context, service *gophercloud.ServiceClient, segment string) error {
		found, err := nodes.GetAllSubscriptions(ctx, service, segment, nodes.CallVendorPassthruOpts{Method: MethodSubscriptions}).Extract()
		for _, member := range found.Members {
			ids = append(ids, path.Base(member["@odata.id"]))
		}
		return err
	})
	return ids, err
}

// ReadSubscription reads one subscription of the BMC.
func (c *Client) ReadSubscription(ctx context.Context, ident, subscription string) (nodes.SubscriptionVendorPassthru, error) {
	var found nodes.SubscriptionVendorPassthru
	opts := nodes.GetSubscriptionOpts{Id: subscription}
	err := c.onNode(ctx, "read subscription to events of", ident, func(ctx context.Context, service *gophercloud.ServiceClient, segment string) error {
		return nodes.GetSubscription(ctx, service, segment, nodes.CallVendorPassthruOpts{Method: "get_subscription"}, opts).ExtractInto(&found)
	})
	return found, err
}
