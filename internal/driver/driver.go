// Package driver knows the hardware types and which implementations of each
// driver interface they may use, and gives the conductor the abilities of the
// implementation that a node has chosen. One node uses one implementation per
// interface; nothing is tried in turn.
package driver

import (
	"context"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// Power reads and changes the power of a machine. Implementations obey the
// deadline of their context, write nothing to the node and keep no state of it;
// the caller stores what they return. They are safe for concurrent use.
type Power interface {
	// Validate reports whether the node carries all that the implementation
	// needs. Its error is a *node.ValidationError for the operator.
	Validate(n *node.Node) error
	// PowerState reads the state, "power on" or "power off". The error is a
	// *node.DriverError when it cannot be known now.
	PowerState(ctx context.Context, n *node.Node) (node.PowerState, error)
	// SetPower brings the machine to target, which is one of Supported, and
	// returns when it is there or timeout has passed; 0 means the
	// implementation's default. A target that is not supported is a
	// *node.ValidationError.
	SetPower(ctx context.Context, n *node.Node, target node.PowerState, timeout time.Duration) error
	// Supported lists the targets that SetPower takes.
	Supported() []node.PowerState
}

// Type is a hardware type with what the configuration made of it.
type Type struct {
	Name string
	// Enabled lists per interface the implementations that a node may choose,
	// the preferred one first.
	Enabled [node.InterfaceCount][]string
	// Default is what a node gets that does not choose.
	Default node.Interfaces
}
