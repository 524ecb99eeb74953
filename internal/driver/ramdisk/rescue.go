package ramdisk

import (
	"context"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// Rescue is the rescue interface whose rescue system is the ramdisk.
type Rescue struct{ Driver }

var (
	_ driver.RamdiskRescue = Rescue{}
	_ driver.Describer     = Rescue{}
)

// Validate accepts every node: the boot interface checks what the machine boots.
func (Rescue) Validate(*node.Node) error { return nil }

// SetRescuePassword tells the agent the hash of the password. The agent then lets people in by that
// password as the user rescue, and ends. It is not called again.
func (r Rescue) SetRescuePassword(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
	hash := node.RescueHashOf(n)
	if hash == "" {
		return driver.Outcome{}, node.Invalid("The password of the rescue system of node %s is not known any more: request rescue again.", n.UUID)
	}
	out, err := r.run(ctx, n, order{name: finalizeRescue, ends: true, params: func(context.Context) (map[string]any, error) {
		return map[string]any{"rescue_password": hash, "hashed": true}, nil
	}}, turn)
	if err == nil && out.Done() {
		out.Apply = node.ClearRescuePassword
	}
	return out, err
}

// finalizeRescue sets the password of the rescue system.
const finalizeRescue = "rescue.finalize_rescue"

// Properties describes the keys of driver_info.
func (Rescue) Properties() map[string]string {
	return map[string]string{
		"rescue_kernel":  "URL of the kernel of the rescue system. Optional: without it and rescue_ramdisk, the ramdisk is the one of deployments.",
		"rescue_ramdisk": "URL of the rescue system's initial file system. Optional.",
	}
}
