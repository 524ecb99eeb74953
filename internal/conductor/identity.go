package conductor

import (
	"context"
	"errors"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// Operations about which machine the BMC of a node belongs to.
const (
	noteIdentityName  = "note identity"
	checkIdentityName = "check identity"
	beforeLeaving     = "before leaving" // item of a check when work has failed
)

// identifierOf returns what tells which machine the node's BMC belongs to, where something
// does.
func (c *Conductor) identifierOf(n *node.Node) (driver.Identifier, bool) {
	identifier, err := driver.Ability[driver.Identifier](c.drivers, n, node.ManagementInterface, "telling which machine it is")
	return identifier, err == nil
}

// noteIdentity returns the operation that stores which machine the node stands for from now
// on. Without an answer it stays the one that it was.
func (c *Conductor) noteIdentity(n *node.Node) runner.Operation {
	_, ok := c.identifierOf(n)
	return runner.Operation{Ref: runner.Ref{Name: noteIdentityName}, Skip: !ok, Read: func(ctx context.Context, n *node.Node) (runner.Write, error) {
		return storeIdentity(c.readIdentity(ctx, n)), nil
	}}
}

// readIdentity reads which machine the BMC belongs to. What it does not tell is empty.
func (c *Conductor) readIdentity(ctx context.Context, n *node.Node) node.MachineIdentity {
	identifier, ok := c.identifierOf(n)
	if !ok {
		return node.MachineIdentity{}
	}
	found, err := identifier.Identity(ctx, n)
	if err != nil && ctx.Err() == nil {
		c.log.Warn("The BMC does not tell which machine it belongs to", "node", n.UUID, "err", err)
	}
	return found
}

// checkIdentity returns the operation that ends work before anything is done to another
// machine than the one that was managed or inspected: an address was given to another BMC,
// or driver_info has that of another machine.
func (c *Conductor) checkIdentity(n *node.Node) runner.Operation {
	identifier, ok := c.identifierOf(n)
	return runner.Operation{Ref: runner.Ref{Name: checkIdentityName}, Skip: !ok, Read: func(ctx context.Context, n *node.Node) (runner.Write, error) {
		found, err := identifier.Identity(ctx, n)
		if err != nil {
			return nil, err
		}
		known := identityOf(n)
		if known.Known() {
			return nil, compareIdentities(known, found)
		}
		return storeIdentity(found), nil
	}}
}

// checkBeforeLeaving keeps failed work from leaving another machine in order. A BMC that does
// not answer now is no other machine.
func (c *Conductor) checkBeforeLeaving(n *node.Node) runner.Operation {
	check := c.checkIdentity(n)
	check.Item = beforeLeaving
	read := check.Read
	check.Read = func(ctx context.Context, n *node.Node) (runner.Write, error) {
		write, err := read(ctx, n)
		var other *otherMachineError
		if errors.As(err, &other) {
			return nil, err
		}
		return write, nil
	}
	return check
}

// otherMachineError is a BMC that belongs to another machine.
type otherMachineError struct{ *node.DriverError }

func (e *otherMachineError) Unwrap() error { return e.DriverError }

// compareIdentities returns an *otherMachineError when they are of different machines.
func compareIdentities(known, found node.MachineIdentity) error {
	difference := known.Compare(found)
	if difference == "" {
		return nil
	}
	return &otherMachineError{&node.DriverError{
		Op: "check which machine it is",
		Reason: "the BMC belongs to a machine with " + difference + " as when it was managed or inspected. Nothing was done to it: " +
			"correct the BMC's address in driver_info, or inspect the node again if its machine was replaced",
	}}
}

func identityOf(n *node.Node) (known node.MachineIdentity) {
	n.DriverInternalInfo.Get(node.MachineIdentityKey, &known)
	return known
}

func storeIdentity(found node.MachineIdentity) runner.Write {
	return func(_ *store.Tx, n *node.Node) error {
		setIdentity(n, found)
		return nil
	}
}

// setIdentity notes in a node which machine it stands for, if that is known.
func setIdentity(n *node.Node, found node.MachineIdentity) {
	if found.Known() {
		n.DriverInternalInfo = n.DriverInternalInfo.With(map[string]any{node.MachineIdentityKey: found})
	}
}
