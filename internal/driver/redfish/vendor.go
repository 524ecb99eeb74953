package redfish

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// vendorInterface is the vendor interface of the driver.
type vendorInterface struct{ Driver }

var _ driver.Vendor = vendorInterface{}

// vendorMethod is a method with what it does.
type vendorMethod struct {
	node.VendorMethod
	call func(c *call, n *node.Node, args node.Object) (any, error)
}

// vendorMethods are the methods by the names that clients of Ironic use.
var vendorMethods = map[string]vendorMethod{
	"eject_vmedia": {node.VendorMethod{
		HTTPMethods: []string{"POST"}, RequireExclusiveLock: true, Description: "Eject virtual media: those of boot_device (cd, dvd, usb or floppy), or all.",
	}, (*call).ejectMedia},
	"create_subscription": {node.VendorMethod{
		HTTPMethods: []string{"POST"}, RequireExclusiveLock: true, Description: "Have the BMC send events to the URL Destination. Optional: EventTypes, Context, Protocol, HttpHeaders.",
	}, (*call).createSubscription},
	"delete_subscription": {node.VendorMethod{
		HTTPMethods: []string{"DELETE"}, RequireExclusiveLock: true, Description: "End the subscription with this id.",
	}, (*call).deleteSubscription},
	"get_all_subscriptions": {node.VendorMethod{
		HTTPMethods: []string{"GET"}, Description: "List the subscriptions of the BMC.",
	}, (*call).listSubscriptions},
	"get_subscription": {node.VendorMethod{
		HTTPMethods: []string{"GET"}, Description: "Show the subscription with this id.",
	}, (*call).showSubscription},
}

// Methods lists the methods.
func (vendorInterface) Methods() map[string]node.VendorMethod {
	methods := map[string]node.VendorMethod{}
	for name, method := range vendorMethods {
		methods[name] = method.VendorMethod
	}
	return methods
}

// Call runs a method. A subscription that may have been made is not made again.
func (v vendorInterface) Call(ctx context.Context, n *node.Node, _, method string, body node.Object, turn driver.Turn) ([]byte, error) {
	op := "run vendor method " + method
	if turn.Attempt == driver.Unknown {
		return nil, driver.OutcomeUnknown(op)
	}
	known, ok := vendorMethods[method]
	if !ok {
		return nil, node.Invalid("Node %s has no vendor method %q.", n.UUID, node.CutText(method))
	}
	var answer []byte
	err := v.with(ctx, n, op, turn, func(c *call) error {
		value, err := known.call(c, n, body)
		if err != nil || value == nil {
			return err
		}
		answer, err = json.Marshal(value)
		return err
	})
	return answer, err
}

// bootDevices are the values of the argument boot_device, as the devices of the Bare Metal
// API.
var bootDevices = map[string]string{"cd": "cdrom", "dvd": "cdrom", "cdrom": "cdrom", "usb": "disk", "disk": "disk", "floppy": "floppy"}

func (c *call) ejectMedia(n *node.Node, args node.Object) (any, error) {
	var devices []string
	if asked, given := args.Fields()["boot_device"]; given && string(asked) != "null" {
		device, known := bootDevices[args.Text("boot_device")]
		if !known {
			return nil, node.Invalid("The argument boot_device of eject_vmedia for node %s must be cd, dvd, usb or floppy.", n.UUID)
		}
		devices = []string{device}
	}
	found, err := c.drives()
	if err != nil {
		return nil, err
	}
	_, err = c.ejectAll(found.full(devices))
	return nil, err
}

// subscription is what is shown of a subscription (DSP0268, EventDestination).
type subscription struct {
	ID          string `json:"Id"`
	Context     string
	Destination string
	EventTypes  []string
	Protocol    string
}

// subscriptionArguments are the arguments of create_subscription with their types.
type subscriptionArguments struct {
	Destination string
	EventTypes  []string            `json:",omitempty"`
	Context     string              `json:",omitempty"`
	Protocol    string              `json:",omitempty"`
	HTTPHeaders []map[string]string `json:"HttpHeaders,omitempty"`
}

