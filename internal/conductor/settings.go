package conductor

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// Work that clients ask for beside verbs and power. The client is answered before
// it is done; a failure stands in last_error and history.
const (
	workBootMode   store.WorkKind = "boot mode"
	workSecureBoot store.WorkKind = "secure boot"
	workMedia      store.WorkKind = "virtual media"
	workVendor     store.WorkKind = "vendor passthru"
)

// settingScripts is every script of such work.
func settingScripts() map[store.WorkKind]script {
	return map[store.WorkKind]script{
		workBootMode:   {does: "change the boot mode of", run: runBootMode},
		workSecureBoot: {does: "change secure boot of", run: runSecureBoot},
		workMedia:      {does: "change virtual media of", run: runMedia},
		workVendor:     {does: "run a vendor method on", run: runVendor},
	}
}

// ask stores work for a node that nobody works on, once check allows it.
func (c *Conductor) ask(ctx context.Context, ident string, kind store.WorkKind, intent node.Object, check func(*node.Node) error) error {
	var started *job
	err := c.store.Write(ctx, func(tx *store.Tx) error {
		started = nil
		n, err := unleased(tx, ident)
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
	c.enqueueStarted(started)
	return nil
}

// valueIntent is the key of what is asked for in the intent of such work.
const valueIntent = "value"

// calm refuses nodes whose state changes by itself.
func calm(n *node.Node) error {
	if class := n.ProvisionState.Class(); class == node.Working || class == node.Waiting {
		return node.Conflict("Node %s can not be changed like this while it is in state %q.", n.UUID, n.ProvisionState)
	}
	return nil
}

// SetBootMode asks for "uefi" or "bios".
func (c *Conductor) SetBootMode(ctx context.Context, ident, mode string) error {
	return c.ask(ctx, ident, workBootMode, node.ObjectOf(map[string]any{valueIntent: mode}), func(n *node.Node) error {
		if err := calm(n); err != nil {
			return err
		}
		_, err := c.bootModes(n)
		return err
	})
}

func (c *Conductor) bootModes(n *node.Node) (driver.BootModes, error) {
	return driver.Ability[driver.BootModes](c.drivers, n, node.ManagementInterface, "boot modes")
}

func runBootMode(ctx context.Context, s *session) error {
	return s.set(ctx, func(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
		modes, err := s.bootModes(n)
		if err != nil {
			return driver.Outcome{}, err
		}
		return modes.SetBootMode(ctx, n, s.j.Intent.Text(valueIntent), turn)
	})
}

// set performs the only operation of a job and ends it.
func (s *session) set(ctx context.Context, do operation) error {
	if err := s.perform(ctx, nil, do); err != nil {
		return err
	}
	return s.finish(ctx, func(*store.Tx, *node.Node) error { return nil })
}

// SetSecureBoot asks for secure boot to be on or off.
func (c *Conductor) SetSecureBoot(ctx context.Context, ident string, on bool) error {
	return c.ask(ctx, ident, workSecureBoot, node.ObjectOf(map[string]any{valueIntent: on}), func(n *node.Node) error {
		if err := calm(n); err != nil {
			return err
		}
		_, err := c.secureBoot(n)
		return err
	})
}

func (c *Conductor) secureBoot(n *node.Node) (driver.SecureBoot, error) {
	return driver.Ability[driver.SecureBoot](c.drivers, n, node.ManagementInterface, "secure boot")
}

func runSecureBoot(ctx context.Context, s *session) error {
	return s.set(ctx, func(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
		secure, err := s.secureBoot(n)
		if err != nil {
			return driver.Outcome{}, err
		}
		var on bool
		s.j.Intent.Get(valueIntent, &on)
		return secure.SetSecureBoot(ctx, n, on, turn)
	})
}

// Keys of the intent of virtual media work.
const (
	attachIntent = "attach" // a node.Medium
	detachIntent = "detach" // device types; empty means all
)

// AttachMedium asks for a medium to be shown to the node. A node that cannot do
// that accepts it too, and says so afterwards.
func (c *Conductor) AttachMedium(ctx context.Context, ident string, medium node.Medium) error {
	return c.askMedia(ctx, ident, node.ObjectOf(map[string]any{attachIntent: medium}))
}

// DetachMedia asks for media of these device types to be ejected; none means all.
func (c *Conductor) DetachMedia(ctx context.Context, ident string, deviceTypes []string) error {
	return c.askMedia(ctx, ident, node.ObjectOf(map[string]any{detachIntent: deviceTypes}))
}

// askMedia waits for the end of other work: clients attach and detach in
// succession without a look whether the one before is done.
func (c *Conductor) askMedia(ctx context.Context, ident string, intent node.Object) error {
	return c.retryLocked(ctx, func() error { return c.ask(ctx, ident, workMedia, intent, anyNode) })
}

func anyNode(*node.Node) error { return nil }

func runMedia(ctx context.Context, s *session) error {
	return s.set(ctx, func(ctx context.Context, n *node.Node, _ driver.Turn) (driver.Outcome, error) {
		media, err := s.virtualMedia(n)
		if err != nil {
			return driver.Outcome{}, err
		}
		var medium node.Medium
		if s.j.Intent.Get(attachIntent, &medium) {
			return media.AttachMedium(ctx, n, medium)
		}
		var deviceTypes []string
		s.j.Intent.Get(detachIntent, &deviceTypes)
		return media.DetachMedia(ctx, n, deviceTypes)
	})
}

// VendorMethods lists the methods that the node's vendor interface adds.
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

// CallVendor runs a vendor method. The answer of one that is done at once is a
// JSON value, or nil when it has none; async says that it goes on.
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
		answer, err = vendor.Call(ctx, n, call.HTTPMethod, call.Method, call.Body)
		return answer, false, err
	case !method.Async:
		err = c.direct(ctx, ident, func(ctx context.Context, n *node.Node) (driver.Outcome, error) {
			answer, err = vendor.Call(ctx, n, call.HTTPMethod, call.Method, call.Body)
			return driver.Outcome{}, err
		})
		return answer, false, err
	}
	intent, err := json.Marshal(call)
	if err != nil {
		return nil, false, err
	}
	return nil, true, c.ask(ctx, ident, workVendor, intent, anyNode)
}

func runVendor(ctx context.Context, s *session) error {
	var call node.VendorCall
	if err := json.Unmarshal(s.j.Intent, &call); err != nil {
		return node.Invalid("The call cannot be read: %v.", err)
	}
	return s.set(ctx, func(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
		vendor, err := s.vendor(n)
		switch {
		case err != nil:
			return driver.Outcome{}, err
		case !turn.First:
			return driver.Outcome{}, node.Invalid("The process that ran the vendor method %s ended, and whether it took effect is not known: look at the machine before you call it again.", call.Method)
		}
		_, err = vendor.Call(ctx, n, call.HTTPMethod, call.Method, call.Body)
		return driver.Outcome{}, err
	})
}
