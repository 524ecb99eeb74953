package conductor

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// acceptWork stores work for a node that is not under work, if check allows it. Such work is done in
// the order in which the requests are accepted.
func (c *Conductor) acceptWork(ctx context.Context, ident string, kind store.WorkKind, intent node.Object, check func(*node.Node) error) error {
	var started *runner.Job
	err := c.store.Write(ctx, func(tx *store.Tx) error {
		started = nil
		n, err := c.idle(tx, ident)
		if err != nil {
			return err
		}
		if err := check(n); err != nil {
			return err
		}
		started, err = c.startServed(tx, n, kind, intent)
		return err
	})
	if err != nil {
		return err
	}
	c.runner.Enqueue(started)
	return nil
}

// valueIntent is the key of the requested value in the intent of work that changes one setting.
const valueIntent = "value"

// checkIdleState refuses nodes in a working or waiting state.
func checkIdleState(n *node.Node) error {
	if class := n.ProvisionState.Class(); class == node.Working || class == node.Waiting {
		return node.Conflict("Node %s can not be changed like this while it is in state %q.", n.UUID, n.ProvisionState)
	}
	return nil
}

// SetBootMode requests the boot mode "uefi" or "bios".
func (c *Conductor) SetBootMode(ctx context.Context, ident, mode string) error {
	return c.acceptWork(ctx, ident, workBootMode, node.ObjectOf(map[string]any{valueIntent: mode}), func(n *node.Node) error {
		if err := checkIdleState(n); err != nil {
			return err
		}
		_, err := c.bootModes(n)
		return err
	})
}

func (c *Conductor) bootModes(n *node.Node) (driver.BootModes, error) {
	return driver.Ability[driver.BootModes](c.drivers, n, node.ManagementInterface, "boot modes")
}

func (c *Conductor) bootModeOperations(t runner.Task) ([]runner.Operation, error) {
	mode := t.Work.Intent.Text(valueIntent)
	set := changeBy(c, setName, node.ManagementInterface, "boot modes",
		func(modes driver.BootModes, ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
			return modes.SetBootMode(ctx, n, mode, turn)
		})
	set.Change = c.ofOwnMachine(set.Change) // it may restart the machine
	return []runner.Operation{set}, nil
}

// setName is the name of the only operation of work that changes one setting.
const setName = "change setting"

// SetSecureBoot requests that secure boot is enabled or disabled.
func (c *Conductor) SetSecureBoot(ctx context.Context, ident string, on bool) error {
	return c.acceptWork(ctx, ident, workSecureBoot, node.ObjectOf(map[string]any{valueIntent: on}), func(n *node.Node) error {
		if err := checkIdleState(n); err != nil {
			return err
		}
		_, err := c.secureBoot(n)
		return err
	})
}

func (c *Conductor) secureBoot(n *node.Node) (driver.SecureBoot, error) {
	return driver.Ability[driver.SecureBoot](c.drivers, n, node.ManagementInterface, "secure boot")
}

func (c *Conductor) secureBootOperations(t runner.Task) ([]runner.Operation, error) {
	var on bool
	t.Work.Intent.Get(valueIntent, &on)
	set := changeBy(c, setName, node.ManagementInterface, "secure boot",
		func(secure driver.SecureBoot, ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
			return secure.SetSecureBoot(ctx, n, on, turn)
		})
	set.Change = c.ofOwnMachine(set.Change) // it may restart the machine
	return []runner.Operation{set}, nil
}

// Keys of the intent of virtual media work.
const (
	attachIntent = "attach" // a node.Medium
	detachIntent = "detach" // device types; empty means all
)

// AttachMedium requests that a virtual medium is attached to the node. It accepts the request even
// for a node without virtual media; last_error then reports the failure.
func (c *Conductor) AttachMedium(ctx context.Context, ident string, medium node.Medium) error {
	return c.acceptMediaWork(ctx, ident, node.ObjectOf(map[string]any{attachIntent: medium}))
}

// DetachMedia requests that media of these device types are detached; none means all.
func (c *Conductor) DetachMedia(ctx context.Context, ident string, deviceTypes []string) error {
	return c.acceptMediaWork(ctx, ident, node.ObjectOf(map[string]any{detachIntent: deviceTypes}))
}

