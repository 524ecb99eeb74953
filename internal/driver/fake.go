package driver

import (
	"context"
	"slices"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// allTargets is every power target that the API knows.
var allTargets = []node.PowerState{node.PowerOn, node.PowerOff, node.Rebooting, node.SoftPowerOff, node.SoftRebooting}

// Fake is the power of machines that are not there: it has no hardware, and the
// state is whatever the caller stored last.
type Fake struct{}

var _ Power = Fake{}

// Validate accepts every node.
func (Fake) Validate(*node.Node) error { return nil }

// PowerState returns the stored state; a node that has none yet is off.
func (Fake) PowerState(_ context.Context, n *node.Node) (node.PowerState, error) {
	if n.PowerState == "" {
		return node.PowerOff, nil
	}
	return n.PowerState, nil
}

// SetPower accepts every target at once.
func (f Fake) SetPower(ctx context.Context, _ *node.Node, target node.PowerState, _ time.Duration) error {
	if !slices.Contains(allTargets, target) {
		return unsupported("fake", target, allTargets)
	}
	return ctx.Err()
}

// Supported lists every target there is.
func (Fake) Supported() []node.PowerState { return slices.Clone(allTargets) }

func unsupported(name string, target node.PowerState, supported []node.PowerState) error {
	if len(supported) == 0 {
		return node.Invalid("The power interface %s cannot change the power of a machine, so %q is not supported.", name, target)
	}
	return node.Invalid("The power interface %s does not support %q; it supports %q.", name, target, supported)
}
