package driver

import (
	"context"

	"github.com/ingot-metal/ingot/internal/node"
)

// RamdiskBoot is a boot interface that can boot the ramdisk.
type RamdiskBoot interface {
	Validator
	// BootRamdisk makes the machine boot the ramdisk at its next start. It does not
	// start the machine.
	BootRamdisk(ctx context.Context, n *node.Node, turn Turn) (Outcome, error)
}

// InBand marks an Inspector that waits for the post of the machine's ramdisk, so that
// the ramdisk has to be started.
type InBand interface {
	Inspector
	InBand()
}
