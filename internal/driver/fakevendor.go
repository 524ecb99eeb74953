package driver

import (
	"context"
	"maps"

	"github.com/ingot-metal/ingot/internal/node"
)

// fakeVendor is the vendor interface of fake hardware.
type fakeVendor struct{ fakeStepper }

var _ Vendor = fakeVendor{}

// fakeMethods are the methods that clients of fake hardware expect.
var fakeMethods = map[string]node.VendorMethod{
	"first_method":              {HTTPMethods: []string{"POST"}, Async: true, RequireExclusiveLock: true, Description: "Succeeds when the argument bar is baz."},
	"second_method":             {HTTPMethods: []string{"POST"}, Async: true, RequireExclusiveLock: true, Description: "Succeeds when the argument bar is kazoo."},
	"third_method_sync":         {HTTPMethods: []string{"POST"}, RequireExclusiveLock: true, Description: "Answers whether the argument bar is meow."},
	"fourth_method_shared_lock": {HTTPMethods: []string{"POST"}, Description: "Succeeds when the argument bar is woof; works beside other work."},
}

// Methods lists the methods.
func (fakeVendor) Methods() map[string]node.VendorMethod { return maps.Clone(fakeMethods) }

// Call checks the argument bar of a method.
func (fakeVendor) Call(_ context.Context, n *node.Node, _, method string, body node.Object) ([]byte, error) {
	var bar string
	given := body.Get("bar", &bar)
	wanted := map[string]string{"first_method": "baz", "second_method": "kazoo", "fourth_method_shared_lock": "woof"}
	switch want, ok := wanted[method]; {
	case !given:
		return nil, node.Invalid("The method %s of node %s needs the argument bar.", method, n.UUID)
	case method == "third_method_sync" && bar == "meow":
		return []byte("true"), nil
	case method == "third_method_sync":
		return []byte("false"), nil
	case ok && bar == want:
		return nil, nil
	}
	return nil, node.Invalid("The method %s of node %s does not take %q as bar.", method, n.UUID, node.CutText(bar))
}
