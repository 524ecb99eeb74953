package fake

import (
	"context"
	"maps"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// vendorInterface is the vendor interface of fake hardware.
type vendorInterface struct{ Hardware }

var _ driver.Vendor = vendorInterface{}

// methods are the methods that clients of fake hardware expect.
var methods = map[string]node.VendorMethod{
	"first_method":              {HTTPMethods: []string{"POST"}, Async: true, RequireExclusiveLock: true, Description: "Succeeds when the argument bar is baz."},
	"second_method":             {HTTPMethods: []string{"POST"}, Async: true, RequireExclusiveLock: true, Description: "Succeeds when the argument bar is kazoo."},
	"third_method_sync":         {HTTPMethods: []string{"POST"}, RequireExclusiveLock: true, Description: "Answers whether the argument bar is meow."},
	"fourth_method_shared_lock": {HTTPMethods: []string{"POST"}, Description: "Succeeds when the argument bar is woof; may run while the node is locked."},
}

// Methods lists the methods.
func (vendorInterface) Methods() map[string]node.VendorMethod { return maps.Clone(methods) }

// Call checks the argument bar of a method and passes the call on to the machine. It
// does not wait for the end of the machine's task.
func (v vendorInterface) Call(ctx context.Context, n *node.Node, _, method string, body node.Object, turn driver.Turn) ([]byte, error) {
	answer, err := answerOf(n, method, body)
	if err != nil {
		return nil, err
	}
	if machine, ok := v.machine(n); ok {
		if _, err := carryOut(ctx, machine, order{kind: VendorMethod, detail: method}, turn); err != nil {
			return nil, err
		}
	}
	return answer, nil
}

func answerOf(n *node.Node, method string, body node.Object) ([]byte, error) {
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
