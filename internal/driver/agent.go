package driver

import (
	"context"
	"slices"

	"github.com/ingot-metal/ingot/internal/node"
)

// AgentReboot asks the ramdisk of a node to restart the machine, and returns
// when it has accepted.
type AgentReboot func(ctx context.Context, n *node.Node) error

// Agent is the power of machines without a BMC. All it can know is whether a
// ramdisk runs there, and all it can do is to have that one reboot the machine.
type Agent struct {
	Alive  func(*node.Node) bool // nil means never
	Reboot AgentReboot           // nil means that reboots are not supported
}

var _ Power = Agent{}

// Validate accepts every node: there is no address to miss.
func (Agent) Validate(*node.Node) error { return nil }

// PowerState returns "power on" while the ramdisk is alive. Without one, the
// machine may be off or may run its own system; that is a retryable
// *node.DriverError.
func (a Agent) PowerState(_ context.Context, n *node.Node) (node.PowerState, error) {
	if !a.alive(n) {
		return "", a.silent("read power state", n)
	}
	return node.PowerOn, nil
}

// SetPower reboots the machine through its ramdisk.
func (a Agent) SetPower(ctx context.Context, n *node.Node, target node.PowerState, turn Turn) (Outcome, error) {
	switch {
	case !slices.Contains(a.Supported(), target):
		return Outcome{}, unsupported("agent", target, a.Supported())
	case !turn.First: // the ramdisk may have taken the order: a second one could hit the system it boots
		return Outcome{}, nil
	case !a.alive(n):
		return Outcome{}, a.silent("reboot", n)
	}
	return Outcome{}, a.Reboot(ctx, n)
}

// Supported lists the two kinds of reboot, which are the same here: a ramdisk
// can only restart the machine in order.
func (a Agent) Supported() []node.PowerState {
	if a.Reboot == nil {
		return nil
	}
	return []node.PowerState{node.Rebooting, node.SoftRebooting}
}

func (a Agent) alive(n *node.Node) bool { return a.Alive != nil && a.Alive(n) }

func (Agent) silent(op string, n *node.Node) error {
	return &node.DriverError{
		Op: op + " of node " + n.UUID, Retryable: true,
		Reason: "the machine has no BMC and its ramdisk sent no heartbeat recently; boot it into the ramdisk and try again.",
	}
}
