// Package agentpower implements power and inspection for machines without a BMC, which
// the engine can reach only through their ramdisk.
package agentpower

import (
	"context"
	"slices"
	"time"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// Reboot makes a turn of having the ramdisk of a node restart the machine. The outcome is done when
// the ramdisk has accepted, or is gone after it may have accepted.
type Reboot func(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error)

// Power is the power interface of machines without a BMC. It knows only whether a
// ramdisk runs on the machine, and can only make the ramdisk reboot it.
type Power struct {
	// Alive reports whether the ramdisk is alive; nil means never.
	Alive func(*node.Node) bool
	// Silent reports whether the ramdisk is not alive although the engine listened; nil means
	// whenever it is not alive.
	Silent func(*node.Node) bool
	// Reboot restarts a machine; nil means that reboots are not supported.
	Reboot Reboot
}

var _ driver.Power = Power{}

// Validate accepts every node: no address is needed.
func (Power) Validate(*node.Node) error { return nil }

// PowerState returns "power on" while the ramdisk is alive. Without one, the
// machine may be off or may run its own system; that is a retryable
// *node.DriverError.
func (p Power) PowerState(_ context.Context, n *node.Node) (node.PowerState, error) {
	if !p.alive(n) {
		return "", p.noHeartbeat("read power state", n)
	}
	return node.PowerOn, nil
}

// SetPower reboots the machine through its ramdisk.
func (p Power) SetPower(ctx context.Context, n *node.Node, target node.PowerState, turn driver.Turn) (driver.Outcome, error) {
	if supported := p.Supported(); !slices.Contains(supported, target) {
		return driver.Outcome{}, driver.UnsupportedPower("agent", target, supported)
	}
	unsent := turn.Phase == "" && (turn.Attempt == driver.Fresh || turn.Attempt == driver.Refused)
	if unsent && p.silent(n) {
		return driver.Outcome{}, p.noHeartbeat("reboot", n)
	}
	out, err := p.Reboot(ctx, n, turn)
	if err == nil && out.Done() { // the ramdisk goes down, and the next one needs a token
		out.Apply = func(n *node.Node) { n.DriverInternalInfo = agent.Clear(n.DriverInternalInfo) }
	}
	return out, err
}

// Supported lists both kinds of reboot, which are the same here: a ramdisk always shuts
// the machine down in order.
func (p Power) Supported() []node.PowerState {
	if p.Reboot == nil {
		return nil
	}
	return []node.PowerState{node.Rebooting, node.SoftRebooting}
}

func (p Power) alive(n *node.Node) bool { return p.Alive != nil && p.Alive(n) }

func (p Power) silent(n *node.Node) bool {
	if p.Silent == nil {
		return !p.alive(n)
	}
	return p.Silent(n)
}

// noHeartbeat returns the error for a ramdisk without a recent heartbeat, to which nothing was
// sent. A ramdisk whose heartbeats the engine has refused since may still run.
func (Power) noHeartbeat(op string, n *node.Node) error {
	reason := "the machine has no BMC and its ramdisk sent no heartbeat recently; boot it into the ramdisk and try again."
	if refusal, ok := node.FirstRefusal(node.HeartbeatRefusals(n.DriverInternalInfo), time.Time{}); ok {
		reason = "the machine has no BMC and the engine accepted no heartbeat of its ramdisk recently. " + refusal.String() +
			" If the ramdisk does not run any more, boot it; then try again."
	}
	return &node.DriverError{Op: op + " of node " + n.UUID, Retryable: true, Refused: true, Reason: reason}
}