var subscriptionKeys = []string{"Destination", "EventTypes", "Context", "Protocol", "HttpHeaders"}

func (c *call) createSubscription(n *node.Node, args node.Object) (any, error) {
	for _, key := range slices.Sorted(maps.Keys(args.Fields())) {
		if !slices.Contains(subscriptionKeys, key) {
			return nil, node.Invalid("create_subscription for node %s has no argument %q; it takes %s.", n.UUID, node.CutText(key), node.Choices(subscriptionKeys))
		}
	}
	wanted := subscriptionArguments{EventTypes: []string{"Alert"}, Protocol: "Redfish"}
	if err := json.Unmarshal([]byte(args.String()), &wanted); err != nil || wanted.Destination == "" {
		return nil, node.Invalid("create_subscription for node %s needs Destination, a URL; EventTypes is a list of texts, HttpHeaders one of objects, and Context and Protocol are texts.", n.UUID)
	}
	collection, err := c.subscriptions()
	if err != nil {
		return nil, err
	}
	if collection == "" {
		return nil, &node.NotSupportedError{Node: n.UUID, Interface: node.VendorInterface.Field(), Name: "redfish", What: "subscriptions"}
	}
	answer, err := c.api.Post(collection, wanted)
	if err != nil {
		return nil, err
	}
	defer discard(answer)
	made := subscription{Context: wanted.Context, Destination: wanted.Destination, EventTypes: wanted.EventTypes, Protocol: wanted.Protocol}
	if location := answer.Header.Get("Location"); location != "" {
		made.ID = path.Base(pathOf(location))
	}
	return made, nil
}

// subscriptions returns the path of the subscriptions, "" for a BMC that knows none.
func (c *call) subscriptions() (string, error) {
	var root struct{ EventService schemas.Link }
	if err := c.read(schemas.DefaultServiceRoot, &root); err != nil {
		return "", err
	}
	var service struct{ Subscriptions schemas.Link }
	if root.EventService != "" {
		if err := c.read(root.EventService.String(), &service); err != nil {
			return "", err
		}
	}
	return service.Subscriptions.String(), nil
}

// subscriptionPaths lists the paths of the subscriptions.
func (c *call) subscriptionPaths() ([]string, error) {
	collection, err := c.subscriptions()
	if err != nil || collection == "" {
		return nil, err
	}
	s := &survey{call: c}
	paths, err := s.list(collection)
	if err == nil && s.missed > 0 {
		err = &node.DriverError{Op: "list the subscriptions", Reason: s.leftOut[0]}
	}
	return paths, err
}

// subscriptionPath finds the subscription that a call names.
func (c *call) subscriptionPath(n *node.Node, args node.Object) (string, error) {
	id := args.Text("id")
	if id == "" {
		return "", node.Invalid("The call for node %s needs the argument id, that of a subscription.", n.UUID)
	}
	paths, err := c.subscriptionPaths()
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(paths, func(p string) bool { return path.Base(p) == id })
	if i < 0 {
		return "", node.Invalid("The BMC of node %s has no subscription %q.", n.UUID, node.CutText(id))
	}
	return paths[i], nil
}

func (c *call) deleteSubscription(n *node.Node, args node.Object) (any, error) {
	path, err := c.subscriptionPath(n, args)
	if err != nil {
		return nil, err
	}
	answer, err := c.api.Delete(path)
	if err == nil {
		discard(answer)
	}
	return nil, err
}

func (c *call) listSubscriptions(n *node.Node, _ node.Object) (any, error) {
	paths, err := c.subscriptionPaths()
	if err != nil {
		return nil, err
	}
	members := make([]map[string]string, len(paths))
	for i, path := range paths {
		members[i] = map[string]string{"@odata.id": path}
	}
	return map[string]any{"Members": members, "Members@odata.count": len(members)}, nil
}

func (c *call) showSubscription(n *node.Node, args node.Object) (any, error) {
	path, err := c.subscriptionPath(n, args)
	if err != nil {
		return nil, err
	}
	var shown subscription
	if err := c.read(path, &shown); err != nil {
		return nil, fmt.Errorf("read the subscription: %w", err)
	}
	return shown, nil
}
