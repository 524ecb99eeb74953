package driver

import (
	"context"

	"github.com/ingot-metal/ingot/internal/node"
)

// RamdiskBoot is a boot interface that starts the ramdisk by itself.
type RamdiskBoot interface {
	Validator
	// BootRamdisk makes the next start of the machine lead into the ramdisk. It
	// starts nothing.
	BootRamdisk(ctx context.Context, n *node.Node, turn Turn) (Outcome, error)
}

// InBand marks an Inspector that waits for what a machine's ramdisk posts, so that
// somebody has to start the ramdisk.
type InBand interface {
	Inspector
	InBand()
}

var _ RamdiskBoot = Fake{}

// BootRamdisk has nothing to prepare: whatever posts the inventory of a fake
// machine needs no help to start.
func (Fake) BootRamdisk(context.Context, *node.Node, Turn) (Outcome, error) { return Outcome{}, nil }