// acceptMediaWork stores virtual media work. It waits until other work has ended, because clients
// attach and detach media in succession without waiting for the end of each request.
func (c *Conductor) acceptMediaWork(ctx context.Context, ident string, intent node.Object) error {
	return c.whenFree(ctx, func() error { return c.acceptWork(ctx, ident, workMedia, intent, anyNode) })
}

func anyNode(*node.Node) error { return nil }

func (c *Conductor) mediaOperations(t runner.Task) ([]runner.Operation, error) {
	return []runner.Operation{changeBy(c, setName, node.ManagementInterface, "virtual media",
		func(media driver.VirtualMedia, ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
			var medium node.Medium
			if t.Work.Intent.Get(attachIntent, &medium) {
				return media.AttachMedium(ctx, n, medium, turn)
			}
			var deviceTypes []string
			t.Work.Intent.Get(detachIntent, &deviceTypes)
			return media.DetachMedia(ctx, n, deviceTypes, turn)
		})}, nil
}

// VendorMethods lists the methods of the node's vendor interface.
func (c *Conductor) VendorMethods(ctx context.Context, ident string) (map[string]node.VendorMethod, error) {
	n, err := c.Node(ctx, ident)
	if err != nil {
		return nil, err
	}
	vendor, err := c.vendor(n)
	var unable *node.NotSupportedError
	if errors.As(err, &unable) {
		return map[string]node.VendorMethod{}, nil
	}
	if err != nil {
		return nil, err
	}
	return vendor.Methods(), nil
}

func (c *Conductor) vendor(n *node.Node) (driver.Vendor, error) {
	return driver.Ability[driver.Vendor](c.drivers, n, node.VendorInterface, "vendor methods")
}

// CallVendor runs a vendor method. The answer of a synchronous method is a JSON value, or nil if
// the method has no answer. Async reports whether the method was only requested and runs later.
func (c *Conductor) CallVendor(ctx context.Context, ident string, call node.VendorCall) (answer []byte, async bool, err error) {
	n, err := c.Node(ctx, ident)
	if err != nil {
		return nil, false, err
	}
	vendor, err := c.vendor(n)
	if err != nil {
		return nil, false, err
	}
	method, known := vendor.Methods()[call.Method]
	switch {
	case !known:
		return nil, false, node.Invalid("Node %s has no vendor method %q.", n.UUID, node.CutText(call.Method))
	case !slices.Contains(method.HTTPMethods, call.HTTPMethod):
		return nil, false, node.Invalid("The vendor method %s takes %s, not %s.", call.Method, node.Choices(method.HTTPMethods), call.HTTPMethod)
	case !method.Async && !method.RequireExclusiveLock:
		err = c.runner.Ask(ctx, n, func(ctx context.Context) (err error) {
			answer, err = vendor.Call(ctx, n, call.HTTPMethod, call.Method, call.Body, driver.Turn{})
			return err
		})
		return answer, false, err
	case !method.Async:
		err = c.direct(ctx, ident, func(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
			answer, err = vendor.Call(ctx, n, call.HTTPMethod, call.Method, call.Body, turn)
			return driver.Outcome{}, err
		})
		return answer, false, err
	}
	intent, err := json.Marshal(call)
	if err != nil {
		return nil, false, err
	}
	return nil, true, c.acceptWork(ctx, ident, workVendor, intent, anyNode)
}

func (c *Conductor) vendorOperations(t runner.Task) ([]runner.Operation, error) {
	var call node.VendorCall
	if err := json.Unmarshal(t.Work.Intent, &call); err != nil {
		return nil, node.Invalid("The call cannot be read: %v.", err)
	}
	return []runner.Operation{changeBy(c, setName, node.VendorInterface, "vendor methods",
		func(vendor driver.Vendor, ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
			if turn.Attempt == driver.Unknown {
				return driver.Outcome{}, driver.OutcomeUnknown("run vendor method " + call.Method)
			}
			_, err := vendor.Call(ctx, n, call.HTTPMethod, call.Method, call.Body, turn)
			return driver.Outcome{}, err
		})}, nil
}
